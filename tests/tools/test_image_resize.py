"""Pictures as models are shown them: small, upright, and nothing but the picture."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from agent.errors import InvalidImage
from agent.messages import Image, Text, ToolMessage, UserMessage
from agent.models import token_estimate
from agent.tools.image_header import read_image_header
from agent.tools.image_resize import LONG_SIDE, MOST_PIXELS, resized, sides
from tests.models.conversation import NOON
from tests.properties import examples


def made(width: int, height: int, kind: str = "PNG", mode: str = "RGB", color: Any = "red", **how: Any) -> bytes:
    kept = io.BytesIO()
    Pillow.new(mode, (width, height), color).save(kept, kind, **how)
    return kept.getvalue()


def opened(image: Image) -> Pillow.Image:
    return Pillow.open(io.BytesIO(base64.b64decode(image.data)))


@given(st.integers(1, 60_000), st.integers(1, 60_000))
def test_sides_are_bounded_and_keep_their_proportion(width: int, height: int) -> None:
    short, long = sorted(sides(width, height))
    assert 1 <= short <= long <= LONG_SIDE
    assert short * long <= MOST_PIXELS
    assert long <= max(width, height)
    if short > 20:
        assert abs(short / long - min(width, height) / max(width, height)) < 0.06


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_large_picture_of_any_kind_is_made_smaller(kind: str) -> None:
    image = resized(made(3000, 2000, kind))
    assert (image.width, image.height) == (1313, 875)
    assert opened(image).size == (image.width, image.height)
    assert image.media_type == ("image/jpeg" if kind == "JPEG" else "image/png")
    assert opened(image).convert("RGB").getpixel((600, 400))[0] > 240  # type: ignore[index]  # a pixel of three


def test_a_small_picture_keeps_its_size_and_its_pixels() -> None:
    image = resized(made(40, 30, color=(1, 2, 3)))
    assert (image.width, image.height, opened(image).getpixel((5, 5))) == (40, 30, (1, 2, 3))


def test_what_lies_on_its_side_is_turned_upright_and_its_places_and_names_stay_here() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "at home, 52.5 N"
    wide = Pillow.new("RGB", (300, 100), "blue")
    wide.paste("red", (0, 0, 100, 100))
    kept = io.BytesIO()
    wide.save(kept, "JPEG", exif=exif, comment=b"secret place", quality=95)
    image = resized(kept.getvalue())
    shown = opened(image)
    assert (image.width, image.height) == (100, 300)
    red, _, blue = shown.getpixel((50, 50))  # type: ignore[misc]  # a pixel of three
    assert red > 200 > blue, "what was at the left is at the top"
    raw = base64.b64decode(image.data)
    assert b"at home" not in raw
    assert b"secret place" not in raw
    assert not shown.getexif()


def test_what_hangs_behind_a_picture_stays_here() -> None:
    raw = base64.b64decode(resized(made(10, 10) + b"PK\x03\x04 a whole archive").data)
    assert b"archive" not in raw


def test_transparency_is_kept_where_it_can_be_and_white_where_not() -> None:
    assert opened(resized(made(10, 10, mode="RGBA", color=(0, 0, 0, 0)))).mode == "RGBA"
    noise = Pillow.effect_noise((900, 900), 100).convert("RGBA")
    noise.putalpha(0)
    kept = io.BytesIO()
    noise.save(kept, "PNG")
    image = resized(kept.getvalue())
    assert (image.media_type, opened(image).getpixel((5, 5))) == ("image/jpeg", (255, 255, 255))


def test_of_a_moving_picture_the_first_frame_is_shown() -> None:
    kept = io.BytesIO()
    frames = [Pillow.new("RGB", (20, 20), color) for color in ("green", "red")]
    frames[0].save(kept, "GIF", save_all=True, append_images=frames[1:])
    assert opened(resized(kept.getvalue())).convert("RGB").getpixel((3, 3)) == (0, 128, 0)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_a_small_file_that_holds_a_huge_picture_is_never_unpacked() -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0))
    bomb = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")
    with pytest.raises(InvalidImage, match="50000x50000"):
        resized(bomb)


@pytest.mark.parametrize("side", [3000, pytest.param(9000, marks=pytest.mark.long)])
def test_a_file_whose_beginning_lies_about_its_size_is_refused(side: int) -> None:
    huge = made(side, side, "GIF")
    lying = huge[:6] + struct.pack("<HH", 10, 10) + huge[10:]
    found = read_image_header(lying)
    assert found is not None
    assert (found.width, found.height) == (10, 10)
    try:
        image = resized(lying)
    except InvalidImage:
        return
    assert image.width <= LONG_SIDE, "whatever was unpacked, what is shown is small"


@pytest.mark.parametrize("data", [b"", b"text", b"\x89PNG\r\n\x1a\n", made(50, 50)[:-30], made(50, 50, "JPEG")[:200]])
def test_what_is_broken_is_told_as_broken(data: bytes) -> None:
    with pytest.raises(InvalidImage, match="it is"):
        resized(data)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(60))
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP"]), st.data())
def test_any_damage_is_a_picture_or_a_refusal(kind: str, data: st.DataObject) -> None:
    whole = bytearray(made(31, 17, kind))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        image = resized(bytes(whole))
    except InvalidImage:
        return
    assert opened(image).size == (image.width, image.height)


def test_what_a_picture_costs_goes_by_its_size() -> None:
    small, large = Image(media_type="image/png", data="x", width=150, height=100), resized(made(4000, 4000))
    said = UserMessage(content=(Text(text="look"), small), at=NOON)
    looked = ToolMessage(call_id="a", name="read", text="look", images=(small, large))
    plain = token_estimate.weight_of(UserMessage(content=(Text(text="look"),), at=NOON)).total
    assert token_estimate.weight_of(said).total - plain == 20
    assert 1_400 < token_estimate.weight_of(looked).total - plain - 20 <= 1_534
    assert token_estimate.IMAGE_TOKENS >= 1_534, "a picture of unknown size is counted as a large one"
