"""Compares Homebody with similar programs that are installed beside it, in one run, against one model server.

    python benchmarks/comparison.py                       Homebody alone
    python benchmarks/comparison.py --peers FOLDER        with those of benchmarks/programs.toml that are installed there
    ... --json

Whole processes are measured from outside: CPU and wall time and peak memory of a command, memory of an idle gateway, and turns by the
OpenAI-compatible API that both have. Programs take turns, so that a busy machine slows all of them: compare by ratio.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5
TURNS = 20
IDLE_SECONDS = 30.0
TOKEN = "comparison-token-0123456789abcdef"  # noqa: S105 - of a gateway on loopback that lives for a minute
HOMEBODY = f"""
gateway: {{port: {{port}}, auth: {{token: {TOKEN}}}, openai: {{enabled: true}}}}
agents: {{defaults: {{model: box/fake}}}}
models: {{providers: {{box: {{baseUrl: "{{model}}/v1", apiKey: k, models: [{{id: fake, contextWindow: 200000}}]}}}}}}
"""


class Model(BaseHTTPRequestHandler):
    """Answers every chat completion with one word, at once."""

    disable_nagle_algorithm = True  # or the kernel holds each body back for 40 ms, for clients that keep connections open

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(json.dumps({"object": "list", "data": [{"id": "fake", "object": "model"}]}), "application/json")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
        head = {"id": "c", "created": 1, "model": "fake", "usage": usage}
        if not asked.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "pong"}, "finish_reason": "stop"}
            self._answer(json.dumps({**head, "object": "chat.completion", "choices": [choice]}), "application/json")
            return
        pieces: list[dict[str, Any]] = [
            {"index": 0, "delta": {"role": "assistant", "content": "pong"}, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ]
        lines = [json.dumps({**head, "object": "chat.completion.chunk", "choices": [piece]}) for piece in pieces]
        self._answer("".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]), "text/event-stream")

    def _answer(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass
class Program:
    name: str
    home: Path
    version: str = ""
    once: str = ""
    gateway: str = ""
    model: str = ""
    token: str = TOKEN
    port: int = 0
    more: dict[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HOMEBODY_HOME": str(self.home / ".homebody"),
            "LANG": "C.UTF-8",
            **self.more,
        }

    def run(self, command: str) -> tuple[float, float, float]:
        """Return the CPU and wall seconds of a command, and its peak memory in MB (that of its largest process)."""
        began = time.perf_counter()
        process = subprocess.Popen(
            shlex.split(command), env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{self.name}: {command} ended with {process.returncode}")
        return used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024


@contextmanager
def serving(program: Program) -> Iterator[int]:
    """Run a program's gateway; yield its process, once it answers."""
    log = (program.home / "gateway.log").open("wb")
    process = subprocess.Popen(shlex.split(program.gateway), env=program.env, stdout=log, stderr=log, start_new_session=True)
    try:
        until = time.monotonic() + 120
        while not _answers(program.port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{program.name}: its gateway does not answer, see {log.name}")
            time.sleep(0.02)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        log.close()


def _answers(port: int) -> bool:
    with socket.socket() as plug:
        plug.settimeout(1)
        return plug.connect_ex(("127.0.0.1", port)) == 0


def memory(pid: int) -> float:
    """Return the proportional memory of a process and those below it, in MB."""
    whole = 0.0
    for one in [pid, *_below(pid)]:
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text("ascii")
        except OSError:
            continue
        whole += next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("Pss:")), 0.0)
    return whole


def _below(pid: int) -> list[int]:
    try:
        found = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
    except OSError:
        return []
    return found + [one for child in found for one in _below(child)]


def turn(program: Program, text: str) -> float:
    """Ask by the OpenAI-compatible API; return the milliseconds to the whole answer."""
    body = json.dumps({"model": program.model, "user": "bench", "messages": [{"role": "user", "content": text}]})
    wire = http.client.HTTPConnection("127.0.0.1", program.port, timeout=120)
    began = time.perf_counter()
    wire.request(
        "POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {program.token}", "Content-Type": "application/json"}
    )
    answer = wire.getresponse()
    said = answer.read()
    took = (time.perf_counter() - began) * 1000
    wire.close()
    if answer.status != 200 or b"pong" not in said:
        raise RuntimeError(f"{program.name}: {answer.status} {said[:300]!r}")
    return took


