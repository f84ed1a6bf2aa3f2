"""Draws how figures grow with the state: cost against size, both as logarithms and as multiples of the smallest."""

from __future__ import annotations

import math
from html import escape

LEFT, TOP, WIDTH, HEIGHT, LABELS = 60, 56, 380, 420, 300
LEAST, MOST = 0.5, 200.0
GAP = 17
COLOURS = ("#1f6feb", "#d1570a", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a")
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f } .title { font-weight: 600; font-size: 14px }
.grid { stroke: #d0d7de } .linear { stroke: #8c959f; stroke-dasharray: 5 4 }
"""


def draw(figures: dict[str, dict[int, float]]) -> str:
    """Return an SVG of figures by size."""
    scales = sorted(next(iter(figures.values())))

    def x(scale: float) -> float:
        return LEFT + WIDTH * math.log(scale / scales[0]) / math.log(scales[-1] / scales[0])

    def y(times: float) -> float:
        return TOP + HEIGHT * (1 - math.log(min(max(times, LEAST), MOST) / LEAST) / math.log(MOST / LEAST))

    title = "What it costs when there is more of it, in multiples of the smallest (dashed: linear)"
    head = f'<text class="title" x="{LEFT}" y="26">{title}</text>'
    parts = ['<rect width="100%" height="100%" rx="8" fill="#ffffff"/>', head]
    for scale in scales:
        parts.append(f'<line class="grid" x1="{x(scale):.1f}" x2="{x(scale):.1f}" y1="{TOP}" y2="{TOP + HEIGHT}"/>')
        parts.append(f'<text x="{x(scale):.1f}" y="{TOP + HEIGHT + 20}" text-anchor="middle">{scale}x</text>')
    for times in (1, 10, 100):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y(times):.1f}" y2="{y(times):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(times) + 4:.1f}" text-anchor="end">{times}</text>')
    parts.append(
        f'<line class="linear" x1="{x(scales[0]):.1f}" y1="{y(1):.1f}" x2="{x(scales[-1]):.1f}" y2="{y(scales[-1] / scales[0]):.1f}"/>'
    )
    ends = {name: values[scales[-1]] / values[scales[0]] for name, values in figures.items()}
    ordered = sorted(ends, key=ends.__getitem__, reverse=True)
    places = _apart([y(ends[name]) for name in ordered])
    for number, name in enumerate(ordered):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(scale):.1f},{y(figures[name][scale] / figures[name][scales[0]]):.1f}" for scale in scales)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        end, place = y(ends[name]), places[number]
        parts.append(f'<path d="M{LEFT + WIDTH} {end:.1f}L{LEFT + WIDTH + 14} {place:.1f}" stroke="{colour}" fill="none"/>')
        text = f"{name}: {ends[name]:.1f}"
        parts.append(f'<text x="{LEFT + WIDTH + 18}" y="{place + 4:.1f}" style="fill:{colour}">{escape(text)}</text>')
    size = f'width="{LEFT + WIDTH + LABELS}" height="{TOP + HEIGHT + 36}" viewBox="0 0 {LEFT + WIDTH + LABELS} {TOP + HEIGHT + 36}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="Cost of each figure at 1, 10 and 100 times the state">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _apart(places: list[float]) -> list[float]:
    """Return where labels stand, from the top: at their line's end, or below the label before, and none below the plot."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + GAP) if found else place)
    below = max(0.0, found[-1] - (TOP + HEIGHT)) if found else 0.0
    lowest = TOP + HEIGHT + GAP
    for index in reversed(range(len(found))):
        lowest = found[index] = min(found[index], lowest - GAP) if below else found[index]
    return found
