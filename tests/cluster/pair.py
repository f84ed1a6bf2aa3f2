"""Two gateways of one cluster as real processes on a real PostgreSQL, and what people do with them: commands, a page, webhooks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from tests import programs
from tests.patience import PATIENCE
from tests.peers.between import Certificates, certificates
from tests.peers.whatsapp import APP_SECRET, NUMBER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LEASE = 6.0
VERIFY = "a word for Meta"
NAMES = ("kitchen", "cellar")


@dataclass
class Pair:
    """The home that both share, and the programs. ``kitchen`` holds anna, ``cellar`` holds bob and the WhatsApp account."""

    root: Path
    url: str
    running: dict[str, programs.Program] = field(default_factory=dict)
    certificates: Certificates = field(init=False)
    """The gateways take the authority of these for theirs."""
    _pages: dict[int, Page] = field(default_factory=dict)
    _bases: dict[int, str] = field(default_factory=dict)

    def furnish(self) -> None:
        self.certificates = certificates(self.root)
        (self.root / "state").mkdir(mode=0o700)
        (self.root / "person").mkdir()
        settings: dict[str, Any] = {
            "gateway": {"port": 0, "page": {"enabled": True}, "openai": {"enabled": True}},
            "storage": {"url": self.url},
            "cluster": {"enabled": True, "leaseSeconds": LEASE},
            "messages": {"queue": {"mode": "followup", "debounceMs": 0}},
            "agents": {
                "defaults": {"userTimezone": "UTC", "skipBootstrap": True, "memorySearch": {"enabled": False}},
                "list": [{"id": name, "workspace": str(self.root / f"workspace-{name}")} for name in ("anna", "bob")],
            },
            "bindings": [{"agentId": "bob", "match": {"channel": "whatsapp"}}],
            "channels": {
                "whatsapp": {
                    "phoneNumberId": NUMBER_ID,
                    "accessToken": "EAA-of-a-test-that-asks-nobody",
                    "appSecret": APP_SECRET,
                    "verifyToken": VERIFY,
                    "apiRoot": "http://127.0.0.1:9",
                    "allowFrom": ["4915123456789"],
                }
            },
        }
        file = self.root / "state" / "homebody.json"
        file.write_text(json.dumps(settings))
        file.chmod(0o600)

    def env(self, name: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "person"),
            "HOMEBODY_HOME": str(self.root / "state"),
            "HOMEBODY_GATEWAY": name,
            "SSL_CERT_FILE": str(self.certificates.authority),
            "TZ": "UTC",
        }

    def start(self, name: str) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self.running[name] = programs.start(
                [sys.executable, "-m", "gateway", "gateway"],
                env=self.env(name),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        self.running[name].send_signal(number)
        self.running.pop(name).wait()

    def run(self, name: str, *words: str, code: int = 0) -> str:
        """Run a command at a gateway, and return what it prints on both streams."""
        program = programs.start(
            [sys.executable, "-m", "gateway", *words],
            env=self.env(name),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, _ = program.communicate()
        assert program.returncode == code, said
        return str(said)

    def facts(self, name: str, *words: str) -> Any:
        return json.loads(self.run(name, *words, "--json"))

    def base(self, name: str) -> str:
        pid = self.running[name].pid
        if pid not in self._bases:
            self._bases[pid] = f"http://127.0.0.1:{self.facts(name, 'status')['httpPort']}"
        return self._bases[pid]

    def page(self, name: str) -> Page:
        """Return a browser at a gateway, let in by a code that the other one made."""
        pid = self.running[name].pid
        if pid not in self._pages:
            self._pages[pid] = Page(self, name, next(one for one in NAMES if one != name))
        return self._pages[pid]

    def close_pages(self) -> None:
        for page in self._pages.values():
            page.client.close()

    def holders(self) -> dict[str, str | None]:
        """Return who holds what, as the database has it."""
        import psycopg

        query = (
            "SELECT t.token, split_part(h.gateway, '.', 1) FROM cluster_token t "
            "LEFT JOIN cluster_held h ON h.token = t.token AND t.vt > clock_timestamp()"
        )
        with psycopg.connect(self.url, options="-c search_path=homebody") as connection:
            if connection.execute("SELECT to_regclass('cluster_token')").fetchone() == (None,):
                return {}
            return {str(token): gateway for token, gateway in connection.execute(query).fetchall()}

    @contextmanager
    def cellar_at(self, address: str) -> Iterator[None]:
        """Have the other gateways look for cellar at an address."""
        import psycopg

        function = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.address = TG_ARGV[0]; RETURN NEW; END $$"
        when = "BEFORE INSERT OR UPDATE ON cluster_gateway FOR EACH ROW WHEN (NEW.label = 'cellar')"
        with psycopg.connect(self.url, autocommit=True, options="-c search_path=homebody") as connection:
            connection.execute(f"CREATE FUNCTION misled() {function}")
            try:
                connection.execute(f"CREATE TRIGGER misled {when} EXECUTE FUNCTION misled('{address}')")
                connection.execute("UPDATE cluster_gateway SET address = address")
                yield
            finally:
                connection.execute("DROP FUNCTION misled CASCADE")

    def settle(self) -> None:
        """Wait until each has what it is to have."""
        until(lambda: set(self.holders()) >= {"agent:anna", "agent:bob"} and set(self.holders().values()) == set(NAMES))
        for agent, name in (("anna", "kitchen"), ("bob", "cellar")):
            if self.holders()[f"agent:{agent}"] != name:
                self.run(name, "cluster", "move", agent, "--to", name)
        until(lambda: (self.holders()["agent:anna"], self.holders()["agent:bob"]) == NAMES)
        until(lambda: all(set(self.facts(name, "status")["agents"]) == {"anna", "bob"} for name in NAMES))


class Page:
    """A browser at one gateway."""

    def __init__(self, pair: Pair, name: str, code_from: str) -> None:
        base = pair.base(name)
        self.client = httpx.Client(base_url=base, headers={"origin": base}, timeout=PATIENCE, verify=False)
        code = pair.facts(code_from, "open")["url"].partition("#")[2]
        assert self.client.post("/enter", json={"code": code}).status_code == 200
        self.me = self.client.get("/page/me").json()

    def post(self, name: str, /, **arguments: Any) -> httpx.Response:
        return self.client.post(f"/page/call/{name}", json=arguments, headers={"x-homebody-csrf": self.me["csrf"]})

    def call(self, name: str, /, **arguments: Any) -> Any:
        answer = self.post(name, **arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.4)
