from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from gateway.base.clock import ManualClock, SystemClock
from memory.audience import OWNER, Audience
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.errors import EmbeddingFailed, MemoryUnreadable
from memory.settings import ChunkingSettings, MemorySettings, QuerySettings, StoreSettings, SyncSettings, VectorStoreSettings
from memory.store.sqlite.index_database import AllowedFeatures
from tests.memory.memory_engines import memory_at
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
FAMILY, ANNA = Audience("group", "family"), Audience("peer", "anna")


class Broken(BagOfWords):
    """An embedder whose provider refuses while ``failure`` is set, and that may give vectors that are none."""

    def __init__(self, failure: EmbeddingFailed | None = None, *, vector: list[float] | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.vector = vector

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        if self.failure is not None:
            self.calls[purpose] += len(texts)
            raise self.failure
        vectors = await super().embed(texts, purpose=purpose)
        return [self.vector for _ in vectors] if self.vector is not None else vectors


def note(workspace: Path, name: str, text: str | bytes) -> Path:
    path = workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    note(folder, "MEMORY.md", "# Long-term\n\n- The cellar door code is 7731\n- Alice drinks jasmine tea\n")
    note(folder, "memory/2026-01-26.md", "# 2026-01-26\n\n## 10:30 API\n\nWe chose REST over GraphQL. 我喜欢咖啡\n")
    note(folder, "memory/groups/family/2026-01-27.md", "The family picnic is at the lake\n")
    note(folder, "memory/peers/anna/2026-01-27.md", "Anna is allergic to walnuts\n")
    return folder


def opened(workspace: Path, settings: MemorySettings | None = None, **others: Any) -> WorkspaceMemory:
    store = others.pop("store", workspace.parent / "{agentId}.sqlite")
    others.setdefault("clock", ManualClock(NOW))
    return memory_at(workspace, store, settings or MemorySettings(), agent="main", **others)


async def paths(memory: WorkspaceMemory, query: str, audience: Audience = OWNER) -> list[str]:
    return [hit.path for hit in (await memory.search(query, audience=audience)).hits]


@pytest.mark.files
async def test_nothing_is_opened_or_embedded_before_somebody_asks(workspace: Path) -> None:
    embedder = BagOfWords()
    memory = opened(workspace, embedder=embedder)
    assert not (workspace.parent / "main.sqlite").exists()
    await memory.sync()
    assert embedder.calls["query"] == 0
    await memory.close()


async def test_notes_are_found_by_stem_by_ideographs_and_by_parts_of_a_code(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    assert (await paths(memory, "what did we choose about graphql?"))[0] == "memory/2026-01-26.md"
    assert await paths(memory, "咖啡") == ["memory/2026-01-26.md"]
    assert (await paths(memory, "7731"))[0] == "MEMORY.md"
    hit = (await memory.search("cellar", audience=OWNER)).hits[0]
    assert (hit.start_line, hit.end_line) == (1, 4)
    assert "7731" in hit.snippet
    await memory.close()


async def test_a_day_that_is_named_brings_its_note_even_without_a_common_word(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    assert "memory/2026-01-26.md" in await paths(memory, "what happened on 26 January 2026?")
    await memory.close()


@pytest.mark.parametrize("audience", [FAMILY, ANNA, Audience("group", "work")])
async def test_nothing_crosses_from_one_audience_to_another(workspace: Path, audience: Audience) -> None:
    memory = opened(workspace, embedder=BagOfWords())
    await memory.sync()
    everything = {"cellar door code": "MEMORY.md", "lake": "memory/groups/family/2026-01-27.md"}
    everything |= {"walnuts": "memory/peers/anna/2026-01-27.md", "GraphQL": "memory/2026-01-26.md"}
    for query, path in everything.items():
        own = path.startswith(str(audience.folder))
        assert (
            await paths(memory, query, audience) == [path]
            if own
            else all(found.startswith(str(audience.folder)) for found in await paths(memory, query, audience))
        )
        for name in (path, path.upper(), f"memory/../{path}", f"{audience.folder}/../../../{path}"):
            if own and name == path:
                assert (await memory.get(name, audience=audience)).text
                continue
            with pytest.raises(MemoryUnreadable, match="no note"):
                await memory.get(name, audience=audience)
    await memory.close()


@pytest.mark.parametrize("folder", ["memory/groups/family/inbox", "memory/peers/anna/inbox/deep"])
async def test_what_people_sent_is_no_memory_whatever_it_is_called(workspace: Path, folder: str) -> None:
    note(workspace, f"{folder}/0123-1-note.md", "the walrus sings at dusk\n")
    note(workspace, "memory/groups/family/kept.md", "the walrus sleeps at noon\n")
    memory = opened(workspace)
    await memory.sync()
    assert await paths(memory, "walrus") == ["memory/groups/family/kept.md"]
    assert await paths(memory, "walrus", FAMILY) == ["memory/groups/family/kept.md"]
    with pytest.raises(MemoryUnreadable):
        await memory.get(f"{folder}/0123-1-note.md", audience=OWNER)
    await memory.close()


async def test_get_refuses_what_lies_outside(workspace: Path, tmp_path: Path) -> None:
    secret = note(tmp_path, "secret.md", "outside")
    (workspace / "memory" / "link.md").symlink_to(secret)
    (workspace / "memory" / "folder").symlink_to(tmp_path)
    note(workspace, "memory/.hidden.md", "hidden")
    note(workspace, "AGENTS.md", "rules")
    os.mkfifo(workspace / "memory" / "pipe.md")
    memory = opened(workspace)
    synced = await memory.sync()
    assert "memory/link.md" in synced.troubles
    assert await paths(memory, "outside") == []
    for name in (str(secret), "../secret.md", "memory/link.md", "memory/folder/secret.md", "memory/.hidden.md", "AGENTS.md"):
        with pytest.raises(MemoryUnreadable):
            await memory.get(name, audience=OWNER)
    with pytest.raises(MemoryUnreadable):
        await memory.get("memory/pipe.md", audience=OWNER)
    await memory.close()


async def test_get_reads_lines_and_marks_the_cut(workspace: Path) -> None:
    note(workspace, "memory/long.md", "".join(f"line {n}\r\n" for n in range(1, 1001)))
    memory = opened(workspace)
    assert (await memory.get("memory/long.md", audience=OWNER, from_line=7, lines=2)).text == "line 7\nline 8"
    whole = await memory.get("memory/long.md", audience=OWNER)
    assert whole.cut
    assert whole.text.endswith("[truncated; continue with from=401]")
    assert not (await memory.get("memory/long.md", audience=OWNER, from_line=999)).cut
    assert (await memory.get("memory/long.md", audience=OWNER, from_line=5000)).text == ""
    await memory.close()


async def test_own_writes_are_found_at_once_and_their_vectors_follow(workspace: Path) -> None:
    memory = opened(workspace, embedder=BagOfWords())
    await memory.sync()
    note(workspace, "memory/2026-03-18.md", "The zebra is called Otto\n")
    await memory.wrote("memory/2026-03-18.md")
    assert (await paths(memory, "zebra"))[0] == "memory/2026-03-18.md"
    await memory.sync()
    assert (await memory.status()).missing_vectors == 0
    (workspace / "memory/2026-03-18.md").unlink()
    await memory.wrote("memory/2026-03-18.md")
    assert "memory/2026-03-18.md" not in await paths(memory, "zebra")
    await memory.wrote("src/main.py")  # no note
    await memory.close()


async def test_only_changed_chunks_are_embedded_again(workspace: Path) -> None:
    embedder = BagOfWords()
    settings = MemorySettings(chunking=ChunkingSettings(tokens=16, overlap=0), cache={"enabled": False})  # type: ignore[arg-type]
    path = note(workspace, "memory/log.md", "".join(f"- entry number {n} of the long log is here\n" for n in range(50)))
    memory = opened(workspace, settings, embedder=embedder)
    await memory.sync()
    before = embedder.calls["passage"]
    with path.open("a") as file:
        file.write("- one more entry that is quite new\n")
    synced = await memory.sync()
    assert synced.changed == 1
    assert embedder.calls["passage"] - before == synced.chunks <= 2
    await memory.close()


async def test_a_changed_file_of_the_same_size_and_time_is_noticed(workspace: Path) -> None:
    path = note(workspace, "memory/same.md", "apple\n")
    stamp = path.stat()
    memory = opened(workspace, clock=SystemClock())
    await memory.sync()
    path.write_text("grape\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    await memory.sync()
    assert await paths(memory, "grape") == ["memory/same.md"]
    assert await paths(memory, "apple") == []
    await memory.close()


@pytest.mark.files
@pytest.mark.parametrize(
    ("parts", "settings", "vectors", "search"),
    [
        (AllowedFeatures(), VectorStoreSettings(), "vec0", "vectors and keywords"),
        (AllowedFeatures(), VectorStoreSettings(extension_path="/nowhere/vec0"), "numpy", "vectors and keywords"),
        (AllowedFeatures(), VectorStoreSettings(enabled=False), "numpy", "vectors and keywords"),
        (AllowedFeatures(sqlite_vec=False, numpy=False), VectorStoreSettings(), "none", "keywords"),
        (AllowedFeatures(numpy=False), VectorStoreSettings(), "vec0", "vectors and keywords"),
        (AllowedFeatures(fts5=False), VectorStoreSettings(), "vec0", "vectors"),
        (AllowedFeatures(fts5=False, sqlite_vec=False), VectorStoreSettings(), "numpy", "vectors"),
    ],
)
async def test_each_driver_finds_and_says_which_it_is(
    workspace: Path, parts: AllowedFeatures, settings: VectorStoreSettings, vectors: str, search: str
) -> None:
    memory = opened(workspace, MemorySettings(store=StoreSettings(vector=settings)), embedder=BagOfWords(), parts=parts)
    await memory.sync()
    for _ in range(3):  # the first on the table, the later ones in RAM
        assert (await paths(memory, "who drinks jasmine tea?"))[0] == "MEMORY.md"
        assert await paths(memory, "picnic lake", FAMILY) == ["memory/groups/family/2026-01-27.md"]
        await asyncio.sleep(0.01)
    status = await memory.status(deep=True)
    assert (status.vector_path, status.search, status.probe) == (vectors, search, "ok")
    assert bool(status.note) == (vectors != "vec0" or not parts.fts5)
    await memory.close()


@pytest.mark.files
async def test_vectors_move_to_another_driver_without_being_paid_for_again(workspace: Path) -> None:
    embedder = BagOfWords()
    for parts in (AllowedFeatures(), AllowedFeatures(sqlite_vec=False), AllowedFeatures()):
        memory = opened(workspace, embedder=embedder, parts=parts)
        await memory.sync()
        assert (await memory.search("tea", audience=OWNER)).provider == "fake"
        await memory.close()
    assert embedder.calls["passage"] == 4


async def test_a_new_model_takes_over_only_when_it_is_complete(workspace: Path) -> None:
    first = opened(workspace, embedder=BagOfWords(dims=64, model="old"))
    await first.sync()
    await first.close()
    refuses = Broken(EmbeddingFailed("quota", passing=True))
    clock = ManualClock(NOW)
    second = opened(workspace, embedder=refuses, clock=clock)
    await second.sync()
    status = await second.status()
    assert (status.generation, status.building, status.dims) == (1, 2, 64)
    assert (await paths(second, "jasmine"))[0] == "MEMORY.md"
    refuses.failure = None
    clock.move(3_700)
    await second.sync()
    status = await second.status()
    assert (status.generation, status.building, status.dims, status.chunks) == (2, None, 128, 4)
    assert (await second.search("jasmine", audience=OWNER)).provider == "fake"
    await second.close()


async def test_other_chunking_is_built_beside_and_an_interrupted_build_resumes(workspace: Path) -> None:
    note(workspace, "memory/log.md", "".join(f"- entry number {n} of the long log is here\n" for n in range(50)))
    memory = opened(workspace)
    await memory.sync()
    coarse = (await memory.status()).chunks
    await memory.close()
    small = MemorySettings(chunking=ChunkingSettings(tokens=20, overlap=0))
    refuses = Broken(EmbeddingFailed("down", passing=True))
    memory = opened(workspace, small, embedder=refuses)
    await memory.sync()
    assert (await memory.status()).chunks == coarse
    await memory.close()
    refuses.failure = None
    memory = opened(workspace, small, embedder=refuses)
    synced = await memory.sync()
    assert synced.chunks == 0  # the texts had been cut before
    status = await memory.status()
    assert (status.building, status.chunk_tokens) == (None, 20)
    assert status.chunks > coarse
    await memory.close()


@pytest.mark.files
@pytest.mark.parametrize("damage", ["text", "page"])
async def test_a_broken_index_is_set_aside_and_rebuilt(workspace: Path, damage: str) -> None:
    memory = opened(workspace)
    await memory.sync()
    await memory.close()
    store = workspace.parent / "main.sqlite"
    data = bytearray(store.read_bytes())
    data[0 if damage == "text" else 100 : 4096] = b"not a database " * 200
    store.write_bytes(data)
    told: list[str] = []
    memory = opened(workspace, tell=told.append)
    await memory.sync()
    assert (await paths(memory, "jasmine"))[0] == "MEMORY.md"
    assert "renamed to" in told[0]
    assert (workspace.parent / "main.sqlite.broken-20260318T120000").exists()
    await memory.close()


@pytest.mark.files
@pytest.mark.parametrize("made_anew", [False, True], ids=["gone", "another one in its place"])
async def test_an_index_that_is_deleted_under_way_is_made_anew_with_its_vectors(workspace: Path, *, made_anew: bool) -> None:
    memory = opened(workspace, embedder=BagOfWords())
    await memory.sync()
    vectors = (await memory.status()).vectors
    for file in workspace.parent.glob("main.sqlite*"):
        file.unlink()
    if made_anew:
        command = opened(workspace)
        await command.sync()
        await command.close()
    await memory.search("jasmine", audience=OWNER)
    await memory.sync()
    other = opened(workspace, embedder=BagOfWords())
    status = await other.status()
    assert (status.vectors, status.missing_vectors) == (vectors, 0)
    assert (await other.search("jasmine", audience=OWNER)).provider != "none"
    await other.close()
    await memory.close()
    assert (workspace.parent / "main.sqlite").exists()


@pytest.mark.files
async def test_an_index_of_another_format_is_rebuilt(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    await memory.close()
    connection = apsw.Connection(str(workspace.parent / "main.sqlite"))
    connection.execute("UPDATE meta SET value = '0' WHERE key = 'format'")
    connection.close()
    told: list[str] = []
    memory = opened(workspace, tell=told.append)
    await memory.sync()
    assert (await paths(memory, "jasmine"))[0] == "MEMORY.md"
    assert "format 0" in told[0]
    await memory.close()


async def test_a_provider_that_fails_leaves_keyword_search_with_a_note(workspace: Path) -> None:
    embedder = Broken()
    told: list[str] = []
    memory = opened(workspace, embedder=embedder, tell=told.append)
    await memory.sync()
    embedder.failure = EmbeddingFailed("the key has expired", hint="renew it")
    answer = await memory.search("jasmine tea", audience=OWNER)
    assert answer.hits[0].path == "MEMORY.md"
    assert answer.provider == "none"
    assert answer.note is not None
    assert "the key has expired" in answer.note
    note(workspace, "memory/new.md", "something new\n")
    await memory.sync()
    asked = embedder.calls["passage"]
    await memory.sync()
    assert embedder.calls["passage"] == asked  # left alone for a while
    assert told == ["Memory search uses keywords only: the key has expired renew it"]
    await memory.close()


@pytest.mark.parametrize("vector", [[0.0] * 128, [float("nan")] * 128, [1.0, 1.0]])
async def test_vectors_that_are_none_never_reach_the_index(workspace: Path, vector: list[float]) -> None:
    told: list[str] = []
    memory = opened(workspace, embedder=Broken(vector=vector), tell=told.append)
    await memory.sync()
    status = await memory.status()
    assert (status.vectors, status.refused_texts, status.missing_vectors) == (0, 0, 4)  # every text alike: none is to blame
    assert "zero, not finite" in status.trouble
    assert "zero, not finite" in told[0]
    assert (await paths(memory, "jasmine"))[0] == "MEMORY.md"
    await memory.close()


async def test_hostile_files_are_named_and_the_others_indexed(workspace: Path) -> None:
    note(workspace, "memory/binary.md", b"\x7fELF\x00\x01" * 100)
    note(workspace, "memory/latin.md", b"caf\xe9 in Paris, seen\n\xff\xfe tail")
    note(workspace, "memory/bom.md", b"\xef\xbb\xbf# Bonsai\r\nwater it\r\n")
    note(workspace, "memory/utf16.md", "kumquat harvest\n".encode("utf-16"))
    note(workspace, "memory/line.md", "needle " + "haystack " * 12_000 + "pomegranate")
    note(workspace, "memory/empty.md", "")
    note(workspace, "memory/front.md", "---\ntitle: Fjord\n---\ntext\n")
    note(workspace, "memory/rtl.md", "שלום עולם 🙂 مرحبا\n")
    note(workspace, "memory/TEMPLATE-daily.md", "template jasmine\n")
    with (workspace / "memory/huge.md").open("wb") as file:
        file.truncate(200_000_000)
    memory = opened(workspace, embedder=BagOfWords())
    synced = await memory.sync()
    assert sorted(synced.troubles) == ["memory/binary.md", "memory/huge.md", "memory/latin.md"]
    assert "200 MB" in synced.troubles["memory/huge.md"]
    queries = {"Paris": "latin", "bonsai": "bom", "kumquat": "utf16", "needle": "line", "pomegranate": "line", "fjord": "front"}
    for query, name in {**queries, "שלום": "rtl"}.items():
        assert (await paths(memory, query))[0] == f"memory/{name}.md"
    assert not any("TEMPLATE" in path for path in await paths(memory, "jasmine template"))
    (workspace / "memory/binary.md").write_text("mended at last\n")
    assert "memory/binary.md" not in (await memory.sync()).troubles
    assert (await paths(memory, "mended"))[0] == "memory/binary.md"
    await memory.close()


async def test_a_question_of_which_nothing_is_known_gets_no_answer(workspace: Path) -> None:
    for number in range(80):
        note(workspace, f"memory/day-{number}.md", f"We walked to market {number} and bought bread, cheese and apples\n")
    memory = opened(workspace)
    await memory.sync()
    answer = await memory.search("which spaceship launched the telescope when apples fell?", audience=OWNER)
    assert answer.hits == ()
    assert "Nothing in memory is relevant" in (answer.note or "")
    assert await paths(memory, "did we buy bread and cheese?")
    await memory.close()


async def test_the_documented_formula_is_a_setting(workspace: Path) -> None:
    memory = opened(workspace, MemorySettings(query=QuerySettings(ranking="reference")), embedder=BagOfWords())
    await memory.sync()
    account = await memory.explain("jasmine tea", audience=OWNER)
    candidates: list[dict[str, Any]] = account["candidates"]  # type: ignore[assignment]
    for one in candidates:
        words = 1 / one["keywordRank"] if one["keywordRank"] else 0
        assert one["score"] == pytest.approx(0.7 * (one["vectorScore"] or 0) + 0.3 * words, abs=2e-4)
    answer = await memory.search("jasmine tea", audience=OWNER)
    assert all(hit.score >= 0.35 for hit in answer.hits)
    assert all(len(hit.snippet) <= 700 for hit in answer.hits)
    await memory.close()


async def test_an_account_by_words_asks_no_embedder(workspace: Path) -> None:
    embedder = BagOfWords()
    memory = opened(workspace, embedder=embedder)
    await memory.sync()
    account = await memory.explain("jasmine tea", audience=OWNER, by_words=True)
    assert embedder.calls["query"] == 0
    assert account["results"]
    assert "words alone" in str(account["notes"])
    await memory.explain("jasmine tea", audience=OWNER)
    assert embedder.calls["query"] == 1
    await memory.close()


async def test_explain_tells_why_a_line_was_missed(workspace: Path) -> None:
    memory = opened(workspace)
    await memory.sync()
    found = await memory.explain("jasmine", audience=OWNER, line="MEMORY.md:4")
    missed = await memory.explain("jasmine", audience=OWNER, line="memory/2026-01-26.md:5")
    assert found["line"]["found"]  # type: ignore[index]
    assert "shares no distinctive word" in missed["line"]["reason"]  # type: ignore[index]
    with pytest.raises(MemoryUnreadable):
        await memory.explain("jasmine", audience=FAMILY, line="MEMORY.md:4")
    await memory.close()


async def test_extra_paths_are_roots_for_the_owner_alone(workspace: Path, tmp_path: Path) -> None:
    note(tmp_path, "team/guide.md", "The mascot is an axolotl\n")
    note(tmp_path, "lone.md", "A lone quokka\n")
    note(workspace, "docs/inside.md", "An inside narwhal\n")
    memory = opened(workspace, MemorySettings(extra_paths=("../team", "../lone.md", "docs")))
    await memory.sync()
    for query, path in {"axolotl": "@team/guide.md", "narwhal": "docs/inside.md"}.items():
        assert await paths(memory, query) == [path]
        assert (await memory.get(path, audience=OWNER)).text
        assert await paths(memory, query, FAMILY) == []
        with pytest.raises(MemoryUnreadable):
            await memory.get(path, audience=FAMILY)
    [lone] = await paths(memory, "quokka")
    assert (await memory.get(lone, audience=OWNER)).text == "A lone quokka"
    await memory.close()


async def test_a_watched_note_is_taken_up(workspace: Path) -> None:
    settings = MemorySettings(sync=SyncSettings(watch_debounce_ms=50, on_search=False))
    memory = opened(workspace, settings, clock=SystemClock())
    memory.start()
    await memory.sync()
    async with asyncio.timeout(PATIENCE):
        while not await paths(memory, "platypus"):
            note(workspace, "memory/seen.md", "A platypus was seen\n")
            await asyncio.sleep(0.1)
    await memory.close()


async def test_export_has_every_note_byte_for_byte(workspace: Path, tmp_path: Path) -> None:
    import zipfile

    memory = opened(workspace)
    assert await memory.export(tmp_path / "notes.zip") == 4
    with zipfile.ZipFile(tmp_path / "notes.zip") as archive:
        assert archive.read("MEMORY.md") == (workspace / "MEMORY.md").read_bytes()
    await memory.close()


@pytest.mark.files
async def test_nothing_of_a_removed_line_is_left_in_the_files_of_the_index(workspace: Path, tmp_path: Path) -> None:
    path = note(workspace, "memory/2026-02-01.md", "- Berta likes xylophonkey77\n- Dinner is at seven\n")
    memory = memory_at(workspace, tmp_path / "index" / "main.sqlite", MemorySettings(), agent="main", clock=ManualClock(NOW))
    await memory.sync()
    path.write_text("- Dinner is at seven\n")
    await memory.wrote("memory/2026-02-01.md")

    def held(word: bytes) -> bool:
        return any(word in one.read_bytes() for one in (tmp_path / "index").glob("main.sqlite*"))

    assert held(b"xylophon")
    await memory.leave_no_trace()
    assert not held(b"xylophon")
    assert held(b"Dinner")
    assert (await memory.search("dinner at seven", audience=OWNER)).hits
    await memory.close()
