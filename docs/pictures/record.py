"""Draws docs/pictures/*.svg: the first conversation, the parts of the code by the arrows between them, and how costs grow with the state.

Run it with `make pictures`. The conversation is recorded from the real program in a terminal of its own, with a new home folder.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import TYPE_CHECKING

from rich.console import Console
from rich.style import Style
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOMEBODY = ROOT / ".venv/bin/homebody"
COLUMNS, ROWS = 84, 24
SECONDS = 2.6
"""How long each frame is shown."""
TYPED = (
    "remember that the spare key is under the blue pot",
    "remind me tomorrow at 9 to water the plants",
    "where is the spare key?",
)
ANSWERED = ("No language model|Noted in", "Tomorrow|tomorrow|09:00", "You noted today")


class Terminal:
    """A program in a terminal, and what its screen shows."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        import pyte

        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
        os.close(slave)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def until(self, words: str, seconds: float = 60.0) -> None:
        """Wait until the screen shows something that matches ``words``, and a moment more."""
        end = time.monotonic() + seconds
        while not re.search(words, "\n".join(self.screen.display)):
            if time.monotonic() > end:
                raise SystemExit(f"never saw {words!r}:\n" + "\n".join(self.screen.display))
            self._read(0.1)
        self._read(1.0)

    def _read(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self._master], [], [], 0.05)[0]:
                self._stream.feed(os.read(self._master, 65536))

    def close(self) -> None:
        """Leave the conversation."""
        self.type("\x04")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def shown(self) -> Text:
        """Return the screen with its styles."""
        lines = []
        for row in range(ROWS):
            line = Text()
            for column in range(COLUMNS):
                cell = self.screen.buffer[row][column]
                line.append(
                    cell.data, Style(bold=cell.bold, italic=cell.italics, underline=cell.underscore, color=_colour(cell.fg))
                )
            line.rstrip()
            lines.append(line)
        return Text("\n").join(lines)


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    return f"#{name}" if re.fullmatch(r"[0-9a-f]{6}", name) else name.replace("brown", "yellow")


def conversation() -> str:
    """Record the first conversation, and return it as an SVG that shows one frame after the other."""
    with tempfile.TemporaryDirectory() as home:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "HOMEBODY_HOME": f"{home}/.homebody",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        terminal = Terminal([str(HOMEBODY), "chat"], env)
        frames = []
        try:
            terminal.until("Type a message")
            frames.append(terminal.shown())
            for typed, answered in zip(TYPED, ANSWERED, strict=True):
                terminal.type(typed)
                terminal.until(re.escape(typed[-12:]))
                frames.append(terminal.shown())
                terminal.type("\r")
                terminal.until(answered)
                frames.append(terminal.shown())
        finally:
            terminal.close()
    return animated(frames)


def animated(frames: list[Text]) -> str:
    """Put frames into one SVG. Whoever wants less motion is shown the last one."""
    drawn = [_svg(frame, f"f{number}") for number, frame in enumerate(frames)]
    whole, last = len(frames) * SECONDS, len(frames) - 1
    styles = [found for one in drawn for found in re.findall(r"<style>(.*?)</style>", one, re.DOTALL)]
    bodies = [re.search(r"</defs>(.*)</svg>", one, re.DOTALL) for one in drawn]
    defs = [found for one in drawn for found in re.findall(r"<defs>(.*?)</defs>", one, re.DOTALL)]
    head = re.match(r"<svg[^>]*>", drawn[0])
    assert head is not None
    assert all(bodies)
    share = 100 / len(frames)
    motion = [
        f"@keyframes turn {{ 0%, {share:.3f}% {{ visibility: visible }} {share + 0.001:.3f}%, 100% {{ visibility: hidden }} }}"
    ]
    motion += [".frame { visibility: hidden } ", ".last { visibility: visible }"]
    motion += [
        "@media (prefers-reduced-motion: no-preference) {",
        f".frame {{ visibility: hidden; animation: turn {whole:.1f}s step-end infinite }}",
    ]
    motion += [f"#frame{number} {{ animation-delay: {number * SECONDS:.1f}s }}" for number in range(len(frames))] + ["}"]
    groups = [
        f'<g id="frame{number}" class="frame{" last" if number == last else ""}">{body[1]}</g>'
        for number, body in enumerate(bodies)
        if body is not None
    ]
    return "\n".join([head[0], "<style>", *styles, *motion, "</style>", "<defs>", *defs, "</defs>", *groups, "</svg>\n"])


