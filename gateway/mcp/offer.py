"""What a server offers: its tools, as models are told of them, and whether it has resources and prompts.

Descriptions come from the server. They are cleaned, bounded and pinned (``gateway.mcp.pins``) before a model is shown them.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field, to_builtins
from msgspec.structs import asdict

MOST_TOOLS: Final = 500
"""Tools of one server; the others are left out."""
LONGEST_DESCRIPTION: Final = 2000
LONGEST_SCHEMA: Final = 16_000
"""Characters of a tool's arguments as JSON; a tool with more is left out."""
DEEPEST_SCHEMA: Final = 20
LONGEST_NAME: Final = 200


class ToolOffer(Struct, frozen=True, kw_only=True):
    """One tool. ``name`` is what the server calls it. The last three are what it says of itself, and not to be believed by themselves."""

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = True

    @property
    def digest(self) -> str:
        """The digest of all that a model is told and a rule may go by."""
        return _digest(asdict(self))


class Offer(Struct, frozen=True, kw_only=True):
    """All that a server offers. ``left_out`` has the tools that cannot be used, each with the reason. ``title`` is its own name."""

    tools: tuple[ToolOffer, ...] = ()
    resources: bool = False
    prompts: bool = False
    title: str = ""
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """The digest of what a model could be told of it: of its tools, and whether there are resources and prompts."""
        return _digest([[tool.digest for tool in self.tools], self.resources, self.prompts])

    def tool(self, name: str) -> ToolOffer | None:
        """Return a tool by the server's name for it."""
        return next((one for one in self.tools if one.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        written: dict[str, Any] = to_builtins(self)
        return written

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Offer:
        """Read back what ``to_json`` returned. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            tools=tuple(ToolOffer(**tool) for tool in raw["tools"]),
            resources=bool(raw["resources"]),
            prompts=bool(raw["prompts"]),
            title=str(raw["title"]),
            left_out=tuple((str(name), str(why)) for name, why in raw["left_out"]),
        )


class Difference(Struct, frozen=True, kw_only=True):
    """What a server offers otherwise than it was approved."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    further: bool = False
    """Whether it has resources or prompts now, and had none."""

    def __bool__(self) -> bool:
        """Whether there is something that the owner has to approve: a tool that is gone needs no approval."""
        return bool(self.added or self.changed or self.further)

    @property
    def in_words(self) -> str:
        """The difference in words."""
        parts = [("changed", self.changed), ("new", self.added), ("gone", self.removed)]
        changes = [f"{word}: {', '.join(names)}" for word, names in parts if names]
        return "; ".join([*changes, *(["new: resources or prompts"] if self.further else [])])


def difference(approved: Offer, offered: Offer) -> Difference:
    """Compare what a server offers with what was approved."""
    known = {tool.name: tool.digest for tool in approved.tools}
    there = {tool.name: tool.digest for tool in offered.tools}
    return Difference(
        added=tuple(sorted(there.keys() - known.keys())),
        changed=tuple(sorted(name for name in there.keys() & known.keys() if there[name] != known[name])),
        removed=tuple(sorted(known.keys() - there.keys())),
        further=(offered.resources and not approved.resources) or (offered.prompts and not approved.prompts),
    )


def offered(
    tools: Iterable[Mapping[str, Any]],
    *,
    resources: bool = False,
    prompts: bool = False,
    title: str = "",
    left_out: Iterable[tuple[str, str]] = (),
) -> Offer:
    """Return an offer of tools as the protocol writes them (``name``, ``description``, ``inputSchema``, ``annotations``).

    Tools that cannot be used are left out: a name that stands twice, a schema that is none, is too large or too deep. ``left_out`` are
    those of which that is known already.
    """
    found: dict[str, ToolOffer] = {}
    out = [(_clean(name)[:LONGEST_NAME], why) for name, why in left_out]
    for number, raw in enumerate(tools):
        name = str(raw.get("name", ""))
        why = "there are too many tools" if number >= MOST_TOOLS else _unusable(name, found)
        schema = _schema(raw.get("inputSchema"))
        if why or isinstance(schema, str):
            out.append((_clean(name)[:LONGEST_NAME] or "(no name)", why or str(schema)))
            continue
        hints = raw.get("annotations") or {}
        found[name] = ToolOffer(
            name=name,
            description=_bounded(_clean(str(raw.get("description") or ""))),
            schema=schema,
            read_only=hints.get("readOnlyHint") is True,
            idempotent=hints.get("idempotentHint") is True,
            destructive=hints.get("destructiveHint") is not False,
        )
    return Offer(
        tools=tuple(sorted(found.values(), key=lambda tool: tool.name)),
        resources=resources,
        prompts=prompts,
        title=" ".join(_clean(title).split())[:LONGEST_NAME],
        left_out=tuple(out[:MOST_TOOLS]),
    )


def _unusable(name: str, found: Mapping[str, ToolOffer]) -> str:
    if not name or len(name) > LONGEST_NAME or _clean(name) != name:
        return "its name is empty, too long or holds characters that cannot be seen"
    return "its name stands twice" if name in found else ""


def texts_of(schema: Any) -> Iterator[str]:
    """Yield all that a schema tells a model: names of arguments with what is said of them, and the values that are listed."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties" and isinstance(value, dict):
                for name, inner in value.items():
                    yield " ".join((f"{name}:", *texts_of(inner)))
            elif isinstance(value, str) and key not in {"type", "$schema", "format", "$ref"}:
                yield " ".join(value.split())
            else:
                yield from texts_of(value) if key != "required" else ()
    elif isinstance(schema, list):
        for one in schema:
            yield from [one] if isinstance(one, str) else texts_of(one)


def _schema(raw: Any) -> dict[str, Any] | str:
    """Return the schema of arguments as a model is told it, or why it cannot be used."""
    if raw is None:
        return {"type": "object", "properties": {}}
    if not isinstance(raw, Mapping) or raw.get("type", "object") != "object":
        return "its arguments are no JSON Schema of an object"
    if not isinstance(raw.get("properties", {}), Mapping):
        return "the properties of its arguments are no JSON object"
    try:
        cleaned = _cleaned({name: value for name, value in raw.items() if name not in {"$schema", "$id"}}, DEEPEST_SCHEMA)
        long = len(json.dumps(cleaned, ensure_ascii=False, allow_nan=False)) > LONGEST_SCHEMA
    except (ValueError, TypeError, RecursionError):
        return f"its arguments are nested more than {DEEPEST_SCHEMA} deep, or are no JSON"
    if long:
        return f"its arguments are described by more than {LONGEST_SCHEMA:,} characters"
    return {"type": "object", "properties": {}, **cleaned}


def _cleaned(value: Any, left: int) -> Any:
    if left < 0:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, Mapping):
        return {_clean(str(name)): _cleaned(child, left - 1) for name, child in value.items()}
    return [_cleaned(child, left - 1) for child in value] if isinstance(value, list | tuple) else value


def _clean(text: str) -> str:
    """Return text without characters that people do not see: controls, formats, private ones and lone surrogates."""
    return "".join(one for one in text if one in "\n\t" or unicodedata.category(one)[0] != "C")


def _bounded(text: str) -> str:
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1].rstrip()}…"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")).hexdigest()
