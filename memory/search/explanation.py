"""Telling how the index stands, and how an answer came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.notes.sources import SourceFile
    from memory.search.retrieval import Retrieval
    from memory.settings import QuerySettings
    from memory.store.index import Identity, Index

_MOST_EXPLAINED = 20
_MOST_TROUBLES = 50


@dataclass(slots=True, kw_only=True)
class IndexStatus:
    """How the index of an agent stands.

    ``search`` says what answers ("vectors and keywords", "keywords", "vectors", "nothing"), ``scan`` what vectors are compared
    with. ``changed_files`` are those whose state on disk is not the one that was indexed; ``probe`` is known only after a deep look.
    """

    agent: str = ""
    workspace: str = ""
    store: str = ""
    provider: str = "none"
    model: str = ""
    fallback: str | None = None
    files: int = 0
    chunks: int = 0
    vectors: int = 0
    missing_vectors: int = 0
    refused_texts: int = 0
    refusals: dict[str, str] = field(default_factory=dict)
    dims: int = 0
    generation: int = 0
    building: int | None = None
    building_chunks: int = 0
    chunk_tokens: int = 0
    chunk_overlap: int = 0
    cached_vectors: int = 0
    pending_jobs: int = 0
    driver: str = ""
    vector_path: str = "none"
    keywords: bool = False
    search: str = ""
    note: str = ""
    trouble: str = ""
    dirty: bool = False
    changed_files: list[str] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    probe: str | None = None


def read_status(index: Index, embedder: Identity | None, found: Sequence[SourceFile]) -> IndexStatus:
    """Read the state of the index. Runs on the store's thread. ``found`` are the files on disk."""
    live, building, one = index.live, index.notes.building(), index.database.one
    bounds = (live.first_id, live.last_id)
    drivers = index.database.drivers
    by_vector = index.answers_by_vector(embedder)
    sides = ["vectors"] * by_vector + ["keywords"] * drivers.keywords
    known = {**index.notes.filed(live, "memory"), **index.notes.filed(live, "sessions")}
    status = IndexStatus(
        store=str(index.database.path),
        files=len(known),
        chunks=one("SELECT count(*) FROM chunks WHERE id BETWEEN ? AND ?", bounds),
        vectors=one("SELECT count(*) FROM chunks WHERE embedded = 1 AND id BETWEEN ? AND ?", bounds),
        missing_vectors=index.missing_count(live),
        refused_texts=one("SELECT count(*) FROM chunks WHERE embedded = 2 AND id BETWEEN ? AND ?", bounds),
        refusals=index.refusals(_MOST_TROUBLES),
        dims=live.dims,
        generation=live.number,
        chunk_tokens=live.tokens,
        chunk_overlap=live.overlap,
        cached_vectors=index.cache.size(),
        pending_jobs=one("SELECT count(*) FROM batch_jobs"),
        driver=drivers.sqlite,
        vector_path=drivers.vectors,
        keywords=drivers.keywords,
        search=" and ".join(sides) or "nothing",
        note=drivers.note,
        troubles={path: filed.trouble for path, filed in sorted(known.items()) if filed.trouble},
    )
    if building is not None:
        status.building = building.number
        status.building_chunks = one(
            "SELECT count(*) FROM chunks WHERE id BETWEEN ? AND ?", (building.first_id, building.last_id)
        )
    status.troubles.update({f.path: f.trouble for f in found if f.trouble})
    stamps = {f.path: f.stamp for f in found if not f.trouble}
    notes = {path: filed for path, filed in known.items() if not path.startswith("sessions/")}
    changed = {path for path, stamp in stamps.items() if path not in notes or notes[path].stamp != stamp}
    status.changed_files = sorted(changed | (notes.keys() - stamps.keys()))
    status.troubles = dict(list(status.troubles.items())[:_MOST_TROUBLES])
    return status


def explain_search(recalled: Retrieval, settings: QuerySettings) -> dict[str, Any]:
    """Lay out the first candidates of a search: both ranks, both scores, the bonus, and whether each is in a result."""
    shown = {chunk.id for passage in recalled.passages for chunk in passage.chunks}
    return {
        "ranking": settings.ranking,
        "coverage": round(recalled.coverage, 3),
        "floor": settings.fused.floor,
        "floored": recalled.floored,
        "scan": recalled.scan,
        "candidates": [
            {
                "place": place,
                "path": c.path,
                "startLine": c.start_line,
                "endLine": c.end_line,
                "score": round(c.score, 4),
                "keywordRank": c.keyword_rank,
                "keywordScore": _rounded(c.keyword),
                "vectorRank": c.vector_rank,
                "vectorScore": _rounded(c.vector),
                "dateBonus": c.bonus,
                "shown": c.id in shown,
            }
            for place, c in enumerate(recalled.ranked[:_MOST_EXPLAINED], 1)
        ],
    }


def explain_line(index: Index, recalled: Retrieval, path: str, line: int) -> dict[str, Any]:
    """Say what became of one line of a note in a search. Runs on the store's thread."""
    chunks = index.at_line(path, line)
    if not chunks:
        filed = index.notes.filed(index.live, "memory").get(path)
        reason = (
            "the file is not indexed yet: homebody memory index"
            if filed is None
            else filed.trouble or "the line is not indexed"
        )
        return {"found": False, "reason": reason}
    ids = {chunk.id for chunk in chunks}
    places = [place for place, c in enumerate(recalled.ranked, 1) if c.id in ids]
    if not places:
        reason = "it shares no rare word with the question"
        if recalled.scan != "none":
            waiting = any(not chunk.embedded for chunk in chunks)
            reason += "; its vector is still to be made" if waiting else ", and its meaning is not among the nearest"
        return {"found": False, "reason": reason}
    best = recalled.ranked[places[0] - 1]
    shown = any(chunk.id in ids for passage in recalled.passages for chunk in passage.chunks)
    reason = "it is in the results" if shown else f"it came at place {places[0]}, behind what fits into the results"
    if recalled.floored:
        reason = f"it came at place {places[0]}, but nothing came close enough to the question to be shown"
    return {"found": shown, "place": places[0], "score": round(best.score, 4), "reason": reason}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
