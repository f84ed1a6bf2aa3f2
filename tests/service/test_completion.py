"""Completion in the shell."""

from __future__ import annotations

import subprocess

import pytest

from tests.service.conftest import HOMEBODY, Machine


def completed(machine: Machine, words: str, at: int) -> list[str]:
    env = {**machine.env, "_HOMEBODY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    done = subprocess.run([str(HOMEBODY)], env=env, capture_output=True, text=True, check=False)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_subcommands_and_options_are_completed(machine: Machine) -> None:
    assert completed(machine, "homebody sta", 1) == ["start", "status"]
    assert completed(machine, "homebody service ", 2) == ["install", "remove", "status"]
    assert "--dry-run" in completed(machine, "homebody service install --", 3)
    assert "--profile" in completed(machine, "homebody --p", 1)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_written_where_the_shell_looks(machine: Machine, shell: str) -> None:
    script = machine.run("completion", shell).stdout
    assert f"_HOMEBODY_COMPLETE={shell}_complete" in script
    told = machine.run("completion", shell, "--install").stdout
    [file] = [path for path in machine.home.rglob("*homebody*") if path.is_file() and path.read_text() == script]
    assert str(file) in told


def test_bash_takes_the_script(machine: Machine) -> None:
    machine.run("completion", "bash", "--install")
    file = machine.home / ".local/share/bash-completion/completions/homebody"
    ask = (
        f'PATH="{HOMEBODY.parent}:$PATH"; source "{file}"; COMP_WORDS=(homebody upd); COMP_CWORD=1; '
        '_homebody_completion homebody; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask], env=machine.env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["update"]
