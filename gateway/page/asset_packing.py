"""Makes what is sent of the page's sources: less of it, and all scripts as one module, because texts that are alike compress well together.

There is no build: this happens when a file is first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

_IMPORT: Final = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "\.\.?/([\w/-]+)\.js";')
_EXPORT: Final = re.compile(r"export (?:async )?(?:function|const|class) (\w+)")
_EXPORTED: Final = re.compile(r"export \{ (\w+(?:, \w+)*) \};")
_DEFAULT: Final = re.compile(r"export default function (\w+)\(")
_PAGES: Final = re.compile(r'^const PAGES = \["(\w+(?:", "\w+)*)"\];$', re.MULTILINE)
VENDORED: Final = "vendor/"
"""Where files of others are, which are sent as they were published."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*")
_LINE_ENDS: Final = re.compile(r"([;{,])\n")
_AROUND: Final = re.compile(r"\s*([{};,])\s*")


def shortened_script(text: str) -> str:
    """Leave out comments that have lines of their own, and indentation. What is marked up in templates means the same without it."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def joined(script: str) -> str:
    """Put lines of a shortened script together where a statement, an item or a block's head ends with the line."""
    return _LINE_ENDS.sub(r"\1", script)


def shortened_style(text: str) -> str:
    """The same for a style sheet, and blanks around its marks: in selectors no blank follows a colon."""
    lines = (line.strip() for line in text.splitlines())
    kept = "".join(f"{line}\n" for line in lines if line and not (line.startswith("/*") and line.endswith("*/")))
    return _AROUND.sub(r"\1", kept).replace(": ", ":").replace(";}", "}")


def pages_in(script: str) -> list[str]:
    """Return the names of the pages in the order in which a script names them: pages that are alike stand together in the navigation."""
    found = _PAGES.search(script)
    if found is None:
        raise ValueError("the script names no PAGES")
    return found[1].split('", "')


def one_module(modules: Mapping[str, str], pages: Collection[str], begins: str) -> str:
    """Return all modules as one that does what ``begins`` does when it is loaded. ``pages`` are shown by ``import("./pages.js")``.

    A module is named by its file without ``.js``. It has imports of the form ``import { a, b } from "./ui.js";``, and what it exports
    is exported where it is declared, or in one line. A page has one default export, a function.

    Raises:
        ValueError: one is written otherwise, or imports what is not there.
    """
    order: list[str] = []
    _visit(begins, modules, order, ())
    for page in pages:
        _visit(page, modules, order, ())
    order.remove(begins)
    owners: dict[str, str] = {}
    bodies = [_expression(name, modules, pages, owners) for name in (*order, begins)]
    foreign = sorted((name, file) for name, file in owners.items() if file.startswith(VENDORED))
    imports = [f'import {{ {name} }} from "./{file}.js";\n' for name, file in foreign]
    shown = f"const $pages = {{ {', '.join(f'{page}: ${page}' for page in pages)} }};\n"
    return "".join([*imports, *bodies[:-1], shown, bodies[-1].replace('import("./pages.js")', "Promise.resolve($pages)")])


def _visit(name: str, modules: Mapping[str, str], order: list[str], above: tuple[str, ...]) -> None:
    """Put a module behind those that it imports."""
    if name in order:
        return
    if name in above or name not in modules:
        raise ValueError(f"{' -> '.join((*above, name))}: {'a circle' if name in above else 'there is no such module'}")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name}: a module is named by small letters and digits")
    for _, file in _IMPORT.findall(modules[name]):
        if not file.startswith(VENDORED):
            _visit(file, modules, order, (*above, name))
    order.append(name)


def _expression(name: str, modules: Mapping[str, str], pages: Collection[str], owners: dict[str, str]) -> str:
    """Return a module as a constant: a page as itself, another one as the names that it exports, which all modules behind it have.

    ``owners`` gets the module of each name.
    """
    lines: list[str] = []
    exported: list[str] = []
    default = ""
    for line in shortened_script(modules[name]).splitlines():
        if found := _IMPORT.fullmatch(line):
            _take_in(name, found[1].split(", "), found[2], owners)
        elif found := _EXPORTED.fullmatch(line):
            exported += found[1].split(", ")
        elif found := _DEFAULT.match(line):
            if default:
                raise ValueError(f"{name}: it has two default exports")
            default = found[1]
            lines.append(line.removeprefix("export default "))
        elif found := _EXPORT.match(line):
            exported.append(found[1])
            lines.append(line.removeprefix("export "))
        elif line.startswith(("import ", "export ")):
            raise ValueError(f"{name}: cannot be put together with others: {line[:80]}")
        else:
            lines.append(line)
    if (name in pages) != bool(default) or (default and exported):
        raise ValueError(f"{name}: a page has one default export, and nothing else has one")
    own = _owned(name, exported, owners)
    body, exports = "".join(f"{line}\n" for line in lines), f"{{ {', '.join(own)} }}"
    held = exports if own else f"${name}"
    return f"const {held} = (() => {{\n{body}return {default or exports};\n}})();\n"


def _take_in(name: str, wanted: list[str], module: str, owners: dict[str, str]) -> None:
    """Check that what a module imports is there; what others wrote is imported by the module that all become."""
    for one in wanted:
        if module.startswith(VENDORED):
            owners[one] = module
        elif one not in owners:
            raise ValueError(f"{name}: {module} has no {one}")


def _owned(name: str, exported: list[str], owners: dict[str, str]) -> list[str]:
    """Note the names that a module exports as its own, and return them; others may have none of them."""
    own = [one for one in exported if not owners.get(one, "").startswith(VENDORED)]
    for one in own:
        if owners.setdefault(one, name) != name:
            raise ValueError(f"{name}: {owners[one]} exports {one}, too")
    return own
