from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.errors import MemoryTrouble
from memory.notes import tidying
from memory.notes.note_history import NoteHistory
from memory.notes.sources import NoteSources
from memory.notes.tidying import (
    Proposal,
    ShownLine,
    applied,
    as_json,
    from_json,
    listed_in,
    notes_left_out,
    shown_lines,
    why_without_promotions,
)
from memory.notes.version_store import VersionStore
from memory.protocol import Author
from tests.properties import examples

NOTE = "memory/2026-01-05.md"
NOTES = {
    "MEMORY.md": "# Memory\n\n- Alice drinks tea\n- Alice likes tea best\n- The dentist is on 3 January\n",
    NOTE: "# 2026-01-05\n\n- Bob moved to Kiel\n- it rained\r\n",
    "memory/groups/g1/2026-01-05.md": "- the group's secret\n",
    "memory/peers/p1/note.md": "- a guest's words\n",
}


def laid(folder: Path, notes: dict[str, str] = NOTES) -> NoteSources:
    for path, text in notes.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    return NoteSources(folder)


def everything(_: str, text: str) -> list[str]:
    return text.splitlines()


def lines_of(sources: NoteSources) -> list[ShownLine]:
    return shown_lines(sources, everything, most_chars=10_000)[0]


def answer(*proposals: dict[str, object]) -> str:
    return f"Here you are:\n```json\n{json.dumps(proposals)}\n```"


def proposals_of(said: str, shown: list[ShownLine]) -> list[Proposal]:
    return tidying.proposals_of(listed_in(said), shown)


def test_only_trusted_lines_of_the_owners_own_notes_are_shown_long_term_ones_first(tmp_path: Path) -> None:
    sources = laid(tmp_path)
    (tmp_path / "memory/latin.md").write_bytes("- K\xe4se".encode("latin-1"))
    shown, left_out = shown_lines(
        sources, lambda _, text: [one for one in text.splitlines() if "rained" not in one], most_chars=10_000
    )
    assert [line.name for line in shown] == ["MEMORY.md:3", "MEMORY.md:4", "MEMORY.md:5", f"{NOTE}:3"]
    assert left_out == 0
    assert shown_lines(sources, everything, most_chars=120)[1] == 1


@pytest.mark.parametrize(
    "raw",
    [
        {"kind": "stale", "lines": ["memory/groups/g1/2026-01-05.md:1"], "text": ""},
        {"kind": "promote", "lines": ["memory/peers/p1/note.md:1"], "text": "- a guest's words"},
        {"kind": "merge", "lines": ["MEMORY.md:3", "MEMORY.md:99"], "text": "- tea"},
        {"kind": "merge", "lines": ["MEMORY.md:3"], "text": "- tea"},
        {"kind": "promote", "lines": ["MEMORY.md:3"], "text": "- tea"},
        {"kind": "merge", "lines": ["MEMORY.md:3", "MEMORY.md:4"], "text": "- tea\n- and a second line"},
        {"kind": "erase", "lines": ["MEMORY.md:3"], "text": ""},
        {"kind": "merge", "lines": "MEMORY.md:3", "text": 7},
    ],
)
def test_what_concerns_a_line_that_was_not_shown_or_is_not_well_formed_is_left_out(
    tmp_path: Path, raw: dict[str, object]
) -> None:
    assert proposals_of(answer(raw), lines_of(laid(tmp_path))) == []


def test_notes_of_which_nothing_can_be_shown_are_named_with_the_reason(tmp_path: Path) -> None:
    sources = laid(tmp_path)
    assert notes_left_out(sources) == {}
    (tmp_path / "MEMORY.md").write_bytes(b"\xef\xbb\xbf- Alice drinks tea\n")
    (tmp_path / "memory/latin.md").write_bytes("- K\xe4se".encode("latin-1"))
    (tmp_path / "memory/linked.md").symlink_to(tmp_path / NOTE)
    left_out = notes_left_out(sources)
    assert set(left_out) == {"MEMORY.md", "memory/latin.md", "memory/linked.md"}
    assert "save it as UTF-8 without a byte order mark" in left_out["MEMORY.md"]
    assert "symbolic link" in left_out["memory/linked.md"]


def test_of_an_answer_that_was_cut_off_the_whole_proposals_are_used(tmp_path: Path) -> None:
    whole = answer(
        {"kind": "stale", "lines": ["MEMORY.md:5"], "text": ""}, {"kind": "stale", "lines": ["MEMORY.md:3"], "text": ""}
    )
    cut = whole[: whole.rindex("MEMORY.md:3")]
    assert len(listed_in(cut)) == 1
    [proposal] = proposals_of(cut, lines_of(laid(tmp_path)))
    assert proposal.diff() == "@@ MEMORY.md @@\n-- The dentist is on 3 January"


