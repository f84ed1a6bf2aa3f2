"""Frames come out as they went in, wherever the stream of bytes is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.runner.frames import LONGEST, BrokenFrame, Unpacker, packed

FRAMES = st.lists(st.tuples(st.sampled_from([b"S", b"O", b"X"]), st.integers(0, 2**32 - 1), st.binary(max_size=40)), max_size=8)


@given(FRAMES, st.lists(st.integers(1, 30), max_size=60))
def test_frames_survive_any_cut(frames: list[tuple[bytes, int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(packed(*frame) for frame in frames)
    unpacker, found, at = Unpacker(), [], 0
    for size in [*cuts, len(stream)]:
        found += unpacker.feed(stream[at : at + size])
        at += size
    assert [tuple(frame) for frame in found] == frames


def test_a_frame_that_is_too_long_is_refused() -> None:
    with pytest.raises(BrokenFrame):
        list(Unpacker().feed((LONGEST + 1).to_bytes(4, "big") + b"O" + bytes(4)))
