"""``homebody context``: what fills the context window now and filled it before, a past prompt, and the next memory flush."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click

from gateway.base.errors import UsageError
from gateway.cli.invocation import Invocation, pass_invocation, tell


@click.command()
@click.option("--agent", "agent_id", help="The agent (default: the default agent).")
@click.option("--session", help="The session key (default: the owner's main session).")
@click.option(
    "--history", is_flag=True, help="Show what filled the window at the latest calls, and what changed it between them."
)
@click.option("--prompt", "call", metavar="ID", help="Show the prompt of a past call (its id in --history).")
@click.option("--flush", is_flag=True, help="Show what the next memory flush would keep.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def context(
    invocation: Invocation,
    *,
    agent_id: str | None,
    session: str | None,
    history: bool,
    call: str | None,
    flush: bool,
    as_json: bool,
) -> None:
    """Show each part of the next model request: characters, tokens and share."""
    from gateway.cli.gateway_calls import ask_or_open

    if history + flush + (call is not None) > 1:
        raise UsageError("--history, --prompt and --flush exclude each other", hint="Give one of them.")

    def ask(name: str, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = asyncio.run(ask_or_open(invocation, name, agent=agent_id, session=session, **more))
        return found

    if history:
        facts = ask("context.history")
        tell(facts, _history_table(facts, invocation.local_time), as_json=as_json)
    elif call is not None:
        facts = _whole_prompt(lambda offset: ask("context.prompt", call=call, offset=offset))
        tell(facts, _prompt_text(facts), as_json=as_json)
    elif flush:
        facts = ask("context.flush")
        tell(facts, _flush_text(facts, invocation.local_time), as_json=as_json)
    else:
        facts = ask("context")
        tell(facts, _window_table(facts), as_json=as_json)


def _whole_prompt(ask: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    facts = ask(0)
    while len(facts["parts"]) < facts["count"] and (more := ask(len(facts["parts"]))["parts"]):
        facts["parts"] += more
    return facts


def _history_table(facts: dict[str, Any], local: Callable[[str], str]) -> str:
    rows = [f"{'when':16}  {'tokens':>8} {'of window':>9} {'cached':>6}  call"]
    for point in facts["points"]:
        when = local(point["at"])[:16]
        if point["kind"] == "call":
            share, cached = point["tokens"] / (facts["window"] or 1), point["cacheRead"] / (point["tokens"] or 1)
            rows.append(f"{when:16}  {point['tokens']:>8,} {share:>9.0%} {cached:>6.0%}  {point['call']}")
        else:
            sizes = "" if point["before"] is None else f" ({point['before']:,} to {point['after']:,} tokens)"
            rows.append(f"{when:16}  -- {point['kind']}{': ' if point['told'] else ''}{point['told']}{sizes}")
    return "\n".join(rows) if facts["points"] else "No call has been answered in this session yet."


_EXACT = {
    "yes": "This is what was sent.",
    "changed": "The messages are what was sent. Parts marked * have changed since, and are shown as they are now.",
    "unknown": "The messages are what was sent. Whether instructions and tools have changed since is not recorded for this turn.",
}


def _prompt_text(facts: dict[str, Any]) -> str:
    from channels.common.control_characters import visible

    cached = "" if facts["cacheRead"] is None else f", {facts['cacheRead']:,} of them read from the cache"
    lines = [f"{facts['model']}: {facts['tokens'] or 0:,} tokens{cached}. {_EXACT[facts['exact']]}"]
    lines += [f"Sent and not there any more: {', '.join(facts['gone'])}."] if facts["gone"] else []
    for part in facts["parts"]:
        mark = "*" if part["exact"] == "changed" else ""
        read = ", read from the cache" if part["cached"] == "read" else ""
        lines += ["", f"--- {part['name']}{mark} ({part['kind']}, about {part['tokens']:,} tokens{read})", part["text"]]
        if part["chars"] > len(part["text"]):
            lines.append(f"[cut: {part['chars']:,} characters in all]")
    return visible("\n".join(lines))


def _flush_text(facts: dict[str, Any], local: Callable[[str], str]) -> str:
    from channels.common.control_characters import visible

    last = f"The last one was at {local(facts['last'])} ({facts['lastOutcome']}). " if facts["last"] else ""
    head = f"Nothing would be kept: {facts['obstacle']}." if facts["obstacle"] else f"Memory is flushed to {facts['note']}."
    lines = [f"{head} It is due at {facts['flushAt']:,} tokens; now there are {facts['tokens']:,}. {last}".rstrip()]
    lines += (
        ["", "If the model notes nothing of it, these sentences are written down word for word:"] if facts["byRule"] else []
    )
    for group in facts["byRule"]:
        lines += ["", group["note"] + (f" (from {', '.join(group['taint'])})" if group["taint"] else "")]
        lines += [f"- {sentence}" for sentence in group["sentences"]]
    lines += ["", "The model is asked:", facts["request"]]
    return visible("\n".join(lines))


def _window_table(facts: dict[str, Any]) -> str:
    total = sum(part["tokens"] for part in facts["parts"]) or 1
    rows = [f"{'part':24} {'characters':>10} {'tokens':>8} {'share':>6}  cached"]
    rows += [
        f"{part['name'][:24]:24} {part['chars']:>10,} {part['tokens']:>8,} {part['tokens'] / total:>6.0%}  "
        f"{'yes' if part['cached'] else 'no'}"
        for part in facts["parts"]
    ]
    left = facts["turns_left"]
    obstacle = facts["flush_obstacle"]
    rows += [
        "",
        f"{facts['tokens']:,} of {facts['window']:,} tokens; memory is "
        + (f"not flushed: {obstacle}" if obstacle else f"flushed at {facts['flush_at']:,}")
        + ("" if left is None or obstacle else f", in about {left} turns")
        + f"; history is compacted above {facts['compact_above']:,}.",
    ]
    rows += [facts["too_small"]] if facts["too_small"] else []
    return "\n".join(rows)
