"""A message that is more than a quarter of the model's window: its beginning is shown, and the whole of it lies in a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from agent.messages import UserMessage
from agent.models import token_estimate
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

WORDS = " ".join(f"w{n}x" for n in range(12_000))
TABLE = "\n".join(f"{n},2026-03-{n % 28 + 1:02},Oldenburg,{n * 7.25:.2f}" for n in range(4_000))


@parametrize_some(2, "text", [WORDS, TABLE, "鍵" * 40_000], ids=["words", "table", "chinese"])
@pytest.mark.parametrize("window", [16_000, 50_000])
async def test_as_much_is_shown_as_an_eighth_of_the_window_holds(street: Make, text: str, window: int) -> None:
    s = street()
    s.model.window = window
    s.model.reply_with(lambda _: "Read.")
    async with s.house() as (_, talk):
        await talk.ask(text)
    (asked,) = (message for message in s.model.requests[-1].messages if isinstance(message, UserMessage))
    found = re.search(
        r"\[cut: this message has ([\d,]+) characters and is more than a quarter of my window; the first ([\d,]+) are shown\. "
        r"The whole of it is in (\S+):",
        asked.text,
    )
    assert found is not None
    characters, shown = (int(found[n].replace(",", "")) for n in (1, 2))
    assert characters == len(text)
    assert text[:shown] in asked.text
    assert text[: shown + 1] not in asked.text
    assert window // 16 < token_estimate.estimate(text[:shown]) <= max(window // 8, token_estimate.estimate(text[:4_000]))
    assert (s.workspace / found[3]).read_text(encoding="utf-8") == text