def test_an_answer_without_a_list_is_told(tmp_path: Path) -> None:
    with pytest.raises(MemoryTrouble, match="not a list"):
        proposals_of("I would rather not.", lines_of(laid(tmp_path)))


async def test_proposals_are_carried_out_one_by_one_and_each_is_undone_by_the_history(tmp_path: Path) -> None:
    sources = laid(tmp_path)
    proposals = proposals_of(
        answer(
            {"kind": "merge", "lines": ["MEMORY.md:3", "MEMORY.md:4"], "text": "- Alice likes tea best, and drinks it"},
            {"kind": "stale", "lines": ["MEMORY.md:4"], "text": ""},
            {"kind": "stale", "lines": ["MEMORY.md:5"], "text": "", "why": "it has passed"},
            {"kind": "promote", "lines": [f"{NOTE}:3"], "text": "Bob lives in Kiel"},
        ),
        lines_of(sources),
    )
    assert [one.kind for one in proposals] == ["merge", "stale", "promote"]  # of two for one line, the first
    assert from_json(json.loads(json.dumps(as_json(proposals)))) == proposals
    history = NoteHistory(VersionStore(tmp_path / ".history"), sources, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)))
    versions = [await history.accept(one, by=Author("owner", "tidy")) for one in proposals]
    text = "# Memory\n\n- Alice likes tea best, and drinks it\n- Bob lives in Kiel\n"
    assert (tmp_path / "MEMORY.md").read_text() == text
    assert (tmp_path / NOTE).read_bytes() == NOTES[NOTE].encode()
    [merged] = versions[0]
    await history.undo(merged.name)
    assert (tmp_path / "MEMORY.md").read_text() == text.replace(
        "- Alice likes tea best, and drinks it\n", "- Alice drinks tea\n- Alice likes tea best\n"
    )
    with pytest.raises(MemoryTrouble, match="changed meanwhile"):
        await history.accept(proposals[1], by=Author("owner", "tidy"))


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbf- Alice drinks tea\n", "- K\xe4se\n".encode("latin-1"), "- tea\n".encode("utf-16")]
)
async def test_a_note_in_another_encoding_is_neither_shown_nor_changed_by_a_promotion(tmp_path: Path, data: bytes) -> None:
    sources = laid(tmp_path)
    raw = {"kind": "promote", "lines": [f"{NOTE}:3"], "text": "Bob lives in Kiel"}
    merge = {"kind": "merge", "lines": ["MEMORY.md:3", "MEMORY.md:4"], "text": "- Alice likes tea best"}
    proposals = proposals_of(answer(raw, merge), lines_of(sources))
    (tmp_path / "MEMORY.md").write_bytes(data)
    unread = notes_left_out(sources)
    why = why_without_promotions(sources, unread, everything, most_chars=10_000)
    assert why.startswith("MEMORY.md: it is not plain UTF-8")
    assert tidying.proposals_of([raw], lines_of(sources), promotions=not why) == []
    history = NoteHistory(VersionStore(tmp_path / ".history"), sources, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)))
    for proposal in proposals:
        with pytest.raises(MemoryTrouble, match="not plain UTF-8"):
            await history.accept(proposal, by=Author("owner", "tidy"))
    assert (tmp_path / "MEMORY.md").read_bytes() == data


def test_promotions_need_a_memory_that_was_shown_or_none_at_all(tmp_path: Path) -> None:
    sources = laid(tmp_path)
    assert why_without_promotions(sources, {}, everything, most_chars=10_000) == ""
    assert "too long" in why_without_promotions(sources, {}, everything, most_chars=40)
    (tmp_path / "MEMORY.md").unlink()
    assert why_without_promotions(sources, {}, everything, most_chars=40) == ""


async def test_of_a_proposal_for_two_notes_nothing_is_written_if_one_has_changed(tmp_path: Path) -> None:
    sources = laid(tmp_path)
    [merge] = proposals_of(
        answer({"kind": "contradiction", "lines": ["MEMORY.md:3", f"{NOTE}:3"], "text": "- tea"}), lines_of(sources)
    )
    (tmp_path / NOTE).write_text("- something else\n")
    history = NoteHistory(VersionStore(tmp_path / ".history"), sources, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)))
    with pytest.raises(MemoryTrouble):
        await history.accept(merge, by=Author("owner", "tidy"))
    assert (tmp_path / "MEMORY.md").read_text() == NOTES["MEMORY.md"]


