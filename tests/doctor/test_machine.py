"""Faults of the machine and its network: taken ports, wrong clocks, name servers that lie, foreign packages, stale services."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.doctor.clock_check import CLOCK
from gateway.doctor.confinement_check import SANDBOX
from gateway.doctor.examination import examine
from gateway.doctor.finding import Check, Finding
from gateway.doctor.foreign_packages import PACKAGES
from gateway.doctor.log_checks import LOGS
from gateway.doctor.network_checks import DNS, PORT, listening
from gateway.doctor.service_units import SERVICE, units
from gateway.doctor.state_files import EXTRAS
from tests.doctor.conftest import ROOT, House, program, said
from tests.patience import PATIENCE
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="made by root alone")


async def test_a_usual_machine_is_well(house: House) -> None:
    for check in (PORT, CLOCK, PACKAGES, SERVICE, EXTRAS, LOGS, DNS):
        assert await house.wrong(check) == [], check.name


async def test_a_taken_port_is_told_with_who_has_it(house: House) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", house.given["gateway"]["port"]))
        other.listen()
        (found,) = await house.wrong(PORT)
    assert (found.level, found.where) == ("error", "gateway.port")
    assert f"(process {os.getpid()})" in found.what
    assert "homebody config set gateway.port" in found.mend


async def test_a_gateway_of_a_cluster_takes_another_port_without_a_change_of_the_settings_of_all(house: House) -> None:
    house.set(cluster={"enabled": True})
    with socket.socket() as other:
        other.bind(("127.0.0.1", house.given["gateway"]["port"]))
        other.listen()
        (found,) = await house.wrong(PORT)
    assert "export HOMEBODY_GATEWAY_PORT=" in found.mend


async def test_a_wrong_port_in_the_environment_is_told(house: House) -> None:
    house.env["HOMEBODY_GATEWAY_PORT"] = "many"
    (found,) = await house.wrong(PORT)
    assert "HOMEBODY_GATEWAY_PORT" in found.what + found.mend


def test_listening_sockets_are_read_from_the_kernels_table() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:4966 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n"
        "   1: 0100007F:4967 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 100 0 0 10 0\n"
    )
    assert listening(table) == {"4242": "0100007F:4966"}


@pytest.mark.skipif(shutil.which("faketime") is None and not os.environ.get("CI"), reason="faketime is not installed")
@pytest.mark.parametrize(
    ("moment", "words"), [("2019-04-01 12:00:00", "the clock is wrong: it says 2019-04-01"), ("+0 days", "")]
)
def test_a_clock_that_starts_in_the_past_is_told(house: House, moment: str, words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(house.person), "PYTHONPATH": str(ROOT), "FAKETIME_DONT_RESET": "1"}
    doctor = [sys.executable, "-m", "gateway", "doctor", "--offline", "--only", "clock", "--json"]
    how = ["faketime", *(["-f"] if moment.startswith("+") else []), moment, *doctor]
    run = subprocess.run(how, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=house.person)
    facts = json.loads(run.stdout)
    assert (run.returncode, facts["ok"]) == ((1, False) if words else (0, True)), facts
    assert words in json.dumps(facts)


class DatedServer:
    """A model provider whose clock differs from ours."""

    def __init__(self, ahead: float) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.send_response(200)
                self.end_headers()

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string((timestamp or time.time()) + ahead)

            def log_message(self, *_: object) -> None:
                """Be silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def dated() -> Iterator[type[DatedServer]]:
    made: list[DatedServer] = []

    def make(ahead: float) -> DatedServer:
        made.append(DatedServer(ahead))
        return made[-1]

    yield make  # type: ignore[misc]
    for one in made:
        one.server.shutdown()
        one.server.server_close()


