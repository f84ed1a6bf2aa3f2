"""What holds for all of the source: how programs are started, what data may become, and who says who speaks."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from gateway.api.routes.health import health_routes
from gateway.api.routes.hook_routes import HookRoutes
from gateway.api.routes.webhooks import Webhooks
from gateway.base.paths import Paths
from gateway.config.load import load
from gateway.hooks.receiver import HookReceiver
from tests.syntax import parsed

ROOT = Path(__file__).resolve().parents[2]
STARTS = {"Popen", "run", "call", "check_call", "check_output", "create_subprocess_exec", "create_subprocess_shell", "_spawn"}
FORKS = {"fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen"} | {
    f"exec{end}" for end in ("l", "le", "lp", "v", "ve", "vp", "vpe")
}
STARTERS = {
    "agent/tools/child_process.py",
    "agent/tools/grep_files.py",
    "channels/terminal/local_files.py",
    "gateway/approvals/shell_parts.py",
    "gateway/app/cluster_member.py",
    "gateway/app/own_command.py",
    "gateway/cli/backup_work.py",
    "gateway/cli/update.py",
    "gateway/mcp/stdio.py",
    "gateway/runner/runner_client.py",
    "gateway/runner/job.py",
    "gateway/runner/keeper.py",
    "gateway/sandbox/canaries.py",
    "gateway/sandbox/check.py",
    "gateway/sandbox/probe.py",
    "gateway/sandbox/restrict.py",
    "gateway/service/actions.py",
    "gateway/service/background.py",
    "gateway/setup/wizard.py",
    "gateway/workspaces/git_program.py",
}
"""The modules that start programs. Commands of agents are started by the runner alone, MCP servers of the settings by their
transport; the chat asks the desktop for the picture in the clipboard; `homebody update`, `start` and `service` start git, make, the
service manager and the gateway; a gateway of a cluster starts itself again; the others start programs of ours."""
MAKE_OBJECTS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "jinja2"}


class Call(NamedTuple):
    """A call in the product. ``words`` are the names of its named arguments."""

    module: str
    line: int
    holder: str
    method: str
    words: frozenset[str | None]

    @property
    def starts(self) -> bool:
        given = not self.holder and self.method == "spawn"  # handed over as an argument
        known = self.holder == "subprocess" or "subprocess" in self.method or self.method in {"Popen", "_spawn"}
        return given or (self.method in STARTS and known)


class Product(NamedTuple):
    """What its modules call and import."""

    calls: list[Call]
    imports: list[tuple[str, str]]


@cache
def product() -> Product:
    """Read all modules. Their trees are not kept: they are a million objects."""
    found = Product([], [])
    for path in (
        path for package in ("agent", "channels", "gateway", "memory") for path in sorted((ROOT / package).rglob("*.py"))
    ):
        name, tree = str(path.relative_to(ROOT)), parsed(path.read_text(encoding="utf-8"))
        for holder, method, call in calls(tree):
            found.calls.append(Call(name, call.lineno, holder, method, frozenset(word.arg for word in call.keywords)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found.imports.extend((name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.imports.append((name, node.module or ""))
    return found


def calls(tree: ast.AST) -> list[tuple[str, str, ast.Call]]:
    """Return (object, method, call) of each call; the object is "" for a plain function, and "…" for what is no name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            holder = node.func.value
            found.append((holder.id if isinstance(holder, ast.Name) else "…", node.func.attr, node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.append(("", node.func.id, node))
    return found


def test_sec_57_programs_are_started_in_few_known_places() -> None:
    found = {call.module for call in product().calls if call.starts or (call.holder == "os" and call.method in FORKS)}
    assert found == STARTERS


@pytest.mark.sec(13)
def test_sec_53_each_program_is_given_an_environment_made_for_it() -> None:
    assert [f"{call.module}:{call.line}" for call in product().calls if call.starts and "env" not in call.words] == []


@pytest.mark.sec(60)
def test_sec_63_no_data_becomes_an_object_or_code() -> None:
    found = [f"{module}: {name}" for module, name in product().imports if name.partition(".")[0] in MAKE_OBJECTS]
    for module, line, holder, method, _ in product().calls:
        unsafe = holder == "yaml" and method in {"load", "load_all", "unsafe_load", "full_load"}
        if (not holder and method in {"eval", "exec", "compile"}) or unsafe:
            found.append(f"{module}:{line} {holder}.{method}")
    assert found == []


def test_sec_29_who_speaks_is_decided_in_one_place() -> None:
    makers = {call.module for call in product().calls if call.method == "Actor"}
    assert makers == {"gateway/routing/access.py", "gateway/routing/routed_message.py"}, (
        "the second reads what the first stored, and makes those that no person wrote"
    )


SWITCHED_ON = [("/v1/{path:path}", "gateway.openai.enabled"), ("/metrics", "gateway.metrics.enabled")]
"""What is served besides while a setting says so, with a token: tests/openai_api/test_rights.py, tests/telemetry/test_metrics.py.
The page is served so too, to who has entered by a one-time code: tests/page/."""


@pytest.mark.sec(9)
def test_sec_04_nothing_that_changes_anything_is_served_over_tcp() -> None:
    async def status() -> dict[str, object]:
        return {}

    log = structlog.get_logger("test")
    routes = [
        *health_routes(ready={}, status=status, log=log),
        *HookRoutes(HookReceiver.__new__(HookReceiver), log).routes(),
        *Webhooks(lambda _channel, _account: "unknown", log).routes(),
    ]
    assert sorted(route.path.partition("{")[0] for route in routes) == [
        "/healthz",
        "/hooks/",
        "/hooks/in/",
        "/readyz",
        "/status",
    ]
    source = (ROOT / "gateway/app/services.py").read_text(encoding="utf-8")
    served = [ast.unparse(call.args[0]) for _, method, call in calls(ast.parse(source)) if method == "serve_tcp"]
    assert served == ["routes", "routes"], "by itself, and in a cluster"
    assert "    routes = [*_health(status), *webhooks, openai, *_switched_on(metrics, page, calls)]\n" in source
    assert source.count("on_demand(") == len(SWITCHED_ON)
    assert source.count("on_demand_all(") == 1
    assert re.search(
        r'on_demand_all\(\s*\("/", "/enter", "/static/{path:path}", "/page/{path:path}"\),\s*"gateway.page.enabled"', source
    )
    assert re.findall(r'on_demand\(\n? *"([^"]+)", "([^"]+)"', source) == SWITCHED_ON
    assert "webhooks = [*HookRoutes(hooks, log).routes(), *Webhooks(hook, log).routes()]" in source


def test_sec_47_settings_read_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.yaml").write_text("logging: {level: debug}\n")
    (tmp_path / ".env").write_text("HOMEBODY_GATEWAY_PORT=4\nANTHROPIC_API_KEY=sk-planted\n")
    monkeypatch.chdir(tmp_path)
    for line in ("$include: other.yaml", "include: [other.yaml]", "extends: other.yaml"):
        (tmp_path / "homebody.yaml").write_text(f"{line}\n")
        (tmp_path / "homebody.yaml").chmod(0o600)
        loaded = load(Paths(tmp_path), {})
        assert loaded.settings.logging.level == "info"
        assert loaded.settings.gateway.port != 4
        assert "sk-planted" not in loaded.settings.model_dump_json()
