"""Synapse on loopback: a real homeserver in a folder of its own, with accounts made by its shared secret."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp

PLACE = Path(__file__).resolve().parents[2] / ".cache" / "synapse"
SERVER = "test.local"
SECRET = "registration-secret-of-the-tests"
PASSWORD = "a password of the tests"
READY_SECONDS = 240
_GENEROUS = {"per_second": 10_000, "burst_count": 10_000}
_CONFIG = """
server_name: test.local
pid_file: {folder}/synapse.pid
listeners:
  - {{port: {port}, bind_addresses: ["127.0.0.1"], type: http, tls: false, resources: [{{names: [client, media], compress: false}}]}}
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
log_config: {folder}/log.yaml
media_store_path: {folder}/media
registration_shared_secret: {secret}
report_stats: false
macaroon_secret_key: macaroon-of-the-tests
form_secret: form-of-the-tests
signing_key_path: {folder}/signing.key
trusted_key_servers: []
suppress_key_server_warning: true
presence: {{enabled: false}}
bcrypt_rounds: 4
rc_message: {limit}
rc_registration: {limit}
rc_joins: {{local: {limit}, remote: {limit}}}
rc_joins_per_room: {limit}
rc_invites: {{per_room: {limit}, per_user: {limit}, per_issuer: {limit}}}
rc_login: {{address: {limit}, account: {limit}, failed_attempts: {limit}}}
rc_room_creation: {limit}
rc_reports: {limit}
"""
_LOG = """
version: 1
formatters: {plain: {format: "%(asctime)s %(levelname)s %(name)s %(message)s"}}
handlers: {file: {class: logging.FileHandler, formatter: plain, filename: "FOLDER/synapse.log"}}
root: {level: WARNING, handlers: [file]}
disable_existing_loggers: false
"""


def installed() -> bool:
    return (PLACE / "installed").exists()


@dataclass
class Synapse:
    """One homeserver. ``async with`` starts it; it can be stopped and started again at the same port."""

    folder: Path
    port: int = 0
    limit: dict[str, Any] = field(default_factory=lambda: dict(_GENEROUS))
    _process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self.port = self.port or _free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        config = _CONFIG.format(folder=self.folder, port=self.port, secret=SECRET, limit=_flow(self.limit))
        (self.folder / "homeserver.yaml").write_text(config)
        (self.folder / "log.yaml").write_text(_LOG.replace("FOLDER", str(self.folder)))
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        command = [PLACE / "bin" / "python", "-m", "synapse.app.homeserver", "-c", self.folder / "homeserver.yaml"]
        if not (self.folder / "signing.key").exists():
            await asyncio.to_thread(
                subprocess.run, [*command, "--generate-keys"], check=True, capture_output=True, cwd=self.folder
            )
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - a moment
                command, stdout=output, stderr=output, cwd=self.folder, env={**os.environ, "PYTHONPATH": ""}
            )
        async with asyncio.timeout(READY_SECONDS), aiohttp.ClientSession() as session:
            while True:
                if self._process.poll() is not None:
                    raise AssertionError((self.folder / "output").read_text()[-2000:])
                try:
                    async with session.get(f"{self.root}/_matrix/client/versions") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 60)

    async def register(self, name: str) -> str:
        """Make an account and return its id."""
        where = f"{self.root}/_synapse/admin/v1/register"
        async with aiohttp.ClientSession() as session:
            async with session.get(where) as response:
                nonce = (await response.json())["nonce"]
            parts = f"{nonce}\0{name}\0{PASSWORD}\0notadmin".encode()
            mac = hmac.new(SECRET.encode(), parts, hashlib.sha1).hexdigest()
            asked = {"nonce": nonce, "username": name, "password": PASSWORD, "admin": False, "mac": mac}
            async with session.post(where, json=asked) as response:
                assert response.status == 200, await response.text()
        return f"@{name}:{SERVER}"


def _flow(limit: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in limit.items()) + "}"


def _free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])
