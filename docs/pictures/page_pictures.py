"""Draws docs/pictures/page-*.png: each page of the browser, on a desktop in light colours and on a phone in dark ones.

Run it with `make page-pictures` (it needs chromium). The stories of tests/page/browser make them; what no document shows is left out.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOOKS = ("desktop-light", "phone-dark")
STORIES = (
    "as_it_looks or as_they_look or read_by_everybody or draft_that_grows or listed_and_revoked or taken_apart or error_first"
)
LARGEST = 60_000


def shown() -> list[str]:
    """Return the names of the pictures that documents show."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    return sorted({name for page in pages for name in re.findall(r"pictures/(page-[\w-]+\.png)", page.read_text("utf-8"))})


def reduced(path: Path) -> bytes:
    """Return a picture with as many colours as fit into a small file."""
    for colours in (128, 64, 32, 16):
        out = io.BytesIO()
        with Image.open(path) as image:
            image.convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() <= LARGEST:
            break
    return out.getvalue()


def main() -> int:
    """Draw the pictures anew, and remove those that no document shows."""
    wanted = shown()
    with tempfile.TemporaryDirectory(prefix="homebody-") as folder:
        env = {**os.environ, "PAGE_TESTS": "1", "PAGE_PICTURES": folder}
        chosen = f"({STORIES}) and ({' or '.join(LOOKS)})"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            f"--basetemp={folder}/home",
            "tests/page/browser",
            "-k",
            chosen,
        ]
        if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
            return 1
        made = {path.name: path for path in Path(folder).glob("page-*.png")}
        if missing := [name for name in wanted if name not in made]:
            print(f"No story makes {', '.join(missing)}. There are: {', '.join(sorted(made))}", file=sys.stderr)
            return 1
        for old in HERE.glob("page-*.png"):
            if old.name not in wanted:
                old.unlink()
        for name in wanted:
            data = reduced(made[name])
            (HERE / name).write_bytes(data)
            print(f"{name}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
