"""Keys that come while the house runs are hidden from their first moment on, wherever they come from."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import Failure
from agent.models.catalog.provider_keys import Key
from agent.models.failures import answer_with
from agent.models.middleware.key_health import KeyHealth
from agent.models.middleware.key_rotation import KeyRotationMiddleware
from agent.models.scripted import ScriptedModel
from channels.errors import ChannelBroken
from gateway.base.clock import SystemClock
from gateway.logs.log_setup import configure
from gateway.logs.redaction import Redactor
from gateway.models.key_profiles import Profile, Profiles
from gateway.settings.auth_settings import AuthSettings
from gateway.settings.root import LoggingSettings
from tests.models.conversation import ask, user
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.logs.log_setup import Closer
    from tests.reload.place import Place

log = logging.getLogger("gateway.test")


@pytest.fixture
def logs(place: Place) -> Iterator[Closer]:
    with configure(LoggingSettings(), place.paths, Redactor(), console=False) as closer:
        yield closer


def written(place: Place, logs: Closer) -> str:
    logs.close()
    return (place.paths.logs / "homebody.jsonl").read_text()


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        (
            {"models": {"providers": {"mine": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "sk-taken-at-once"}}}},
            "sk-taken-at-once",
        ),
        ({"gateway": {"auth": {"token": "a-token-that-waits-for-a-restart"}}}, "a-token-that-waits-for-a-restart"),
        (
            {"channels": {"plugins": {"ostrich": {}}}, "models": {"providers": {"mine": {"apiKey": "sk-of-refused-settings"}}}},
            "sk-of-refused-settings",
        ),
    ],
    ids=["taken", "waiting", "refused"],
)
async def test_a_key_in_changed_settings_is_hidden_before_anything_is_done_with_it(
    place: Place, logs: Closer, given: dict[str, Any], secret: str
) -> None:
    async with place.open(logs=logs) as house:
        place.write(given)
        await house.reload.now()
        log.info("after: %s", secret)
    events = [json.loads(line)["event"] for line in written(place, logs).splitlines()]
    assert "after: [secret]" in events


async def test_a_key_in_a_file_that_the_settings_name_is_hidden(place: Place, logs: Closer) -> None:
    keys = place.root / "key.txt"
    keys.write_text("sk-of-a-file")
    async with place.open(logs=logs) as house:
        place.write({"models": {"providers": {"mine": {"apiKey": f"file:{keys}", "baseUrl": "http://127.0.0.1:9/v1"}}}})
        await house.reload.now()
        keys.write_text("sk-of-a-file-renewed")
        await house.reload.now()
        log.info("sk-of-a-file sk-of-a-file-renewed")
    assert '"event": "[secret] [secret]"' in written(place, logs)


async def test_a_key_added_to_a_profile_is_hidden_when_it_is_first_used(place: Place, logs: Closer) -> None:
    async with place.open(logs=logs) as house:
        elsewhere = Profiles(place.paths, AuthSettings())  # the command line's
        elsewhere.file("main").put(Profile("anthropic:new", "anthropic", "api_key", "sk-added-meanwhile"))
        assert [key.secret for key in house.model_registry.key_source("main")("anthropic")] == ["sk-added-meanwhile"]
        log.info("it says sk-added-meanwhile")
    assert "it says [secret]" in written(place, logs)


async def test_a_token_file_that_was_written_anew_is_read_before_its_channel_is(
    place: Place, logs: Closer, pigeons: Any
) -> None:
    token = place.root / "token"
    token.write_text("the-first-token")
    runs = []

    async def run(self: Any, door: Any) -> None:
        runs.append(token.read_text())
        log.info("connecting with %s", token.read_text())
        token.write_text("the-second-token")
        if len(runs) > 1:
            raise ChannelBroken("enough")
        raise RuntimeError("it does not answer")

    pigeons.run = run
    plugin = {"pigeon": {"settings": {"loft": "north"}}}
    place.write({"channels": {"plugins": plugin, "telegram": {"enabled": False, "tokenFile": str(token)}}})
    async with place.open(serving=True, logs=logs), asyncio.timeout(PATIENCE):
        while len(runs) < 2:
            place.clock.move(1)
            await asyncio.sleep(0.01)
    told = written(place, logs)
    assert runs == ["the-first-token", "the-second-token"]
    assert told.count("connecting with [secret]") == 2
    assert "second-token" not in told


async def test_a_provider_that_repeats_the_key_it_refuses_shows_it_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    key = Key("profile x", "profile", "sk-repeated-by-the-provider")
    failure = Failure(kind="auth", message=f"no such key: {key.secret}")
    refusing = ScriptedModel(lambda _: answer_with(failure, model="scripted/one"), name="scripted/one")
    keyed = KeyRotationMiddleware(lambda: [key], lambda _: refusing, KeyHealth(SystemClock()))
    parts = [part async for part in keyed.stream(ask(user("hello")))]
    assert parts[-1].failure.message == "no such key: [secret]"
    assert key.secret not in caplog.text
