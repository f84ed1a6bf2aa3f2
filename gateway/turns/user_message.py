"""Builds the user message for the agent from a message of a person.

What people wrote is escaped so that it cannot imitate the gateway's own marks: names, quotations, fences, headers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from agent.messages import AssistantMessage, Text, ToolCall, UserMessage
from agent.taint import QUOTE, Marks, fenced, merged, neutralised, random_mark, source
from agent.transcript.entries import Said
from gateway.media.incoming import IncomingFiles, StoredFiles
from gateway.routing.routed_message import Automation, RoutedMessage

if TYPE_CHECKING:
    from agent.context.session_context import SessionContext

LONGEST_NAME: Final = 60
LONGEST_QUOTE: Final = 300
_NOT_IN_NAMES: Final = re.compile(r"[\[\]<>“”„\"`|]")
_FORWARDED: Final = re.compile(
    r"^(\[(?:forwarded(?: from ([^\n]*))?|made with (@[^\n]*))\])[ \t]*(?:\n(.*)|\Z)", re.DOTALL | re.MULTILINE
)
"""What channels put before words that are not the sender's own, and those words."""
_MARKS: Final = re.compile(
    r"^(?=[ \t>*_#-]*(?:"
    r"\[\s*(?:in reply to|said in this group|the message\]|the program through which|edited:|pressed:"
    r"|pinned|unpinned|forwarded|owner|system|summary|your owner"
    r"|[a-z]{3} \d{4}-\d\d-\d\d|[^\]\n]{0,120}\bto you\s*\]|[^\]\n]{0,120}\b(?:edited:|put )"
    r"|the answer above|not answered|no longer pinned|(?:scheduled )?job\b|webhook\b|from sub-?agent|sub-?agent\b|task\s*[“\"]|heartbeat\b)"
    r"|</?(?:said|file|forwarded|quoted|untrusted)\b))",
    re.IGNORECASE | re.MULTILINE,
)
"""Beginnings of lines that the agent is told by us alone. Where a person wrote one, a backslash stands before it."""


def name_of(name: str, otherwise: str) -> str:
    """Return a display name as one plain, short line; ``otherwise`` where nothing of it can be read."""
    from unicodedata import category

    seen = "".join(" " if category(letter)[0] in "CZ" else letter for letter in name)
    plain = " ".join(_NOT_IN_NAMES.sub("", seen).split())
    return (plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1].rstrip() + "…") or otherwise


def head_of(arrived: RoutedMessage) -> str:
    """Return who speaks, for the head of a message: the name they chose in quotation marks, the platform's id, the role.

    Nothing for the owner in private, where nobody else speaks. For a message that no person wrote: what it comes from.
    """
    if arrived.automation is not None:
        label = label_of(arrived.automation)
        return f"from {label}" if label.startswith("sub-agent") else label
    if arrived.route.audience.kind == "owner":
        return ""
    inbound, actor = arrived.inbound, arrived.actor
    role = "owner" if actor.owner else "member" if inbound.conversation.kind == "group" else "guest"
    return f"“{name_of(inbound.sender.name, '?')}” {inbound.conversation.channel}:{name_of(inbound.sender.id, '?')}, {role}"


def label_of(automation: Automation) -> str:
    """Return what a message comes from that no person wrote, such as ``job “water the plants”``."""
    kind = automation.source.partition(":")[0]
    if kind == "heartbeat" and automation.origin != "agent":
        return kind
    what = {"schedule": "job", "webhook": "webhook"}.get(automation.origin)
    if what is None:
        what = "sub-agent" if automation.result_of or automation.parent is None else "task"
    return f"{what} “{name_of(automation.name, 'unnamed')}”"


def unmarked(text: str) -> str:
    """Return a text in which no line can be taken for a mark of ours."""
    return _MARKS.sub(r"\\", text)


def body(text: str, marks: Marks = random_mark) -> str:
    """Return a message's own text; what was forwarded is fenced. Whose words it is, a name that others chose, stands in the fence alone."""
    forwarded = _FORWARDED.search(text)
    if forwarded is None:
        return unmarked(text)
    own, whose = unmarked(text[: forwarded.start()]), forwarded[2] or forwarded[3] or ""
    theirs = unmarked(forwarded[4] or "").strip() or (f"from {unmarked(whose)}" if whose else "")
    return f"{own}[forwarded]\n{fenced(theirs, forwarded_from(text), marks)}" if theirs else f"{own}[forwarded]"


def forwarded_from(text: str) -> tuple[str, ...]:
    """Return the source of the words in a message that are not its sender's own, or nothing."""
    found = _FORWARDED.search(text)
    return () if found is None else (source("forwarded", found[2] or found[3] or "somebody"),)


def origin_of(text: str) -> str:
    """Return the line in a message that says whose words follow, or nothing."""
    found = _FORWARDED.search(text)
    return "" if found is None else found[1]


def without_origin(text: str) -> str:
    """Return a message's text without that line."""
    found = _FORWARDED.search(text)
    return text if found is None else f"{text[: found.start()]}{found[4] or ''}"


