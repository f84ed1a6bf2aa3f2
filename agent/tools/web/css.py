"""Reads as much CSS as it takes to tell which text of a page nobody sees.

External style sheets are not loaded, animations do not run, and a screen 1,280 pixels wide is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

Style: TypeAlias = "Mapping[str, str]"
"""Values by property, in small letters, without ``!important``."""
Colour: TypeAlias = "tuple[int, int, int]"

FONT_PX: Final = 16.0
SCREEN_PX: Final = 1280.0
LEAST_FONT_PX: Final = 3.0
"""Text that is smaller is not readable."""
LEAST_OPACITY: Final = 0.06
FAR_PX: Final = -500.0
"""What lies further left or up than this is off the screen."""
SAME_COLOUR: Final = 12
"""Text whose channels all differ from the background's by no more than this (of 255) is not readable."""
GROUPS: Final = (
    {"display"},
    {"visibility"},
    {"opacity", "filter"},
    {"content-visibility"},
    {"font-size", "font"},
    {"width", "height", "max-width", "max-height", "overflow", "overflow-x", "overflow-y"},
    {"position", "left", "top", "right", "bottom"},
    {"text-indent"},
    {"transform", "scale"},
    {"clip", "clip-path"},
    {"color", "background", "background-color", "-webkit-text-fill-color", "background-clip", "-webkit-background-clip"},
)
"""Properties that hide text, together with those that they depend on."""

_UNITS: Final = {
    "px": 1.0,
    "": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
    "vw": 12.8,
    "vh": 7.2,
    "rem": FONT_PX,
}
_NAMED: Final[dict[str, Colour]] = {
    "white": (255, 255, 255),
    "snow": (255, 250, 250),
    "ivory": (255, 255, 240),
    "whitesmoke": (245, 245, 245),
    "black": (0, 0, 0),
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "gray": (128, 128, 128),
    "grey": (128, 128, 128),
    "silver": (192, 192, 192),
    "navy": (0, 0, 128),
}
_DECLARATION = re.compile(r"""([a-z-]+)\s*:((?:[^;"'(]|"[^"]*"|'[^']*'|\([^()]*(?:\([^()]*\)[^()]*)*\))*)""")
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?|\\(.)")
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.DOTALL)
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)([a-z%]*)")
_WIDTH = re.compile(r"\(\s*(min|max)-(?:device-)?width\s*:\s*([\d.]+)(px|em|rem)\s*\)")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a style sheet, with what decides between it and others: its place, and for each property whether it is important."""

    selectors: str
    style: Style
    important: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How text looks at one place of a page. A ``colour`` or ``background`` of None is not known, such as a picture."""

    visible: bool = True
    font_px: float = FONT_PX
    indent_px: float = 0.0
    colour: Colour | None = None
    transparent: bool = False
    background: Colour | None = (255, 255, 255)

    @property
    def readable(self) -> bool:
        """Whether a person can read text here."""
        if not self.visible or self.transparent or self.font_px < LEAST_FONT_PX or self.indent_px <= FAR_PX:
            return False
        if self.colour is None or self.background is None:
            return True
        return any(abs(one - other) > SAME_COLOUR for one, other in zip(self.colour, self.background, strict=True))

    def inside(self, style: Style) -> Look:
        """Return the look of text in an element with this style of its own."""
        look = self
        if (said := style.get("visibility")) is not None and said != "inherit":
            look = replace(look, visible=said == "visible")
        size = font_px(style, self.font_px)
        if size is not None:
            look = replace(look, font_px=size)
        if "text-indent" in style:
            look = replace(look, indent_px=px(style["text-indent"], look.font_px) or 0.0)
        return _coloured(look, style)


def declarations(text: str) -> tuple[dict[str, str], frozenset[str]]:
    """Read ``property: value; ...``; return the values and which properties are important. The last one of a property holds."""
    found: dict[str, str] = {}
    important: set[str] = set()
    for match in _DECLARATION.finditer(_plain(text)):
        value = " ".join(match[2].split())
        bare = value.removesuffix("!important").removesuffix("! important").rstrip()
        if bare != value:
            important.add(match[1])
        elif match[1] in important:
            continue
        found[match[1]] = bare
    return found, frozenset(important)


