"""The walls between the rooms stand, and a hole in one is seen."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("agent", "channels", "gateway", "memory")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("lint-imports"))
    return subprocess.run([program, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


def test_the_walls_stand() -> None:
    told = lint(ROOT)
    assert told.returncode == 0, told.stdout


HOLES = [
    ("memory/audience.py", "import agent.messages", "agent above memory"),
    ("channels/messages.py", "import agent.messages", "agent above memory"),
    ("channels/messages.py", "import memory.audience", "channels do not know memory"),
    ("gateway/supervision/platforms.py", "import channels.slack", "the gateway names no platform"),
    ("channels/platform.py", "import channels.slack.settings", "parts of channels"),
    ("channels/slack/settings.py", "import channels.telegram.settings", "parts of channels"),
    ("channels/slack/settings.py", "if TYPE_CHECKING:\n    import channels.terminal.link", "parts of channels"),
    ("channels/common/markdown.py", "import channels.telegram.settings", "parts of channels"),
    ("channels/protocol.py", "if TYPE_CHECKING:\n    import channels.common.log", "parts of channels"),
    ("agent/messages.py", "import gateway.base.clock", "gateway above agent"),
    ("agent/settings.py", "import agent.models.thinking", "parts of the agent"),
    ("agent/models/protocol.py", "if TYPE_CHECKING:\n    import agent.tools.toolbox", "parts of the agent"),
    ("agent/context/prompt.py", "import agent.loop.turn", "parts of the agent"),
    ("agent/models/catalog/prices.py", "import agent.models.adapters.anthropic", "parts of agent.models"),
    (
        "agent/models/middleware/failover.py",
        "if TYPE_CHECKING:\n    import agent.models.adapter_factory",
        "parts of agent.models",
    ),
    ("memory/search/ranking.py", "import memory.indexing.indexer", "parts of memory:"),
    ("memory/store/candidates.py", "if TYPE_CHECKING:\n    import memory.search.retrieval", "parts of memory:"),
    ("memory/text/dates.py", "import memory.notes.sources", "parts of memory:"),
    ("memory/embedding/engines/gguf.py", "import memory.embedding.fallback", "parts of memory.embedding"),
    ("memory/embedding/protocol.py", "if TYPE_CHECKING:\n    import memory.embedding.inputs", "parts of memory.embedding"),
    ("agent/messages.py", "import anthropic", "model SDKs only in agent.models"),
    ("gateway/base/clock.py", "import gateway.settings.root", "each knows only those below it"),
    ("gateway/queue/lanes.py", "if TYPE_CHECKING:\n    import gateway.turns.worker", "each knows only those below it"),
    ("gateway/turns/worker.py", "import gateway.app.gateway", "each knows only those below it"),
    ("gateway/base/clock.py", "import telegram", "chat SDKs only in channels"),
    ("gateway/base/clock.py", "import starlette", "web server packages only in gateway.api"),
    ("gateway/media/incoming.py", "import httpx", "HTTP clients only in gateway.net"),
    ("agent/tools/send_file.py", "import httpcore2", "HTTP clients only in gateway.net"),
    ("memory/notes/sources.py", "import aiohttp", "HTTP clients only in gateway.net"),
]


def told_of_all_holes(folder: Path) -> str:
    """Make all holes in one copy; return what is said of each wall that is broken."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for file, line, _ in HOLES:
        with (folder / file).open("a") as source:
            source.write(f"\n\n{line}\n")
    told = lint(folder)
    assert told.returncode != 0
    return told.stdout


def test_each_hole_is_seen(tmp_path: Path) -> None:
    """One test, for a look at the walls takes seconds."""
    broken = told_of_all_holes(tmp_path).partition("Broken contracts")[2]
    unseen = []
    for file, line, contract in HOLES:
        walls = [wall for wall in re.split(r"\n(?=[^\n]+\n-{4,}\n)", broken) if contract in wall.partition("\n")[0]]
        hole = f" {file.removesuffix('.py').replace('/', '.')} -> {line.rpartition(' ')[2]} (l."
        if not any(hole in wall for wall in walls):
            unseen.append((file, line, contract))
    assert unseen == [], broken
