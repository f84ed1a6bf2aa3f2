"""What a confined command must not see, change or reach: nothing is seen, by any means, as root and as an ordinary user."""

from __future__ import annotations

import inspect
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from gateway.sandbox import canaries
from tests.sandbox.conftest import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    Seen = Callable[[int], dict[str, dict[str, Any]]]

USERS = (0, NOBODY) if os.getuid() == 0 else (os.getuid(),)
NAMES = tuple(re.findall(r"@canary\ndef (\w+)", inspect.getsource(canaries)))
NOT_BY_ORDINARY_USERS = {"mounts", "kernel_programs", "capabilities", "raw_sockets"}
"""What an ordinary user may not do anyway on most machines, so that the control shows nothing."""
BY_SETTINGS_OF_THE_MACHINE = {
    "typing_into_the_terminal",
    "nested_namespaces",
    "tracing",
    "kernel_programs",
    "devices",
    "raw_sockets",
}
"""What a machine may forbid to everybody."""


def rows(names: str) -> list[pytest.param]:
    return [pytest.param(name, user, id=f"{name}-{user}") for name in names.split() for user in USERS]


def nothing(seen: Seen, user: int, name: str) -> None:
    cases = {case: found for case, found in seen(user).items() if case != "nothing"}
    assert len(cases) >= 16
    assert {case: found.get(name, found) for case, found in cases.items() if found.get(name, "never tried")} == {}


def test_every_canary_is_tried_in_some_test() -> None:
    marks = [mark for test in globals().values() for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    tried = [parameters for mark in marks if mark.args[0] == ("name", "user") for parameters in mark.args[1]]
    assert {parameters.values[0] for parameters in tried} == set(NAMES)


@pytest.mark.parametrize(
    ("name", "user"), rows("home closed_folders workspace_of_another_agent writing_outside link_out_of_the_workspace hard_link")
)
@pytest.mark.cpu_seconds(120)
def test_sec_54_a_command_reads_and_writes_nothing_outside_the_workspace(seen: Seen, name: str, user: int) -> None:
    nothing(seen, user, name)


@pytest.mark.parametrize(("name", "user"), rows("workspace limits"))
def test_sec_54_a_command_has_the_workspace_and_limits_that_the_settings_say(seen: Seen, name: str, user: int) -> None:
    nothing(seen, user, name)


@pytest.mark.parametrize(
    ("name", "user"), rows("keys_in_the_environment environment_of_processes inherited_files other_processes")
)
def test_sec_53_a_command_finds_no_key_of_the_gateway(seen: Seen, name: str, user: int) -> None:
    nothing(seen, user, name)


@pytest.mark.parametrize(("name", "user"), rows("state_folder state_socket datagram_socket abstract_socket"))
def test_sec_59_a_command_reaches_neither_state_nor_sockets(seen: Seen, name: str, user: int) -> None:
    nothing(seen, user, name)


@pytest.mark.parametrize(("name", "user"), rows("tcp udp raw_sockets"))
def test_sec_54_a_command_without_the_network_reaches_nobody(seen: Seen, name: str, user: int) -> None:
    nothing(seen, user, name)


@pytest.mark.parametrize(
    ("name", "user"),
    rows(
        "tracing signals nested_namespaces mounts kernel_keys kernel_programs shared_memory typing_into_the_terminal devices "
        "setuid_programs capabilities"
    ),
)
def test_sec_55_a_command_cannot_leave_its_confinement(seen: Seen, name: str, user: int) -> None:
    nothing(seen, user, name)


@pytest.mark.parametrize("user", USERS)
def test_without_confinement_each_of_them_is_seen(seen: Seen, user: int) -> None:
    """The control: a canary that sees nothing unconfined would prove nothing."""
    unseen = {name for name in NAMES if not seen(user)["nothing"].get(name)} - {"workspace"} - BY_SETTINGS_OF_THE_MACHINE
    assert unseen <= (set() if user == 0 else NOT_BY_ORDINARY_USERS)
