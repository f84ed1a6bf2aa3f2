"""The device is verified by emoji with that of a person, who follows the specification by code of their own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
import vodozemac

from channels.matrix.device_files import DeviceFiles
from channels.matrix.emoji import EMOJI
from channels.testing.harness import running
from tests.matrix.stage import RealStage
from tests.peers.matrix_state import relates

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.matrix.middleman import Middleman
    from tests.matrix.people import Person
    from tests.matrix.synapse import Synapse

KIND = "m.key.verification."


class Phone:
    """Begins a verification as a client does, in a private chat or over device messages."""

    def __init__(self, person: Person, other: str, room: str) -> None:
        self.person = person
        self.other = other
        self.room = room
        self.id = "of-a-phone"
        self.device = person.client.device_id
        self.sas = vodozemac.Sas()
        self.their_device = ""

    async def say(self, kind: str, content: dict[str, Any]) -> str:
        if self.room:
            more = {"m.relates_to": {"rel_type": "m.reference", "event_id": self.id}} if kind != "request" else {}
            name = "m.room.message" if kind == "request" else KIND + kind
            return await self.person.send(self.room, {**content, **more}, name)
        told = {"messages": {self.other: {self.their_device or "*": {**content, "transaction_id": self.id}}}}
        self.person.ask("PUT", f"/_matrix/client/v3/sendToDevice/{KIND}{kind}/{kind}1", told)
        return self.id

    async def heard(self, kind: str) -> dict[str, Any]:
        while True:
            self.person.pull()
            for event in self._events():
                if event["type"] == KIND + kind and event["sender"] == self.other:
                    return dict(event["content"])
            await asyncio.sleep(0.1)

    def _events(self) -> list[dict[str, Any]]:
        if not self.room:
            return self.person.to_device
        return [one for one in self.person.events[self.room] if relates(one).get("event_id") == self.id]

    async def begin(self) -> dict[str, Any]:
        asked = {"from_device": self.device, "methods": ["m.sas.v1"], "timestamp": 1}
        if self.room:
            asked |= {"msgtype": f"{KIND}request", "body": "verify me", "to": self.other}
        self.id = await self.say("request", asked)
        ready = await self.heard("ready")
        assert ready["methods"] == ["m.sas.v1"]
        self.their_device = ready["from_device"]
        start = {
            "from_device": self.device,
            "method": "m.sas.v1",
            "key_agreement_protocols": ["curve25519-hkdf-sha256"],
            "hashes": ["sha256"],
            "message_authentication_codes": ["hkdf-hmac-sha256.v2", "hkdf-hmac-sha256"],
            "short_authentication_string": ["decimal", "emoji"],
        }
        await self.say("start", start)
        whole = {**start, "m.relates_to": {"rel_type": "m.reference", "event_id": self.id}}
        return whole if self.room else {**start, "transaction_id": self.id}

    async def compare(self, start: dict[str, Any]) -> list[tuple[str, str]]:
        accepted = await self.heard("accept")
        mine = self.sas.public_key.to_base64()
        await self.say("key", {"key": mine})
        theirs = (await self.heard("key"))["key"]
        hashed = hashlib.sha256(theirs.encode() + json.dumps(start, separators=(",", ":"), sort_keys=True).encode()).digest()
        assert accepted["commitment"] == base64.b64encode(hashed).decode().rstrip("=")
        self.secret = self.sas.diffie_hellman(vodozemac.Curve25519PublicKey.from_base64(theirs))
        us = f"{self.person.user}|{self.device}|{mine}"
        info = f"MATRIX_KEY_VERIFICATION_SAS|{us}|{self.other}|{self.their_device}|{theirs}|{self.id}"
        return [EMOJI[index] for index in self.secret.bytes(info).emoji_indices]

    async def vouch(self, key: str) -> None:
        info = f"MATRIX_KEY_VERIFICATION_MAC{self.person.user}{self.device}{self.other}{self.their_device}{self.id}"
        name = f"ed25519:{self.device}"
        code = self.secret.calculate_mac(key, info + name)
        await self.say("mac", {"mac": {name: code}, "keys": self.secret.calculate_mac(name, info + "KEY_IDS")})


async def until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not look():  # noqa: ASYNC110 - files and properties tell nobody
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(("in_room", "honest"), [(True, True), (False, True), (False, False)])
async def test_a_person_compares_emoji_and_a_wrong_key_is_seen(
    in_room: bool, honest: bool, homeserver: Synapse, middleman: Middleman, tmp_path: Path
) -> None:
    stage = await RealStage.made(homeserver, middleman, tmp_path, encrypted=True)
    anna, tools = stage.cast.anna, DeviceFiles(stage.folder)
    try:
        async with asyncio.timeout(120), running(stage):
            phone = Phone(anna, stage.cast.bot, stage.private if in_room else "")
            emoji = await phone.compare(await phone.begin())
            await until(lambda: tools.verification().get("state") == "compare")
            shown = tools.verification()
            assert [tuple(one) for one in shown["emoji"]] == emoji
            tools.answer(shown["id"], same=True)
            key = anna.client.olm.account.identity_keys["ed25519"]
            await phone.vouch(key if honest else key[::-1])
            await phone.heard("done" if honest else "cancel")
            await until(lambda: tools.verification()["state"] == ("done" if honest else "cancelled"))
            if honest:
                mac = await phone.heard("mac")
                info = f"MATRIX_KEY_VERIFICATION_MAC{stage.cast.bot}{phone.their_device}{anna.user}{phone.device}{phone.id}"
                name = f"ed25519:{phone.their_device}"
                assert mac["mac"][name] == phone.secret.calculate_mac(tools.facts()["fingerprint"], info + name)
    finally:
        await stage.close()


async def test_an_undecryptable_message_waits_over_a_restart_and_is_read_when_its_key_comes(
    homeserver: Synapse, middleman: Middleman, tmp_path: Path
) -> None:
    stage = await RealStage.made(homeserver, middleman, tmp_path, encrypted=True)
    anna, client = stage.cast.anna, stage.cast.anna.client
    try:
        cursors: dict[str, str] = {}
        async with running(stage, cursors) as run:
            await stage.say("before")
            await run.sink.until(lambda: "before" in run.sink.texts, "the first message arrived")
            people = list(client.rooms[stage.private].users)
            held = [
                told
                for _, told in client.olm.share_group_session_parallel(stage.private, people, ignore_unverified_devices=True)
            ]
            client.olm.outbound_group_sessions[stage.private].shared = True  # the key is on its way, and late
            await stage.say("sealed")
            await until(lambda: bool(run.channel.remarks()))
            assert "sealed" not in run.sink.texts
        async with running(stage, cursors) as run:
            assert "cannot be read yet" in " ".join(run.channel.remarks())
            for number, told in enumerate(held):
                anna.ask("PUT", f"/_matrix/client/v3/sendToDevice/m.room.encrypted/late{number}", told)
            await run.sink.until(lambda: "sealed" in run.sink.texts, "the sealed message was read")
            await stage.say("after")
            await run.sink.until(lambda: "after" in run.sink.texts, "the next one too")
            assert run.sink.texts == ["sealed", "after"]
            assert run.channel.remarks() == []
        assert anna.user == run.sink.messages[0].sender.id
    finally:
        await stage.close()