def rules(sheet: str) -> Iterator[Rule]:
    """Yield the rules of a style sheet that hold on a screen, in their order."""
    text = _COMMENT.sub(" ", sheet)
    place, closers = 0, list[bool]()
    while (brace := re.compile(r"[{}]").search(text, place)) is not None:
        head = text[place : brace.start()].rpartition(";")[2].strip()
        place = brace.end()
        if brace[0] == "}":
            if closers:
                closers.pop()
        elif head.startswith("@"):
            if _holds(head.lower()):
                closers.append(True)
            else:
                place = _after_block(text, place)
        else:
            end = _after_block(text, place)
            style, important = declarations(text[place : end - 1])
            place = end
            if style:
                yield Rule(head, style, important)


def hides(style: Style, font: float = FONT_PX) -> bool:
    """Whether an element with this style shows nothing of what is in it, whatever is set further inside."""
    if style.get("display") == "none" or style.get("content-visibility") == "hidden":
        return True
    opacity = px(style.get("opacity", ""), font)
    if opacity is not None and opacity < LEAST_OPACITY * (100 if style["opacity"].endswith("%") else 1):
        return True
    if re.search(r"opacity\(\s*0*\.?0*%?\s*\)", style.get("filter", "")):
        return True
    return _no_size(style, font) or _off_screen(style, font) or _clipped(style) or _scaled_away(style)


def hides_by(rule: Rule, background: Colour | None) -> set[str]:
    """Return the properties by which a rule may hide text, out of ``GROUPS``; empty for most rules."""
    look = Look(background=background).inside(rule.style)
    if not hides(rule.style) and look.readable:
        return set()
    return {name for group in GROUPS for name in group if not group.isdisjoint(rule.style)}


def px(value: str, font: float) -> float | None:
    """Read a length in pixels; a percentage as its number, None for what is no plain length."""
    found = _NUMBER.fullmatch(value.strip())
    if found is None:
        return None
    factor = {"em": font, "ex": font / 2, "ch": font / 2, "%": 1.0}.get(found[2], _UNITS.get(found[2]))
    return None if factor is None else float(found[1]) * factor


def font_px(style: Style, parent: float) -> float | None:
    """Return the size of the text that a style sets, in pixels."""
    value = style.get("font-size", "")
    if not value and (shorthand := re.search(r"(?:^|\s)([\d.]+(?:px|pt|em|rem|%|)?)(?:/|\s)", style.get("font", ""))):
        value = shorthand[1]
    size = px(value, parent)
    return size / 100 * parent if size is not None and value.endswith("%") else size


def colour(value: str) -> tuple[Colour | None, float]:
    """Read a colour and its opacity; no colour for what is not understood."""
    value = value.strip()
    if value == "transparent":
        return None, 0.0
    if value in _NAMED:
        return _NAMED[value], 1.0
    if re.fullmatch(r"#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})", value):
        wide = value[1:] if len(value) > 5 else "".join(digit * 2 for digit in value[1:])  # noqa: PLR2004 (#rgba)
        red, green, blue, *alpha = bytes.fromhex(wide)
        return (red, green, blue), alpha[0] / 255 if alpha else 1.0
    if found := re.fullmatch(r"rgba?\(([^()]*)\)", value):
        parts = [one for one in re.split(r"[\s,/]+", found[1].strip()) if one]
        numbers = [px(one, FONT_PX) for one in parts]
        if len(numbers) in {3, 4} and None not in numbers:
            scaled = [
                float(number or 0) * (2.55 if one.endswith("%") else 1)
                for number, one in zip(numbers[:3], parts[:3], strict=True)
            ]
            alpha_part = float(numbers[3] or 0) / (100 if parts[3].endswith("%") else 1) if len(parts) > 3 else 1.0  # noqa: PLR2004 (r, g, b)
            return (int(scaled[0]), int(scaled[1]), int(scaled[2])), alpha_part
    if found := re.fullmatch(r"hsla\([^()]*[,/]\s*0*\.?0*%?\s*\)", value):
        return None, 0.0
    return None, 1.0


