"""What the documents show as settings is valid as a settings file."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

import pytest

from gateway.config.load import check
from gateway.settings.root import Settings
from tests.house.test_docs import READ_BY_OWNERS, name_of

if TYPE_CHECKING:
    from pathlib import Path

FENCED: Final = re.compile(r"^( {0,3})```[^\n]*\n(.*?)^\1```[ \t]*$", re.DOTALL | re.MULTILINE)
INDENTED: Final = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)
TOKENS: Final = {
    "123456:ABC...": "123456:AAHexampleexampleexampleexample12345",
    '"654321:XYZ..."': '"654321:AAHexampleexample"',
}
"""What stands for a token in the documents, and one."""
SECTIONS: Final = {field.alias or name for name, field in Settings.model_fields.items()}


def settings_of(page: Path) -> list[str]:
    """Return the blocks of a page whose first key is a section of the settings."""
    text = page.read_text("utf-8")
    found = [one[2] for one in FENCED.finditer(text)] + INDENTED.findall(FENCED.sub("\n", text))
    begun = ((re.match(r"\s*(?:#.*\n\s*)*(\w+):(?:\s|$)", one), textwrap.dedent(one)) for one in found)
    return [block for first, block in begun if first and first[1] in SECTIONS]


EXAMPLES: Final = [
    pytest.param(one, id=f"{name_of(page)}-{n}") for page in READ_BY_OWNERS for n, one in enumerate(settings_of(page))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_settings_example_is_valid(example: str, tmp_path: Path) -> None:
    for shown, token in TOKENS.items():
        example = example.replace(shown, token)
    variables = dict.fromkeys(re.findall(r"\b[A-Z][A-Z_]{5,}\b", example), "12345:secret-of-an-example-0123456789")
    checked = check(example, tmp_path / "homebody.yaml", {"HOME": str(tmp_path), **variables})
    assert [str(one) for one in checked.problems] == []
    assert [str(one) for one in checked.warnings] == []


def test_the_examples_are_found() -> None:
    assert len(EXAMPLES) > 20
