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
    foreign: set[str] = set()
    bodies = [_expression(name, modules, pages, foreign) for name in (*order, begins)]
    shown = f"const $pages = {{ {', '.join(f'{page}: ${page}' for page in pages)} }};\n"
    return "".join(
        [*sorted(foreign), *bodies[:-1], shown, bodies[-1].replace('import("./pages.js")', "Promise.resolve($pages)")]
    )


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


def _expression(name: str, modules: Mapping[str, str], pages: Collection[str], foreign: set[str]) -> str:
    """Return a module as a constant that holds what it exports; ``foreign`` gets the imports of what others wrote."""
    lines: list[str] = []
    exported: list[str] = []
    default = ""
    for line in shortened_script(modules[name]).splitlines():
        if found := _IMPORT.fullmatch(line):
            if found[2].startswith(VENDORED):
                foreign |= {f'import {{ {one} }} from "./{found[2]}.js";\n' for one in found[1].split(", ")}
            else:
                lines.append(f"const {{ {found[1]} }} = ${found[2]};")
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
    body, exports = "".join(f"{line}\n" for line in lines), f"{{ {', '.join(exported)} }}"
    return f"const ${name} = (() => {{\n{body}return {default or exports};\n}})();\n"
