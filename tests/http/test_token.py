"""The gateway's token: made once, private, never weak."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.api_token import SHORTEST, checked, fresh_token, same, token_from_file, token_from_settings
from gateway.base.errors import HomebodyError, StorageFailed

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "k3XqvT0b9LrWm5ZsYd8HcN2p"


def test_the_token_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "gateway.token"
    old = os.umask(0)
    try:
        first = token_from_file(file)
    finally:
        os.umask(old)
    assert token_from_file(file) == first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(first) >= 43
    assert file.read_text() == first + "\n"


def test_two_houses_have_two_tokens(tmp_path: Path) -> None:
    assert token_from_file(tmp_path / "a") != token_from_file(tmp_path / "b")


@pytest.mark.parametrize(
    "weak",
    [
        "", "   \n", "undefined", "null", "None", "short-but-random-9Kx", "change-me-change-me-change-me",
        "a" * 64, "0123012301230123012301230123", "undefinedundefinedundefined", "replace-this-with-a-long-random-string",
        GOOD + " " + GOOD, GOOD + "\x00", GOOD + "é", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ],
)  # fmt: skip
@pytest.mark.sec(11)
def test_a_weak_token_is_refused_wherever_it_comes_from(tmp_path: Path, weak: str) -> None:
    file = tmp_path / "gateway.token"
    file.write_text(weak)
    file.chmod(0o600)
    with pytest.raises(HomebodyError) as in_file:
        token_from_file(file)
    assert in_file.value.where == str(file)
    assert f"rm {file}" in in_file.value.hint
    with pytest.raises(HomebodyError, match=r"gateway\.auth\.token"):
        token_from_settings(weak)


@given(st.text(max_size=SHORTEST - 1))
@pytest.mark.sec(11)
def test_a_short_token_never_passes(text: str) -> None:
    with pytest.raises(HomebodyError):
        checked(text, where="here", hint="")


@given(st.binary(min_size=32, max_size=32).map(lambda entropy: base64.urlsafe_b64encode(hashlib.sha256(entropy).digest())))
def test_random_bits_always_pass(encoded: bytes) -> None:
    token = encoded.decode().rstrip("=")
    assert checked(f" {token}\n", where="here", hint="") == token


def test_a_made_token_passes() -> None:
    assert len(checked(fresh_token(), where="here", hint="")) == 43


@pytest.mark.sec(10)
def test_the_error_does_not_tell_the_token() -> None:
    with pytest.raises(HomebodyError) as caught:
        checked("abcabcabcabcabcabcabcabcabc", where="here", hint="mend it")
    assert "abcabc" not in caught.value.as_text()


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gateway.token"
    file.write_text(GOOD)
    file.chmod(0o640)
    with pytest.raises(HomebodyError, match="other users"):
        token_from_file(file)


def test_a_token_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(GOOD)
    (tmp_path / "gateway.token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomebodyError, match="symbolic link"):
        token_from_file(tmp_path / "gateway.token")


def test_a_token_that_is_a_folder_or_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("folder", "pipe"):
        with pytest.raises(HomebodyError):
            token_from_file(tmp_path / name)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="make the gateway's token"):
        token_from_file(tmp_path / "file" / "gateway.token")
    with pytest.raises(StorageFailed):
        token_from_file(tmp_path / "missing" / "gateway.token")


def test_only_the_whole_token_is_the_same() -> None:
    assert same(GOOD.encode(), GOOD)
    assert not same(GOOD[:-1].encode(), GOOD)
    assert not same(b"", GOOD)
    assert not same(b"\xff" * 24, GOOD)
