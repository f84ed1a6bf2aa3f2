"""What people said is kept word for word where a model notes nothing: whatever kind of fact, in English and in German."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.must_keep import HEAD, is_telling, kept_lines, kept_statements
from agent.messages import AssistantMessage, Text, UserMessage
from tests.gateway.facts import FACTS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_every_fact_is_kept_where_the_model_noted_nothing() -> None:
    kept = "\n".join(kept_statements([fact.said for fact in FACTS], "", everything=True))
    assert [fact.said for fact in FACTS if not all(word in kept for word in fact.answer)] == []


def test_nearly_every_fact_tells_something_by_itself() -> None:
    kept = "\n".join(kept_statements([fact.said for fact in FACTS], ""))
    lost = [fact.said for fact in FACTS if not all(word in kept for word in fact.answer)]
    assert len(lost) <= 2, lost


@pytest.mark.parametrize(
    ("said", "known", "kept"),
    [
        (
            ["We decided to launch Acme Dashboard on 2027-03-14 with Alice as lead.", "Great, 2027-03-14 it is!"],
            "",
            "We decided to launch Acme Dashboard on 2027-03-14 with Alice as lead.",
        ),
        (["The safe in the cellar opens with code 48213.", "Thanks. 48213."], "", "The safe in the cellar opens with code 48213."),
        (["Bob's birthday is on 14 May."], "Alice's birthday is on 14 May 1980.", "Bob's birthday is on 14 May."),
        (["I don't like coriander."], "- likes coriander", "I don't like coriander."),
        (["Bobs Geburtstag ist am 14. Mai."], "", "Bobs Geburtstag ist am 14. Mai."),
        (["My dentist is Dr. Weber on Long Street."], "", "My dentist is Dr. Weber on Long Street."),
        (["I take the blue pill in the morning."], "- small talk", "I take the blue pill in the morning."),
        (["Abends nimmt sie die weiße Tablette."], "- Geplauder", "Abends nimmt sie die weiße Tablette."),
    ],
)  # fmt: skip
def test_the_sentence_that_tells_it_is_the_one_that_is_kept(said: list[str], known: str, kept: str) -> None:
    assert kept in kept_statements(said, known)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("We decided to launch Acme Dashboard on 2027-03-14 with Alice as lead.", "- Acme Dashboard: launch 2027-03-14, lead Alice"),
        ("We decided to launch Acme Dashboard on 2027-03-14.", "## Acme Dashboard\n- launch decided: 2027-03-14"),
        ("Thanks. 48213.", "The safe opens with code 48213."),
    ],
)  # fmt: skip
def test_what_the_note_tells_is_not_repeated(said: str, known: str) -> None:
    assert kept_statements([said], known) in ([], ["Thanks."])


def test_a_dictation_is_cut_up_and_its_decision_kept() -> None:
    dictation = "and then the neighbour talked about her cat and the weather " * 60 + "so let's go with the blue tiles"
    assert "blue tiles" in "\n".join(kept_statements([dictation], ""))
    sentences = "The weather was fine and nothing else. " * 80 + "We agreed on oak for the table."
    assert "oak for the table" in "\n".join(kept_statements([sentences], ""))


def test_questions_and_commands_are_no_statements() -> None:
    assert kept_statements(["Is Anna's door 1.20 wide?", "/new", "/model x-4711"], "", everything=True) == []


@given(st.lists(st.text(max_size=600), max_size=20))
def test_any_text_can_be_kept_and_is_kept_once(texts: list[str]) -> None:
    kept = kept_statements(texts, "", everything=True)
    assert kept_statements(texts, "\n".join(f"- {one}" for one in kept), everything=True) == []
    assert not any("\n" in one for one in kept)


def person(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),), at=NOON)


def test_kept_lines_outlive_any_number_of_compactions_and_people_come_before_the_agents_figures() -> None:
    summary = "## Goal\nTalk."
    first = kept_lines([person("The lock's number is BX-20417-K."), person("Let's go with oak, not pine.")], "", summary, 4000)
    kept = first
    for n in range(6):
        figures = " ".join(f"Item {i} of list {n} costs {i * 37 + 1000 * n} euro." for i in range(70))
        agent = AssistantMessage(content=(Text(text=figures),), model="m", stop="end")
        kept = kept_lines([agent, person(f"Room {n} is Anna{n}'s.")], f"{summary}\n\n{kept}", summary, 4000)
    assert kept.startswith(f"{HEAD}\n- The lock's number is BX-20417-K.\n- Let's go with oak, not pine.")
    assert all(f"Anna{n}" in kept for n in range(6))
    assert len(kept) <= 4000 + len(HEAD) + 1


UPDATES = (
    "My sister bought the rusty ladder yesterday evening.",
    "The plumber sold the velvet curtain after the party.",
    "My sister sold the velvet ladder yesterday evening.",
    "The plumber bought the rusty curtain after the party.",
    "My sister borrowed the golden ladder yesterday evening.",
    "My ladder borrowed the golden sister yesterday evening.",
    "My sister never borrowed the golden ladder yesterday evening.",
)


@pytest.mark.parametrize("at", range(1, len(UPDATES)))
def test_a_sentence_that_tells_other_news_in_nearly_the_same_words_is_kept(at: int) -> None:
    before, news = UPDATES[:at], UPDATES[at]
    assert kept_statements(UPDATES, "", everything=True) == list(UPDATES)
    noted = "".join(f"- {sentence}\n" for sentence in before)
    assert kept_statements([news], f"# Monday\n\n{noted}", everything=True) == [news]
    kept_before = f"{HEAD}\n\n{noted}"
    kept = kept_statements([*before, news], kept_before, everything=False)
    assert kept == [news] or (not kept and not is_telling(news))
    assert kept_statements([*UPDATES, *UPDATES], kept_before, everything=True) == list(UPDATES[at:]), "and each once"


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("remember that the gate code is 4711", "The gate code is 4711"),
        ("Merk dir, dass die Werkstatt die Nummer 0221 hat.", "Die Werkstatt hat die Nummer 0221"),
        ("Please remember: the spare key hangs behind the stove.", "The spare key hangs behind the stove."),
    ],
)
def test_what_the_model_noted_when_it_was_asked_to_is_not_kept_a_second_time(said: str, noted: str) -> None:
    assert kept_statements([said], f"## 03:26\n\n- {noted}\n", everything=True) == []
    assert kept_statements([said], "", everything=True) == [said]


CORRECTIONS = (
    ("I take the blue pill in the morning and the white one in the evening.", "I take the blue pill in the evening."),
    ("Anna is allergic to nuts and Ben is allergic to milk.", "Anna is allergic to milk."),
    ("The key is with Frau Berger and the dog is with Herr Klein.", "The key is with Herr Klein."),
    ("The dentist moved the appointment from Tuesday to Thursday.", "The dentist moved the appointment to Thursday afternoon."),
    ("Do not water the cactus, water the fern.", "Water the cactus."),
)  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CORRECTIONS)
def test_a_correction_in_some_of_the_words_of_what_it_corrects_is_kept(before: str, after: str) -> None:
    assert kept_statements([before, after], "", everything=True) == [before, after]
    assert kept_statements([after], f"{HEAD}\n\n- {before}\n", everything=True) == [after]
    assert kept_statements([before, after], f"{HEAD}\n\n- {before}\n- {after}\n", everything=True) == []


WORDS = st.sampled_from(
    [
        "sister",
        "plumber",
        "bought",
        "sold",
        "ladder",
        "curtain",
        "rusty",
        "velvet",
        "cellar",
        "party",
        "never",
        "kettle",
        "moved",
    ]
)
SAID = st.lists(WORDS, min_size=3, max_size=7).map(lambda words: f"Then {' '.join(words)} there.")


@given(known=st.lists(SAID, max_size=8), said=st.lists(SAID, min_size=1, max_size=8))
def test_of_what_was_said_nothing_is_missing_after_a_flush_in_which_the_model_wrote_nothing(
    known: list[str], said: list[str]
) -> None:
    noted = f"{HEAD}\n\n" + "".join(f"- {one}\n" for one in known)
    kept = kept_statements(said, noted, everything=True)

    def told(sentence: str, line: str) -> bool:
        rest = iter(line.split())
        return all(word in rest for word in sentence.split())

    for sentence in said:
        assert any(told(sentence, line) for line in [*known, *kept]), sentence


LISTS = (
    "wifi of the cabin\nname kangaroo\npassword hopsasa",
    "Name: Zebulon\nPassword: mangrove",
    "login quokka\npin wombatish",
    "- blue napkins\n- red candles\n- corkscrew",
    "Allergies:\npeanuts\nbee stings\npenicillin",
    "**Buy:**\n* eggs\n* flour\n* yeast",
)
SHORT = (
    "Mum died.",
    "I quit.",
    "We won.",
    "Sell everything.",
    "Codeword pineapple.",
    "Opa ist tot.",
    "Papa est mort.",
    "Kein Nickel!",
)


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("said", LISTS)
def test_a_list_is_kept_with_all_of_its_lines(said: str, everything: bool) -> None:
    kept = kept_statements([f"Hello there\n\n{said}\n\nCan you sort it?"], "- another thing\n", everything=everything)
    lines = [line.strip("-* ").replace("**", "") for line in said.splitlines()]
    assert [line.strip("-* ").replace("**", "") for line in kept if not line.startswith("Hello")] == lines


@pytest.mark.parametrize("said", [*SHORT, *(line for said in LISTS[:3] for line in said.splitlines() if " " in line)])
def test_two_words_are_enough_where_the_model_noted_nothing(said: str) -> None:
    assert kept_statements([said], "", everything=True) == [said]


def test_lines_of_a_program_are_no_list() -> None:
    program = "for name in names:\n    print(name)\nwhile waiting:\n    wait(name)"
    assert kept_statements([program], "- another thing\n") == []


@pytest.mark.parametrize("said", ["no, fourteen", "non, vendredi", "no, venerdì", "yes please", "go on", "ok then", "mach das"])
def test_two_words_are_kept_however_they_begin_where_the_model_noted_nothing(said: str) -> None:
    assert kept_statements(["It is at noon then.", said], "", everything=True)[-1].endswith(said)
    assert kept_statements(["sure"], "", everything=True) == []
