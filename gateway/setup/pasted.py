"""Cleans keys and tokens as people paste them: with blanks and quotes around them, cut off, or still the example of a manual."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.models.catalog.provider_keys import Key
from gateway.base.errors import UsageError

_QUOTES = "\"'`“”„«»‘’"
_ASSIGNED = re.compile(r"(?:export\s+)?[A-Z][A-Z0-9_]*=(?P<value>.+)")
_EXAMPLE = re.compile(
    r"\.\.\.|…|^<.*>$|your[-_ ]|[-_ ]here$|^(?:token|key|api[-_ ]?key|secret|changeme|x+|\*+)$|x{6,}|abcdef|^123456\d*:abc",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Pasted:
    """A key as it can be used. ``remark`` says what was taken off, "" if nothing was."""

    secret: str
    remark: str = ""


def cleaned(text: str, what: str = "key", *, any_word: bool = False) -> Pasted:
    """Return a pasted key or token. ``any_word``: the server is the person's own, and so is its key, whatever it looks like.

    Raises:
        UsageError: it is empty, an example, or holds characters that no key has.
    """
    secret = text.strip()
    remark = ""
    if (assigned := _ASSIGNED.fullmatch(secret)) is not None:
        secret, remark = assigned["value"].strip(), "The name of the variable before it was left out."
    if (bare := secret.strip(_QUOTES).strip()) != secret:
        secret, remark = bare, "The quotes around it were left out."
    if not secret:
        raise UsageError(f"no {what} was given", hint=f"Copy the {what} and paste it here; it is not shown.")
    if not any_word and _EXAMPLE.search(secret):
        raise UsageError(f"this is the example of a manual, not your {what}", hint=f"Paste the {what} that you were given.")
    if not Key("given", "profile", secret).is_sendable:
        hint = f"Copy the {what} again, and nothing else."
        raise UsageError(f"this is no {what}: it contains a blank, a line break or a character that no {what} has", hint=hint)
    return Pasted(secret, remark)
