"""The files of the page: small, pinned, and never what a path trick asks for."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from typing import TYPE_CHECKING

import pytest

from gateway.page.asset_files import ASSETS, LANGUAGES, SCRIPT, TYPES, AssetFiles, texts_of
from gateway.page.asset_packing import one_module, pages_in, shortened_script, shortened_style
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from tests.page.conftest import ServedPage

VENDORED = {"vendor/preact-htm.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"}
LARGEST = 60_000
SCRIPTS = sorted(path for path in ASSETS.rglob("*.js") if "vendor" not in path.parts)


def test_all_files_that_a_browser_loads_are_small() -> None:
    """It loads the texts in one language."""
    files = AssetFiles()
    sizes = {name: len(found.packed) for name in files.names if (found := files.get(name))}
    texts = [sizes.pop(texts_of(language)) for language in LANGUAGES]
    assert sum(sizes.values()) + max(texts) <= LARGEST, (texts, sorted(sizes.items(), key=lambda one: -one[1]))


FIRST = (
    'import { a } from "./vendor/x.js";\n// About it.\nexport const first = a;\n'
    "export async function go() {\n  return 1;\n}\nexport { a };\n"
)
PAGE = (
    'import { first, go } from "../first.js";\nimport { a } from "../vendor/x.js";\n\n'
    "export default function One({ role }) {\n  return go;\n}\n"
)
BEGINS = 'import { go } from "./first.js";\nimport("./pages.js").then((module) => module.one);\n'


def test_scripts_are_put_together_without_their_comments_each_behind_what_it_needs() -> None:
    assert one_module({"app": BEGINS, "one": PAGE, "first": FIRST}, ["one"], "app") == (
        'import { a } from "./vendor/x.js";\n'
        "const { first, go } = (() => {\nconst first = a;\nasync function go() {\nreturn 1;\n}\nreturn { first, go };\n})();\n"
        "const $one = (() => {\nfunction One({ role }) {\nreturn go;\n}\nreturn One;\n})();\n"
        "const $pages = { one: $one };\n"
        "const $app = (() => {\nPromise.resolve($pages).then((module) => module.one);\nreturn {  };\n})();\n"
    )


@pytest.mark.parametrize(
    ("page", "first", "wrong"),
    [
        ("const a = 1;", FIRST, "one default export"),
        ("export default function A() {}\nexport default function B() {}", FIRST, "two default exports"),
        ("export default function A() {}\nexport const b = 1;", FIRST, "one default export"),
        (PAGE, FIRST + "export default function A() {}", "nothing else has one"),
        ('import * as all from "../first.js";\nexport default function A() {}', FIRST, "put together"),
        ('import { html } from "../api.js";\nexport default function A() {}', FIRST, "no such module"),
        (PAGE, 'import { go } from "./first.js";\n' + FIRST, "circle"),
        ('import { gone } from "../first.js";\n' + PAGE, FIRST, "first has no gone"),
    ],
)
def test_a_script_that_cannot_be_put_together_is_named(page: str, first: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=rf"(one|first)\b.*{wrong}"):
        one_module({"app": BEGINS, "one": page, "first": first}, ["one"], "app")


def test_what_is_sent_differs_from_the_sources_in_space_and_comments_alone() -> None:
    files = AssetFiles()
    style, script = files.get("style.css"), files.get(SCRIPT)
    assert style is not None
    assert script is not None
    sent = gzip.decompress(style.packed).decode()
    assert sent == shortened_style((ASSETS / "style.css").read_text())
    kept = [
        line.strip() for line in (ASSETS / "style.css").read_text().splitlines() if not line.strip().startswith(("//", "/*"))
    ]
    assert _marks(sent) == _marks(" ".join(kept))
    modules = {path.stem: path.read_text() for path in SCRIPTS}
    pages = pages_in(modules["app"])
    assert sorted(pages) == [path.stem for path in SCRIPTS if path.parent.name == "pages"]
    lines = one_module(modules, pages, "app").splitlines()
    assert gzip.decompress(script.packed).decode().replace("\n", "") == "".join(lines)
    for path in SCRIPTS:
        own = [line for line in shortened_script(path.read_text()).splitlines() if not line.startswith(("import ", "export {"))]
        plain = [
            re.sub(r"^export (default )?", "", line).replace('import("./pages.js")', "Promise.resolve($pages)") for line in own
        ]
        assert not [line for line in plain if re.search(r"[;{,] //", line)], "a comment behind code would take the next line in"
        begin = lines.index(plain[0])
        assert lines[begin : begin + len(plain)] == plain, path.name
        assert re.fullmatch(r"const (\$\w+|\{ .* \}) = \(\(\) => \{", lines[begin - 1]), path.name
        assert lines[begin + len(plain)].startswith("return ")


def test_two_modules_do_not_export_the_same_name() -> None:
    two = {
        "app": BEGINS,
        "one": PAGE,
        "first": 'import { b } from "./other.js";\n' + FIRST,
        "other": "export const go = 1;\nexport const b = 2;",
    }
    with pytest.raises(ValueError, match="first: other exports go, too"):
        one_module(two, ["one"], "app")


def test_what_others_wrote_is_as_they_published_it_and_has_its_licence() -> None:
    for name, digest in VENDORED.items():
        assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == digest
    licence = (ASSETS / "vendor/LICENSE.txt").read_text()
    assert "Apache License" in licence
    assert "Copyright (c) 2015-present Jason Miller" in licence
    assert {f"vendor/{path.name}" for path in (ASSETS / "vendor").glob("*.js")} == set(VENDORED)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_writes_markup_runs_text_or_asks_another_machine(path: Path) -> None:
    text = path.read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function|srcdoc", text
    )
    assert not re.search(r"""(?:fetch|import|EventSource)\(\s*["'`](?!/|\./)""", text)
    assert not re.search(r"""\bstyle=(?:["']|\$)|\son[a-z]+=["']""", text)


def _marks(style: str) -> list[str]:
    """The words and marks of a style sheet, without its blanks and without the last semicolon of a rule."""
    return re.findall(r"[^\s{};,]+|[{};,]", re.sub(r";\s*}", "}", style).replace(": ", ":"))


def texts() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for path in (ASSETS / "texts").glob("*.json"):
        found |= json.loads(path.read_text())
    return found


def test_each_language_is_sent_by_itself() -> None:
    for language in LANGUAGES:
        packed = AssetFiles().get(texts_of(language))
        assert packed is not None
        assert json.loads(gzip.decompress(packed.packed)) == {key: both[language] for key, both in texts().items()}


def test_each_text_is_there_in_both_languages_with_the_same_values() -> None:
    for key, both in texts().items():
        assert set(both) == {"en", "de"}, key
        assert all(text.strip() for text in both.values()), key
        values = [set(re.findall(r"\{(\w+)", text)) for text in both.values()]
        assert values[0] == values[1], key


def test_no_key_is_in_two_files() -> None:
    keys = [key for path in (ASSETS / "texts").glob("*.json") for key in json.loads(path.read_text())]
    assert len(keys) == len(set(keys))


def test_each_text_that_a_script_uses_exists_and_each_is_used() -> None:
    code = "\n".join(path.read_text() for path in SCRIPTS)
    used = set(re.findall(r"""\bt\(\s*["']([\w.-]+)["']""", code))
    begins = {re.sub(r"\$\{.*", "", one) for one in re.findall(r"\bt\(\s*`([^`]+)`", code)}
    known = set(texts())
    quoted = set(re.findall(r"""["'`]([a-z][\w-]*\.[\w.-]+)["'`]""", code))
    assert used <= known, used - known
    unused = {key for key in known - used - quoted if not any(one and key.startswith(one) for one in begins)}
    assert not unused


async def test_files_come_with_the_policy_and_are_kept_only_under_their_version(served: ServedPage) -> None:
    tab, files = served.stranger(), AssetFiles()
    for path in ("/", "/enter"):
        answer = await tab.client.get(path)
        assert answer.headers["cache-control"] == "no-cache"
        assert f"/static/{files.version}/app.js" in answer.text
        assert not re.search(r"<script(?! type=\"module\" src=)|style=|\son\w+=", answer.text)
    for name in files.names:
        answer = await tab.client.get(f"/static/{files.version}/{name}")
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200
        assert answer.headers["content-type"] == TYPES["." + name.rpartition(".")[2]]
        assert "immutable" in answer.headers["cache-control"]
        assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    old = await tab.client.get("/static/000000000000/app.js")
    assert old.headers["cache-control"] == "no-cache"
    plain = await tab.client.get(f"/static/{files.version}/app.js", headers={"accept-encoding": "identity"})
    script = files.get("app.js")
    assert script is not None
    assert plain.content == gzip.decompress(script.packed)


TRICKS = [
    "../browsers.py",
    "..%2fbrowsers.py",
    "%2e%2e/%2e%2e/browsers.py",
    "vendor/../../browsers.py",
    "vendor//preact-htm.js",
    "./app.js",
    "app.js/",
    "app.js%00.css",
    "/etc/passwd",
    "//etc/passwd",
    "C:\\x",
    "texts/shell.json",
    "pages/chat.js",
    "ui.js",
    "vendor/LICENSE.txt",
    "vendor",
    "",
    "a" * 3000,
    "%c0%ae%c0%ae/browsers.py",
    "app.js;x",
    "APP.JS",
]


@pytest.mark.sec(19)
@parametrize_some(6, "trick", TRICKS, ids=lambda text: text[:30])
async def test_no_other_file_can_be_asked_for(served: ServedPage, trick: str) -> None:
    tab = await served.tab()
    for path in (f"/static/x/{trick}", f"/page/file/{trick}"):
        reply = await raw(served, path, tab.client.cookies[f"homebody-{served.port}"])
        assert b" 200 " not in reply.partition(b"\r\n")[0], path


async def raw(served: ServedPage, path: str, cookie: str) -> bytes:
    """Ask for a path as it is written, which HTTP libraries would tidy up."""
    import asyncio

    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nCookie: homebody-{served.port}={cookie}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer
