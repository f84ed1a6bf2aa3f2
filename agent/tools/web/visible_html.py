"""Removes from a parsed page what a person who looks at it does not see: a favourite place for instructions to a model.

Left out are comments, scripts, templates, ``noscript`` and other elements without text of their own; elements with ``hidden``, ``popover``
or ``aria-hidden``; and what the page's own styles hide: ``display``, ``visibility``, opacity, tiny type, no size, clipping, positions off
the screen, transparent text, and text in the colour of its background where both are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from agent.tools.web.css import GROUPS, Colour, Look, Rule, Style, colour, declarations, hides, hides_by, rules

Node: TypeAlias = Any
"""A node of justhtml: ``name``, ``attrs``, ``children``, ``parent``, ``data``."""
Matches: TypeAlias = Callable[[Node, str], bool]

_NO_TEXT_NAMES: Final = (
    "applet area audio base canvas datalist embed frame frameset head iframe input link map meta noembed noframes noscript object "
    "optgroup option param script select source style svg template textarea track video"
)
NO_TEXT: Final = frozenset(_NO_TEXT_NAMES.split())
"""Elements that are left out with all that is in them."""
MAX_RULES: Final = 4000
_WATCHED: Final = frozenset[str]().union(*GROUPS)
_ATTRIBUTE: Final = re.compile(r"\[[^\]]*\]")
_KEY: Final = re.compile(r"([#.]?)((?:\\.|[\w-])+)")


@dataclass
class _Sheet:
    """The styles that rules give to elements, by the element's id in memory."""

    styles: dict[int, dict[str, tuple[tuple[bool, tuple[int, int, int], int], str]]] = field(default_factory=dict)

    def add(self, node: Node, rule: Rule, weight: tuple[int, int, int], place: int, watched: frozenset[str]) -> None:
        style = self.styles.setdefault(id(node), {})
        for name in watched.intersection(rule.style):
            heavy = (name in rule.important, weight, place)
            if name not in style or style[name][0] <= heavy:
                style[name] = (heavy, rule.style[name])

    def of(self, node: Node) -> Style:
        """Return the style of an element: its own attribute, unless a rule for it is important."""
        given = self.styles.get(id(node), {})
        own, important = declarations(node.attrs.get("style") or "") if node.attrs else ({}, frozenset[str]())
        style = {name: value for name, (_, value) in given.items()}
        wins = {name: value for name, value in own.items() if name in important or name not in given or not given[name][0][0]}
        return {**style, **wins}


def remove_invisible(root: Node, matches: Matches) -> int:
    """Remove it in place; return how many characters of text were hidden by the page (scripts and the like do not count).

    ``matches`` tells whether a node matches a selector, and raises ValueError for one that is not understood.
    """
    nodes = list(_elements(root))
    sheets = "\n".join(_text(node) for node in nodes if node.name == "style")
    plain = not any(node.name == "link" and "stylesheet" in (node.attrs.get("rel") or "").lower() for node in nodes)
    background = _page_background(sheets, plain=plain and "@import" not in sheets)
    sheet = _apply(sheets, nodes, matches, background)
    return _remove(root, sheet, Look(background=background))


def _remove(root: Node, sheet: _Sheet, look: Look) -> int:
    hidden = 0
    waiting = [(root, look)]
    while waiting:
        node, look = waiting.pop()
        kept = []
        for child in node.children or ():
            if child.name == "#text":
                if look.readable:
                    kept.append(child)
                else:
                    hidden += len((child.data or "").strip())
            elif child.name.startswith("#") and child.children is None:
                continue  # a comment or a processing instruction
            elif child.name in NO_TEXT or child.name == "!doctype":
                continue
            elif child.name in {"html", "body", "#document", "#document-fragment"}:  # hidden while scripts run, or as a whole
                kept.append(child)
                page = _look_inside(child, sheet.of(child), look)
                waiting.append((child, replace(look, background=page.background, colour=page.colour)))
            elif _hidden_by_attribute(child) or hides(style := sheet.of(child), look.font_px):
                hidden += len(_text(child).strip())
            else:
                kept.append(child)
                waiting.append((child, _look_inside(child, style, look)))
        if node.children is not None:
            node.children[:] = kept
    return hidden


def _hidden_by_attribute(node: Node) -> bool:
    attrs = node.attrs or {}
    return (
        "hidden" in attrs
        or "popover" in attrs
        or (attrs.get("aria-hidden") or "").strip().lower() == "true"
        or (node.name == "dialog" and "open" not in attrs)
    )


def _look_inside(node: Node, style: Style, look: Look) -> Look:
    attrs = node.attrs or {}
    old: dict[str, str] = {}
    if attrs.get("bgcolor"):
        old["background-color"] = str(attrs["bgcolor"]).lower()
    if attrs.get("background"):
        old["background"] = "url()"
    if node.name == "font" and attrs.get("color"):
        old["color"] = str(attrs["color"]).lower()
    return look.inside({**old, **style})


def _page_background(sheets: str, *, plain: bool) -> Colour | None:
    """Return the background of the page; white unless its sheets say otherwise, None where other sheets may say so."""
    found: Colour | None = (255, 255, 255) if plain else None
    for rule in rules(sheets):
        names = {one.strip() for one in rule.selectors.lower().split(",")}
        said = rule.style.get("background-color") or rule.style.get("background")
        if said and names & {"body", "html", ":root", "*"}:
            found = colour(said)[0]
    return found


def _apply(sheets: str, nodes: list[Node], matches: Matches, background: Colour | None) -> _Sheet:
    """Find the elements that hiding rules match. Rules about the same properties are applied too, as they may show what others hide."""
    listed = [rule for rule in rules(sheets) if not _WATCHED.isdisjoint(rule.style)]
    watched = frozenset(name for rule in listed for name in hides_by(rule, background))
    sheet = _Sheet()
    if not watched:
        return sheet
    index = _index(nodes)
    relevant = [rule for rule in listed if not watched.isdisjoint(rule.style)]
    for place, rule in enumerate(relevant[:MAX_RULES]):
        for selector in _split(rule.selectors):
            candidates = index.get(_key(selector), nodes if _key(selector) == "*" else [])
            for node in candidates:
                try:
                    found = matches(node, selector)
                except ValueError:
                    break
                if found:
                    sheet.add(node, rule, _weight(selector), place, watched)
    return sheet


def _index(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """List elements by ``#id``, ``.class`` and name."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        attrs = node.attrs or {}
        keys = {node.name, *(f".{one}" for one in (attrs.get("class") or "").split())}
        if attrs.get("id"):
            keys.add(f"#{attrs['id']}")
        for key in keys:
            found.setdefault(key, []).append(node)
    return found


def _key(selector: str) -> str:
    """Return what every element that a selector matches has: an id, a class, a name, or "*" for anything."""
    last = re.split(r"[\s>+~]+", _ATTRIBUTE.sub("[]", re.sub(r"\([^()]*\)", "()", selector)).strip())[-1].partition(":")[0]
    parts = [mark + name.replace("\\", "") for mark, name in _KEY.findall(last.replace("[]", ""))]
    return next(
        (part for part in parts if part[0] == "#"), next((part for part in parts if part[0] == "."), parts[0] if parts else "*")
    )


def _weight(selector: str) -> tuple[int, int, int]:
    bare = re.sub(r"\([^()]*\)", "", selector)
    ids, classes = len(re.findall(r"#[\w-]", bare)), len(re.findall(r"[.\[:][\w-]?", bare))
    return ids, classes, len(re.findall(r"(?:^|[\s>+~])[a-z]", bare.lower()))


def _split(selectors: str) -> list[str]:
    parts = re.split(r",(?![^(\[]*[)\]])", selectors)
    return [
        one.strip()
        for one in parts
        if one.strip() and "::" not in one and not re.search(r":(?:before|after|hover|focus|active)", one)
    ]


def _elements(root: Node) -> Iterable[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if not node.name.startswith(("#", "!")):
            yield node
        waiting.extend(child for child in reversed(node.children or ()) if child.name != "#text")


def _text(node: Node) -> str:
    waiting, found = [node], list[str]()
    while waiting:
        one = waiting.pop()
        if one.name == "#text":
            found.append(one.data or "")
        else:
            waiting.extend(reversed(one.children or ()))
    return "".join(found)