@pytest.mark.parametrize(
    ("ahead", "words"),
    [(30.0, ""), (600.0, "10 minutes behind"), (-7300.0, "122 minutes ahead"), (9 * 86_400.0, "9 days behind")],
)
async def test_a_clock_far_off_is_told_by_what_a_provider_says(
    house: House, dated: type[DatedServer], ahead: float, words: str
) -> None:
    house.env |= {"OPENAI_API_KEY": "sk-test-of-the-doctor", "OPENAI_BASE_URL": dated(ahead).url}
    found = await house.wrong(CLOCK, offline=False)
    assert [words in one.what for one in found] == ([True] if words else [])
    assert await house.wrong(CLOCK) == []


async def test_a_machine_without_a_zone_of_its_own_is_told(house: House) -> None:
    house.set(agents={"defaults": {"userTimezone": "UTC"}})
    assert "the time zone is UTC" in said(await house.found(CLOCK))


class NameServer:
    """Answers every question for an address (A) with the one given; silent with None."""

    CODE = """
import socket, sys
answer = sys.argv[1]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.bind(("127.0.0.1", 53))
while True:
    data, who = sock.recvfrom(512)
    if answer == "silent": continue
    end = data.index(b"\\0", 12) + 5
    is_a = data[end - 4 : end - 2] == b"\\0\\1"
    is_a = is_a and answer != "unknown"
    code, count = (b"\\x81\\x83" if answer == "unknown" else b"\\x81\\x80"), (b"\\0\\1" if is_a else b"\\0\\0")
    head = data[:2] + code + b"\\0\\1" + count + b"\\0\\0\\0\\0"
    body = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x05\\0\\4" + socket.inet_aton(answer) if is_a else b""
    sock.sendto(head + data[12:end] + body, who)
"""


def with_names(house: House, answer: str) -> subprocess.CompletedProcess[str]:
    """Run the doctor in a network of its own, whose name server gives this answer."""
    server, resolver = house.person / "names.py", house.person / "resolv.conf"
    server.write_text(NameServer.CODE)
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    script = (
        f"ip link set lo up && mount --bind {resolver} /etc/resolv.conf && "
        f"{{ {sys.executable} {server} {answer} & }} && sleep 1 && "
        f"{sys.executable} -W ignore -m gateway doctor --only dns --json; code=$?; kill %1; exit $code"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(house.person), "PYTHONPATH": str(ROOT)}
    env |= {"OPENAI_API_KEY": "sk-test-of-the-doctor", "ANTHROPIC_API_KEY": "sk-ant-test-of-the-doctor"}
    return subprocess.run(
        ["unshare", "--mount", "--net", "bash", "-c", script],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=house.person,
    )


def _can_unshare() -> bool:
    return (
        os.geteuid() == 0
        and subprocess.run(
            ["unshare", "--mount", "--net", "ip", "link", "set", "lo", "up"], check=False, capture_output=True
        ).returncode
        == 0
    )


@pytest.mark.skipif(
    not (shutil.which("unshare") and shutil.which("ip")) and not os.environ.get("CI"), reason="needs unshare and ip"
)
@parametrize_some(
    2,
    ("answer", "ok", "words"),
    [
        ("203.0.113.7", True, "2 names can be looked up"),
        ("0.0.0.0", False, "is answered with 0.0.0.0"),
        ("unknown", False, "no name can be looked up (DNS)"),
        ("silent", False, "no name can be looked up (DNS)"),
    ],
)
def test_what_a_name_server_says_is_judged(house: House, answer: str, ok: bool, words: str) -> None:
    if not _can_unshare():
        pytest.skip("no network of its own can be made here")
    run = with_names(house, answer)
    facts = json.loads(run.stdout)
    assert (facts["ok"], words in json.dumps(facts)) == (ok, True), run.stdout + run.stderr
    assert run.returncode == (0 if ok else 1)


async def test_foreign_packages_of_our_names_are_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    site = house.person / "site-packages"
    (site / "agent").mkdir(parents=True)
    (site / "agent" / "__init__.py").write_text("")
    (site / "memory.py").write_text("")
    monkeypatch.syspath_prepend(str(site))
    found = await house.wrong(PACKAGES)
    assert {one.where for one in found} == {str(site / "agent"), str(site / "memory.py")}
    house.env["PYTHONPATH"] = str(house.person / "more")
    (house.person / "more" / "gateway").mkdir(parents=True)
    (house.person / "more" / "gateway" / "__init__.py").write_text("")
    assert "PYTHONPATH leads to" in said(await house.wrong(PACKAGES))


