"""The ways in which a budget was got around: no usage, negative usage, negative cost, no price, no ledger, a clock set to and fro."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agent.messages import AssistantMessage, Failure, Text, ToolCall, Usage
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.catalog.known_models import ModelFacts
from agent.models.catalog.prices import ESTIMATE, LISTED, PriceList
from agent.models.scripted import ScriptedModel
from agent.settings import ModelsSettings
from gateway.base.clock import ManualClock, SystemClock
from gateway.base.errors import StorageFailed
from gateway.budget.budget_guard import NEW_DATES, WAIT_SECONDS, BookingDay, BudgetGuard
from gateway.budget.budgeted_calls import BudgetEmbedder, BudgetMiddleware, booked
from gateway.ledger.spending_rows import Spent
from gateway.ledger.sqlite import SqliteLedger
from gateway.models.model_registry import ModelRegistry
from gateway.settings.budget_settings import BudgetSettings
from memory.errors import EmbeddingFailed
from tests.models.conversation import ask, hear, user
from tests.patience import PATIENCE
from tests.peers.compatible import CompatiblePeer, words
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.catalog.prices import Price
    from agent.models.protocol import Model
    from gateway.ledger.spending_rows import SpendingLedger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG = "The plumber comes on Thursday at nine. " * 400
"""About 4,000 tokens to send."""
ANSWER = "".join(f"Line {n}: well. " for n in range(350))
"""About 1,700 tokens."""
BERLIN = ZoneInfo("Europe/Berlin")


class BudgetCase:
    """A budget guard over a real ledger, and what it told the owner."""

    def __init__(self, spending: SpendingLedger, price: Price, clock: ManualClock | None = None, **budgets: Any) -> None:
        self.told: list[str] = []
        self.spending = spending
        self.budget_guard = BudgetGuard(
            spending,
            BudgetSettings.model_validate(budgets),
            clock or ManualClock(NOON),
            agent="main",
            zone=BERLIN,
            price=lambda _: price,
            tell=self.told.append,
        )

    async def calls_let_through(self, model: Model, most: int = 60) -> int:
        """Ask until a call is held back; return how many were not."""
        metered = BudgetMiddleware(model, self.budget_guard, "s")
        for count in range(most):
            _, answer = await hear(metered, ask(user(LONG), max_output=2000))
            await self.settled()
            if answer.failure is not None and answer.failure.kind == "billing":
                return count
        return most

    async def settled(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while any(row.open for row in await self.spending.usage("2000-01-01")):  # noqa: ASYNC110 (settled in the background)
                await asyncio.sleep(0)


def at(peer: CompatiblePeer, price: Price | None) -> OpenAIChatModel:
    facts = ModelFacts(window=100_000, max_output=2_000, assumed=False, price=price)
    return OpenAIChatModel("m-1", key="k", facts=facts, base_url=peer.url, provider="custom", label="The server")


LIES: dict[str, dict[str, Any] | None] = {
    "no usage": None,
    "zeros": {"prompt_tokens": 0, "completion_tokens": 0},
    "negative usage": {"prompt_tokens": -4000, "completion_tokens": -2000},
    "one token": {"prompt_tokens": 1, "completion_tokens": 1},
    "a negative cost": {"prompt_tokens": 4000, "completion_tokens": 1700, "cost": -5},
    "no cost": {"prompt_tokens": 4000, "completion_tokens": 1700, "cost": 0},
    "a cost that is no number": {"prompt_tokens": 4000, "completion_tokens": 1700, "cost": float("nan")},
    "an endless cost": {"prompt_tokens": 4000, "completion_tokens": 1700, "cost": float("-inf")},
}


@parametrize_some(3, "lie", LIES)
async def test_a_provider_that_tells_wrong_figures_does_not_open_the_budget(
    compatible_peer: CompatiblePeer, tmp_path: Path, lie: str
) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    budget = BudgetCase(ledger.spending, LISTED["claude-opus-5"], day={"usd": 1.0})
    model = at(compatible_peer, LISTED["claude-opus-5"])
    compatible_peer.answer(*(words(ANSWER, usage=LIES[lie]) for _ in range(60)))
    through = await budget.calls_let_through(model)
    await model.close()
    (row,) = await ledger.spending.usage("2026-01-01")
    await ledger.close()
    assert 8 <= through <= 20, "about six cents a call"
    assert 0.5 < row.cost <= 1.0
    assert row.input > 3000 * through
    assert row.output > 1200 * through


async def test_a_model_without_a_price_is_held_by_an_estimate_and_that_is_told(tmp_path: Path) -> None:
    from gateway.budget.usage_report import facts, usage_table

    model_registry = ModelRegistry(ModelsSettings(), {}, clock=ManualClock(NOON), random=Random(1))
    price = model_registry.price("anthropic/claude-unheard-of")
    assert price.estimated
    assert price.input == max(one.input for name, one in LISTED.items() if name.startswith("claude-"))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    budget = BudgetCase(ledger.spending, price, day={"usd": 1.0})
    answer = AssistantMessage(content=(Text(text="ok"),), model="m", stop="end", usage=Usage(input=4000, output=300))
    through = await budget.calls_let_through(ScriptedModel(lambda _: answer))
    rows = await ledger.spending.usage("2026-01-01")
    await ledger.close()
    assert through < 20
    assert rows[0].estimated == through
    assert f"~: for {through} calls" in (page := usage_table(facts(rows)))
    assert "~ $" in page


async def test_the_default_budgets_hold_every_default_model() -> None:
    model_registry = ModelRegistry(ModelsSettings(), {}, clock=ManualClock(NOON), random=Random(1))
    names = ("anthropic/claude-sonnet-5-5", "openai/gpt-6.1-terra", "google/gemini-3.8-flash", "openrouter/openrouter/auto")
    for name in names:
        price = model_registry.price(name)
        assert price.input > 0, name
        assert price.estimated == name.startswith("openrouter"), name
    budgets = BudgetSettings.model_validate({"day": {"tokens": 5}, "background": {"usd": 2}})
    assert (budgets.day.usd, budgets.day.tokens, budgets.background.tokens) == (5.0, 5, BudgetSettings().background.tokens)
    assert BudgetSettings().day.tokens is not None


@given(
    usage=st.none()
    | st.builds(
        Usage,
        input=st.integers(-(10**6), 10**6),
        output=st.integers(-(10**6), 10**6),
        cache_read=st.integers(-(10**6), 10**6),
        cache_write=st.integers(-(10**6), 10**6),
        cost=st.none() | st.floats(),
    ),
    sent=st.integers(0, 10**6),
    text=st.text(max_size=300),
    price=st.sampled_from(
        [ESTIMATE, LISTED["claude-haiku-5-5"], LISTED["gpt-5"], PriceList().estimate("google", "https://x.y")]
    ),
)
def test_whatever_is_told_a_call_is_never_booked_below_a_share_of_the_estimate(
    usage: Usage | None, sent: int, text: str, price: Price
) -> None:
    call = ToolCall(id="a", name="f", arguments={"text": text})
    answer = AssistantMessage(content=(Text(text=text), call), model="m", stop="tools", usage=usage)
    spent = booked(answer, sent=sent, said=len(text), price=price)
    assert min(spent.input, spent.output, spent.cache_read, spent.cache_write) >= 0
    assert spent.input + spent.cache_read + spent.cache_write >= int(0.4 * sent)
    assert spent.cost is not None
    assert 0 <= spent.cost < float("inf")
    honest = usage is not None and usage.cost is not None and 0 <= usage.cost < float("inf") and not spent.estimated
    assert honest or spent.cost >= price.of_usage(Usage(cache_read=int(0.4 * sent))) * 0.99


async def test_a_try_that_broke_off_is_booked_beside_the_one_that_did_not(tmp_path: Path) -> None:
    from agent.events import Restarted, TextDelta

    done = AssistantMessage(content=(Text(text="ok"),), model="m", stop="end", usage=Usage(input=4000, output=300))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    budget = BudgetCase(ledger.spending, LISTED["gpt-5"])
    model = ScriptedModel(lambda _: [TextDelta("x" * 4000), Restarted("it broke off"), TextDelta("ok"), done])
    await hear(BudgetMiddleware(model, budget.budget_guard, "s"), ask(user(LONG), max_output=2000))
    await budget.settled()
    (row,) = await ledger.spending.usage("2026-01-01")
    await ledger.close()
    assert row.calls == 1
    assert row.input > 4000 + 3000
    assert row.output >= 300 + 1000


async def test_what_the_provider_had_told_of_a_try_that_broke_off_is_booked(tmp_path: Path) -> None:
    from agent.events import Restarted, TextDelta

    told = Usage(input=10, output=1, cache_read=3500, cache_write=500)
    done = AssistantMessage(content=(Text(text="ok"),), model="m", stop="end", usage=structs.replace(told, output=300))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    budget = BudgetCase(ledger.spending, LISTED["claude-opus-5"])
    model = ScriptedModel(lambda _: [TextDelta("x" * 4000), Restarted("it broke off", usage=told), TextDelta("ok"), done])
    await hear(BudgetMiddleware(model, budget.budget_guard, "s"), ask(user(LONG), max_output=2000))
    await budget.settled()
    (row,) = await ledger.spending.usage("2026-01-01")
    await ledger.close()
    assert (row.input, row.cache_read, row.cache_write, row.output) == (20, 7000, 1000, 1300)


@pytest.mark.parametrize(("kind", "counts"), [("auth", False), ("network", False), ("rate_limit", False), ("timeout", True)])
def test_a_failure_before_the_first_word_costs_nothing_unless_the_model_may_have_read_it(kind: Any, counts: bool) -> None:
    answer = AssistantMessage(content=(), model="m", stop="error", failure=Failure(kind=kind, message="no"))
    assert bool(booked(answer, sent=1000, said=0, price=ESTIMATE).cost) == counts
    nothing = structs.replace(answer, usage=Usage(input=0, output=1))
    assert bool(booked(nothing, sent=1000, said=0, price=ESTIMATE).cost) == counts, "no prompt was told"
    told = booked(structs.replace(answer, usage=Usage(input=900, output=1)), sent=1000, said=0, price=ESTIMATE)
    assert (told.input, told.output) == (900, 1)


async def test_each_try_is_booked_once_by_what_its_provider_told_also_where_none_said_a_word(tmp_path: Path) -> None:
    from agent.models.catalog.provider_keys import Key
    from agent.models.middleware.failover import FailoverMiddleware
    from agent.models.middleware.key_health import KeyHealth
    from agent.models.middleware.key_rotation import KeyRotationMiddleware
    from agent.models.middleware.model_retry import RetryLimits, RetryMiddleware

    def broken(prompt: int, kind: Any = "overloaded") -> AssistantMessage:
        failure = Failure(kind=kind, message="no")
        return AssistantMessage(content=(), model="m", stop="error", failure=failure, usage=Usage(input=prompt, output=1))

    empty = AssistantMessage(content=(), model="m", stop="end", usage=Usage(input=4000, output=20))
    done = AssistantMessage(content=(Text(text="ok"),), model="m", stop="end", usage=Usage(input=5000, output=2))
    clock = ManualClock(NOON)
    keys = (Key("one", "settings", "k1"), Key("two", "settings", "k2"))
    rejected = {"k1": ScriptedModel([broken(3000, "auth")]), "k2": ScriptedModel([broken(4000, "auth")])}
    limits = RetryLimits(first_wait=0.0)
    made: list[tuple[Model, int]] = [
        (RetryMiddleware(ScriptedModel([empty, broken(3000), done]), clock=clock, random=Random(1), limits=limits), 12_000),
        (RetryMiddleware(ScriptedModel([empty] * 3), clock=clock, random=Random(1), limits=limits), 12_000),
        (FailoverMiddleware([ScriptedModel([broken(3000)]), ScriptedModel([broken(4000)])], clock=clock), 7000),
        (FailoverMiddleware([ScriptedModel([broken(3000)]), ScriptedModel([done])], clock=clock), 8000),
        (KeyRotationMiddleware(lambda: keys, lambda key: rejected[key.secret], KeyHealth(clock)), 7000),
    ]
    for number, (model, prompts) in enumerate(made):
        ledger = await SqliteLedger.open(tmp_path / f"ledger{number}.sqlite", clock)
        budget = BudgetCase(ledger.spending, LISTED["claude-opus-5"])
        await hear(BudgetMiddleware(model, budget.budget_guard, "s"), ask(user(LONG), max_output=2000))
        await budget.settled()
        (row,) = await ledger.spending.usage("2026-01-01")
        await ledger.close()
        assert row.input == prompts, f"the case {number}"


def test_more_than_a_call_can_have_used_is_booked_by_what_it_can_and_marked() -> None:
    price = LISTED["claude-opus-5"]
    many = Usage(input=10**12, output=10**12)
    for usage in (many, structs.replace(many, cost=price.of_usage(many))):
        answer = AssistantMessage(content=(Text(text="ok"),), model="m", stop="end", usage=usage)
        spent = booked(answer, sent=4000, said=2, price=price, most=2000, window=200_000)
        assert (spent.input, spent.output, spent.estimated) == (4000, 2000, True)
        assert spent.cost is not None
        assert price.of_usage(Usage(input=4000, output=2000)) <= spent.cost <= price.at_most(4000, 2000)
    most = Usage(input=100_000, output=2000, cache_read=100_000, cost=0.7)
    spent = booked(structs.replace(answer, usage=most), sent=150_000, said=2, price=price, most=2000, window=200_000)
    assert (spent.input, spent.cache_read, spent.cost, spent.estimated) == (100_000, 100_000, 0.7, False)


def test_an_hour_in_the_cache_is_paid_though_the_answer_is_estimated() -> None:
    price = LISTED["claude-opus-5"]
    written = Usage(input=10, output=1, cache_read=6000, cache_write=8000)
    told = structs.replace(written, cost=price.of_usage(written, written_for_an_hour=6000))
    answer = AssistantMessage(content=(Text(text=ANSWER),), model="m", stop="end", usage=told)
    spent = booked(answer, sent=14_000, said=len(ANSWER), price=price, most=2000, window=200_000)
    assert spent.estimated
    assert spent.output > 1000
    assert spent.cost == pytest.approx(price.of_usage(structs.replace(written, output=spent.output), written_for_an_hour=6000))


class Sick:
    """A part of the ledger that can be made to refuse everything, as one on a full disk does."""

    def __init__(self, whole: SpendingLedger) -> None:
        self.whole = whole
        self.sick = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*given: Any, **more: Any) -> Any:
            if self.sick and name in {"reserve", "settle_call", "first_time"}:
                raise StorageFailed(
                    "the ledger could not be used: disk I/O error", where="ledger.sqlite", hint="Free some space."
                )
            return await getattr(self.whole, name)(*given, **more)

        return call


async def test_a_ledger_that_takes_nothing_opens_no_budget_and_gets_what_it_missed(tmp_path: Path) -> None:
    whole = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    ledger: Any = Sick(whole.spending)
    budget = BudgetCase(ledger, ESTIMATE, day={"usd": 1.0})
    answer = AssistantMessage(content=(Text(text="ok"),), model="m", stop="end", usage=Usage(input=4000, output=2000))
    model = BudgetMiddleware(ScriptedModel(lambda _: answer), budget.budget_guard, "s")
    await hear(model, ask(user(LONG), max_output=2000))
    await budget.settled()
    ledger.sick = True
    count = 0
    _, held = await hear(model, ask(user(LONG), max_output=2000))
    while held.failure is None and count < 40:
        count += 1
        _, held = await hear(model, ask(user(LONG), max_output=2000))
    assert held.failure is not None
    assert held.failure.kind == "billing"
    assert 2 <= count <= 16, "seven cents a call"
    assert [text for text in budget.told if "counted in memory" in text] == budget.told[:1], "the owner is told, once"
    ledger.sick = False
    _, still = await hear(model, ask(user(LONG), max_output=2000))
    assert still.failure is not None, "what was counted in memory is spent"
    await budget.settled()
    (row,) = await whole.spending.usage("2026-01-01")
    assert row.calls == 1 + count
    assert row.cost == pytest.approx((1 + count) * ESTIMATE.of_usage(Usage(input=4000, output=2000)))
    await whole.close()


async def test_what_is_counted_in_memory_counts_for_the_budgets_that_it_belongs_to(tmp_path: Path) -> None:
    whole = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    ledger: Any = Sick(whole.spending)
    ledger.sick = True
    limits = {
        name: {"tokens": tokens, "usd": None} for name, tokens in (("session", 1000), ("agent", 2000), ("background", 1000))
    }
    budget = BudgetCase(ledger, ESTIMATE, day={"tokens": None, "usd": None}, **limits)

    async def refused(session: str, *, background: bool = False) -> str:
        guard = budget.budget_guard
        reserved = await guard.reserve(session, "m", tokens=900, usd=None, background=background, waits=False)
        return reserved.broken.name if reserved.broken else ""

    assert [await refused(session) for session in "aabc"] == ["", "budgets.session.tokens", "", "budgets.agent.tokens"]
    asked = [await refused("a", background=True) for _ in range(3)]
    assert asked == ["", "", "budgets.background.tokens"], "the last one may go beyond it"
    await whole.close()


async def test_a_clock_set_to_and_fro_does_not_open_one_budget_after_the_other(tmp_path: Path) -> None:
    class Jumping(ManualClock):
        days = 0

        def now(self) -> datetime:
            return super().now().replace(day=1 + self.days)

    clock = Jumping(NOON)
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    budget = BudgetCase(ledger.spending, ESTIMATE, clock, day={"tokens": 1000, "usd": None})
    through = 0
    for day in range(20):
        clock.days = day
        while (
            await budget.budget_guard.reserve("s", "m", tokens=1000, usd=None, background=False, waits=False)
        ).row is not None:
            through += 1
        clock.move(60)
    await ledger.close()
    assert through == NEW_DATES


def test_midnight_brings_a_new_day_every_day() -> None:
    clock = ManualClock(datetime(2026, 3, 1, 22, 30, tzinfo=UTC))
    day = BookingDay(clock, BERLIN)
    shown = [day.today()]
    for _ in range(48 * 4):
        clock.move(1800)
        shown.append(day.today())
    assert list(dict.fromkeys(shown)) == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05"]
    assert shown[2] == "2026-03-02", "half an hour after the start"


def test_days_that_the_machine_slept_through_bring_new_days_and_days_that_a_clock_skips_are_told() -> None:
    class Sleeping(ManualClock):
        """A machine whose stopwatch stands still while it sleeps; what counts from its start goes on."""

        slept = 0.0

        def now(self) -> datetime:
            return super().now() + timedelta(seconds=self.slept)

        def since_boot(self) -> float:
            return self.monotonic() + self.slept

    told: list[str] = []
    clock = Sleeping(NOON)
    day = BookingDay(clock, BERLIN, told.append)
    shown = [day.today()]
    for _ in range(5):
        clock.slept += 86_400
        clock.move(3600)
        shown.append(day.today())
    assert shown == [f"2026-03-0{number}" for number in range(1, 7)]
    assert told == []

    class Skipping(Sleeping):
        def since_boot(self) -> float:
            return self.monotonic()

    clock = Skipping(NOON)
    day = BookingDay(clock, BERLIN, told.append)
    shown = []
    for _ in range(4):
        shown += [day.today(), day.today()]
        clock.slept += 86_400
    assert shown == ["2026-03-01"] * 2 + ["2026-03-02"] * 6
    assert [text[:42] for text in told] == [
        "The clock went to 2026-03-03 within hours,",
        "The clock went to 2026-03-04 within hours,",
    ]
    assert all("counted for 2026-03-02" in text and "homebody restart" in text for text in told)


def test_the_systems_clock_counts_the_time_in_which_the_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= SystemClock().since_boot() <= time.clock_gettime(time.CLOCK_BOOTTIME)


class Remote:
    """An embedder of a provider that is paid."""

    provider, model, fingerprint, max_batch_tokens, max_batch_texts = "openai", "text-embedding-3-small", "f", 8000, 100

    def __init__(self) -> None:
        self.sent = 0

    async def embed(self, texts: Any, *, purpose: str) -> list[list[float]]:
        self.sent += len(texts)
        return [[1.0] for _ in texts]

    async def close(self) -> None: ...


async def test_embeddings_of_a_provider_are_booked_and_held(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    budget = BudgetCase(ledger.spending, ESTIMATE, background={"tokens": 20_000})
    within = Remote()
    metered = BudgetEmbedder(within, budget.budget_guard, PriceList().find("openai", "text-embedding-3-small"))
    for _ in range(4):  # the last one may go beyond it
        await metered.embed([LONG], purpose="passage")
    with pytest.raises(EmbeddingFailed, match=r"budgets\.background\.tokens"):
        await metered.embed([LONG], purpose="passage")
    await budget.settled()
    (row,) = await ledger.spending.usage("2026-01-01")
    await ledger.close()
    assert (row.name, row.calls, row.input) == (
        "openai/text-embedding-3-small",
        within.sent,
        within.sent * (len(LONG) // 3 + 1),
    )
    assert row.cost == pytest.approx(row.input * 0.02 / 1_000_000)
    assert within.sent == 4


async def test_embeddings_for_which_others_leave_no_room_say_so_at_once(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    budget = BudgetCase(ledger.spending, ESTIMATE, background={"tokens": 10_000})
    await budget.budget_guard.reserve("s", "m", tokens=10_000, usd=None, background=True)
    metered = BudgetEmbedder(Remote(), budget.budget_guard, PriceList().find("openai", "text-embedding-3-small"))
    with pytest.raises(EmbeddingFailed, match=r"answers under way have reserved 100% of budgets\.background\.tokens") as failed:
        await metered.embed([LONG], purpose="query")
    await ledger.close()
    assert "used up" not in str(failed.value)


async def test_a_call_for_which_others_leave_no_room_is_told_that_they_are_under_way(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    budget = BudgetCase(ledger.spending, LISTED["claude-opus-5"], clock, day={"tokens": 10_000})
    guard = budget.budget_guard
    first = await guard.reserve("other", "m", tokens=9_000, usd=None, background=False)
    metered = BudgetMiddleware(ScriptedModel(), guard, "s")
    hearing = asyncio.ensure_future(hear(metered, ask(user(LONG), max_output=2000)))
    async with asyncio.timeout(PATIENCE):
        while not clock.alarms:  # noqa: ASYNC110 (it waits for room first)
            await asyncio.sleep(0)
    clock.move(WAIT_SECONDS)
    _, answer = await hearing
    assert answer.failure is not None
    assert "answers under way have reserved 90% of budgets.day.tokens" in answer.failure.message
    assert "used up" not in answer.failure.message
    assert first.row is not None
    guard.settle(first.row, Spent(input=9_000))
    await budget.settled()
    _, answer = await hear(metered, ask(user(LONG), max_output=2000))
    assert answer.failure is not None
    assert "Today's budget is used up" in answer.failure.message
    await ledger.close()
