"""The commands that do by hand what setup would do, for a machine without a terminal to ask in."""

from __future__ import annotations

from gateway.setup.channel_step import guided
from gateway.setup.found import Found


def as_text(found: Found, step: str | None = None) -> str:
    """Return the commands for what was found, with lines of comment, for people. ``step``: those of one step alone, if it is a platform."""
    return "\n".join(["There is no terminal to ask in. What setup would do:", "", *_lines(found, step)])


def commands(found: Found, step: str | None = None) -> list[str]:
    """Return the commands alone, for programs."""
    return [line.partition("   #")[0] for line in _lines(found, step) if not line.startswith("#")]


def _lines(found: Found, step: str | None) -> list[str]:
    if step in guided():
        return _for_channels(found, step)
    lines = _for_the_model(found) + _for_channels(found)
    lines += ["# Keep it running", f"homebody {'service install' if found.service_manager else 'start'}"]
    if found.free_port:
        lines.append(f"homebody config set gateway.port {found.free_port}   # the present one is taken")
    lines += ["# All of it with the defaults, from what was found", "homebody setup --yes"]
    return lines


def _for_channels(found: Found, only: str | None = None) -> list[str]:
    """Return the commands for the platforms that are not set up, or for the one that was asked for."""
    lines = []
    for name, (platform, guide) in guided().items():
        if name != only if only else name in found.configured:
            continue
        lines.append(f"# {guide.title}: {guide.steps[0]}")
        lines += [f"homebody config set channels.{platform.name}.{key} VALUE   # {words}" for key, words in guide.questions]
        for key, words in guide.secrets:
            variable = next((one for one in found.tokens.get(name, ())), "")
            given = f" < FILE   # or from ${variable}, which is set" if variable and len(guide.secrets) == 1 else " < FILE"
            lines.append(f"homebody config set channels.{platform.name}.{key}{given}   # {words}")
        lines += [f"homebody config set channels.{platform.name}.{key} VALUE   # {words}" for key, words in guide.afterwards]
        lines.append(f"homebody setup {name} --yes   # tests it, and prints a link or code that makes you the owner")
    return lines


def _for_the_model(found: Found) -> list[str]:
    if found.models:
        one = found.models[0]
        save = f"printenv {one.variable} | homebody models auth add {one.provider}" if one.variable else ""
        test = f"homebody models probe {one.name}"
        return [f"# Language model: {one.label}", *([save] if save else []), test]
    return [
        "# Language model: a key from a file, or start Ollama, which is found by itself",
        "homebody models auth add anthropic < FILE",
        "homebody models probe",
    ]
