"""Signs an answer to another gateway of the cluster: its status and, where the answer is complete, its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

from gateway.cluster.peer_proof import PROOF, STREAM, Secret, answer_proof, digest_of

if TYPE_CHECKING:
    from starlette.types import Message, Send


class SignedAnswer:
    """Sends what an application answers to the request with ``proof``.

    The head of an answer that says its length waits for the first part of the body. If that is all of it, its digest is signed. Any other
    answer is sent as it comes, and no more than its head is signed. ``bodiless``: the server leaves the body out.
    """

    def __init__(self, send: Send, secret: Secret, proof: str, *, bodiless: bool) -> None:
        self._send = send
        self._secret = secret
        self._proof = proof
        self._bodiless = bodiless
        self._head: Message | None = None

    async def __call__(self, message: Message) -> None:
        """Take one message of the application."""
        if message["type"] == "http.response.start":
            if "content-length" in MutableHeaders(scope=message):
                self._head = message
            else:
                await self._begin(message, STREAM)
            return
        if self._head is not None:
            head, self._head = self._head, None
            body = b"" if self._bodiless else message.get("body", b"")
            await self._begin(head, STREAM if message.get("more_body", False) else digest_of(body))
        await self._send(message)

    async def _begin(self, head: Message, digest: str) -> None:
        MutableHeaders(scope=head)[PROOF] = await answer_proof(self._secret, self._proof, head["status"], digest)
        await self._send(head)