def test_a_foreign_package_that_is_imported_in_place_of_ours_is_an_error(house: House) -> None:
    """An agent of somebody else, found before ours: the modules that the check needs are there, the rest is foreign."""
    site = house.person / "theirs"
    (site / "channels").mkdir(parents=True)
    (site / "channels" / "__init__.py").write_text("")
    code = (
        "import json, sys\nfrom pathlib import Path\nimport gateway\n"
        "from gateway.doctor.foreign_packages import imported_in_place\n"
        f"for name in [one for one in sys.modules if one.partition('.')[0] == 'channels']: del sys.modules[name]\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "print(json.dumps([one.as_json() for one in imported_in_place(Path(gateway.__file__).resolve().parents[1])]))"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(house.person), "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=ROOT)
    (found,) = json.loads(run.stdout)
    assert (found["level"], found["where"]) == ("error", str(site / "channels"))


async def test_a_working_folder_with_our_names_is_a_note(house: House) -> None:
    house.cwd = house.person / "project"
    (house.cwd / "gateway").mkdir(parents=True)
    (house.cwd / "gateway" / "__init__.py").write_text("")
    (found,) = await house.found(PACKAGES)
    assert (found.level, found.where) == ("note", str(house.cwd / "gateway"))


UNIT = "[Service]\nExecStart={} gateway --restart-on-stall\n{}\n"


@pytest.mark.parametrize(
    ("program_", "more", "words"),
    [
        ("%h/.local/bin/homebody", "", "which does not exist"),
        ("/bin/true", "", None),
        ("homebody-of-yesterday/bin/homebody", "", "which is not found"),
        ("{sound}", "EnvironmentFile=%h/.config/homebody.env", "homebody.env, which does not exist"),
        ("{sound}", "EnvironmentFile=-%h/.config/homebody.env", ""),
        ("{sound}", "User=nobody-of-this-name", "who is no user"),
        ("-{sound}", "User=root", ""),
    ],
)
async def test_a_service_that_points_nowhere_is_told(house: House, program_: str, more: str, words: str | None) -> None:
    sound = house.person / "bin" / "homebody"
    sound.parent.mkdir()
    sound.write_text("#!/bin/sh\n")
    sound.chmod(0o755)
    folder = house.person / ".config" / "systemd" / "user"
    folder.mkdir(parents=True)
    file = folder / "homebody.service"
    file.write_text(UNIT.format(program_.replace("{sound}", str(sound)), more))
    text = file.read_text()
    found = await house.found(SERVICE)
    if words is None:
        assert "no service starts the gateway" in said(found)
    elif words:
        (one,) = [one for one in found if one.level == "error"]
        assert (one.where, words in one.what) == (str(file), True)
    else:
        assert [one.level for one in found] == ["ok"]
    assert file.read_text() == text


def test_launch_agents_are_read(house: House) -> None:
    import plistlib

    folder = house.person / "Library" / "LaunchAgents"
    folder.mkdir(parents=True)
    (folder / "house.plist").write_bytes(plistlib.dumps({"ProgramArguments": ["/opt/homebody/bin/homebody", "gateway"]}))
    (folder / "broken.plist").write_bytes(b"<plist")
    (found,) = units([folder])
    assert (found.path, found.program) == (folder / "house.plist", "/opt/homebody/bin/homebody")


@pytest.mark.parametrize(
    ("exec_", "level", "words"),
    [
        ({"sandbox": "off"}, "warning", "are not confined"),
        ({"security": "deny"}, "ok", "commands never run"),
        ({"sandbox": "landlock"}, None, ""),
    ],
)
async def test_the_confinement_in_force_is_told(house: House, exec_: dict[str, str], level: str | None, words: str) -> None:
    house.set(tools={"exec": exec_})
    (found,) = await house.found(SANDBOX)
    assert words in found.what
    assert level in (None, found.level)


