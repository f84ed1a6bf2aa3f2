"""A key that is missing is asked for at the account's other device, which was there when it was given out."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from channels.common.log import NoLog
from channels.matrix.device_files import Device
from channels.matrix.encryption import Encryption
from channels.matrix.settings import MatrixSettings
from channels.testing import FastClock
from tests.matrix.people import V3, Person
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.matrix.synapse import Synapse


class Sealed:
    """The encryption of a device, and the syncs that it is given."""

    def __init__(self, person: Person, encryption: Encryption) -> None:
        self.person = person
        self.encryption = encryption
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._since = ""

    async def sync(self) -> None:
        query = {"timeout": "0", "filter": json.dumps({"room": {"timeline": {"limit": 50}}})}
        told = await asyncio.to_thread(
            self.person.ask, "GET", f"{V3}/sync", **query, **({"since": self._since} if self._since else {})
        )
        self._since = told["next_batch"]
        rooms = told.get("rooms", {}).get("join", {})
        await self.encryption.received(told, rooms=rooms)
        for room, one in rooms.items():
            self.events += [(room, event) for event in one["timeline"]["events"] if event["type"] == "m.room.encrypted"]


async def test_a_missing_key_is_asked_for_once_at_the_account_s_other_device_and_then_opens_the_message(
    homeserver: Synapse, tmp_path: Path
) -> None:
    bot, ann = await homeserver.register("keyless"), await homeserver.register("keygiver")
    laptop, anna, fresh = [
        Person(homeserver.root, user, tmp_path / name) for name, user in (("laptop", bot), ("anna", ann), ("fresh", bot))
    ]
    for person in (laptop, anna):
        await person.sign_in()
    room = await anna.make_room(bot, direct=True, encrypted=True)
    laptop.join(room)
    laptop.pull()
    await anna.say(room, "for the laptop alone")  # the other device is not there yet
    await fresh.sign_in()
    await fresh.client.close()
    assert fresh.client.device_id
    name, token = str(fresh.client.device_id), str(fresh.client.access_token)
    device = Device(server=homeserver.root, user=bot, device=name, token=token)
    settings = MatrixSettings.model_validate({"homeserver": homeserver.root, "userId": bot, "password": "x"})
    # the keys of the device are in the folder in which it signed in
    encryption = await Encryption.open(settings, device, tmp_path / "fresh", clock=FastClock(), log=NoLog(), account="default")
    sealed = Sealed(fresh, encryption)
    try:
        async with asyncio.timeout(PATIENCE):
            await sealed.sync()
            [(where, event)] = sealed.events
            assert encryption.opened(where, event) is None
            await encryption.keys_of(bot, str(laptop.client.device_id))
            encryption.trust(bot, str(laptop.client.device_id))
            laptop.pull()
            await laptop.upkeep()
            laptop.client.verify_device(laptop.client.device_store[bot][device.device])
            await encryption.ask_for_keys()
            await encryption.ask_for_keys()
            while not list(encryption.unlocked()):
                laptop.pull()
                assert laptop.client.olm is not None
                laptop.client.olm.collect_key_requests()  # its library does so with news alone
                await laptop.upkeep()
                await sealed.sync()
            found = encryption.opened(where, event)
            assert found is not None
            assert found["content"]["body"] == "for the laptop alone"
            await encryption.stored()
            assert encryption.remarks() == []
            asked = [
                one for one in laptop.to_device if one["type"] == "m.room_key_request" and one["content"]["action"] == "request"
            ]
            assert len(asked) == 1
    finally:
        await encryption.close()
        for person in (laptop, anna):
            await person.close()
