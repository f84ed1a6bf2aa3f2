"""The options for bubblewrap: whatever a request holds, none of it becomes an option of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sandbox.bubblewrap import Bubblewrap
from gateway.sandbox.landlock import Landlock
from gateway.sandbox.places import Places
from gateway.sandbox.protocol import CannotConfine, Limits, Request

WRAP = Bubblewrap(program="/usr/bin/bwrap", version=(0, 8, 0))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["\0--bind\0/\0/mnt", "--bind", "--", "x\0"]
)


def request(**given: object) -> Request:
    place = tempfile.gettempdir()
    return Request(**{"argv": ("true",), "cwd": place, "workspace": place, "agent": "main"} | given)


def options(asked: Request) -> list[str]:
    data = WRAP.confine(asked, Places(), Limits()).files[0]
    assert data.endswith(b"\0")
    return data.decode("utf-8", "surrogateescape").split("\0")[:-1]


@pytest.mark.sec(55)
@given(st.dictionaries(texts, texts, max_size=4))
def test_a_variable_becomes_one_variable_or_nothing_runs(env: dict[str, str]) -> None:
    plain = options(request())
    if any("\0" in name + value or "=" in name or not name for name, value in env.items()):
        with pytest.raises(CannotConfine):
            options(request(env=env))
        with pytest.raises(CannotConfine):
            Landlock(version=7).confine(request(env=env), Places(), Limits(), tmp="/tmp", processes=9)  # noqa: S108
        return
    found = options(request(env=env))
    start = found.index("--setenv")
    said = {found[at + 1]: found[at + 2] for at in range(start, len(found) - 2, 3) if found[at] == "--setenv"}
    assert said.items() >= env.items()
    usual = {plain[at + 1] for at in range(len(plain)) if plain[at] == "--setenv"}
    added = [name for name in env if name not in usual]
    assert len(found) == len(plain) + 3 * len(added)


@given(st.lists(texts, min_size=1, max_size=4))
def test_arguments_stay_behind_the_options(argv: list[str]) -> None:
    if any("\0" in argument for argument in argv):
        with pytest.raises(CannotConfine):
            options(request(argv=tuple(argv)))
        return
    made = WRAP.confine(request(argv=tuple(argv)), Places(), Limits())
    assert made.argv[:4] == ("/usr/bin/bwrap", "--args", "3", "--")
    assert made.argv[-len(argv) :] == tuple(argv)
    assert options(request(argv=tuple(argv))) == options(request())


@given(texts)
def test_no_path_of_a_request_is_more_than_a_path(text: str) -> None:
    with pytest.raises(CannotConfine):
        options(request(cwd=f"/nonexistent{text}"))
    with pytest.raises(CannotConfine):
        options(request(workspace=f"/nonexistent{text}"))


def test_the_options_that_keep_a_command_in_are_there() -> None:
    found = options(request())
    for option in (
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-net",
        "--disable-userns",
        "--die-with-parent",
        "--seccomp",
    ):
        assert option in found
    assert "--unshare-net" not in options(request(network=True))
    assert [found[at + 1] for at in range(len(found)) if found[at] == "--remount-ro"] == ["/proc", "/dev", "/"]
    assert not any(
        found[at] == "--bind" and found[at + 1] != str(Path(tempfile.gettempdir()).resolve()) for at in range(len(found))
    )
