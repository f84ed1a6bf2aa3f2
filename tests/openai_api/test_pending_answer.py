"""The answer to one request, put together from what a channel hears, in whatever order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from channels.live import Done, Rejected
from channels.openai_api.channel import session_name
from channels.openai_api.pending_answer import Ended, PendingAnswer, Progress, rest_of

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = st.text(alphabet="ab \n", max_size=12)


async def read(pending: PendingAnswer) -> tuple[str, Ended]:
    """Read to the end; return what was passed on, and the end."""
    passed = ""
    while isinstance(news := await asyncio.wait_for(pending.next(), 10), Progress):
        passed += news.text
    return passed, news


def done(key: str = "m", **facts: object) -> Done:
    return Done("t", key, {"chunks": 0, "replyKeys": [], **facts})


@given(TEXT, TEXT)
def test_what_is_added_to_a_text_makes_it_end_with_the_reply(shown: str, text: str) -> None:
    assert (shown + rest_of(shown, text)).endswith(text)


@given(TEXT, st.lists(TEXT, max_size=5))
def test_a_reply_whose_beginning_was_shown_is_only_completed(text: str, parts: list[str]) -> None:
    whole = text + "".join(parts)
    assert text + rest_of(text, whole) == whole


@given(st.lists(TEXT, max_size=6), st.text(alphabet="abc", min_size=1, max_size=10), st.data())
def test_whatever_is_previewed_what_was_passed_on_ends_with_the_reply(
    previews: list[str], reply: str, data: st.DataObject
) -> None:
    async def scene() -> None:
        pending = PendingAnswer("m")
        passed = ""
        for text in previews:
            pending.preview(text)
            if data.draw(st.booleans()) and text.rstrip():
                try:
                    news = await asyncio.wait_for(pending.next(), 0)
                except TimeoutError:
                    continue
                assert isinstance(news, Progress)
                passed += news.text
        pending.reply(reply, "k", own=True)
        pending.hear(done(replyKeys=["k"], chunks=1))
        more, ended = await read(pending)
        assert (passed + more + ended.rest).endswith(reply)
        assert ended.text == reply

    asyncio.run(scene())


@given(st.permutations(range(5)))
def test_the_order_in_which_events_come_is_all_the_same(order: list[int]) -> None:
    async def scene() -> None:
        pending = PendingAnswer("m")
        steps: list[Callable[[], None]] = [
            lambda: pending.reply("one", "k1", own=True),
            lambda: pending.reply("two", "k2", own=True),
            lambda: pending.reply("another's", "x", own=False),
            lambda: pending.aside("meanwhile", "z"),
            lambda: pending.hear(done(replyKeys=["k1", "k2"], chunks=2)),
        ]
        for step in order:
            steps[step]()
        _, ended = await read(pending)
        assert ended.text.split("\n\n") in (["meanwhile", "one", "two"], ["one", "two"])
        assert "another's" not in ended.text

    asyncio.run(scene())


async def test_a_message_that_joined_another_one_has_its_reply() -> None:
    pending = PendingAnswer("second")
    pending.hear(done("first", replyKeys=["k"], chunks=1))
    pending.hear(done("second", answeredWith="first"))
    pending.reply("both", "k", own=False)
    assert (await read(pending))[1].text == "both"


async def test_a_rejected_message_is_a_failure_and_that_of_another_is_none() -> None:
    pending = PendingAnswer("m")
    pending.hear(Rejected("other", "no"))
    pending.hear(Rejected("m", "stopped", "Ask again."))
    _, ended = await read(pending)
    assert (ended.failure, ended.hint) == ("stopped", "Ask again.")


async def test_after_a_model_began_again_nothing_is_passed_on_until_the_end() -> None:
    pending = PendingAnswer("m")
    pending.preview("Under the red")
    first = await pending.next()
    assert first == Progress("Under the red")
    pending.preview("Under the")
    pending.preview("Under the blue pot.")
    pending.reply("Under the blue pot.", "k", own=True)
    pending.hear(done(replyKeys=["k"], chunks=1))
    passed, ended = await read(pending)
    assert (passed, ended.rest) == ("", "\n\nUnder the blue pot.")


@given(st.lists(st.text(max_size=80), unique=True, max_size=8))
def test_names_of_sessions_are_parts_of_an_address_and_stay_different(names: list[str]) -> None:
    parts = [session_name(name) for name in names]
    assert len(set(parts)) == len(names)
    assert all(set(part) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~") for part in parts)
