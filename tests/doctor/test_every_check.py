"""Each check is shown a fault that it must find; one without a fault here fails."""

from __future__ import annotations

import inspect
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from channels.messages import ChatAddress
from gateway.base.clock import SystemClock
from gateway.doctor.checks import CHECKS, QUICK
from gateway.doctor.finding import worst
from gateway.doctor.security.audit import AUDIT
from gateway.ledger.sqlite import SqliteLedger
from tests.doctor.conftest import House, program, said

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from gateway.doctor.finding import Check

Fault = Callable[[House], "AbstractContextManager[Any] | Awaitable[None] | None"]


def settings(**sections: Any) -> Fault:
    return lambda house: house.set(**sections)


def written(name: str, text: str, mode: int = 0o600) -> Fault:
    def work(house: House) -> None:
        path = house.person / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    return work


def taken_port(house: House) -> AbstractContextManager[Any]:
    other = socket.socket()
    other.bind(("127.0.0.1", house.given["gateway"]["port"]))
    other.listen()
    return closing(other)


def repository_in_itself(house: House) -> None:
    remote = str(house.person / "homebody" / "all.git")
    house.set(agents={"defaults": {"workspaceStore": {"type": "git", "remote": remote}}})


@contextmanager
def file_of_the_future(house: House) -> Iterator[None]:
    path = house.state / "from-the-future"
    path.write_text("")
    later = time.time() + 9 * 86_400
    os.utime(path, (later, later))
    yield


def torn(house: House) -> None:
    with house.transcript.open("ab") as file:
        file.write(b"half")


def hooked(house: House) -> None:
    assert program("hooks", "add", "alarm", "--instruction", "Tell me.", home=house.person).returncode == 0


async def approved_guest(house: House) -> None:
    ledger = await SqliteLedger.open(house.state / "ledger.sqlite", SystemClock())
    here = ChatAddress.parse("telegram:default:direct:4711")
    await ledger.pairing.request(here, "4711", "Ann", "ABCD2345", "code")
    await ledger.pairing.approve("telegram", "ABCD2345", "peer", "hello")
    await ledger.close()


def _error() -> str:
    return f'{{"at": "{datetime.now(UTC).isoformat()}", "level": "error", "event": "it burns"}}\n'


TOKEN = "123456789:AAGYxQpzj-kd83jsd_Kd9sDkfWqpzRt48Gh"
UNIT = "[Service]\nExecStart=%h/.local/bin/homebody gateway\n"
SKILL = "---\nname: plants\ndescription: Waters the plants.\n---\nWater them.\n"
FAULTS: dict[str, Fault] = {
    "settings": settings(gateway={"prot": 1}),
    "gateway": lambda house: (house.state / "gateway.sock").symlink_to("/nowhere"),
    "permissions": lambda house: house.transcript.chmod(0o000),
    "state": written(".homebody/auth-profiles.json", "{"),
    "ledger": written(".homebody/state/ledger.sqlite", "no database, but a text"),
    "backups": written(".homebody/backups/homebody-20200101T000000Z.tar.gz", "no backup"),
    "transcripts": torn,
    "memory": written("homebody/memory/2026-02-04.md", "\0\0\0\0 no text"),
    "cluster": settings(cluster={"enabled": True}),
    "workspaces": repository_in_itself,
    "crashes": written(".homebody/state/starts.json", f"[[{time.time() - 90}, false, 0], [{time.time() - 60}, true, 0]]"),
    "keys": settings(agents={"defaults": {"model": "openai/gpt-6.1-terra"}}),
    "channels": settings(channels={"telegram": {"botToken": "1:a", "dmPolicy": "open"}}),
    "sandbox": settings(tools={"exec": {"sandbox": "off"}}),
    "port": taken_port,
    "clock": file_of_the_future,
    "packages": written("gateway.py", ""),
    "service": written(".config/systemd/user/homebody.service", UNIT),
    "logs": written(".homebody/logs/homebody.jsonl", _error()),
    "listeners": settings(gateway={"bind": "lan"}),
    "token": written(".homebody/state/gateway.token", "short"),
    "api": lambda house: program("api", "tokens", "add", "editor", "--owner", home=house.person) and None,
    "webhooks": hooked,
    "people": settings(channels={"telegram": {"botToken": TOKEN, "allowFrom": ["*"]}}),
    "guests": approved_guest,
    "commands": settings(tools={"exec": {"security": "full"}}),
    "rules": settings(approvals={"rules": [{"decision": "allow", "tool": "mail"}]}),
    "mcp": settings(mcp={"servers": {"box": {"command": "/bin/true"}}}),
    "skills": written(".homebody/skills/plants/SKILL.md", SKILL),
    "plugins": settings(channels={"plugins": {"linechat": {}}}),
    "secret-files": written(".config/homebody.env", "KEY=x\n", 0o644),
    "inline-secrets": settings(channels={"telegram": {"botToken": TOKEN}}),
    "encryption": settings(models={"providers": {"box": {"baseUrl": "http://203.0.113.7/v1"}}}),
}
ELSEWHERE = {
    "disk": "test_files.py: a full disk is mounted",
    "dns": "test_machine.py: a name server of its own",
    "extras": "test_machine.py: Python without a package",
}


def every_check() -> dict[str, Check]:
    return {check.name: check for check in (*CHECKS, *AUDIT)}


def test_every_check_has_a_fault_and_none_has_two_places() -> None:
    assert set(FAULTS) | set(ELSEWHERE) == set(every_check())
    assert not set(FAULTS) & set(ELSEWHERE)


def test_the_quick_checks_ask_no_other_machine() -> None:
    assert QUICK
    assert not [check for check in QUICK if check.online]


@pytest.mark.parametrize("name", FAULTS)
async def test_a_check_finds_its_fault(house: House, name: str) -> None:
    check = every_check()[name]
    before = await house.found(check)
    assert worst(before) in {"ok", "note"} or name == "sandbox", said(before)
    made = FAULTS[name](house)
    if inspect.isawaitable(made):
        made = await made
    with made if hasattr(made, "__enter__") else nullcontext():  # type: ignore[union-attr]  # it is a context where it has the method
        after = await house.found(check)
    new = [one for one in after if (one.level, one.what) not in {(old.level, old.what) for old in before}]
    assert worst(new) in {"note", "warning", "error"}, said(after)
    assert not [one for one in new if one.what.startswith(("not checked", "could not be checked", "not finished"))], said(new)
    assert all(one.mend for one in new if one.level in {"warning", "error"}), said(new)