def quoted(text: str, most: int = LONGEST_QUOTE) -> str:
    """Return the beginning of a text as a quotation of one line."""
    return f"“{one_line(text, most).replace('“', '‘').replace('”', '’')}”"


def one_line(text: str, most: int) -> str:
    """Return the beginning of a text without line breaks."""
    return cut(" ".join(text.split()), most)


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, marked where it was cut."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


SHOWN_CHARS = 4000
"""Of what is too long, at least so many characters are shown."""
SHARE = 4
"""A message may fill this part of the window: a quarter."""
ENOUGH = 20
"""Of a very long message so many characters a token are looked at: no text has more, and looking at it all would take seconds."""
WEBHOOK_CHARS = 8000
"""The body of a webhook may have so many characters: nobody chose how many there are, and each call costs them."""
KEPT_CHARS = 8000
"""Characters that the transcript keeps of a message that no turn answers."""
LOOKED_BACK = 200
"""Entries of the history in which a quoted message is looked for."""
_NO_LETTERS = re.compile(r"[\W_]+")
PROGRAM = "[The program through which this came says]"
PART_CHARS = 2_000_000
"""A longer message becomes several files, each of which the file tools can read in whatever script it is."""


async def user_message(
    conversation: SessionContext,
    message: RoutedMessage,
    intake: IncomingFiles | None = None,
    marks: Marks = random_mark,
    *,
    echo: Callable[[str], None] = lambda _: None,
) -> UserMessage:
    """Return the user message: with its sender unless it is the owner in private, with its files, and cut where it is too long.

    ``echo`` is called with what was understood of a voice message, where that is to be shown.
    Words of others than its sender are fenced. Its taint names them, and the sender unless it is the owner.
    """
    inbound = message.inbound
    if message.automation is not None:
        return await _automated(conversation, message, message.automation, marks)
    shown, cut = await _shortened(conversation, inbound.text, message.row.uid)
    beside = await _beside(conversation, message, marks) if inbound.context.strip() else ""
    taken = await intake.take(conversation, message, marks) if intake is not None and inbound.attachments else StoredFiles()
    written = body(shown + (f"\n\n{cut}" if cut else ""), marks)
    words = [written, *(f"{head} {unmarked(spoken)}" for head, spoken in taken.spoken)]
    replied_to = _quoted_source(conversation, inbound.quoted) if inbound.quoted else ()
    text = with_context(message, "\n".join(filter(None, words)), marks, beside, replied_to=replied_to)
    for one in taken.echoes:
        echo(one)
    text = "\n".join(filter(None, [text, *taken.lines]))
    sources = (*sources_of(message), *replied_to, *taken.sources)
    taint = merged(sources) if sources else ()
    return UserMessage(content=(Text(text=text), *taken.pictures), at=inbound.at, sender=head_of(message), taint=taint)


def of_text_alone(message: RoutedMessage, files: Sequence[str] | None = None, marks: Marks = random_mark) -> UserMessage:
    """Return a message as the model would have been given it, without what its files hold. ``files`` are lines that name these."""
    inbound, text = message.inbound, message.inbound.text
    cut = "" if len(text) <= KEPT_CHARS else f"[cut: this message has {len(text):,} characters]"
    if message.automation is not None:
        return _of_automation(message, message.automation, unmarked(text[:KEPT_CHARS]), cut, marks)
    if files is None:
        names = ", ".join(unmarked(file.name or file.kind) for file in inbound.attachments)
        files = [f"[with files that are not shown: {names}]"] * bool(names)
    said = body(text[:KEPT_CHARS] + (f"\n\n{cut}" if cut else ""), marks)
    replied_to = ("quote",) if inbound.quoted else ()
    shown = with_context(message, "\n".join(filter(None, [said, *files])), marks, replied_to=replied_to)
    taint = merged((*sources_of(message), *replied_to)) if sources_of(message) or replied_to else ()
    return UserMessage(content=(Text(text=shown),), at=inbound.at, sender=head_of(message), taint=taint)


async def _automated(conversation: SessionContext, message: RoutedMessage, automation: Automation, marks: Marks) -> UserMessage:
    """Return the message of an automation. Text with sources is fenced; the instruction stands before the fence."""
    most = WEBHOOK_CHARS if automation.origin == "webhook" else None
    shown, cut = await _shortened(conversation, message.inbound.text, message.row.uid, sources_of(message), most)
    return _of_automation(message, automation, unmarked(shown), cut, marks)


def _of_automation(message: RoutedMessage, automation: Automation, text: str, cut: str, marks: Marks) -> UserMessage:
    if automation.sources and text:
        text = fenced(text, automation.sources, marks)
    text = "\n".join(filter(None, [*message.context_events, automation.instruction, text, cut]))
    return UserMessage(
        content=(Text(text=text),),
        at=message.inbound.at,
        sender=head_of(message),
        taint=sources_of(message),
        automation=automation.origin,
    )


