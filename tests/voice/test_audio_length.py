"""How long recordings are, by their headers; what lies or is cut off is of unknown length, and nothing crashes."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.media.audio_length import seconds_of
from gateway.media.recordings import clock_time
from tests.voice.recordings import opus, wav

if TYPE_CHECKING:
    from pathlib import Path


@given(st.floats(0.1, 4000))
def test_own_recordings_have_their_length(seconds: float) -> None:
    assert seconds_of(opus(seconds)) == pytest.approx(seconds, abs=0.001)


def test_wav_files_have_their_length() -> None:
    assert seconds_of(wav(12.5)) == pytest.approx(12.5)


@given(
    st.sampled_from([b"OggS", b"RIFF\0\0\0\0WAVE", b"fLaC", b"\0\0\0\x20ftypM4A mvhd", b"ID3", b"\xff\xfb"]),
    st.binary(max_size=300),
)
def test_any_bytes_have_a_length_or_none(start: bytes, rest: bytes) -> None:
    found = seconds_of(start + rest)
    assert found is None or found >= 0


@given(st.integers(0, 200))
def test_what_is_cut_off_does_not_crash(kept: int) -> None:
    seconds_of(opus(5)[:kept])
    seconds_of(wav(1)[:kept])


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg, which writes them, is missing")
@pytest.mark.parametrize("ending", ["ogg", "mp3", "m4a", "flac", "wav", "aac"])
def test_files_of_another_program_have_their_length(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    codec = ["-c:a", "libopus"] if ending == "ogg" else []
    make = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "sine=duration=7.5", *codec, str(path)]
    subprocess.run(make, check=True, capture_output=True)
    found = seconds_of(path.read_bytes())
    if ending == "aac":  # raw frames without a header for the whole
        assert found is None
    else:
        assert found == pytest.approx(7.5, abs=0.2)


def test_lengths_are_told_as_on_a_clock() -> None:
    assert [clock_time(one) for one in (0.2, 12.4, 59.6, 3725, 0)] == ["0:01", "0:12", "1:00", "1:02:05", "0:00"]
