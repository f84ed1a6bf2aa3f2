"""The section ``budgets``."""

from pydantic import Field

from agent.section import Section


class DailyBudget(Section):
    """A daily budget."""

    tokens: int | None = Field(default=None, ge=0)
    """Tokens per day, including those read from a prompt cache. Unset: unlimited."""
    usd: float | None = Field(default=None, ge=0)
    """USD per day. Unset: unlimited. Models without a known price are counted at a high estimate (see `homebody usage`)."""


class TotalBudget(DailyBudget):
    """Daily budget of all agents together."""

    tokens: int | None = Field(default=25_000_000, ge=0)
    """Tokens per day, including those read from a prompt cache. null: unlimited."""
    usd: float | None = Field(default=5.0, ge=0)
    """USD per day. null: unlimited. Models without a known price are counted at a high estimate (see `homebody usage`)."""


class BackgroundBudget(DailyBudget):
    """Daily budget of background work."""

    tokens: int | None = Field(default=10_000_000, ge=0)
    """Tokens per day, including those read from a prompt cache. null: unlimited."""
    usd: float | None = Field(default=1.0, ge=0)
    """USD per day. null: unlimited. Models without a known price are counted at a high estimate (see `homebody usage`)."""


class BudgetSettings(Section):
    """Daily limits on model costs. A day is from midnight to midnight in the owner's time zone."""

    enabled: bool = True
    """Block model calls that could exceed a budget."""
    day: TotalBudget = TotalBudget.model_construct()
    """Daily budget of all agents together."""
    agent: DailyBudget = DailyBudget.model_construct()
    """Daily budget of each agent."""
    session: DailyBudget = DailyBudget.model_construct()
    """Daily budget of each session."""
    background: BackgroundBudget = BackgroundBudget.model_construct()
    """Daily budget of memory flushes, summaries, embeddings and other background work. Once it is used up they are refused."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """The used share of a budget (0 to 1) at which the owner is warned, once a day."""
