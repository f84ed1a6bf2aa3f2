"""The account's identity confirms its device, on a real homeserver; what it signed is checked with another library than the product's."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import vodozemac

from channels.errors import ChannelError
from channels.matrix.device_files import DeviceFiles, stored
from channels.testing.harness import running
from tests.matrix.stage import RealStage
from tests.matrix.synapse import PASSWORD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.matrix.middleman import Middleman
    from tests.matrix.synapse import Synapse


def told_of(root: str, token: str, user: str) -> dict[str, Any]:
    """What the homeserver tells everybody of somebody's keys."""
    request = urllib.request.Request(f"{root}/_matrix/client/v3/keys/query", method="POST")  # noqa: S310 - loopback
    request.data = json.dumps({"device_keys": {user: []}}).encode()
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        return dict(json.loads(response.read()))


def signers(content: dict[str, Any], user: str) -> set[str]:
    """Return by whose keys an object is signed, each signature checked."""
    plain = {key: value for key, value in content.items() if key not in {"signatures", "unsigned"}}
    said = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    found = set()
    for name, signature in content["signatures"][user].items():
        key = name.removeprefix("ed25519:")
        if len(key) > 20:  # by an identity, and not by the device itself
            public = vodozemac.Ed25519PublicKey.from_base64(key)
            public.verify_signature(said, vodozemac.Ed25519Signature.from_base64(signature))
            found.add(key)
    return found


async def test_a_new_identity_and_later_its_recovery_key_confirm_the_device(
    homeserver: Synapse, middleman: Middleman, tmp_path: Path
) -> None:
    stage = await RealStage.made(homeserver, middleman, tmp_path, encrypted=True)
    anna, user, files = stage.cast.anna, stage.cast.bot, DeviceFiles(stage.folder)
    shown: list[str] = []
    try:
        with pytest.raises(ChannelError, match="no cross-signing identity"):
            await asyncio.to_thread(files.confirm, "EsTj 3yST y93F SLpB jJsz eAXc 2XzA ygD3 w69H fGaN TKBj jXEd")
        assert not files.facts()["crossSigned"]
        await asyncio.to_thread(files.make_identity, lambda: PASSWORD, shown.append)
        assert files.facts()["crossSigned"]
        with pytest.raises(ChannelError, match="has a cross-signing identity"):
            await asyncio.to_thread(files.make_identity, lambda: PASSWORD, shown.append)
        [recovery] = shown

        files.forget()
        assert not files.facts()["crossSigned"]
        with pytest.raises(ChannelError, match="no keys yet"):
            await asyncio.to_thread(files.confirm, recovery)
        async with asyncio.timeout(60), running(stage):
            while not files.facts()["fingerprint"]:  # noqa: ASYNC110 - files tell nobody
                await asyncio.sleep(0.1)
            with pytest.raises(ChannelError, match="not accepted"):
                await asyncio.to_thread(files.confirm, recovery[:-1] + ("x" if recovery[-1] != "x" else "y"))
            await asyncio.to_thread(files.confirm, recovery)
        assert files.facts()["crossSigned"]

        told = await asyncio.to_thread(told_of, homeserver.root, str(anna.client.access_token), user)
        [master], [signing] = (list(told[part][user]["keys"].values()) for part in ("master_keys", "self_signing_keys"))
        device = stored(stage.folder)
        assert device is not None
        assert signers(told["self_signing_keys"][user], user) == {master}
        assert signers(told["device_keys"][user][device.device], user) == {signing}
    finally:
        await stage.close()
