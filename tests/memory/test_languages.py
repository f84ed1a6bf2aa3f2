"""Keyword search in languages other than English: what is there is found, and what is not there is not made up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from memory.text import stop_words
from memory.text.terms import bigrams, query_terms
from tests.memory.memory_engines import memory_at
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "German": (
        "Am Morgen waren wir auf dem Markt {n} und haben Brot, Käse und Äpfel gekauft.",
        "Annas Geburtstag ist am 5. März; sie wünscht sich ein Fahrrad.",
        "Wann hat Anna eigentlich Geburtstag, und was wünscht sie sich von uns?",
        "Welches Raumschiff hat das Teleskop gestartet?",
    ),
    "French": (
        "Ce matin nous étions au marché {n} et nous avons acheté du pain et des pommes.",
        "Le code de la cave est 7731.",
        "Quel est le code de la cave chez nous ?",
        "Qui a lancé le télescope dans la fusée ?",
    ),
    "Spanish": (
        "Esta mañana estuvimos en el mercado {n} y compramos pan y manzanas.",
        "La alergia de Lucía es a las nueces.",
        "¿Qué alergia tiene Lucía?",
        "¿Quién lanzó el telescopio en el cohete?",
    ),
    "Italian": (
        "Stamattina eravamo al mercato {n} e abbiamo comprato pane e mele.",
        "Il medico di Marco si chiama Rossi.",
        "Come si chiama il medico di Marco?",
        "Chi ha lanciato il telescopio con il razzo?",
    ),
    "Portuguese": (
        "De manhã fomos ao mercado {n} e comprámos pão e maçãs.",
        "A chave do portão está debaixo do vaso azul.",
        "Onde é que está a chave do portão?",
        "Quem lançou o telescópio no foguetão?",
    ),
    "Dutch": (
        "Vanmorgen waren we op de markt {n} en kochten brood en appels.",
        "De tandarts van Joris heet Bakker.",
        "Hoe heet de tandarts van Joris ook al weer?",
        "Wie lanceerde de telescoop met de raket?",
    ),
    "Swedish": (
        "I morse var vi på torget {n} och köpte bröd och äpplen.",
        "Bilen ska till verkstaden på torsdag.",
        "När ska bilen till verkstaden?",
        "Vem sköt upp teleskopet med raketen?",
    ),
    "Polish": (
        "Rano byliśmy na rynku {n} i kupiliśmy chleb oraz jabłka.",
        "Hasło do drukarki to wiewiórka.",
        "Jakie jest hasło do drukarki?",
        "Kto wystrzelił teleskop rakietą?",
    ),
    "Russian": (
        "Утром мы были на рынке {n} и купили хлеб и яблоки.",
        "Врач сказал, что таблетки надо пить вечером.",
        "Когда врач сказал пить таблетки?",
        "Кто запустил телескоп на ракете?",
    ),
    "Chinese": (
        "今天早上我们去了市场{n}，买了面包和苹果。",
        "小明的生日是三月五日，他想要一辆自行车。",
        "小明的生日是什么时候？",
        "谁发射了望远镜火箭？",
    ),
    "Japanese": (
        "今朝は市場{n}に行って、パンとりんごを買いました。",
        "健太の誕生日は三月五日です。",
        "健太の誕生日はいつでしたか？",
        "望遠鏡を打ち上げたのは誰ですか？",
    ),
    "Korean": (
        "오늘 아침에 시장{n}에 가서 빵과 사과를 샀다.",
        "민수의 생일은 삼월 오일이다.",
        "민수의 생일이 언제였지?",
        "누가 망원경을 로켓으로 쏘았습니까?",
    ),
}


@parametrize_some(5, "language", CASES)
async def test_a_question_finds_the_note_and_one_of_something_else_finds_none(language: str, tmp_path: Path) -> None:
    filler, fact, question, foreign = CASES[language]
    notes = tmp_path / "notes" / "memory"
    notes.mkdir(parents=True)
    for number in range(80):
        (notes / f"day-{number}.md").write_text(filler.format(n=number) + "\n", encoding="utf-8")
    (notes / "fact.md").write_text(fact + "\n", encoding="utf-8")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    memory = memory_at(notes.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)
    await memory.sync()
    found = (await memory.search(question, audience=OWNER)).hits
    assert found[0].path == "memory/fact.md"
    assert (await memory.search(foreign, audience=OWNER)).hits == ()
    await memory.close()


def test_function_words_of_the_language_of_the_question_go_alone() -> None:
    assert query_terms("Die hard, or die trying?").words == ("Die", "hard", "trying")
    assert query_terms("Wann kommt die Post?").words == ("kommt", "Post")


def test_pairs_that_are_grammar_tell_nothing() -> None:
    assert stop_words.content_bigrams("小明的生日是什么时候", bigrams("小明的生日是什么时候")) == ["小明", "生日"]
    assert stop_words.content_bigrams("誕生日はいつ", bigrams("誕生日はいつ")) == ["誕生", "生日"]
    assert stop_words.content_bigrams("いつですか", bigrams("いつですか")) == ["いつ", "つで", "です", "すか"]


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("Der Klempner wohnt in der Hauptstraße", "Wer wohnt in der Hauptstraße?"),
        ("用Python写的脚本在书房", "where is the Python script?"),
        ("iPhone用ケースは引き出しの中", "iPhone"),
    ],
)
async def test_a_word_is_found_however_case_is_folded_and_whatever_script_it_touches(
    fact: str, question: str, tmp_path: Path
) -> None:
    notes = tmp_path / "notes" / "memory"
    notes.mkdir(parents=True)
    (notes / "fact.md").write_text(fact + "\n", encoding="utf-8")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    memory = memory_at(notes.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock)
    await memory.sync()
    assert [hit.path for hit in (await memory.search(question, audience=OWNER)).hits] == ["memory/fact.md"]
    await memory.close()
