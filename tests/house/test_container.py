"""The container files: they copy what is there, ask the real health address, and give nothing away that is not needed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
import yaml

from gateway.api.routes.health import health_routes
from gateway.api.server import serve_tcp
from gateway.base.api_token import FixedToken
from gateway.base.paths import Paths
from gateway.config.load import load
from gateway.settings.http_settings import GatewaySettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
SERVICE = COMPOSE["services"]["homebody"]
TMP = "/tmp"  # noqa: S108 -- inside the container
HOMEBODY = Path(sys.executable).with_name("homebody")


def variables() -> dict[str, str]:
    """What the last stage sets in the environment."""
    block = re.findall(r"^ENV (.*?)(?<!\\)$", DOCKERFILE, re.MULTILINE | re.DOTALL)[-1]
    return dict(part.split("=", 1) for part in block.replace("\\\n", " ").split())


def health_check() -> list[str]:
    found = re.search(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found
    _, *arguments = json.loads(found[1])
    return [sys.executable, *arguments]


async def exit_code_of_the_health_check(port: int) -> int:
    environment = {**os.environ, "HOMEBODY_GATEWAY_PORT": str(port), "http_proxy": "http://192.0.2.1:1"}
    checking = await asyncio.create_subprocess_exec(*health_check(), env=environment, stderr=asyncio.subprocess.DEVNULL)
    return await checking.wait()


async def test_the_health_check_passes_while_the_server_listens_and_fails_when_it_does_not() -> None:
    async def facts() -> Mapping[str, Any]:
        return {}

    settings = GatewaySettings.model_validate({"port": 0}).under(
        {"HOMEBODY_GATEWAY_BIND": variables()["HOMEBODY_GATEWAY_BIND"]}
    )
    log = structlog.get_logger("gateway.http")
    routes = health_routes(ready={}, status=facts, log=log)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    token = "k3XqvT0b9LrWm5ZsYd8HcN2p"
    running = asyncio.create_task(serve_tcp(routes, settings, token=FixedToken(token), log=log, started=port.set_result))
    assert await exit_code_of_the_health_check(await port) == 0
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert await exit_code_of_the_health_check(port.result()) != 0


def test_what_is_copied_is_there_and_reaches_the_builder() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [source for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(Path(source).match(pattern) for pattern in allowed), f"{source} is kept away by .dockerignore"


def test_what_the_wheel_is_made_of_is_copied() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    copied = {source for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]}
    assert {*wheel["packages"], *wheel["force-include"]} <= copied


def test_the_state_lies_in_the_volumes() -> None:
    mounted = {volume.partition(":")[2] for volume in SERVICE["volumes"]}
    assert {variables()["HOMEBODY_HOME"], variables()["HOME"]} == mounted
    assert set(json.loads(re.findall(r"^VOLUME (.*)$", DOCKERFILE, re.MULTILINE)[0])) == mounted


def test_the_container_has_no_more_than_it_needs() -> None:
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)[-1] == "1000:1000"
    assert variables()["PYTHONSAFEPATH"] == "1"
    assert SERVICE["read_only"] is True
    assert SERVICE["cap_drop"] == ["ALL"]
    assert SERVICE["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in SERVICE
    assert not any("docker.sock" in volume for volume in SERVICE["volumes"])


def test_the_port_is_published_to_this_machine_alone() -> None:
    exposed = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    assert exposed == [str(GatewaySettings().port)]
    assert SERVICE["ports"] == [f"127.0.0.1:{exposed[0]}:{exposed[0]}"]


def test_the_profiles_bring_what_homebody_asks_and_publish_nothing() -> None:
    others = {name: one for name, one in COMPOSE["services"].items() if name != "homebody"}
    assert {name: one["profiles"] for name, one in others.items()} == {"ollama": ["ollama"], "searxng": ["search"]}
    assert "profiles" not in SERVICE
    assert not any("ports" in one or "privileged" in one for one in others.values())
    named = {volume.partition(":")[0] for one in COMPOSE["services"].values() for volume in one["volumes"]}
    assert {volume for volume in named if "/" not in volume} == set(COMPOSE["volumes"])


def test_searxng_answers_in_the_format_that_the_search_reads() -> None:
    [mounted] = [one for one in COMPOSE["services"]["searxng"]["volumes"] if one.startswith("./")]
    settings = yaml.safe_load((ROOT / "docker" / mounted.split(":")[0]).read_text())
    assert "json" in settings["search"]["formats"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter. Those of pytest are closed again whenever another run of it starts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_a_volume_of_another_user_is_told_with_the_command_for_the_machine_itself(open_folder: Path) -> None:
    state = open_folder / "state"
    state.mkdir(mode=0o755)
    given = {**os.environ, **variables(), "HOMEBODY_HOME": str(state), "HOME": str(open_folder), "PATH": os.environ["PATH"]}
    command = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", str(HOMEBODY), "gateway"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, cwd="/")
    if "Permission denied" in done.stderr and "homebody:" not in done.stderr:
        pytest.skip("this folder is not open to other users")
    assert done.returncode == 6
    assert "belongs to another user" in done.stderr
    assert "sudo chown -R 1000:1000 FOLDER" in done.stderr
    assert str(state) in done.stderr


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_it_runs_with_a_read_only_root_and_its_two_volumes_alone(tmp_path: Path) -> None:
    """As `read_only: true` and the tmpfs of compose.yaml have it."""
    state, workspace = tmp_path / "state", tmp_path / "workspace"
    for folder in (state, workspace):
        folder.mkdir()
    given = {**os.environ, **variables(), "HOMEBODY_HOME": str(state), "HOME": str(workspace), "PATH": os.environ["PATH"]}
    command = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", TMP]
    here = [part for folder in (state, workspace) for part in ("--bind", str(folder), str(folder))]
    tree = ["--ro-bind", str(ROOT), str(ROOT)] if str(ROOT).startswith(TMP) else []
    said = [str(HOMEBODY), "agent", "-m", "remember that the key is under the pot"]
    done = subprocess.run([*command, *tree, *here, *said], env=given, capture_output=True, text=True, check=False, cwd="/")
    if "bwrap:" in done.stderr:
        pytest.skip(f"bubblewrap cannot work here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "Noted in" in done.stdout
    assert (workspace / "homebody" / "MEMORY.md").exists()


def test_the_gateways_of_a_cluster_start_with_settings_that_make_one(tmp_path: Path) -> None:
    """With empty volumes, and again with those of the last time, which are left as they are."""
    services = yaml.safe_load((ROOT / "docker/compose.cluster.yaml").read_text())["services"]
    writes = services.pop("settings")
    gateways = [one for one in services.values() if "HOMEBODY_GATEWAY" in one["environment"]]
    assert len({one["environment"]["HOMEBODY_GATEWAY"] for one in gateways}) == 2
    for one in gateways:
        assert one["depends_on"]["settings"] == {"condition": "service_completed_successfully"}
        assert one["volumes"] == writes["volumes"]
    given = {name: str(value) for name, value in writes["environment"].items()} | {
        "DATABASE_URL": "postgresql://db.example/homebody"
    }
    env = given | {
        "HOMEBODY_HOME": str(tmp_path),
        "HOME": str(tmp_path),
        "PATH": f"{HOMEBODY.parent}:{os.environ['PATH']}",
        "TZ": "UTC",
    }
    file = tmp_path / "homebody.yaml"
    for _ in range(2):
        command = [*writes["entrypoint"], *(one.replace("$$", "$") for one in writes["command"])]
        subprocess.run(command, env=env, check=True, capture_output=True)
        assert yaml.safe_load(file.read_text()) == {"storage": {"url": "${DATABASE_URL}"}, "cluster": {"enabled": True}}
        with file.open("a") as more:
            more.write("# of the owner\n")
    assert file.read_text().count("# of the owner") == 2
    settings = load(Paths(tmp_path), given).settings
    assert settings.storage.url is not None
    assert settings.storage.url.get_secret_value() == "postgresql://db.example/homebody"
    assert settings.cluster.enabled
