"""The files of the page: what is sent of each, compressed once, under an address that changes with any of them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from gateway.page.asset_packing import VENDORED, joined, one_module, pages_in, shortened_style

ASSETS: Final = Path(__file__).with_name("assets")
TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
LANGUAGES: Final = ("en", "de")
SCRIPT: Final = "app.js"
"""All scripts of our own as one."""
_MARK: Final = "{{version}}"
_NAME: Final = re.compile(r"[a-z0-9-]+(?:/[a-z0-9-]+)?\.[a-z]+")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent: compressed."""

    media_type: str
    packed: bytes


class AssetFiles:
    """The files below ``folder``. Methods block for the time of a small file; what was read is kept compressed."""

    def __init__(self, folder: Path = ASSETS) -> None:
        self._folder = folder
        self._kept: dict[str, Asset] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that can be asked for."""
        found = {path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if path.is_file()}
        scripts = {name for name in found if name.endswith(".js") and not name.startswith(VENDORED)}
        sent = (name for name in found - scripts if _NAME.fullmatch(name) and not name.startswith("texts/"))
        return frozenset(sent) | {SCRIPT} | {texts_of(language) for language in LANGUAGES}

    @cached_property
    def version(self) -> str:
        """What stands in the addresses of the files: another one where any of them differs."""
        digest = hashlib.sha256()
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file() and path.suffix in TYPES):
            digest.update(path.relative_to(self._folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:12]

    def get(self, name: str) -> Asset | None:
        """Return a file; None for a name that is none. A name is looked up, never joined to a path before."""
        if name not in self.names:
            return None
        if name not in self._kept:
            import gzip

            media_type = TYPES["." + name.rpartition(".")[2]]
            body = self._body(name)
            if media_type.startswith(("text/html", "application/manifest")):
                body = body.replace(_MARK.encode(), self.version.encode())
            self._kept[name] = Asset(media_type, gzip.compress(body, 9, mtime=0))
        return self._kept[name]

    def _body(self, name: str) -> bytes:
        """Return what is sent under a name. The vendored file is sent as it was published."""
        if language := next((one for one in LANGUAGES if name == texts_of(one)), ""):
            return self._texts(language)
        if name == SCRIPT:
            paths = (*self._folder.glob("*.js"), *self._folder.glob("pages/*.js"))
            modules = {path.stem: path.read_text("utf-8") for path in paths}
            return joined(one_module(modules, pages_in(modules["app"]), "app")).encode()
        data = (self._folder / name).read_bytes()
        return shortened_style(data.decode()).encode() if name.endswith(".css") else data

    def _texts(self, language: str) -> bytes:
        """Return all texts in a language, by their keys."""
        merged: dict[str, str] = {}
        for path in sorted((self._folder / "texts").glob("*.json")):
            merged |= {key: both[language] for key, both in json.loads(path.read_text("utf-8")).items()}
        return json.dumps(merged, ensure_ascii=False, separators=(",", ":")).encode()


def texts_of(language: str) -> str:
    """Return the name under which the texts in a language are sent."""
    return f"texts-{language}.json"
