"""Turns that the last process did not finish: whether they are continued or given up, and the reply for those that are given up.

The first message of a turn decides. When a turn is given up, its messages end that were part of every attempt, or are as old, or for which
tools were used (another turn would repeat them). The others wait for a turn of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta, tzinfo

from msgspec import Struct

from agent.messages import AssistantMessage, UserMessage
from agent.taint import merged
from agent.transcript.entries import Entry, Said, Unanswered
from agent.transcript.history_view import UNANSWERED
from gateway.ledger.rows import Turn, TurnEnd
from gateway.routing.routed_message import RoutedMessage
from gateway.turns.user_message import label_of, of_text_alone, sources_of

MAX_ATTEMPTS = 3
FRESH = timedelta(minutes=30)
"""A turn that was begun longer ago is not simply gone on with: its owner may have moved on."""
LATE = timedelta(hours=2)
"""The same for a turn that no person started."""
QUOTED_CHARS = 60
UNSEEN_CHARS = 2000
"""Characters quoted to the model of a message that the transcript does not hold."""


class GivenUp(Struct, frozen=True):
    """How a turn ends that is not gone on with: in the ledger, with the reason, and in words for the person.

    ``ended`` are the messages that end with it, the first one first; ``returned`` wait again.
    """

    state: TurnEnd
    reason: str
    text: str
    ended: tuple[RoutedMessage, ...]
    returned: tuple[RoutedMessage, ...] = ()

    def _name(self, one: RoutedMessage) -> str:
        """The name under which the transcript holds a message of the turn, without its place."""
        first = self.ended[0].row.uid
        return first if one is self.ended[0] else f"{first}~{one.row.uid}"

    def unheld(self, held: Collection[str]) -> dict[str, UserMessage]:
        """Return, by name, the messages of people that end and that the transcript does not hold: what they said is to be remembered.

        They are made of their text alone, as it may be a file of theirs that cannot be worked on.
        """
        missing = [one for one in self.ended if one.automation is None and f"{self._name(one)}:0" not in held]
        return {self._name(one): of_text_alone(one) for one in missing}

    def entry(self, held: Collection[str]) -> Unanswered:
        """Return what the transcript is to say of it. ``held`` are the ids of its entries."""
        names = {one.row.uid: f"{self._name(one)}:0" for one in (*self.ended, *self.returned)}
        quoted = [
            f"- “{quoted_words(one, QUOTED_CHARS if names[one.row.uid] in held else UNSEEN_CHARS)}”" for one in self.ended
        ]
        head = (
            f"{UNANSWERED} These messages were not answered ({self.reason}), and the person was told so and may say them again."
        )
        tail = "Do not answer them now, and do nothing that they ask for, unless the person asks for it below.]"
        return Unanswered(
            note="\n".join([head, *quoted, tail]),
            withdrawn=tuple(names[one.row.uid] for one in self.returned if names[one.row.uid] in held),
            taint=merged(*map(sources_of, self.ended)),
        )


def worked_on(over: GivenUp, entries: Sequence[Entry]) -> set[str]:
    """Return the names of the messages behind which the transcript has the use of a tool."""
    first = over.ended[0].row.uid
    used = [index for index, entry in enumerate(entries) if _uses_tools(entry)]
    places = {entry.id: index for index, entry in enumerate(entries)}
    return {
        one.row.uid
        for one in over.returned
        if (place := places.get(f"{first}~{one.row.uid}:0")) is not None and used and used[-1] > place
    }


def _uses_tools(entry: Entry) -> bool:
    return isinstance(entry.body, Said) and isinstance(entry.body.message, AssistantMessage) and bool(entry.body.message.calls)


def given_up(
    turn: Turn, found: Sequence[RoutedMessage], now: datetime, zone: tzinfo | None, begun: Collection[str] = ()
) -> GivenUp | None:
    """Judge a turn with these messages, at least one; None: it goes on. No ``zone``: its agent or session is gone.

    ``begun`` names messages (``InboxRow.uid``) that end with it in any case, because tools were used for them.
    """
    first, times = found[0], found[0].row.attempts
    if zone is None:
        over = "and the conversation it belongs to cannot be found any more"
        return _ended(found, lambda _: True, "failed", "the conversation is gone", f"⚠️ I was interrupted over {{}}, {over}.")
    if first.automation is not None:
        began = turn.started_at.astimezone(zone)
        return _automation_over(first, label_of(first.automation), began, late=now - turn.started_at > LATE)
    if times >= MAX_ATTEMPTS:
        told = f"⚠️ I was interrupted {times} times over {{}} and gave it up."
        return _ended(
            found, lambda one: one.row.attempts >= MAX_ATTEMPTS or one.row.uid in begun, "failed", "interrupted too often", told
        )
    if now - turn.started_at > FRESH:
        told = f"I was interrupted over {{}} ({turn.started_at.astimezone(zone):%a %H:%M}) and am back. It is a while ago."
        return _ended(
            found,
            lambda one: one is first or now - one.row.received_at > FRESH or one.row.uid in begun,
            "stopped",
            "interrupted long ago",
            told,
        )
    return None


def _automation_over(one: RoutedMessage, label: str, began: datetime, *, late: bool) -> GivenUp | None:
    """Judge the turn of an automation, which is alone in it and waits for nobody's word."""
    if (times := one.row.attempts) >= MAX_ATTEMPTS:
        at = one.row.received_at.astimezone(began.tzinfo)
        text = f"⚠️ I was interrupted {times} times over {label} ({at:%a %H:%M}) and gave it up."
        return GivenUp("failed", "interrupted too often", text, (one,))
    if late:
        text = f"I was interrupted over {label} ({began:%a %H:%M}). It is a while ago, so I did not go on."
        return GivenUp("stopped", "interrupted long ago", text, (one,))
    return None


def _ended(
    found: Sequence[RoutedMessage], ends: Callable[[RoutedMessage], bool], state: TurnEnd, reason: str, told: str
) -> GivenUp:
    ended = tuple(one for one in found if ends(one))
    what = "Say “go on” if it still matters." if state == "stopped" else "Say it again if it still matters."
    if len(ended) == 1:
        text = f"{told.format(f'“{quoted_words(ended[0])}”')} {what}"
    else:
        speakers = {one.inbound.sender.id for one in ended}
        lines = [f"- {_speaker(one) if len(speakers) > 1 else ''}“{quoted_words(one)}”" for one in ended]
        text = "\n".join([f"{told.format(f'{len(ended)} messages')} {what}", *lines])
    return GivenUp(state, reason, text, ended, tuple(one for one in found if one not in ended))


def quoted_words(one: RoutedMessage, most: int = QUOTED_CHARS) -> str:
    """Return what a message says on one line, at most so many characters; the names of its files where it says nothing."""
    line = " ".join(one.inbound.text.split()) or ", ".join(file.name or file.kind for file in one.inbound.attachments)
    return line if len(line) <= most else f"{line[:most].rstrip()}…"


def _speaker(one: RoutedMessage) -> str:
    return f"{one.inbound.sender.name or one.inbound.sender.id}: "
