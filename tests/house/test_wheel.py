"""What is shipped: our five rooms, the templates, one command; and nobody else uses our names."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {"agent", "channels", "gateway", "memory", "workspace_templates", "bundled_skills"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_our_rooms_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == ROOMS
    assert wheel.testzip() is None


def test_the_wheel_holds_every_module_and_template(wheel: zipfile.ZipFile) -> None:
    shipped = set(wheel.namelist())
    here = {str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in {".py", ".md"}}
    assert here <= shipped
    assert {f"workspace_templates/{name}.md" for name in ("AGENTS", "SOUL", "MEMORY", "memory/TEMPLATE-daily")} <= shipped


def test_the_wheel_brings_one_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    [info] = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    assert wheel.read(f"{info}/entry_points.txt").decode().split("\n") == [
        "[console_scripts]",
        "homebody = gateway.cli:main",
        "",
        "[pytest11]",
        "channels.conformance_plugin = channels.conformance_plugin",
        "",
    ]
    assert "The Homebody authors" in wheel.read(f"{info}/licenses/LICENSE").decode()


def packages_of(python: str) -> Path:
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


@pytest.mark.long
def test_the_wheel_works_where_it_is_installed_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """As `pipx install` and `uv tool install` do it: an environment of its own, without the clone. What it needs comes from ours."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel.filename)], check=True)
    others = tmp_path / "others"
    others.mkdir()
    for package in packages_of(sys.executable).iterdir():
        if "homebody" not in package.name and package.suffix != ".pth":
            (others / package.name).symlink_to(package)
    (packages_of(str(python)) / "others.pth").write_text(f"{others}\n")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}

    def homebody(*arguments: str) -> str:
        done = subprocess.run(
            [str(tmp_path / "venv/bin/homebody"), *arguments],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert homebody("--version").startswith("homebody ")
    assert "Noted in" in homebody("agent", "-m", "remember that the spare key is under the blue pot")
    assert (tmp_path / "home/homebody/AGENTS.md").exists()
    assert {path.parent.name for path in (ROOT / "bundled_skills").glob("*/SKILL.md")} <= {
        one["name"] for one in json.loads(homebody("skills", "list", "--json"))["skills"]
    }
    assert "-m pip install --upgrade homebody" in homebody("update")


def test_no_other_package_uses_our_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for name in [*ROOMS, "tests"]:
        assert {owner.lower() for owner in owners.get(name, [])} <= {"homebody"}, f"{name} is also in {owners[name]}"