def _coloured(look: Look, style: Style) -> Look:
    clipped = "text" in (style.get("background-clip", ""), style.get("-webkit-background-clip", ""))
    if background := style.get("background-color") or style.get("background"):
        found, alpha = colour(background)
        if found is not None and alpha > 1 - LEAST_OPACITY:
            look = replace(look, background=found)
        elif background not in {"none", "transparent", "inherit", "initial", "unset"} and alpha:
            look = replace(look, background=None)
    said = style.get("-webkit-text-fill-color") or style.get("color")
    if said and said not in {"inherit", "currentcolor", "unset"}:
        found, alpha = colour(said)
        look = replace(look, colour=found, transparent=alpha < LEAST_OPACITY and not clipped)
    return look


def _no_size(style: Style, font: float) -> bool:
    clipping = {"hidden", "clip"} & {
        word for name in ("overflow", "overflow-x", "overflow-y") for word in style.get(name, "").split()
    }
    sizes = (px(style.get(name, ""), font) for name in ("width", "height", "max-width", "max-height"))
    return bool(clipping) and any(size is not None and size <= 1 for size in sizes)


def _off_screen(style: Style, font: float) -> bool:
    if style.get("position") not in {"absolute", "fixed", "relative"}:
        return False
    lengths = {name: px(style.get(name, ""), font) for name in ("left", "top", "right", "bottom")}
    return (
        any(length is not None and length <= FAR_PX for length in lengths.values()) or (lengths["left"] or 0.0) >= 4 * SCREEN_PX
    )


def _clipped(style: Style) -> bool:
    rectangle = re.fullmatch(r"rect\((.*)\)", style.get("clip", ""))
    if rectangle:
        sides = [px(one, FONT_PX) for one in re.split(r"[\s,]+", rectangle[1].strip())]
        if all(side is not None and side <= 1 for side in sides):
            return True
    shape = style.get("clip-path", "")
    inset = re.fullmatch(r"inset\(\s*([\d.]+)%.*\)", shape)
    return bool((inset and float(inset[1]) >= 50) or re.match(r"(?:circle|ellipse)\(\s*0(?:px|%)?[\s)]", shape))  # noqa: PLR2004 (half)


def _scaled_away(style: Style) -> bool:
    transform = style.get("transform", "")
    if re.search(r"scale[xy]?\(\s*0*\.?0*\s*[,)]", transform) or re.fullmatch(r"0*\.?0+", style.get("scale", "")):
        return True
    moved = re.findall(r"translate(?:x|y|3d)?\(([^()]*)\)", transform)
    lengths = [px(one, FONT_PX) for part in moved for one in part.split(",") if not one.strip().endswith("%")]
    return any(length is not None and length <= FAR_PX for length in lengths)


def _holds(head: str) -> bool:
    """Whether the rules inside ``@media`` and its like are looked at."""
    if not head.startswith("@media"):
        return head.startswith(("@supports", "@layer", "@container", "@scope", "@starting-style"))
    return any(_shown_on_screen(one) for one in head.removeprefix("@media").split(","))


def _shown_on_screen(query: str) -> bool:
    if re.search(r"\b(print|speech|aural|braille)\b", query):
        return "not" in query.split()
    for bound, number, unit in _WIDTH.findall(query):
        width = float(number) * (1.0 if unit == "px" else FONT_PX)
        if (bound == "min" and width > SCREEN_PX) or (bound == "max" and width < SCREEN_PX):
            return False
    return True


def _after_block(text: str, place: int) -> int:
    """Return the place behind the brace that closes the block whose content begins at ``place``."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, place):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(text) + 1


def _plain(text: str) -> str:
    def spelt(match: re.Match[str]) -> str:
        code = int(match[1], 16) if match[1] else ord(match[2])
        return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else " "  # noqa: PLR2004 (Unicode, surrogates)

    return _ESCAPE.sub(spelt, _COMMENT.sub(" ", text)).lower()
