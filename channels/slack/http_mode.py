"""Receives events as HTTP requests from Slack: verifies the signature, and answers after the event is stored.

https://docs.slack.dev/authentication/verifying-requests-from-slack. Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import Clock as SignatureClock
from slack_sdk.signature import SignatureVerifier

from channels.common.event_guard import EventGuard
from channels.common.log import Log
from channels.common.recent import Recent
from channels.protocol import Clock, HookAnswer, HookRequest, InboundSink
from channels.slack.api_errors import TROUBLE, refusal
from channels.slack.receiving import Receiver
from channels.slack.settings import ASK_EVERY, SlackAccount

if TYPE_CHECKING:
    from slack_bolt.response import BoltResponse
    from slack_sdk.web.async_client import AsyncWebClient

MOST_TAKEN = 5000
"""Requests that are remembered; more of them in five minutes are still known by what they say."""
ASTRAY_SECONDS = 60
"""How wrong the clock may be before it is told; requests may be five minutes old."""
_STAMP, _SIGNATURE, _RETRY = "x-slack-request-timestamp", "x-slack-signature", "x-slack-retry-num"


class _SlackTime(SignatureClock):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now().timestamp()


class Signature:
    """Verifies requests from Slack: signed with the app's secret at most five minutes ago, and not handled before.

    Slack signs a repeated request again, so a signature that comes a second time is a replay.
    """

    def __init__(self, settings: SlackAccount, clock: Clock) -> None:
        self._verifier = SignatureVerifier(settings.secret("signing_secret"), clock=_SlackTime(clock))
        self._taken: Recent[str, bool] = Recent(MOST_TAKEN)

    def taken(self, headers: Mapping[str, str]) -> None:
        """Record that a request was handled, so that a replay is rejected."""
        self._taken.put(headers.get(_SIGNATURE, ""), True)  # noqa: FBT003 - a mark, not a switch

    def fits(self, body: bytes, headers: Mapping[str, str]) -> bool:
        """Say whether the raw body is Slack's own."""
        stamp, signature = headers.get(_STAMP, ""), headers.get(_SIGNATURE, "")
        if not (stamp.isascii() and stamp.isdigit() and signature.isascii()) or self._taken.get(signature):
            return False
        try:
            return self._verifier.is_valid(body, stamp, signature)
        except UnicodeDecodeError:
            return False


def astray(headers: Mapping[str, str], clock: Clock) -> str:
    """Return what is wrong with the clock, by the time that Slack's answer names; nothing while signed requests can be judged by it."""
    try:
        there = parsedate_to_datetime(headers.get("Date", ""))
    except (TypeError, ValueError):
        return ""
    seconds = (clock.now() - there).total_seconds() if there.tzinfo else 0
    if abs(seconds) < ASTRAY_SECONDS:
        return ""
    return (
        f"this machine's clock is {abs(seconds):.0f} seconds {'ahead of' if seconds > 0 else 'behind'} Slack's, and requests that seem "
        "more than five minutes old or ahead are refused as forged: set the clock (timedatectl set-ntp true)"
    )


class Hook:
    """One app's ear for requests, while ``run`` runs."""

    def __init__(
        self, settings: SlackAccount, web: AsyncWebClient, receiver: Receiver, sink: InboundSink, log: Log, *, account: str
    ) -> None:
        self._settings = settings
        self._web = web
        self._receiver = receiver
        self._sink = sink
        self._log = log
        self._guard = EventGuard(log, account)

    async def run(self) -> None:
        """Read on, then ask now and then whether Slack is there. Raises ChannelBroken when it refuses the token."""
        await self._receiver.begin()
        self._receiver.catch_up(self._sink.ready)
        self._sink.alive()
        while not (await asyncio.wait([self._receiver.broken], timeout=self._settings.ping_seconds))[0]:
            self._receiver.fill_gap()
            await self._ask()
        self._receiver.broken.result()

    async def _ask(self) -> None:
        if (await asyncio.wait([self._receiver.broken], timeout=self._settings.ping_seconds * (ASK_EVERY - 1)))[0]:
            return
        try:
            await self._web.auth_test()
        except SlackApiError as error:
            refused = refusal(error, self._settings, "bot_token")
            if refused is not None:
                raise refused from error
        except TROUBLE as error:
            self._log.info("slack does not answer", error=type(error).__name__)
        else:
            self._sink.alive()

    async def hear(self, request: HookRequest) -> HookAnswer:
        """Handle one request with a valid signature, and return the response."""
        if _RETRY in request.headers:
            self._log.info("slack delivers an event again", attempt=request.headers[_RETRY][:3])
        with self._guard.reading({}):
            bolt = AsyncBoltRequest(
                body=request.body.decode(),
                query=request.query,
                headers={key: [value] for key, value in request.headers.items()},
            )
            return self._answer(await self._receiver.dispatch(bolt))
        return HookAnswer(status=400, body=b"not an event")

    def _answer(self, answer: BoltResponse) -> HookAnswer:
        self._sink.alive()
        headers = {key: values[0] for key, values in answer.headers.items() if key.lower() == "content-type" and values}
        return HookAnswer(status=answer.status, body=(answer.body or "").encode(), headers=headers)