def sources_of(message: RoutedMessage) -> tuple[str, ...]:
    """Return the sources of untrusted words that a message brings, apart from its files and what it replies to."""
    inbound, automation = message.inbound, message.automation
    if automation is not None:
        return merged(automation.sources, () if automation.owner else (source("guest", automation.name),))
    found = {*forwarded_from(inbound.text)}
    if not message.actor.owner or inbound.from_bot:
        found.add(source("person", inbound.sender.name or inbound.sender.id))
    if message.before or (message.context_events and message.route.audience.kind != "owner"):
        found.add(source("group", inbound.conversation.id))
    return merged(found, message.context_sources) if found or message.context_sources else ()


def _quoted_source(conversation: SessionContext, quoted_text: str) -> tuple[str, ...]:
    """Return the source of what a message replies to, unless it is something trusted that the model was shown in this session anyway."""
    wanted = _letters(quoted_text.rstrip("…"))
    if not wanted:
        return ()
    said = [entry.body.message for entry in conversation.transcript.entries[-LOOKED_BACK:] if isinstance(entry.body, Said)]
    trusted = (
        one.text for one in said if isinstance(one, AssistantMessage) or (isinstance(one, UserMessage) and not one.taint)
    )
    return () if any(wanted in _letters(text) for text in trusted) else ("quote",)


def _letters(text: str) -> str:
    """Return the letters and figures of a text: platforms show what was sent without its markup."""
    return _NO_LETTERS.sub("", text).casefold()


async def _beside(conversation: SessionContext, message: RoutedMessage, marks: Marks) -> str:
    """Return what the sender's program says beside a message. It is fenced, unless the program is the owner's."""
    sources = () if message.actor.owner else (source("person", message.inbound.sender.id),)
    shown, cut = await _shortened(conversation, message.inbound.context, f"{message.row.uid}-context", sources)
    text = unmarked(shown).strip()
    return "\n".join(filter(None, [PROGRAM, fenced(text, sources, marks) if sources else text, cut]))


def with_context(
    message: RoutedMessage, text: str, marks: Marks = random_mark, beside: str = "", *, replied_to: tuple[str, ...] = ()
) -> str:
    """Return a text with its context before it: earlier group messages, events, what a program says, and what it replies to.

    ``replied_to`` is the source of the latter, where it is not known whose words they are: they are fenced.
    """
    inbound, lines = message.inbound, [beside] if beside else []
    if message.before:
        before = fenced(unmarked(message.before).strip(), [source("group", inbound.conversation.id)], marks)
        lines.append(f"[Said in this group before, not to you]\n{before}")
    lines += message.context_events
    if inbound.quoted.strip() and replied_to:
        lines.append(
            f"{QUOTE}words of somebody]\n{fenced(unmarked(one_line(inbound.quoted, LONGEST_QUOTE)), replied_to, marks)}"
        )
    elif inbound.quoted.strip():
        lines.append(f"{QUOTE}{neutralised(quoted(inbound.quoted))}]")
    if not lines:
        return text
    return "\n".join([*lines, "[The message]", text])


async def _shortened(
    conversation: SessionContext, text: str, name: str, sources: tuple[str, ...] = (), most: int | None = None
) -> tuple[str, str]:
    """Return ``text`` and nothing, or where it is too long its beginning and a line that says where the whole of it now lies.

    It is too long beyond ``most`` characters, by default beyond a share of the window. The same ``name`` always gives the same file, so
    that a repeat after a crash changes nothing. ``sources``: where the text comes from, if it is untrusted.
    """
    from agent.models import token_estimate

    limit = conversation.window.size // SHARE
    fits = len(text) <= limit or token_estimate.estimate(text[: limit * ENOUGH]) <= limit
    if fits and (most is None or len(text) <= most):
        return text, ""
    parts = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
    paths = [f"{conversation.audience.inbox}/{name}{f'.{n}' if n else ''}.txt" for n in range(len(parts))]
    trouble = ""
    for path, part in zip(paths, parts, strict=True):
        call = ToolCall(id="shelve", name="write", arguments={"path": path, "content": part, "mode": "create"})
        result = await conversation.keep(call, "shelving", conversation.taint | {*sources})
        trouble = trouble or (result.text if result.is_error else "")
    lies = trouble or f"The whole of it is in {', '.join(paths)}: read it in parts, or search it with grep."
    shown = text[:SHOWN_CHARS] if most is not None else _beginning(text, limit // 2)
    why = "" if fits else " and is more than a quarter of my window"
    return shown, f"[cut: this message has {len(text):,} characters{why}; the first {len(shown):,} are shown. {lies}]"


def _beginning(text: str, most: int) -> str:
    """Return the beginning of a text in pieces of ``SHOWN_CHARS``: at least one, and no more than ``most`` tokens by our estimate."""
    from agent.models import token_estimate

    tokens, end = token_estimate.estimate(text[:SHOWN_CHARS]), SHOWN_CHARS
    while end < len(text):
        tokens += token_estimate.estimate(text[end : end + SHOWN_CHARS])
        if tokens > most:
            break
        end += SHOWN_CHARS
    return text[:end]
