"""What the ledger keeps of a question: the call, the act and why it is asked, as JSON; and the ids of questions."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, fields

from agent.loop.gate import AskedCall
from agent.messages import ToolCall
from agent.tools.protocol import Act, Origin
from gateway.ledger.rows import NewApproval

ID_LENGTH: Final = 8
_FIELDS: Final = frozenset(field.name for field in fields(Act))
_PAIRS: Final = 2


class AskedAct(Struct, frozen=True, kw_only=True):
    """The act that a question is about: the call that asks for it, who started the turn, and what untrusted text it has read.

    ``reason`` says why it is asked about, ``at`` when it was first; None in records of earlier versions.
    """

    call: ToolCall
    act: Act
    origin: Origin
    taint: tuple[str, ...] = ()
    reason: str = ""
    at: datetime | None = None

    def encoded(self) -> str:
        """Return it as JSON."""
        call = {"id": self.call.id, "name": self.call.name, "arguments": self.call.arguments}
        written = {
            "call": call,
            "act": asdict(self.act),
            "origin": self.origin,
            "taint": list(self.taint),
            "reason": self.reason,
            "at": None if self.at is None else self.at.isoformat(),
        }
        return json.dumps(written, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def decoded(cls, payload: str) -> AskedAct:
        """Read back what ``encoded`` wrote. Fields of later versions are ignored."""
        raw: dict[str, Any] = json.loads(payload)
        act = {name: value for name, value in raw["act"].items() if name in _FIELDS}
        act["argv"] = None if act.get("argv") is None else tuple(act["argv"])
        act["env"] = tuple((str(pair[0]), str(pair[1])) for pair in act.get("env", ()) if len(pair) == _PAIRS)
        for name in ("recipients", "excused"):
            act[name] = tuple(str(one) for one in act.get(name, ()))
        call = ToolCall(id=raw["call"]["id"], name=raw["call"]["name"], arguments=raw["call"]["arguments"])
        at = datetime.fromisoformat(raw["at"]) if raw.get("at") else None
        return cls(call=call, act=Act(**act), origin=raw["origin"], taint=tuple(raw["taint"]), reason=raw["reason"], at=at)


def approval_id(turn: str, key: str) -> str:
    """Return the id of the question about a call: it follows from the turn's name and the call's key, so that a repeat asks once."""
    digest = hashlib.sha256(f"{turn}\0{key}".encode("utf-8", "replace")).digest()
    return base64.b32encode(digest).decode().lower()[:ID_LENGTH]


def public_name(approval: NewApproval) -> str:
    """Return what people call a question: its id, and its round from the second on, so that an old button does not answer a new one."""
    return approval.id if approval.round == 1 else f"{approval.id}-{approval.round}"


def parse_name(name: str) -> tuple[str, int]:
    """Return the id and the round of a question's name, as a person may type it."""
    bare, _, number = name.strip().lstrip("#").casefold().partition("-")
    return bare, int(number) if number.isdecimal() else 1


def asked_call(approval: NewApproval) -> AskedCall:
    """Return the call of a question, for the turn that goes on."""
    asked = AskedAct.decoded(approval.payload)
    return AskedCall(approval=approval.id, key=approval.call, call=asked.call, summary=asked.act.own_summary, at=asked.at)