async def test_of_a_change_of_two_notes_it_is_told_what_stands_when_one_half_is_undone(tmp_path: Path) -> None:
    sources = laid(tmp_path)
    merges = [
        {"kind": "merge", "lines": ["MEMORY.md:3", f"{NOTE}:3"], "text": "- Alice drinks tea, Bob moved to Kiel"},
        {"kind": "merge", "lines": ["MEMORY.md:4", "MEMORY.md:5"], "text": "- tea and dentist"},
    ]
    history = NoteHistory(VersionStore(tmp_path / ".history"), sources, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)))
    both, [alone] = [
        await history.accept(one, by=Author("owner", "tidy")) for one in proposals_of(answer(*merges), lines_of(sources))
    ]
    first, second = (one.name for one in both)
    await history.undo(alone.name)
    assert await history.rest_of(alone.name) == []
    made = await history.undo(first)
    assert await history.rest_of(first) == [both[1]]
    assert await history.rest_of(made.name) == []
    await history.undo(second)
    assert await history.rest_of(first) == []
    assert {path: (tmp_path / path).read_text() for path in ("MEMORY.md", NOTE)} == {
        path: NOTES[path].replace("\r\n", "\n") for path in ("MEMORY.md", NOTE)
    }


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("# Memory\r\n\r\n- tea\r\n", "# Memory\r\n\r\n- tea\r\n- Bob lives in Kiel\r\n"),
        ("# Memory\r\n\r\n- tea", "# Memory\r\n\r\n- tea\r\n- Bob lives in Kiel\r\n"),
        ("# Memory\n\n- tea", "# Memory\n\n- tea\n- Bob lives in Kiel\n"),
        (None, "# Memory\n\n- Bob lives in Kiel\n"),
    ],
)
def test_a_promoted_line_ends_as_those_of_its_note(tmp_path: Path, text: str | None, after: str) -> None:
    [proposal] = proposals_of(
        answer({"kind": "promote", "lines": [f"{NOTE}:3"], "text": "Bob lives in Kiel"}), lines_of(laid(tmp_path))
    )
    assert applied(proposal, {NOTE: NOTES[NOTE], "MEMORY.md": text}) == {"MEMORY.md": after}


_LINES = st.lists(st.sampled_from(["- a", "- b", "- c", "- d", "", "# h", "  - e\r", "f g"]), min_size=1, max_size=12)


