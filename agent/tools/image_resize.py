"""Resizes a picture for models: upright, at most 1,568 pixels a side, without metadata.

Providers scale larger pictures down themselves, after all of their bytes were sent. Each picture is re-encoded, so that neither
metadata nor appended data is sent. Its decoded size is checked before it is decoded: a small file can hold a very large picture.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from agent.errors import InvalidImage
from agent.messages import Image
from agent.tools.image_header import read_image_header

if TYPE_CHECKING:  # Pillow costs memory, and is loaded with the first picture
    from PIL.Image import Image as Drawn

LONG_SIDE = 1568
MOST_PIXELS = 1_150_000
"""What Anthropic's models look at; others take more and cost more."""
MOST_UNPACKED = 60_000_000
"""Pixels from which on a picture is not unpacked: 240 MB of memory."""
MOST_BYTES = 50_000_000
_ENOUGH_BYTES = 1_000_000
"""A drawing without loss that is larger than this is sent as a photograph."""
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg"}
_QUALITY = 88


def resized(data: bytes) -> Image:
    """Return a picture as models are shown it. Takes up to a few tenths of a second: call it in a thread.

    Raises:
        InvalidImage: it is no picture, is broken, or is too large to be unpacked.
    """
    found = read_image_header(data)
    if found is None:
        raise InvalidImage("it is no PNG, JPEG, GIF or WebP picture")
    if not (found.width and found.height):
        raise InvalidImage("it is a broken picture")
    if found.width * found.height > MOST_UNPACKED or len(data) > MOST_BYTES:
        raise InvalidImage(
            f"it is too large to look at ({found.width}x{found.height}, {len(data):,} bytes): "
            f"at most {MOST_UNPACKED // 1_000_000} million pixels and {MOST_BYTES // 1_000_000} MB"
        )
    try:
        drawn = _drawn(data)
        shown, kind = _written(drawn, lossless=found.media_type != "image/jpeg")
    except InvalidImage:
        raise
    except Exception as error:  # decoders fail over foreign bytes in whatever way they like, and each means the same
        raise InvalidImage("it is a broken picture") from error
    encoded = base64.b64encode(shown).decode("ascii")
    return Image(media_type=_TYPES[kind], data=encoded, width=drawn.width, height=drawn.height)


def sides(width: int, height: int) -> tuple[int, int]:
    """Return the sides that a picture gets: never larger, in the same proportion, one pixel at least."""
    scale = min(1.0, LONG_SIDE / max(width, height), (MOST_PIXELS / (width * height)) ** 0.5)
    return max(1, int(width * scale)), max(1, int(height * scale))


def _drawn(data: bytes) -> Drawn:
    """Unpack the first frame, turn it upright, and bring it to its size."""
    from PIL import Image as Pillow
    from PIL import ImageOps

    with Pillow.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
        if opened.width * opened.height > MOST_UNPACKED:
            raise InvalidImage("it is larger than its first bytes say")
        size = sides(opened.width, opened.height)
        if opened.format == "JPEG":
            opened.draft("RGB", size)  # unpacks at a half, a quarter or an eighth already, where that is enough
        seen = opened.convert("RGBA" if _has_alpha(opened) else "RGB")
        seen.info = {}
        exif = opened.getexif()
    seen.getexif().clear()
    if turn := exif.get(0x0112):
        seen.getexif()[0x0112] = turn
        seen = ImageOps.exif_transpose(seen)
    wanted = sides(seen.width, seen.height)
    return seen if seen.size == wanted else seen.resize(wanted, Pillow.Resampling.LANCZOS, reducing_gap=3.0)


def _has_alpha(opened: Drawn) -> bool:
    return opened.mode in {"RGBA", "LA", "PA"} or "transparency" in opened.info


def _written(drawn: Drawn, *, lossless: bool) -> tuple[bytes, str]:
    """Write the picture without loss where that stays small, else as a photograph on white."""
    from PIL import Image as Pillow

    if lossless:
        exact = _saved(drawn, "PNG", optimize=False)
        if len(exact) <= _ENOUGH_BYTES:
            return exact, "PNG"
    flat = drawn
    if drawn.mode == "RGBA":
        flat = Pillow.new("RGB", drawn.size, (255, 255, 255))
        flat.paste(drawn, mask=drawn.getchannel("A"))
    return _saved(flat, "JPEG", quality=_QUALITY), "JPEG"


def _saved(drawn: Drawn, kind: str, **how: Any) -> bytes:
    kept = io.BytesIO()
    drawn.save(kept, kind, **how)
    return kept.getvalue()
