"""Recovery keys, against keys and data that other programs made: they are published with the tests of matrix-rust-sdk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.matrix.recovery_key import ALGORITHM, WrongKey, description_of, opened, read, sealed, written
from channels.matrix.recovery_key import given as key_given
from tests.properties import examples

KEY = "EsTj 3yST y93F SLpB jJsz eAXc 2XzA ygD3 w69H fGaN TKBj jXEd"
OF_KEY = {"algorithm": ALGORITHM, "iv": "xv5b6/p3ExEw++wTyfSHEg==", "mac": "ujBBbXahnTAMkmPUX2/0+VTfUh63pGyVRuBcDMgmJC8="}
PHRASE = "It's a secret to everybody"
OF_PHRASE = {
    "algorithm": ALGORITHM,
    "iv": "gH2iNpiETFhApvW6/FFEJQ",
    "mac": "9Lw12m5SKDipNghdQXKjgpfdj1/K7HFI2brO+UWAGoM",
    "passphrase": {"algorithm": "m.pbkdf2", "salt": "IuLnH7S85YtZmkkBJKwNUKxWF42g9O1H", "iterations": 10},
}


@pytest.mark.parametrize(("entered", "description"), [(KEY, OF_KEY), (KEY.replace(" ", ""), OF_KEY), (PHRASE, OF_PHRASE)])
def test_a_key_or_a_phrase_of_another_program_is_taken(entered: str, description: dict[str, Any]) -> None:
    assert len(key_given(entered, description)) == 32


@pytest.mark.parametrize(
    ("entered", "description"),
    [
        (KEY, OF_PHRASE),
        ("it is no secret", OF_PHRASE),
        (PHRASE, OF_KEY),
        (KEY[:-1] + "e", OF_KEY),
        (KEY[:-1], OF_KEY),
        (KEY * 3, OF_KEY),
        ("", OF_KEY),
        (KEY, {**OF_KEY, "mac": "?"}),
        (KEY, {**OF_KEY, "iv": "short"}),
        (KEY, {**OF_KEY, "algorithm": "m.of.tomorrow"}),
        (PHRASE, {**OF_PHRASE, "passphrase": {"algorithm": "m.pbkdf2", "salt": "s", "iterations": 10**12}}),
        (PHRASE, {**OF_PHRASE, "passphrase": {"algorithm": "m.pbkdf2", "salt": "s", "iterations": 10, "bits": 64}}),
    ],
)
def test_another_key_and_damaged_data_are_refused(entered: str, description: dict[str, Any]) -> None:
    with pytest.raises(WrongKey):
        key_given(entered, description)


@settings(max_examples=examples(100))
@given(key=st.binary(min_size=32, max_size=32), name=st.text(max_size=20), secret=st.text("abc+/0", max_size=60))
def test_what_is_written_down_opens_what_was_sealed(key: bytes, name: str, secret: str) -> None:
    again = key_given(written(key).replace(" ", "\n"), description_of(key))
    assert again == read(written(key)) == key
    content = sealed(key, name, secret)
    assert opened(again, name, content) == secret
    with pytest.raises(WrongKey):
        opened(again, f"{name}.", content)
