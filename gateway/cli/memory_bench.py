"""``homebody memory bench``: how often search finds the lines of the owner's own notes, now and at the last time."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import UsageError
from gateway.cli.invocation import Invocation, pass_invocation, tell
from gateway.cli.notes import Bar, opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from memory.search.self_test import Figures, Question

_MOST_RUNS = 50


@click.command()
@click.option("--agent", help="Agent whose notes are searched; the default agent if omitted.")
@click.option("--new", is_flag=True, help="Make new questions of the notes as they are now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def bench(invocation: Invocation, /, agent: str | None, new: bool, as_json: bool) -> None:
    """Ask questions made of your own notes, and tell how many are answered, compared with the last time.

    The questions are kept, so that a run before and one after a change of embedder or settings can be compared.
    """
    name = agent or invocation.loaded.settings.default_agent
    file = invocation.paths.agent(name) / "bench.json"
    facts = asyncio.run(_run(invocation, name, file, new=new))
    tell(facts, _told(facts), as_json=as_json)


async def _run(invocation: Invocation, agent: str, file: Path, *, new: bool) -> dict[str, Any]:
    from gateway.base.atomic_file import write_atomically
    from gateway.base.clock import SystemClock
    from memory.audience import OWNER
    from memory.search.self_test import figures_of, measure

    kept = {} if new else await asyncio.to_thread(_kept, file)
    bar = Bar(sys.stderr)
    async with opened(invocation, {"agent": agent, "workspace": None, "verbose": False}) as notes:
        await notes.sync(bar.show)
        questions, lines = await asyncio.to_thread(_questions, notes.sources, kept)
        if not questions:
            raise UsageError("the notes have too few lines to make questions of", hint="homebody memory status")
        places = [place for place, one in enumerate(questions) if set(one.lines) <= lines]
        asked = [questions[place] for place in places]

        async def search(text: str) -> Any:
            return (await notes.search(text, audience=OWNER)).hits

        judged = await measure(asked, search, bar.show)
        answer = await notes.search(asked[0].text if asked else "", audience=OWNER)
        bar.end()
    at = SystemClock().now().isoformat(timespec="seconds")
    figures = figures_of((one.kind, result) for one, result in zip(asked, judged, strict=True))
    answers = {str(place): result for place, result in zip(places, judged, strict=True)}
    run = {"at": at, "model": answer.model, "figures": _as_json(figures), "answers": answers}
    runs = [*kept.get("runs", []), run][-_MOST_RUNS:]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    stored = {"questions": [asdict(one) for one in questions], "runs": runs}
    await asyncio.to_thread(write_atomically, file, json.dumps(stored, ensure_ascii=False, indent=1))
    shown = {name: value for name, value in run.items() if name != "answers"}
    before = _compared(questions, run, runs[-2]) if len(runs) > 1 else None
    return {**shown, "gone": len(questions) - len(asked), "before": before, "questionsIn": str(file)}


def _compared(questions: Sequence[Question], run: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """Return the last run's figures and this one's, over the questions that both asked, and how many of the last went since.

    Runs of earlier versions tell no single answers: they are compared where they asked as many questions, which then are the same.
    """
    from memory.search.self_test import figures_of

    facts = {"at": last["at"], "model": last["model"]}
    now, then = run["answers"], last.get("answers")
    if then is None:
        same = last["figures"]["all"]["questions"] == len(now)
        figures = last["figures"] if same else {}
        return {**facts, "figures": figures, "now": run["figures"] if same else {}, "compared": len(now) * same, "went": None}
    both = [place for place in now if place in then]
    over = [
        _as_json(figures_of((questions[int(place)].kind, tuple(answers[place])) for place in both)) for answers in (then, now)
    ]
    return {**facts, "figures": over[0], "now": over[1], "compared": len(both), "went": len(then.keys() - now.keys())}


def _as_json(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {kind: asdict(one) for kind, one in figures.items()}


def _kept(file: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept


def _questions(sources: Any, kept: dict[str, Any]) -> tuple[list[Question], set[str]]:
    """Return the questions, kept or new, and the lines that the notes have."""
    from memory.errors import MemoryUnreadable
    from memory.notes.note_reader import read_note
    from memory.notes.sources import audience_of
    from memory.search.self_test import Question, make_questions

    texts: list[str] = []
    for found in sources.walk():
        if not found.trouble and not audience_of(found.path):
            try:
                texts.append(read_note(sources, found.path).text)
            except MemoryUnreadable:
                continue
    lines = {line.strip() for text in texts for line in text.split("\n")}
    known = [Question(one["kind"], one["text"], tuple(one["lines"])) for one in kept.get("questions", [])]
    return known or make_questions(texts), lines


def _told(facts: dict[str, Any]) -> str:
    before = facts["before"] or {"figures": {}, "now": {}}
    rows = [f"{'':10}{'questions':>10}{'any@6':>18}{'all@6':>18}{'nDCG@6':>18}"]
    for kind, one in facts["figures"].items():
        then, now = before["figures"].get(kind, {}), before["now"].get(kind, {})
        shown = "".join(f"{_beside(one[name], then.get(name), now.get(name)):>18}" for name in ("any", "all", "ndcg"))
        rows.append(f"{kind:10}{one['questions']:>10}{shown}")
    rows.append(f"\nAnswered by {facts['model']}.")
    if facts["before"]:
        rows.append(_change(facts["before"]))
    if facts["gone"]:
        rows.append(f"{facts['gone']} questions were left out: their lines are no longer in the notes (--new makes others).")
    return "\n".join(rows)


def _change(before: dict[str, Any]) -> str:
    since = f"since {before['at']}, by {before['model']}"
    if not before["compared"]:
        return f"No question of the run {since} is still asked, so there is no change to tell."
    went = f"; {before['went']} that the last one asked went since" if before["went"] else ""
    return f"In brackets: the change {since}, over the {before['compared']} questions of both runs{went}."


def _beside(shown: float, before: float | None, now: float | None) -> str:
    return f"{shown:.3f}" if before is None or now is None else f"{shown:.3f} ({now - before:+.3f})"
