"""PowerPoint files: a part for each visible slide, with its notes. Runs in the parser's process.

Hidden slides and shapes, and shapes beside the slide, are left out; text that is written in white is marked, as slides are often dark.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from typing import Any, Final

from agent.characters import without_smuggled
from gateway.documents.excerpt import Document, Unreadable
from gateway.documents.word import MARK
from gateway.documents.zip_archive import opened

_WHITE: Final = frozenset({"FFFFFF", "FEFEFE", "FDFDFD"})
_DEEPEST: Final = 20
"""Groups nested deeper than this are left out."""


def document(data: bytes) -> Document:
    """Open a PowerPoint file. Raises Unreadable."""
    opened(data)
    library = importlib.import_module("pptx")
    show = library.Presentation(io.BytesIO(data))
    slides = [slide for slide in show.slides if slide.element.get("show") not in {"0", "false"}]
    if not slides:
        raise Unreadable("without any visible slide")
    notes: list[str] = []
    if hidden := len(show.slides) - len(slides):
        notes.append(f"{hidden} hidden slide{'s were' if hidden > 1 else ' was'} left out")
    size = (int(show.slide_width or 0), int(show.slide_height or 0))

    def text(number: int) -> str:
        return without_smuggled("\n".join(_slide(slides[number - 1], size, notes)))

    contents = [(title, number) for number, slide in enumerate(slides, 1) if (title := _title(slide))]
    return Document(count=len(slides), unit="slide", text=text, contents=contents, notes=notes)


def _title(slide: Any) -> str:
    shape = slide.shapes.title
    return " ".join(shape.text_frame.text.split()) if shape is not None and shape.has_text_frame else ""


def _slide(slide: Any, size: tuple[int, int], notes: list[str]) -> Iterator[str]:
    title = slide.shapes.title
    if title is not None and not _unseen(title, size):
        yield f"## {_title(slide)}"
    for shape in _shapes(slide.shapes, size, notes, 0):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        yield from _shape(shape)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        said = slide.notes_slide.notes_text_frame.text.strip()
        yield from ([f"[speaker's notes] {said}"] if said else [])


def _shapes(shapes: Any, size: tuple[int, int], notes: list[str], depth: int) -> Iterator[Any]:
    for shape in shapes:
        if _unseen(shape, size if depth == 0 else (0, 0)):
            note = "shapes that a slide does not show were left out"
            notes += [] if note in notes or not _has_text(shape) else [note]
        elif hasattr(shape, "shapes") and depth < _DEEPEST:
            yield from _shapes(shape.shapes, size, notes, depth + 1)
        else:
            yield shape


def _has_text(shape: Any) -> bool:
    return hasattr(shape, "shapes") or bool(getattr(shape, "has_text_frame", False) and shape.text_frame.text.strip())


def _unseen(shape: Any, size: tuple[int, int]) -> bool:
    """Return whether a shape is hidden, or lies beside the slide. Within a group, places are the group's own."""
    facts = next((one for one in shape.element.iter() if one.tag.endswith("}cNvPr")), None)
    if facts is not None and facts.get("hidden") in {"1", "true"}:
        return True
    sides = (shape.left, shape.top, shape.width, shape.height)
    if not all(size) or any(side is None for side in sides):
        return False
    left, top, width, height = map(int, sides)
    return left + width <= 0 or top + height <= 0 or left >= size[0] or top >= size[1]


def _shape(shape: Any) -> Iterator[str]:
    if getattr(shape, "has_table", False) and shape.has_table:
        for number, row in enumerate(shape.table.rows):
            cells = [" ".join(cell.text_frame.text.split()).replace("|", "\\|") for cell in row.cells]
            yield "| " + " | ".join(cells) + " |"
            if number == 0:
                yield "|" + " --- |" * len(cells)
        return
    if not shape.has_text_frame:
        return
    for paragraph in shape.text_frame.paragraphs:
        text = "".join(_run(run) for run in paragraph.runs) or paragraph.text
        if text.strip():
            yield "  " * min(paragraph.level, 8) + f"- {' '.join(text.split())}"


def _run(run: Any) -> str:
    colour = run.font.color
    white = colour is not None and colour.type is not None and str(getattr(colour, "rgb", "")) in _WHITE
    return f"{MARK}{run.text}]" if white and run.text.strip() else str(run.text)
