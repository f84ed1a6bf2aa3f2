"""``homebody memory``: search, read and index an agent's notes, and show their history."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins
from msgspec.structs import asdict

from gateway.base.errors import HomebodyError, UsageError
from gateway.base.installation import how_to_add
from gateway.cli.invocation import Invocation, pass_invocation, tell
from gateway.cli.memory_bench import bench
from gateway.cli.memory_tidy import tidy
from gateway.cli.notes import Bar, as_json, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from memory.notes.version_store import Version
    from memory.protocol import Author


_ADD_AN_EMBEDDER = [
    "",
    "Notes are searched by keyword only. To search by meaning too, set up one of these embedders, then run `homebody memory index`:",
    "  A model in this program, without a key or a server (91 MB):  {meaning}",
    "  Ollama on this machine:  ollama pull nomic-embed-text, then",
    "    homebody config set agents.defaults.memorySearch.provider openai",
    "    homebody config set agents.defaults.memorySearch.model nomic-embed-text",
    "    homebody config set agents.defaults.memorySearch.remote.baseUrl http://localhost:11434/v1",
    "  An API key:  OPENAI_API_KEY or GEMINI_API_KEY in the environment, or homebody models auth add openai",
]


@click.group()
def memory() -> None:
    """Search and index the agent's notes."""


