"""Status of the index: what it holds, and how it compares with the files."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from memory.embedding.identity import Identity
from memory.notes.sources import SourceFile
from memory.store.index import Index

_MOST_TROUBLES = 50


class IndexStatus(Struct, kw_only=True):
    """State of an agent's index.

    ``search`` says what is searched ("vectors and keywords", "keywords", "vectors", "nothing"). ``changed_files`` are the files
    that are new, changed or deleted since they were indexed; ``probe`` is the result of a test call, if one was made.
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
    line_vectors: int = 0
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
    """Read the state of the index. Runs on the index thread. ``found`` are the files on disk."""
    live, building, counts, features = index.live, index.building(), index.counts(), index.features
    by_vector = index.answers_by_vector(embedder)
    sides = ["vectors"] * by_vector + ["keywords"] * features.keywords
    known = {**index.filed(live, "memory"), **index.filed(live, "sessions")}
    status = IndexStatus(
        store=index.where,
        files=len(known),
        chunks=counts.chunks,
        vectors=counts.vectors,
        missing_vectors=index.missing_count(live),
        refused_texts=counts.refused,
        refusals=index.refusals(_MOST_TROUBLES),
        dims=live.dims,
        generation=live.number,
        building=building.number if building else None,
        building_chunks=counts.building_chunks,
        chunk_tokens=live.tokens,
        chunk_overlap=live.overlap,
        cached_vectors=counts.cached_vectors,
        line_vectors=counts.line_vectors,
        pending_jobs=counts.pending_jobs,
        driver=features.driver,
        vector_path=features.vectors,
        keywords=features.keywords,
        search=" and ".join(sides) or "nothing",
        note=features.note,
        troubles={path: filed.trouble for path, filed in sorted(known.items()) if filed.trouble},
    )
    status.troubles.update({f.path: f.trouble for f in found if f.trouble})
    stamps = {f.path: f.stamp for f in found if not f.trouble}
    notes = {path: filed for path, filed in known.items() if not path.startswith("sessions/")}
    changed = {path for path, stamp in stamps.items() if path not in notes or notes[path].stamp != stamp}
    status.changed_files = sorted(changed | (notes.keys() - stamps.keys()))
    status.troubles = dict(list(status.troubles.items())[:_MOST_TROUBLES])
    return status
