"""However many pictures a conversation has seen, what a model is sent stays within bounds, and the newest are in it."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from agent.messages import AssistantMessage, Image, Message, Text, ToolCall, ToolMessage, UserMessage
from agent.transcript.entries import Entry, Said
from agent.transcript.history_view import view
from agent.transcript.recent_pictures import GONE, MOST, MOST_CHARS, STEP, with_recent_pictures

AT = datetime(2026, 3, 1, tzinfo=UTC)
BIG = Image(media_type="image/png", data="x" * (MOST_CHARS // 12))
SMALL = Image(media_type="image/png", data="x")

PICTURES = st.lists(st.sampled_from([SMALL, SMALL, BIG]), max_size=6).map(tuple)
MESSAGES = st.lists(
    st.one_of(
        PICTURES.map(lambda images: UserMessage(content=(Text(text="look"), *images), at=AT)),
        PICTURES.map(lambda images: ToolMessage(call_id="c", name="read", text="a.png", images=images)),
        st.just(AssistantMessage(content=(Text(text="nice"),), model="m", stop="end")),
    ),
    max_size=30,
)


def pictures(message: Message) -> list[Image]:
    if isinstance(message, UserMessage):
        return [part for part in message.content if isinstance(part, Image)]
    return list(message.images) if isinstance(message, ToolMessage) else []


@given(MESSAGES)
def test_pictures_are_bounded_the_newest_stay_and_nothing_else_changes(messages: list[Message]) -> None:
    shown = with_recent_pictures(messages)
    before = [one for message in messages for one in pictures(message)]
    after = [one for message in shown for one in pictures(message)]
    assert after == before[len(before) - len(after) :]
    newest = next((pictures(message) for message in reversed(messages) if pictures(message)), [])
    assert len(after) >= len(newest)
    if len(after) > len(newest):
        assert len(after) <= MOST
        assert sum(len(one.data) for one in after) <= MOST_CHARS
    for old, new in zip(messages, shown, strict=True):
        assert (old == new) is (GONE not in str(new))
        assert type(old) is type(new)


@given(MESSAGES)
def test_a_prompt_changes_its_beginning_seldom_as_it_grows(messages: list[Message]) -> None:
    """What was once taken away stays away, and it goes in large steps unless one message alone fills the request."""
    hidden = [sum(str(message).count(GONE) for message in with_recent_pictures(messages[:end])) for end in range(len(messages))]
    assert hidden == sorted(hidden)


def test_one_more_picture_takes_ten_old_ones_away_and_the_next_nine_take_none() -> None:
    messages = [UserMessage(content=(SMALL,), at=AT) for _ in range(MOST + STEP)]
    counts = [sum(len(pictures(one)) for one in with_recent_pictures(messages[:n])) for n in range(MOST, MOST + STEP + 1)]
    assert counts == [20, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]


def test_the_view_of_a_transcript_keeps_to_it() -> None:
    said: list[Message] = []
    for number in range(MOST + 5):
        call = ToolCall(id=f"c{number}", name="read", arguments={})
        said += [
            UserMessage(content=(Text(text="look"),), at=AT),
            AssistantMessage(content=(call,), model="m", stop="tools"),
            ToolMessage(call_id=call.id, name="read", text=f"{number}.png", images=(SMALL,)),
        ]
    entries = [Entry(id=f"t:{n}", parent=None, at=AT, body=Said(message=message)) for n, message in enumerate(said)]
    shown = view(entries, ZoneInfo("UTC"))
    assert sum(len(pictures(message)) for message in shown) == MOST - 5
    assert next(message.text for message in shown if isinstance(message, ToolMessage)) == f"0.png\n{GONE}"
