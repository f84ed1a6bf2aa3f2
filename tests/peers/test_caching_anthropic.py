"""Whether the caching peer keeps what the real one is documented to keep, and no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.peers.caching_anthropic import INPUT_PRICE, Bill, PromptCache

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORDS = "the letter says that painters need another week " * 200


def body(*texts: str, ttl: str = "5m", marked: bool = True) -> dict[str, Any]:
    mark = {"cache_control": {"type": "ephemeral", "ttl": ttl}} if marked else {}
    blocks = [{"type": "text", "text": text} for text in texts]
    blocks[-1] |= mark
    return {"system": [{"type": "text", "text": WORDS} | mark], "messages": [{"role": "user", "content": blocks}]}


def test_a_marked_prefix_is_written_then_read_and_renewed_by_each_use() -> None:
    cache = PromptCache()
    first = cache.take(body("a"), NOON)
    assert first.read == 0
    assert first.written_5m == first.prompt
    for minutes in (4, 8, 12):
        again = cache.take(body("a"), NOON + timedelta(minutes=minutes))
        assert again.read == again.prompt
    late = cache.take(body("a"), NOON + timedelta(minutes=18))
    assert late.read == 0


def test_an_hour_costs_twice_and_bridges_an_hour() -> None:
    cache = PromptCache()
    first = cache.take(body("a", ttl="1h"), NOON)
    assert first.written_1h == first.prompt
    assert cache.take(body("a", ttl="1h"), NOON + timedelta(minutes=59)).read == first.prompt
    assert first.dollars == first.prompt * 2 * INPUT_PRICE


def test_what_comes_behind_is_written_alone_and_a_change_before_it_costs_all() -> None:
    cache = PromptCache()
    first = cache.take(body("a"), NOON)
    longer = cache.take(body("a", "b"), NOON)
    assert longer.read == first.prompt
    assert 0 < longer.written_5m < 20
    changed = body("a", "b")
    changed["system"][0]["text"] = "X" + WORDS
    assert cache.take(changed, NOON).read == 0


def test_nothing_is_kept_without_marks_or_below_the_least_size() -> None:
    cache = PromptCache()
    plain = cache.take(body("a", marked=False), NOON)
    assert (plain.fresh, plain.read, plain.written_5m) == (plain.prompt, 0, 0)
    small = {"system": [], "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}]}
    assert cache.take(small, NOON).written_5m == 0
    assert cache.take(small, NOON).read == 0


def test_a_prefix_is_found_at_most_twenty_blocks_before_a_mark() -> None:
    cache = PromptCache()
    texts = [f"text {n}" for n in range(60)]
    cache.take(body(*texts[:10]), NOON)
    whole = cache.take(body(*texts), NOON)
    assert whole.read == cache.take(body("x"), NOON).read, "only the system text is found: its own mark is there"


def test_bills_add_up() -> None:
    bill = Bill(calls=1, fresh=10, read=100, written_5m=8, written_1h=5, output=2)
    bill.add(Bill(calls=1, fresh=1))
    assert (bill.calls, bill.prompt) == (2, 124)
    assert bill.dollars == (11 + 10 + 10 + 10 + 10) * INPUT_PRICE
