"""The conversation on the README's first screen is one that really takes place."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests import programs
from tests.patience import PATIENCE

README = Path(__file__).resolve().parents[2] / "README.md"


def shown() -> tuple[list[str], str]:
    """Return what the person says in the README, and what is answered."""
    block = re.search(r"<!-- conversation:.*?-->\n```\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    said = re.findall(r"^› (.*)$", block[1], re.MULTILINE)
    answers = "\n".join(part.strip("\n") for part in re.split(r"^› .*$", block[1], flags=re.MULTILINE) if part.strip())
    return said, answers + "\n"


def test_the_conversation_in_the_readme_takes_place(tmp_path: Path) -> None:
    said, answers = shown()
    assert len(said) == 2
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / "state")}
    done = programs.run(
        [sys.executable, "-m", "gateway", "chat"],
        input="\n".join(said) + "\n",
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=README.parent,
    )
    assert done.returncode == 0, done.stderr

    def dated(text: str) -> str:
        return re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)

    assert dated(done.stdout) == dated(answers)