memory.add_command(bench)
memory.add_command(tidy)


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all subcommands share."""
    for option in (
        click.option("--agent", help="Agent whose memory is used; the default agent if omitted."),
        click.option(
            "--workspace",
            type=click.Path(path_type=Path, file_okay=False, exists=True),
            help="Use this folder instead of the agent's workspace.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("-v", "--verbose", is_flag=True, help="Verbose output."),
    ):
        command = option(command)
    return command


@memory.command()
@click.argument("query", required=False)
@click.option(
    "--queries",
    help="A file with one question per line, or - for standard input; prints one JSON object per line. Missing vectors are made first.",
)
@click.option("--max-results", type=click.IntRange(1, 100), help="Maximum number of results.")
@click.option("--min-score", type=click.FloatRange(0, 1), help="Omit results below this score.")
@click.option("--explain", is_flag=True, help="Show how results were ranked: keyword and vector ranks, scores and date bonus.")
@click.option("--line", help="With --explain: say why this line was or was not returned (memory/2026-01-31.md:12).")
@_common
@pass_invocation
def search(invocation: Invocation, /, query: str | None, queries: str | None, **options: Any) -> None:
    """Search the notes for QUERY."""
    if (query is None) == (queries is None):
        raise UsageError(
            "give either a QUERY or --queries FILE", hint='Try: homebody memory search "where do we keep the spare key?"'
        )
    if queries is not None:
        _run(_search_all(invocation, queries, options))
    elif options["explain"] or options["line"]:
        _run(_explain(invocation, str(query), options))
    else:
        _run(_search_one(invocation, str(query), options))


@memory.command()
@click.argument("path")
@click.option("--from", "from_line", type=click.IntRange(1), default=1, help="First line to print.")
@click.option("--lines", type=click.IntRange(1), help="Number of lines to print.")
@_common
@pass_invocation
def get(invocation: Invocation, /, path: str, from_line: int, lines: int | None, **options: Any) -> None:
    """Print lines of the note PATH."""

    async def work() -> None:
        from memory.audience import OWNER

        async with opened(invocation, options) as notes:
            excerpt = await notes.get(path, audience=OWNER, from_line=from_line, lines=lines)
        facts = {_camel(name): value for name, value in asdict(excerpt).items()}
        _print(facts, excerpt.text, as_json=options["as_json"])

    _run(work())


@memory.command()
@click.option("--force", is_flag=True, help="Read and index every file again.")
@_common
@pass_invocation
def index(invocation: Invocation, /, force: bool, **options: Any) -> None:
    """Index new and changed notes, and make missing vectors."""

    async def work() -> None:
        async with opened(invocation, options) as notes:
            if force:
                await notes.forget_stamps()
            bar = Bar(sys.stderr)
            synced = await notes.sync(bar.show)
            bar.end()
            status = await notes.status()
        facts = {
            **asdict(synced),
            "chunksTotal": status.chunks,
            "vectors": status.vectors,
            "missingVectors": status.missing_vectors,
        }
        lines = [
            f"{synced.files} files, {synced.changed} changed, {synced.removed} removed; {status.chunks} chunks, {status.vectors} vectors"
        ]
        lines += [f"  {path}: {trouble}" for path, trouble in synced.troubles.items()]
        lines += [f"  {place}: no vector: {reason}" for place, reason in status.refusals.items()]
        lines += [f"Some vectors are missing: {status.trouble}"] * bool(status.trouble)
        _print(facts, "\n".join(lines), as_json=options["as_json"])

    _run(work())


@memory.command()
@click.option("--deep", is_flag=True, help="Also test the embedder by asking it for one vector.")
@_common
@pass_invocation
def status(invocation: Invocation, /, deep: bool, **options: Any) -> None:
    """Show the state of the search index."""

    async def work() -> None:
        async with opened(invocation, options) as notes:
            found = await notes.status(deep=deep)
        facts = {_camel(name): value for name, value in asdict(found).items()}
        named = {name.replace("_", " "): value for name, value in asdict(found).items() if value not in (None, "", [], {})}
        rows = [f"{name:16} {_shown(value)}" for name, value in named.items()]
        if found.provider == "none":
            rows += [line.format(meaning=how_to_add("meaning")) for line in _ADD_AN_EMBEDDER]
        _print(facts, "\n".join(rows), as_json=options["as_json"])

    _run(work())


@memory.command()
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@_common
@pass_invocation
def export(invocation: Invocation, /, target: Path, **options: Any) -> None:
    """Write all notes to a zip file TARGET."""

    async def work() -> None:
        async with opened(invocation, options) as notes:
            count = await notes.export(target)
        _print({"files": count, "target": str(target)}, f"{count} notes were written to {target}", as_json=options["as_json"])

    _run(work())


@memory.command()
@click.argument("path", required=False)
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of changes.")
@_common
@pass_invocation
def log(invocation: Invocation, /, path: str | None, limit: int, **options: Any) -> None:
    """List changes to memory and who made them, newest first."""

    async def work() -> None:
        from memory.audience import OWNER

        async with opened(invocation, options) as notes:
            await notes.sync(vectors=False)
            versions = (await notes.history.log(audience=OWNER, path=path))[:limit]
        if path is not None and not versions:
            raise _without_history(path)
        rows = [f"{v.name:>5}  {invocation.local_time(v.at)}  {_by(v.author)}  {v.path}" for v in versions]
        facts = {"versions": [_facts(version) for version in versions]}
        _print(facts, "\n".join(rows) or "No changes yet.", as_json=options["as_json"])

    _run(work())


@memory.command()
@click.argument("version")
@_common
@pass_invocation
def diff(invocation: Invocation, /, version: str, **options: Any) -> None:
    """Show a change as a unified diff."""

    async def work() -> None:
        async with opened(invocation, options) as notes:
            found = notes.history.versions.version(version)
            await notes.history.refresh(found.path)
            text = await asyncio.to_thread(notes.history.versions.diff, found)
        _print({**_facts(found), "diff": text}, text, as_json=options["as_json"])

    _run(work())


@memory.command()
@click.argument("version")
@_common
@pass_invocation
def undo(invocation: Invocation, /, version: str, **options: Any) -> None:
    """Undo a change; later changes of other lines stay."""

    async def work() -> None:
        async with opened(invocation, options) as notes:
            made = await notes.history.undo(version)
            rest = await notes.history.rest_of(version)
            await notes.sync_if_free(vectors=False)
        lines = [f"Version {version} of {made.path} is undone; the undo is version {made.name}"]
        lines += [
            f"Version {one.name} of {one.path} belongs to the same change and stands: homebody memory undo {one.name}"
            for one in rest
        ]
        _print({**_facts(made), "rest": [_facts(one) for one in rest]}, "\n".join(lines), as_json=options["as_json"])

    _run(work())


@memory.command()
@click.argument("path")
@_common
@pass_invocation
def blame(invocation: Invocation, /, path: str, **options: Any) -> None:
    """Show for each line of a note which change added it."""

    async def work() -> None:
        from memory.audience import OWNER

        async with opened(invocation, options) as notes:
            await notes.sync(vectors=False)
            await notes.history.refresh(path)
            lines = await asyncio.to_thread(lambda: list(notes.history.versions.blame(path)))
            missing = await asyncio.to_thread(notes.history.versions.missing, only_after=True)
            gone = [one for one in missing if one.path == path]
            if not lines and not await notes.history.log(audience=OWNER, path=path):
                raise _without_history(path)
        rows = [
            f"{v.name if v else 0:>5}  {invocation.local_time(v.at) if v else '':16}  {_by(v.author) if v else '':12}  {line}"
            for line, v in lines
        ]
        if gone:
            rows.append(
                f"The text of version {', '.join(v.name for v in gone)} is gone, so its lines count as of the next one."
            )
        facts = {
            "path": path,
            "missing": [v.name for v in gone],
            "lines": [{"text": line, "version": v.number if v else None, "name": v.name if v else None} for line, v in lines],
        }
        _print(facts, "\n".join(rows), as_json=options["as_json"])

    _run(work())


def _without_history(path: str) -> HomebodyError:
    return HomebodyError(f"the history has no note {path[:200]!r}", hint="Those that it has: homebody memory log")


async def _search_one(invocation: Invocation, query: str, options: dict[str, Any]) -> None:
    from memory.audience import OWNER

    async with opened(invocation, options) as notes:
        await notes.sync_if_free(vectors=False)
        answer = await notes.search(query, audience=OWNER, max_results=options["max_results"], min_score=options["min_score"])
    found = as_json(answer)
    rows = [
        f"{r['path']}:{r['startLine']}-{r['endLine']}  {r['score']:.2f}\n{_indented(r['snippet'])}"
        for r in (*found["results"], *found.get("nearest", ()))
    ]
    rows[:0] = ["No results. Nearest in meaning:"] if found.get("nearest") else []
    rows += [f"({answer.note})"] * bool(answer.note)
    _print(found, "\n\n".join(rows) or "No results.", as_json=options["as_json"])


async def _search_all(invocation: Invocation, queries: str, options: dict[str, Any]) -> None:
    import time

    from memory.audience import OWNER

    questions = sys.stdin.read() if queries == "-" else await asyncio.to_thread(Path(queries).read_text, encoding="utf-8")
    async with opened(invocation, options) as notes:
        bar = Bar(sys.stderr)
        await notes.sync_if_free(bar.show)
        bar.end()
        for question in questions.splitlines():
            begun = time.perf_counter()
            answer = await notes.search(
                question, audience=OWNER, max_results=options["max_results"], min_score=options["min_score"]
            )
            took = round((time.perf_counter() - begun) * 1000, 2)
            click.echo(json.dumps({"query": question, **as_json(answer), "ms": took}, ensure_ascii=False))


async def _explain(invocation: Invocation, query: str, options: dict[str, Any]) -> None:
    from memory.audience import OWNER

    async with opened(invocation, options) as notes:
        await notes.sync_if_free(vectors=False)
        account = await notes.explain(query, audience=OWNER, line=options["line"])
    candidates: list[dict[str, Any]] = account["candidates"]  # type: ignore[assignment]  # the shape that explain_search returns
    rows = [f"{account['ranking']}, {account['scan']} scan, coverage {account['coverage']} (floor {account['floor']})"]
    rows += [
        f"{c['place']:3} {'*' if c['shown'] else ' '} {c['score']:.3f}  words {_place(c['keywordRank'], c['keywordScore'])}"
        f"  vector {_place(c['vectorRank'], c['vectorScore'])}  date +{c['dateBonus']:.2f}  {c['path']}:{c['startLine']}-{c['endLine']}"
        for c in candidates
    ]
    if "line" in account:
        rows.append(f"{options['line']}: {account['line']['reason']}")  # type: ignore[index]  # the shape that explain_line returns
    _print(account, "\n".join(rows), as_json=options["as_json"])


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def _print(facts: dict[str, Any], text: str, *, as_json: bool) -> None:
    tell(facts, text, as_json=as_json)


def _place(rank: int | None, score: float | None) -> str:
    return f"#{rank} ({score:.2f})" if rank is not None and score is not None else "-"


def _facts(version: Version) -> dict[str, Any]:
    """Return a change as JSON values; ``name`` is the argument of ``undo`` and ``diff``."""
    fields: dict[str, Any] = to_builtins(version)
    del fields["same"]
    return {**fields, "name": version.name}


def _by(author: Author) -> str:
    return " ".join(part for part in (author.kind, author.name, author.session, author.turn) if part)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key}: {inner}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
