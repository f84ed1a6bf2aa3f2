"""Explains how search results were ranked, and why a line was or was not among them."""

from __future__ import annotations

from typing import Any

from memory.search.retrieval import Retrieval
from memory.settings import QuerySettings
from memory.store.index import Index

_MOST_EXPLAINED = 20


def explain_search(recalled: Retrieval, settings: QuerySettings) -> dict[str, Any]:
    """Return the top candidates of a search as JSON values: keyword and vector rank and score, date bonus, whether it was shown."""
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
    """Explain whether one line of a note was found by a search, and why. Runs on the index thread."""
    chunks = index.at_line(path, line)
    if not chunks:
        filed = index.notes.filed(index.live, "memory").get(path)
        reason = (
            "the file is not indexed yet; run homebody memory index"
            if filed is None
            else filed.trouble or "the line is not indexed"
        )
        return {"found": False, "reason": reason}
    ids = {chunk.id for chunk in chunks}
    places = [place for place, c in enumerate(recalled.ranked, 1) if c.id in ids]
    if not places:
        reason = "it shares no distinctive word with the question"
        if recalled.scan != "none":
            waiting = any(not chunk.embedded for chunk in chunks)
            reason += "; its vector has not been made yet" if waiting else ", and its vector is not among the nearest"
        return {"found": False, "reason": reason}
    best = recalled.ranked[places[0] - 1]
    shown = any(chunk.id in ids for passage in recalled.passages for chunk in passage.chunks)
    reason = "it is in the results" if shown else f"it was ranked {places[0]}, too low to be included"
    if recalled.floored:
        reason = f"it was ranked {places[0]}, but nothing was relevant enough to be returned"
    return {"found": shown, "place": places[0], "score": round(best.score, 4), "reason": reason}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
