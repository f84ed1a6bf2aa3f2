"""A small user manager of systemd: a program `systemctl` that takes the commands we use, as strictly as the real one.

It really starts what a unit says, with its environment, and waits for READY=1 on the notification socket, as for ``Type=notify``.
What runs is remembered in files of XDG_RUNTIME_DIR; the units are those of XDG_CONFIG_HOME/systemd/user.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STATE = Path(os.environ.get("XDG_RUNTIME_DIR", "."))
UNITS = Path(os.environ.get("XDG_CONFIG_HOME", ".")) / "systemd" / "user"
START_SECONDS, STOP_SECONDS = 120.0, 60.0


def fail(text: str, code: int = 1) -> None:
    raise SystemExit(code)


class Unit:
    def __init__(self, name: str) -> None:
        self.name = name
        self.file = UNITS / name
        self.pid_file, self.loaded, self.enabled = (STATE / f"{name}.{what}" for what in ("pid", "loaded", "enabled"))

    def facts(self) -> list[tuple[str, str]]:
        if not self.loaded.exists():
            fail(f"Failed to start {self.name}: Unit {self.name} not found.", 5)
        lines = [line for line in self.loaded.read_text().splitlines() if line and not line.startswith(("#", "["))]
        return [tuple(line.split("=", 1)) for line in lines]  # type: ignore[misc]

    def value(self, key: str) -> str:
        return next((value for name, value in self.facts() if name == key), "")

    def environment(self) -> dict[str, str]:
        set_ = {}
        for key, value in self.facts():
            if key == "Environment":
                name, _, text = shlex.split(value)[0].partition("=")
                set_[name] = text.replace("%%", "%")
        return set_

    @property
    def pid(self) -> int:
        try:
            pid = int(self.pid_file.read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (OSError, ValueError):
            return 0
        return 0 if state == "Z" else pid

    def start(self) -> None:
        if self.pid:
            return
        if self.value("Type") != "notify":
            fail("this peer knows Type=notify alone")
        folder = tempfile.TemporaryDirectory()  # of a name that is short enough for a socket
        address = Path(folder.name) / "notify"
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        heard.bind(str(address))
        watchdog = str(int(float(self.value("WatchdogSec")) * 1e6))
        env = {"HOME": os.environ["HOME"], "INVOCATION_ID": "1", "NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": watchdog}
        command = [part.replace("%%", "%").replace("$$", "$") for part in shlex.split(self.value("ExecStart"))]
        log = (STATE / f"{self.name}.log").open("ab")
        process = subprocess.Popen(
            command, env=env | self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        self.pid_file.write_text(str(process.pid))
        heard.settimeout(0.2)
        ends, messages = time.monotonic() + START_SECONDS, []
        while not any("READY=1" in message for message in messages):
            if process.poll() is not None or time.monotonic() > ends:
                process.kill()
                fail(f"Job for {self.name} failed. See journalctl.")
            try:
                messages.append(heard.recv(4096).decode())
            except TimeoutError:
                continue
        (STATE / f"{self.name}.heard").write_text("\n".join(messages))
        folder.cleanup()

    def stop(self) -> None:
        pid = self.pid
        if not pid:
            return
        os.kill(pid, signal.SIGTERM)
        ends = time.monotonic() + STOP_SECONDS
        while self.pid:
            if time.monotonic() > ends:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def reload() -> None:
    for old in STATE.glob("*.loaded"):
        old.unlink()
    for file in UNITS.glob("*.service"):
        (STATE / f"{file.name}.loaded").write_text(file.read_text())


def show(unit: Unit, rest: list[str]) -> None:
    pid = unit.pid
    facts = {
        "ActiveState": "active" if pid else "inactive",
        "UnitFileState": "enabled" if unit.enabled.exists() else "disabled",
        "MainPID": str(pid),
    }
    [asked] = [one.partition("=")[2].split(",") for one in rest if one.startswith("--property=")]
    sys.stdout.write("".join(f"{name}={facts[name]}\n" for name in asked))


def enable(unit: Unit, _rest: list[str]) -> None:
    if not unit.value("WantedBy"):
        fail("The unit files have no installation config")
    unit.enabled.touch()


def disable(unit: Unit, rest: list[str]) -> None:
    unit.enabled.unlink(missing_ok=True)
    if "--now" in rest:
        unit.stop()


def restart(unit: Unit, _rest: list[str]) -> None:
    unit.stop()
    unit.start()


VERBS = {
    "show": show,
    "enable": enable,
    "disable": disable,
    "restart": restart,
    "start": lambda unit, _rest: unit.start(),
    "stop": lambda unit, _rest: unit.stop(),
}


def main(arguments: list[str]) -> None:
    if arguments[:1] != ["--user"]:
        fail("Failed to connect to bus: this peer is a user manager, and --user is missing")
    verb, *rest = arguments[1:]
    if verb == "daemon-reload":
        reload()
        return
    if verb not in VERBS:
        fail(f"Unknown command verb '{verb}'.")
    [name] = [one for one in rest if not one.startswith("--")]
    VERBS[verb](Unit(name), rest)


if __name__ == "__main__":
    main(sys.argv[1:])
