from __future__ import annotations

import apsw
from hypothesis import given
from hypothesis import strategies as st

from memory.text.terms import bigram_text, fts_string, query_terms, spaced, trigram_text


@given(
    st.text(max_size=80)
    | st.sampled_from(['"', "*", "NEAR(a b)", "a AND", "NOT", "col : x", "-a", "^b", "a + b", "((", "\x00"])
)
def test_no_question_is_syntax(question: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(header, text, pairs)")
    found = query_terms(question)
    for query in [
        *map(fts_string, found.words),
        *(f"pairs : {fts_string(pair)}" for pair in found.pairs),
        *map(fts_string, found.code),
    ]:
        list(connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (query,)))


def test_function_words_go_unless_nothing_else_is_left() -> None:
    assert query_terms("What did we decide about the API?").words == ("decide", "API")
    assert query_terms("who are you").words == ("who", "are", "you")


def test_unspaced_scripts_are_asked_for_by_pairs() -> None:
    found = query_terms("我喜欢咖啡 with milk")
    assert found.pairs == ("我喜", "喜欢", "欢咖", "咖啡")
    assert found.words == ("milk",)
    assert "咖啡" in bigram_text("我喜欢咖啡").split()


def test_identifiers_are_code_and_plain_words_are_not() -> None:
    assert query_terms("where is memorySearch.query.hybrid in build a828e60").code == ("memorySearch.query.hybrid", "a828e60")
    assert trigram_text("just some plain words") == ""


@given(st.text(max_size=300))
def test_what_is_indexed_can_be_asked_for(text: str) -> None:
    pairs = set(bigram_text(text).split())
    assert set(query_terms(text).pairs) <= pairs | set(query_terms(text).pairs[64:])


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12), min_size=1, max_size=6))
def test_every_word_of_a_note_is_asked_for_as_the_index_has_it(words: list[str]) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, pairs, tokenize='porter unicode61 remove_diacritics 2')")
    text = " ".join(words)
    connection.execute("INSERT INTO t VALUES (?, ?)", (spaced(text), bigram_text(text)))
    for word in query_terms(text).words:
        assert list(connection.execute("SELECT 1 FROM t WHERE t MATCH ?", (fts_string(word),))), word


def test_a_sharp_s_is_asked_for_as_it_is_written() -> None:
    assert query_terms("Hauptstraße 5").words == ("Hauptstraße", "5")