def _svg(frame: Text, name: str) -> str:
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True, color_system="truecolor")  # noqa: SIM115, PTH123
    console.print(frame)
    svg = console.export_svg(title="homebody chat", unique_id=name)
    return re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)  # no fonts from elsewhere


def layers() -> list[list[str]]:
    """Return the parts of the gateway, from the top down, as `make lint` holds them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    gateway = next(one for one in contracts if one.get("containers") == ["gateway"])
    return [[part.strip("() ") for part in layer.split("|")] for layer in gateway["layers"] if "__main__" not in layer]


def parts() -> str:
    """Draw the packages and the parts of the gateway: each imports only what lies below it."""
    rows = [layer for layer in layers() if any((ROOT / "gateway" / part).is_dir() for part in layer)]
    width, height, gap, left = 920, 34, 8, 20
    drawn = list(_rows(rows, width - 2 * left, height, gap, left))
    below = len(rows) * (height + gap) + 60
    third = (width - 2 * left - gap) / 2
    further = [
        ("agent: one turn of one agent", left, below, third),
        ("channels: chat platforms", left + third + gap, below, third),
    ]
    further.append(("memory: notes, index, search", left, below + height + gap, third))
    boxes = [*drawn, *(_box(name, x, y, wide, height=height, kind="lower") for name, x, y, wide in further)]
    whole = below + 2 * (height + gap) + 10
    style = """
    text { font: 13px system-ui, sans-serif; fill: #1f2933 } .head { font-weight: 600 }
    rect { fill: #e8eef5; stroke: #9fb3c8 } .lower { fill: #f3ead9; stroke: #c9b48a }
    @media (prefers-color-scheme: dark) { text { fill: #e4e7eb } rect { fill: #243b53; stroke: #486581 } .lower { fill: #4a3f28; stroke: #8d7a4f } }
    """
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" role="img" aria-label="The parts of the code, each importing only parts below it">',
            f"<style>{style}</style>",
            f'<text class="head" x="{left}" y="22">gateway: each part imports only parts below it</text>',
            *boxes,
            "</svg>\n",
        ]
    )


def _rows(rows: list[list[str]], width: float, height: float, gap: float, left: float) -> Iterator[str]:
    for number, row in enumerate(rows):
        there = [part for part in row if (ROOT / "gateway" / part).is_dir()]
        wide = (width - gap * (len(there) - 1)) / len(there)
        for place, part in enumerate(there):
            yield _box(part, left + place * (wide + gap), 36 + number * (height + gap), wide, height=height)


def _box(name: str, x: float, y: float, width: float, *, height: float, kind: str = "") -> str:
    text = f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4.5:.1f}" text-anchor="middle">{name}</text>'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6"/>{text}'


def growth() -> str:
    """Draw what `benchmarks/growth.py --json benchmarks/growth.json` measured last."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.growth_plot import draw

    figures = json.loads((ROOT / "benchmarks/growth.json").read_text(encoding="utf-8"))
    return draw({name: {int(scale): value for scale, value in values.items()} for name, values in figures.items()})


def main() -> None:
    """Write the pictures."""
    (HERE / "parts.svg").write_text(parts(), encoding="utf-8")
    (HERE / "growth.svg").write_text(growth(), encoding="utf-8")
    (HERE / "first-conversation.svg").write_text(conversation(), encoding="utf-8")
    for path in sorted(HERE.glob("*.svg")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
