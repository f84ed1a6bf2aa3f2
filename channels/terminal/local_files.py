"""Files of this machine that a person at the terminal sends along: found in what was typed, described, and copied when the turn begins."""

from __future__ import annotations

import contextlib
import mimetypes
import os
import shlex
import shutil
import stat
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from channels.errors import ChannelError, NotFetched
from channels.messages import Attachment, AttachmentKind

MOST_FILES: Final = 10
_PIECE: Final = 1 << 20
_KINDS: Final[dict[str, AttachmentKind]] = {"image": "image", "audio": "audio", "video": "video"}
_LONGEST_PATH: Final = 4096
_DESKTOP: Final = ("PATH", "HOME", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")


def attachment_of(name: str) -> Attachment:
    """Return a file as an attachment, whose handle is its absolute path.

    Raises:
        ChannelError: there is no such file, it cannot be read, or it is a folder or a device.
    """
    path = Path(name)
    try:
        found = path.stat()
        readable = os.access(path, os.R_OK)
    except (OSError, ValueError) as error:
        raise ChannelError(f"{name} cannot be sent: {_why(error)}", hint="check the path") from None
    if not stat.S_ISREG(found.st_mode):
        raise ChannelError(f"{name} cannot be sent: it is not a file", hint="to send a folder, pack it first: tar or zip")
    if not readable:
        raise ChannelError(f"{name} cannot be read by the gateway", hint=f"chmod u+r {shlex.quote(name)}")
    media_type = mimetypes.guess_type(path.name)[0] or ""
    kind = _KINDS.get(media_type.partition("/")[0], "document")
    return Attachment(kind=kind, handle=str(path.absolute()), name=path.name, media_type=media_type, size=found.st_size)


def copy(attachment: Attachment, path: Path, limit: int) -> None:
    """Copy the file of an attachment to ``path``, which does not exist yet. Blocks: call it in a thread.

    Raises:
        NotFetched: it is gone, no file any more, or larger than ``limit`` bytes. Nothing is left at ``path``.
    """
    done = False
    try:
        with os.fdopen(_opened(attachment.handle), "rb") as source, path.open("xb") as target:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise NotFetched(f"{attachment.name} is not a file any more")
            left = limit
            while piece := source.read(_PIECE):
                left -= len(piece)
                if left < 0:
                    raise NotFetched(f"{attachment.name} is larger than {limit:,} bytes")
                target.write(piece)
            done = True
    except OSError as error:
        raise NotFetched(f"{attachment.name} could not be read: {_why(error)}") from error
    finally:
        if not done:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def path_in(text: str) -> str:
    """Return the absolute path of the file that a text names and nothing else; "" if it names none.

    Terminals write a file that is dropped into them as a path, with quotes, with backslashes, or as a ``file:`` URL.
    """
    text = text.strip()
    if not text or "\n" in text or len(text) > _LONGEST_PATH:
        return ""
    return next((found for one in _readings(text) if (found := _existing(one))), "")


def split_path(text: str) -> tuple[str, str]:
    """Split an argument into the path at its beginning and the words behind it; the path is "" where no file is named.

    Blanks in a path need no quotes: the longest beginning that is a file counts.
    """
    text = text.strip()
    if whole := path_in(text):
        return whole, ""
    ends = [at for at, letter in enumerate(text[:_LONGEST_PATH]) if letter.isspace()]
    for end in reversed(ends):
        if found := path_in(text[:end]):
            return found, text[end:].strip()
    return "", text


def picture_from_clipboard(folder: Path, name: str) -> Path | None:
    """Save the picture in the clipboard of this machine's desktop as a PNG; None if there is none, or no program to ask.

    Blocks for five seconds at most: call it in a thread.
    """
    import subprocess

    commands = [
        ["wl-paste", "--type", "image/png"],
        ["xclip", "-selection", "clipboard", "-t", "image/png", "-o"],
        ["pngpaste", "-"],
    ]
    env = {name: os.environ[name] for name in _DESKTOP if name in os.environ}
    for command in commands:
        program = shutil.which(command[0])
        if program is None:
            continue
        try:
            done = subprocess.run(  # noqa: S603 - fixed arguments
                [program, *command[1:]], capture_output=True, timeout=5, check=False, env=env
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.startswith(b"\x89PNG"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / name
            path.write_bytes(done.stdout)
            return path
    return None


def _readings(text: str) -> list[str]:
    found = [text]
    with contextlib.suppress(ValueError):
        words = shlex.split(text)
        found += words if len(words) == 1 else []
    if text.startswith("file:"):
        found.append(unquote(urlsplit(text).path))
    return found


def _existing(name: str) -> str:
    try:
        path = Path(name).expanduser()
        return str(path.absolute()) if path.is_file() else ""
    except (OSError, RuntimeError, ValueError):
        return ""


def _opened(name: str) -> int:
    """Open without waiting for a writer: somebody may have put a pipe there."""
    return os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", "") or str(error)).lower()