def free_port() -> int:
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        return int(plug.getsockname()[1])


def programs(folder: Path | None, root: Path, model: str) -> list[Program]:
    """Return Homebody, and those of programs.toml that are installed."""
    python = shlex.quote(sys.executable)
    here = Program("homebody", root / "homebody", port=free_port(), model="homebody")
    here.version, here.once, here.gateway = (f"{python} -m gateway {rest}" for rest in ("--version", "agent -m hi", "gateway"))
    (here.home / ".homebody").mkdir(parents=True)
    text = HOMEBODY.replace("{port}", str(here.port)).replace("{model}", model)
    (here.home / ".homebody/homebody.yaml").write_text(text)
    found = [here]
    listed = tomllib.loads((ROOT / "benchmarks/programs.toml").read_text()) if folder else {}
    for name, told in listed.items():
        one = Program(name, root / name, port=free_port(), model=told.get("model", ""), token=told.get("token", ""))
        one.home.mkdir()
        fill = {"{peers}": str(folder), "{home}": str(one.home), "{model}": model, "{port}": str(one.port)}
        one.version, one.once, one.gateway = (_filled(told.get(key, ""), fill) for key in ("version", "once", "gateway"))
        if not shutil.which(shlex.split(one.version)[0]):
            print(f"{name} is not installed in {folder}", file=sys.stderr)
            continue
        one.more = {variable: _filled(value, fill) for variable, value in told.get("env", {}).items()}
        for path, content in told.get("config", {}).items():
            (one.home / path).parent.mkdir(parents=True, exist_ok=True)
            (one.home / path).write_text(_filled(content, fill))
        found.append(one)
    return found


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def measure(found: list[Program]) -> None:
    """Take all figures of all programs, program by program within each round."""
    for what, command in (("version", "version"), ("one answer, cold", "once")):
        samples: dict[str, list[tuple[float, float, float]]] = {}
        for number in range(RUNS + 1):
            for one in found:
                if getattr(one, command):
                    taken = one.run(getattr(one, command))
                    samples.setdefault(one.name, []).extend([taken] if number else [])
        for one in found:
            if one.name in samples:
                cpu, wall, peak = (statistics.median(column) for column in zip(*samples[one.name], strict=True))
                one.figures |= {f"{what}: CPU, s": cpu, f"{what}: wall, s": wall, f"{what}: peak, MB": peak}
    for one in found:
        if one.gateway:
            began = time.perf_counter()
            with serving(one) as pid:
                one.figures["gateway listens after, s"] = time.perf_counter() - began
                time.sleep(IDLE_SECONDS)
                one.figures["idle gateway, MB (PSS)"] = memory(pid)
                turn(one, "hello 0")
                one.figures["turn by the API, ms (median)"] = statistics.median(
                    turn(one, f"hello {n}") for n in range(1, TURNS + 1)
                )


def table(found: list[Program]) -> Iterator[str]:
    """Yield the rows of a Markdown table; behind a peer's figure stands how many times Homebody's it is."""
    names = list(dict.fromkeys(name for one in found for name in one.figures))
    yield f"| figure | {' | '.join(one.name for one in found)} |"
    yield f"|---|{'---:|' * len(found)}"
    for name in names:
        cells = []
        for one in found:
            value, own = one.figures.get(name), found[0].figures.get(name)
            times = f" (×{value / own:.1f})" if value is not None and own and one is not found[0] else ""
            cells.append("–" if value is None else f"{value:.3g}{times}")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="the folder that the programs of programs.toml are installed in")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = server.server_address
    with tempfile.TemporaryDirectory() as folder:
        found = programs(given.peers and given.peers.resolve(), Path(folder), f"http://127.0.0.1:{address[1]}")
        measure(found)
    print(json.dumps({one.name: one.figures for one in found}) if given.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
