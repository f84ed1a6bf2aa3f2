"""What holds for every test: no network beyond loopback, no keys of the person who runs them, no home of theirs."""

from __future__ import annotations

import gc
import ipaddress
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import hypothesis
import pytest

from tests import programs
from tests.patience import CPU_SECONDS
from tests.peers.mood import SEED

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest_plugins = ["tests.peers.aimock"]

LOCAL_NAMES = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost"})

PRIVATE = re.compile(
    r"(?i)^(homebody_(?!fire_).*|.*_api_key|.*_auth_token|.*_bot_token|.*_app_token|(https?|all|no|ftp)_proxy"
    r"|(anthropic|openai|gemini|google|openrouter|ollama|telegram|discord|slack|email|matrix|whatsapp|voyage)_.*)$"
)
"""Environment variables that would make a test depend on the person or the machine that runs it (not those that draw its cases)."""

os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("net") / "certificates" / "ca.pem")
"""Each TLS context of a client would read the certificates of the system, which takes 25 ms, and no test speaks to who has one."""
os.environ.pop("SSL_CERT_DIR", None)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each program that a test starts would compile the whole product again
sys.dont_write_bytecode = False

for name, most in (("house", 10), ("thorough", 100)):
    hypothesis.settings.register_profile(
        name,
        max_examples=most,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],  # it goes by time on the wall, as a deadline does
        derandomize=bool(os.environ.get("CI")),
    )
hypothesis.settings.load_profile("house")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all programs that have ended."""
    return sum(os.times()[:4]) + programs.cpu_seconds


class Used:
    """CPU time that was used until the last report."""

    until = cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[pytest.TestReport]:
    """Note in each report how much CPU time was used since the one before."""
    report = yield
    now = cpu_seconds()
    report.cpu_seconds, Used.until = now - Used.until, now
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the files that took most CPU time, and say how the peers' moods of a run that failed are had again."""
    tests, took = 0, Counter[str]()
    for report in (one for kind in terminalreporter.stats.values() for one in kind if isinstance(one, pytest.TestReport)):
        tests += report.when == "call"
        took[report.location[0]] += getattr(report, "cpu_seconds", 0.0)  # that of a worker that died has none
    if tests >= MANY:
        terminalreporter.write_sep("-", f"CPU time of {len(took)} files: {sum(took.values()):.0f} s; most of it")
        for file, seconds in took.most_common(20):
            terminalreporter.write_line(f"{seconds:6.1f} s  {file}")
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"the peers' moods were drawn by HOMEBODY_FIRE_MOOD={SEED}")


MANY = 1000
"""A run of so many tests or more names the files that take most CPU time, with the programs that they start (not the gateways of
tests/fire): what is slow is mended, or becomes a proof of its own in .ci/run."""


class ReachedOutside(RuntimeError):
    """A test tried to leave this machine; not an OSError, so that no client takes it for bad weather and retries."""


def is_loopback(host: str) -> bool:
    """Tell whether an address literal or a name stays on this machine."""
    if host in LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_literal(host: str) -> bool:
    """Tell whether looking the host up asks nobody."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def stay_inside(event: str, args: tuple[Any, ...]) -> None:
    """Refuse to look up names or to speak to addresses that are not loopback (an audit hook; see PEP 578)."""
    if event in {"socket.connect", "socket.sendto"}:
        address = args[1]
        if isinstance(address, tuple) and not is_loopback(str(address[0])):
            raise ReachedOutside(f"a test tried to reach {address[0]}:{address[1]}; serve it on 127.0.0.1 instead")
    elif event == "socket.getaddrinfo":
        host = args[0].decode("ascii", "replace") if isinstance(args[0], bytes) else args[0]
        if host and not is_loopback(host) and not is_literal(host):
            raise ReachedOutside(f"a test tried to look up {host!r}; use 127.0.0.1, or hand a resolver in")


def private_variables() -> list[str]:
    """Name the variables that are set and must not be."""
    return [name for name in os.environ if PRIVATE.match(name)]


def pytest_configure() -> None:
    """Shut the door before anything is collected."""
    for name in private_variables():
        del os.environ[name]
    sys.addaudithook(stay_inside)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is collected, which lives as long as this process, out of each search for garbage: it is a million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        Used.until = cpu_seconds()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long ones: the other workers would wait for one that begins last."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_report_header() -> list[str]:
    """Say which of the parts that differ from machine to machine are here."""
    from tests.peers.aimock import node_version, peer_folder  # late: it is a plugin, which pytest imports first

    connection = apsw.Connection(":memory:")
    options = set(apsw.compile_options)
    fts = "FTS5" if "ENABLE_FTS5" in options else "no FTS5"
    try:
        import sqlite_vec

        connection.enable_load_extension(True)  # noqa: FBT003 - apsw takes it by position only
        connection.load_extension(sqlite_vec.loadable_path())
        vectors = f"sqlite-vec {connection.execute('select vec_version()').get}"
    except (ImportError, apsw.Error) as error:
        vectors = f"no sqlite-vec ({error})"
    finally:
        connection.close()
    node = node_version()
    runtime = f"node {node}" if node else "no node"
    peers = "aimock installed" if peer_folder().is_dir() else "aimock not installed"
    return [f"sqlite: {apsw.sqlite_lib_version()}, {fts}, {vectors}", f"peers: {runtime}, {peers}"]


class UsedTooMuch(BaseException):
    """A test used more CPU time than any test may; no Exception, so that nothing under test swallows it."""


@pytest.fixture(autouse=True)
def cpu_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """End a test that works for ever, by the CPU time of this process: time on the wall says more of the machine than of the test."""

    marker = request.node.get_closest_marker("cpu_seconds")
    most = marker.args[0] if marker else CPU_SECONDS

    def over(_number: int, _frame: object) -> None:
        raise UsedTooMuch(f"more than {most:.0f} s of CPU in one test")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, most)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.fixture(autouse=True)
def usual_rights() -> Iterator[None]:
    """Give new files the usual rights, whatever a command that ran in this process asked for."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def home_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a state folder and a home of its own, and take away what an earlier one has left in the environment."""
    for name in private_variables():
        monkeypatch.delenv(name)
    home = tmp_path.with_name(f"{tmp_path.name}-home")  # beside: a test's own folder may be the state, which holds no workspace
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HOMEBODY_HOME", str(home / ".homebody"))
    home.mkdir()
    return home