@settings(max_examples=examples(200), deadline=None)
@given(_LINES, st.data())
def test_what_is_accepted_changes_its_lines_alone_and_is_refused_where_it_cannot_tell_them(
    rows: list[str], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        shown = lines_of(laid(Path(folder), {"MEMORY.md": "\n".join(rows)}))
    if not shown:
        return
    names = data.draw(st.lists(st.sampled_from([line.name for line in shown]), min_size=1, max_size=3, unique=True))
    text = data.draw(st.sampled_from(["", "new"]))
    kind = "merge" if text and len(names) > 1 else "stale"
    [proposal] = proposals_of(answer({"kind": kind, "lines": names, "text": text}), shown) or [None]
    if proposal is None:
        return
    now = list(rows)
    for _ in range(data.draw(st.integers(0, 2))):  # somebody else edits meanwhile
        at = data.draw(st.integers(0, len(now)))
        now[at : at + data.draw(st.integers(0, 1))] = data.draw(st.lists(st.sampled_from(["- a", "x"]), max_size=1))
    edited = [edit for edit in proposal.edits if edit.line is not None]
    try:
        result = applied(proposal, {"MEMORY.md": "\n".join(now)})["MEMORY.md"].split("\n")
    except MemoryTrouble:
        assert now != rows
        return
    removed = sorted(edit.line.text for edit in edited if edit.line)
    added = sorted(edit.new for edit in edited if edit.new is not None)
    plain = [row.removesuffix("\r") for row in now]
    left = [row.removesuffix("\r") for row in result]
    if result == [""] and len(removed) == len(plain):
        left = []
    assert sorted([*left, *removed]) == sorted([*plain, *added])
    others = iter(left)
    assert all(row in others for row in plain if row not in removed)


TEA, BEST, DENTIST = "- Alice drinks tea", "- Alice likes tea best", "- The dentist is on 3 January"


def kept(kind: str, lines: list[str], text: str) -> dict[str, object]:
    return {"kind": kind, "lines": lines, "text": text}


@pytest.mark.parametrize("kind", ["merge", "contradiction"])
@pytest.mark.parametrize("instead", ["", "- Alice drinks coffee\n"])
def test_a_line_is_not_removed_for_one_that_was_changed_or_removed_meanwhile(tmp_path: Path, kind: str, instead: str) -> None:
    [proposal] = proposals_of(answer(kept(kind, ["MEMORY.md:3", "MEMORY.md:4"], TEA)), lines_of(laid(tmp_path)))
    assert proposal.diff() == f"@@ MEMORY.md @@\n {TEA}\n-{BEST}"
    with pytest.raises(MemoryTrouble, match=r"MEMORY\.md:3 was changed meanwhile"):
        applied(proposal, {"MEMORY.md": NOTES["MEMORY.md"].replace(f"{TEA}\n", instead)})
    assert applied(proposal, NOTES) == {"MEMORY.md": NOTES["MEMORY.md"].replace(f"{BEST}\n", "")}


@pytest.mark.parametrize(
    "second",
    [
        kept("merge", ["MEMORY.md:4", "MEMORY.md:3"], BEST),
        kept("stale", ["MEMORY.md:3"], ""),
        kept("merge", ["MEMORY.md:3", "MEMORY.md:5"], DENTIST),
    ],
    ids=["in a circle", "removed", "merged into another one"],
)
@pytest.mark.parametrize("order", [1, -1])
def test_no_proposal_changes_a_line_that_another_one_relies_on(tmp_path: Path, second: dict[str, object], order: int) -> None:
    first = kept("merge", ["MEMORY.md:3", "MEMORY.md:4"], TEA)
    both = [first, second][::order]
    found = proposals_of(answer(*both), lines_of(laid(tmp_path)))
    assert found == proposals_of(answer(both[0]), lines_of(laid(tmp_path)))


def test_two_proposals_may_rely_on_one_line(tmp_path: Path) -> None:
    both = [kept("merge", ["MEMORY.md:3", name], TEA) for name in ("MEMORY.md:4", "MEMORY.md:5")]
    assert len(proposals_of(answer(*both), lines_of(laid(tmp_path)))) == 2


def test_a_fact_is_not_promoted_whose_line_is_gone(tmp_path: Path) -> None:
    [proposal] = proposals_of(answer(kept("promote", [f"{NOTE}:3"], "Bob lives in Kiel")), lines_of(laid(tmp_path)))
    with pytest.raises(MemoryTrouble, match=f"{NOTE}:3 was changed meanwhile"):
        applied(proposal, {**NOTES, NOTE: "# 2026-01-05\n\n"})
    assert applied(proposal, NOTES) == {"MEMORY.md": NOTES["MEMORY.md"] + "- Bob lives in Kiel\n"}


@pytest.mark.parametrize(
    ("kind", "notes", "text", "missing"),
    [
        ("merge", ("Alarm code 4711", "The alarm code is 4711"), "The alarm code is 4171", ({"4711"}, {"4171"})),
        (
            "merge",
            ("The dentist is Dr. Weiss, says Anna", "Dr. Weiss is the dentist"),
            "The dentist is Dr. Weiss",
            ({"Anna"}, set()),
        ),
        ("merge", ("Dr. Weiß ab 10.30", "Dr. Weiß: um 10:30"), "Termin bei Dr. Weiss um 10:30", (set(), set())),
        ("merge", ("Called Bob. He is at home", "Bob was called"), "Bob was called, and is at home", (set(), set())),
        ("merge", ("The rent is 950 euros", "Plums from Otto"), "The rent is 950 euros, and plums", ({"Otto"}, set())),
        ("contradiction", ("The rent is 900 euros", "The rent is 950"), "The rent is 950", (set(), set())),
        ("contradiction", ("The rent is 900 euros", "The rent is 950"), "The rent is 905", (set(), {"905"})),
        ("stale", ("Met Bob on 3 January, and sold the car",), "Sold the car", (set(), set())),
    ],
)
def test_numbers_and_names_that_a_proposal_loses_or_adds_are_named(
    tmp_path: Path, kind: str, notes: tuple[str, ...], text: str, missing: tuple[set[str], set[str]]
) -> None:
    shown = lines_of(laid(tmp_path, {"MEMORY.md": "".join(f"- {note}\n" for note in notes)}))
    [proposal] = proposals_of(answer(kept(kind, [line.name for line in shown], text)), shown)
    assert (set(proposal.lost), set(proposal.added)) == missing


def test_of_lines_that_contradict_each_other_the_one_that_holds_stays_where_it_is(tmp_path: Path) -> None:
    shown = lines_of(laid(tmp_path, {"MEMORY.md": "- The rent is 900\n- The rent is 950\n"}))
    [proposal] = proposals_of(answer(kept("contradiction", ["MEMORY.md:1", "MEMORY.md:2"], "The rent is 950")), shown)
    assert proposal.diff() == "@@ MEMORY.md @@\n - The rent is 950\n-- The rent is 900"
