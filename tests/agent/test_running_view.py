from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.messages import AssistantMessage, Image, Text, ToolMessage, Usage, UserMessage, begins_with, tells_context
from agent.transcript.entries import Compacted, Pruned, ResultsCleared, TurnEnded
from agent.transcript.history_view import RunningView, view
from tests.agent.test_history_view import AT, ZONE, answer, any_body, entries, result, user

if TYPE_CHECKING:
    from agent.messages import Message
    from agent.transcript.entries import Body, Entry

_picture = Image(media_type="image/png", data="aGVsbG8=", width=10, height=10)
_bodies = st.one_of(
    any_body,
    any_body,
    st.just(AssistantMessage(content=(Text(text="broken off"),), model="m", stop="cut")),
    st.just(AssistantMessage(content=(Text(text="I begin"),), model="m", stop="cancelled")),
    st.builds(lambda used: answer("counted", usage=Usage(input=used, output=3)), st.integers(0, 2)),
    st.just(UserMessage(content=(Text(text="look"), _picture), at=AT)),
    st.just(ToolMessage(call_id="a", name="read", text="seen", images=(_picture,) * 15)),
)


def _of_what_was(body: Body | Message, index: int) -> Body | Message:
    """Make a mark speak of entries before it, as all do."""

    def before(place: str) -> str:
        return f"t:{int(place.removeprefix('t:')) % max(index, 1)}"

    match body:
        case Compacted():
            return replace(body, first_kept=before(body.first_kept))
        case ResultsCleared():
            return replace(body, until=before(body.until))
        case Pruned():
            return replace(body, trimmed=tuple(map(before, body.trimmed)), cleared=tuple(map(before, body.cleared)))
    return body


def _in_turns(name: str, turns: int) -> str:
    """Spread entries over turns of so many entries; the names that marks go by stay what they are where there is one turn."""
    turn, _, place = name.partition(":")
    return name if turns == 0 else f"{turn}{int(place) // turns}{'~more' if int(place) % 3 == 0 else ''}:{place}"


@given(st.lists(st.lists(_bodies, max_size=6), max_size=10), st.integers(0, 4))
def test_however_a_transcript_grows_its_view_is_that_of_the_whole(steps: list[list[Body | Message]], turns: int) -> None:
    running, told, grown = RunningView(), [], []
    for step in steps:
        told += [_of_what_was(body, len(told) + place) for place, body in enumerate(step)]
        grown += [replace(entry, id=_in_turns(entry.id, turns)) for entry in entries(*told)[len(grown) :]]
        shown = view(grown, ZONE)
        told_size = [n for n, one in enumerate(shown) if tells_context(one)]
        assert running.since_report(grown, ZONE) == (shown[told_size[-1] :] if told_size else None)
        assert running.of(grown, ZONE) == shown
        assert running.of(grown, ZONE) == shown
        assert running.since_report(grown, ZONE) == (shown[told_size[-1] :] if told_size else None)


def test_another_history_is_viewed_anew() -> None:
    running = RunningView()
    running.of(entries(user("one"), answer("two"), user("three")), ZONE)
    other = entries(user("four"))
    assert running.of(other, ZONE) == view(other, ZONE)


def test_only_what_is_new_is_looked_at() -> None:
    class Looked(list["Entry"]):
        touched = 0

        def __getitem__(self, index):
            found = super().__getitem__(index)
            self.touched += len(found) if isinstance(index, slice) else 1
            return found

    history = Looked(entries(*[user("hi"), answer("", "a"), result("a"), answer("ok")] * 50))
    running = RunningView()
    running.of(history, ZONE)
    history.touched = 0
    history += entries(*[user("hi")] * 201)[200:]
    assert running.of(history, ZONE)[-1].text.endswith("hi")
    assert history.touched == 1


def test_the_whole_is_put_together_only_when_it_is_asked_for_and_something_was_added() -> None:
    running = RunningView()
    history = entries(user("one"), answer("two", usage=Usage(input=9)))
    shown = running.of(history, ZONE)
    history += entries(*[user("hi")] * 2, TurnEnded(turn="t", outcome="answered"))[2:]
    assert running.of(history, ZONE) is shown
    assert running.since_report(history, ZONE) == shown[1:]


@given(st.lists(_bodies, max_size=5), st.lists(_bodies, max_size=5))
def test_a_history_begins_with_another_where_its_first_messages_are_the_same(
    one: list[Body | Message], two: list[Body | Message]
) -> None:
    former, whole = view(entries(*one), ZONE), view(entries(*one, *two), ZONE)
    assert begins_with(whole, former) == (whole[: len(former)] == former)
    assert begins_with(former, whole) == (former[: len(whole)] == whole)