async def test_why_it_is_not_confined_better_is_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bubblewrap on the PATH, the next best is taken, and the reason told."""
    bare = house.person / "bare"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))
    (found,) = await house.found(SANDBOX)
    assert found.level in {"note", "warning"}
    assert "bubblewrap" in said([found])
    assert found.mend


def test_an_extra_that_is_not_installed_is_told(house: House) -> None:
    house.set(
        mail={"accounts": {"home": {"imap": {"host": "imap.example.org"}, "user": "ann@example.org", "password": "a long one"}}}
    )
    code = (
        "import sys\nfrom importlib.machinery import PathFinder\n"
        "class WithoutMail:\n"
        "    @staticmethod\n    def find_spec(name, path=None, target=None):\n"
        "        return None if name.partition('.')[0] == 'imap_tools' else PathFinder.find_spec(name, path, target)\n"
        "sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutMail\n"
        "from gateway.cli import main\nsys.exit(main(['doctor', '--offline', '--only', 'extras', '--json']))"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(house.person), "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, cwd=house.person)
    (found,) = json.loads(run.stdout)["findings"]
    assert (run.returncode, found["where"], found["mend"]) == (1, "mail", f"make -C {ROOT} extras")


async def test_errors_of_the_last_day_are_counted(house: House) -> None:
    from datetime import UTC, datetime, timedelta

    def line(ago: timedelta, level: str, event: str) -> str:
        return json.dumps({"at": (datetime.now(UTC) - ago).isoformat(), "level": level, "event": event, "logger": "x"})

    lines = [
        line(timedelta(days=3), "error", "long ago"),
        line(timedelta(hours=3), "info", "well"),
        *[line(timedelta(hours=2), "error", "it burns")] * 3,
    ]
    with (house.home / "logs" / "homebody.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")
    (found,) = await house.found(LOGS)
    assert (found.level, found.what) == ("note", "3 errors were logged in the last day; most often (3): it burns")
    (house.home / "logs" / "homebody.jsonl").write_text(lines[-1] + "\n")
    (found,) = await house.found(LOGS)
    assert found.what == "1 error was logged in the last day; most often (1): it burns"


async def test_a_check_that_hangs_ends_at_its_limit_and_hides_no_other(house: House) -> None:
    def hangs(_: object) -> list[Finding]:
        threading.Event().wait(PATIENCE)
        return []

    def breaks(_: object) -> list[Finding]:
        raise ZeroDivisionError("a defect")

    checks = [
        Check(name="hangs", examine=hangs, seconds=0.2),
        Check(name="breaks", examine=breaks),
        Check(name="works", examine=lambda _: [Finding(level="ok", what="fine")]),
    ]
    told: list[tuple[int, int]] = []
    found = await examine(house.installation(), checks, lambda done, count, _: told.append((done, count)))
    assert [(one.check, one.level) for one in found] == [("hangs", "warning"), ("breaks", "warning"), ("works", "ok")]
    assert "not finished within" in found[0].what
    assert "a defect" in found[1].what
    assert told[-1] == (3, 3)


def test_the_program_ends_though_a_check_hangs(house: House) -> None:
    """A disk that never answers must not hold the command: its thread is left behind."""
    os.mkfifo(house.home / "homebody.env")
    house.set(channels={"telegram": {"botToken": f"file:{house.home / 'homebody.env'}"}})
    began = time.monotonic()
    run = program("doctor", "--offline", "--only", "disk", home=house.person)
    assert time.monotonic() - began < PATIENCE
    assert run.returncode in {0, 1}


def test_paths_of_the_source_are_no_foreign_package() -> None:
    assert (ROOT / "gateway" / "doctor").is_dir()
    assert Path(__file__).is_relative_to(ROOT)
