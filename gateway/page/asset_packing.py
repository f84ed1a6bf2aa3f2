"""Makes what is sent of the page's sources: less of it, and the pages as one module, because texts that are alike compress well together.

There is no build: this happens when a file is first asked for. Sources stay modules that a browser could load as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_IMPORT: Final = re.compile(r'import \{ ([\w$]+(?:, [\w$]+)*) \} from "\.\./([\w./-]+)";')
_DEFAULT: Final = re.compile(r"export default function (\w+)\(")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*")
_AROUND: Final = re.compile(r"\s*([{};,])\s*")


def shortened_script(text: str) -> str:
    """Leave out comments that have lines of their own, and indentation. What is marked up in templates means the same without it."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


def shortened_style(text: str) -> str:
    """The same for a style sheet, and blanks around its marks: in selectors no blank follows a colon."""
    lines = (line.strip() for line in text.splitlines())
    kept = "".join(f"{line}\n" for line in lines if line and not (line.startswith("/*") and line.endswith("*/")))
    return _AROUND.sub(r"\1", kept).replace(": ", ":").replace(";}", "}")


def one_module(pages: Mapping[str, str]) -> str:
    """Return a module that exports each page under its name.

    A page is a module with imports of the form ``import { a, b } from "../ui.js";`` and one default export, a function.

    Raises:
        ValueError: a page is written otherwise, or two pages import one name from different files.
    """
    imports: dict[str, str] = {}
    bodies = [_expression(name, text, imports) for name, text in pages.items()]
    files = dict.fromkeys(imports.values())
    heads = [f'import {{ {", ".join(one for one in imports if imports[one] == file)} }} from "./{file}";\n' for file in files]
    return "".join([*heads, *bodies])


def _expression(name: str, text: str, imports: dict[str, str]) -> str:
    """Return a page as a constant, and note what it imports."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name}: a page is named by small letters and digits")
    lines, shown = [], ""
    for line in shortened_script(text).splitlines():
        if found := _IMPORT.fullmatch(line):
            _note(name, found, imports)
            continue
        if found := _DEFAULT.match(line):
            if shown:
                raise ValueError(f"{name}: it has two default exports")
            shown = found[1]
        elif line.startswith(("import ", "export ")):
            raise ValueError(f"{name}: cannot be put together with others: {line[:80]}")
        lines.append(line.removeprefix("export default "))
    if not shown:
        raise ValueError(f"{name}: it has no default export")
    body = "".join(f"{line}\n" for line in lines)
    return f"export const {name} = (() => {{\n{body}return {shown};\n}})();\n"


def _note(name: str, found: re.Match[str], imports: dict[str, str]) -> None:
    for one in found[1].split(", "):
        if imports.setdefault(one, found[2]) != found[2]:
            raise ValueError(f"{name}: {one} comes from {found[2]} here and from {imports[one]} elsewhere")
