"""The list of models that `homebody models list` and `/models` show."""

from __future__ import annotations

import pytest

from agent.models.catalog.model_listing import offers
from agent.models.catalog.prices import Price, PriceList
from agent.settings import ModelsSettings

PRICES = PriceList({"box/m": Price(input=10, output=50, as_of="2026-12-01")}, "2026-12-01")


@pytest.mark.parametrize(
    ("cost", "prices", "shown"),
    [
        (None, None, (None, None)),
        (None, PRICES, (10, 50)),
        ({"input": 1, "output": 2}, PRICES, (1, 2)),
    ],
)
def test_prices_of_the_owners_file_are_shown_where_the_settings_say_none(
    cost: dict[str, float] | None, prices: PriceList | None, shown: tuple[float | None, float | None]
) -> None:
    model = {"id": "m", "name": "Emma"} | ({"cost": cost} if cost else {})
    provider = {"baseUrl": "http://192.0.2.1/v1", "api": "openai-completions", "apiKey": "k", "models": [model]}
    settings = ModelsSettings.model_validate({"mode": "replace", "providers": {"box": provider}})
    (found,) = (one for one in offers(settings, {}, prices=prices) if one.name == "box/m")
    assert (found.input_price, found.output_price) == shown
    assert found.title == "Emma"
