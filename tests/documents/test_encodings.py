"""Texts that do not say their encoding: it is guessed by their letters, and the model is told that it was."""

from __future__ import annotations

import pytest

from agent.tools.documents import DocumentWish, part_text
from agent.tools.encoding_guess import NAMES, guessed
from agent.tools.web.page_text import decoded_as
from gateway.documents.reader import DocumentParser
from gateway.mail.message_text import plain_text
from tests import programs

SAMPLES = {
    "cp932": [
        "本日はお集まりいただき、ありがとうございます。会議は三時からです。",
        "東京都の天気は晴れです",
        "こんにちは",
        "Hello world, mixed text です",
    ],
    "euc_jp": ["本日はお集まりいただき、ありがとうございます。", "こんにちは"],
    "cp949": [
        "안녕하세요. 오늘 회의는 세 시에 시작합니다.",
        "회의 자료",
        "이름,전화\n김철수,010-1234\n",
        "오늘은 날씨가 좋습니다",
    ],
    "gb18030": [
        "你好，今天的会议下午三点开始。",
        "请把文件发给我",
        "北京市今天天气很好，适合出去走走。",
        "姓名,电话\n王小明,138000\n",
    ],
    "big5": ["您好，今天的會議下午三點開始。請準時參加", "請把文件發給我，謝謝"],
    "koi8-r": [
        "Привет, встреча сегодня в три часа дня.",
        "Список покупок: молоко, хлеб",
        "ДОГОВОР КУПЛИ-ПРОДАЖИ\nмежду сторонами",
    ],
    "cp1251": [
        "Привет, встреча сегодня в три часа дня.",
        "Name;Имя\nAnna;Анна\nIvan;Иван\n",
        "Зустріч о третій годині, приходьте вчасно",
    ],
    "cp866": ["Привет, встреча сегодня в три часа дня."],
    "cp1253": ["Καλημέρα, η συνάντηση είναι στις τρεις το απόγευμα"],
    "cp1252": [
        "Die Straße ist für Fußgänger gesperrt, schöne Grüße",
        "À bientôt, ça a été très agréable; où êtes-vous?",
        "El niño comió piñas",
        "Grüße",
        "ÄÖÜ äöü ß",
        "Größe: 5 €",
        "“smart quotes” – dash",
        "São Paulo, não é?",
        "é",
        "Müller;Köln;Übersee",
        "ÜBERSICHT DER ÄNDERUNGEN",
        "òàèìù",
        "ÄÄÄÄ",
    ],
}


def samples() -> list[tuple[str, str]]:
    return [(encoding, text) for encoding, texts in SAMPLES.items() for text in texts]


@pytest.mark.parametrize(("encoding", "text"), samples())
def test_an_encoding_is_told_by_the_letters_of_a_text(encoding: str, text: str) -> None:
    assert guessed(text.encode(encoding)) == encoding
    assert decoded_as(text.encode(encoding), "", html=False) == (text, NAMES[encoding])


def test_what_says_its_encoding_or_is_utf_8_is_not_guessed() -> None:
    text = "Привет, встреча сегодня"
    assert decoded_as(text.encode("koi8-r"), "koi8-r", html=False) == (text, "")
    assert decoded_as(text.encode(), "", html=False) == (text, "")
    assert decoded_as(text.encode()[:-1], "", html=False)[1] == "", "the end is cut off"


def test_a_long_western_text_with_few_letters_beyond_ascii_loses_none_of_them() -> None:
    text = "The plain words of a long letter go on and on, and only at its end there is a café. " * 5
    assert decoded_as(text.encode("cp1252"), "", html=False) == (text, "Windows-1252")


@pytest.mark.parametrize("encoding", ["cp932", "koi8-r", "gb18030"])
async def test_a_file_of_another_alphabet_is_read_and_its_encoding_said_to_be_a_guess(encoding: str) -> None:
    text = SAMPLES[encoding][0]
    parser = DocumentParser(spawn=programs.spawn)
    kind = parser.kind(text.encode(encoding), "a.txt", received=True)
    assert kind == "text"
    part = await parser.read(text.encode(encoding), DocumentWish(kind=kind, page=1, offset=1, limit=None, room=16_000))
    assert text in part_text(part)
    assert f"its encoding is not said and was guessed: {NAMES[encoding]}" in part_text(part)


def test_a_mail_in_another_alphabet_is_read_and_its_encoding_said_to_be_a_guess() -> None:
    text = SAMPLES["koi8-r"][0]
    assert plain_text(text.encode("koi8-r"), "") == f"{text}\n[its encoding is not said and was guessed: KOI8-R]"
    assert plain_text(text.encode("koi8-r"), "us-ascii").startswith(text), "what is said of it is wrong"
    assert plain_text(text.encode("koi8-r"), "koi8-r") == text
