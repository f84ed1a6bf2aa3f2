"""A correction that differs from what the notes hold by its order or by a small word is kept; what they hold in other words is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.must_keep import HEAD, kept_statements

PAIRS = (
    # who and what change places
    ("Mara lent Olaf 30 euros.", "Correction: Olaf lent Mara 30 euros."),
    ("Iris moves from Kiel to Mainz in 2028.", "Iris moves from Mainz to Kiel in 2028."),
    ("Green is for the roses and grey is for the lawn.", "Grey is for the roses and green is for the lawn."),
    ("Pia takes 5 mg at breakfast and 10 mg at bedtime.", "Pia takes 10 mg at breakfast and 5 mg at bedtime."),
    ("Kurt cooks on the 2nd and Lotte cooks on the 9th.", "Lotte cooks on the 2nd and Kurt cooks on the 9th."),
    ("The cat bit the dog.", "The dog bit the cat."),
    ("My aunt prefers tea over coffee.", "My aunt prefers coffee over tea."),
    ("Frau Adler grüßt Herrn Busch.", "Herr Busch grüßt Frau Adler."),
    ("Luc prête 20 euros à Zoé.", "Zoé prête 20 euros à Luc."),
    ("Bruno debe 15 euros a Carmen.", "Carmen debe 15 euros a Bruno."),
    # negations
    ("The visit of Nils on 6 May takes place.", "The visit of Nils on 6 May does not take place."),
    ("Rosa is allergic to figs.", "Rosa is no longer allergic to figs."),
    ("Rosa eats meat but no fish.", "Rosa eats no meat but fish."),
    ("Das Treffen am 9. Mai mit Arne findet statt.", "Das Treffen am 9. Mai mit Arne findet nicht statt."),
    ("Ich darf Sport 3 machen.", "Ich darf keinen Sport 3 machen."),
    ("Le code 7731 ouvre la cave de Léa.", "Le code 7731 n'ouvre plus la cave de Léa."),
    ("Je peux manger du fromage avec Éva.", "Je ne peux pas manger du fromage avec Éva."),
    ("Marta come gambas el 4 de mayo.", "Marta no come gambas el 4 de mayo."),
    ("Giulia mangia pesce il 3 maggio.", "Giulia non mangia mai pesce il 3 maggio."),
    # before and after, from and to, less and more
    ("Take the drops before breakfast.", "Take the drops after breakfast."),
    ("Hugo stays until Easter 2028.", "Hugo stays since Easter 2028."),
    ("Runa zieht vor Pfingsten 2028 ein.", "Runa zieht nach Pfingsten 2028 ein."),
    ("Nimm die Tropfen vor dem Frühstück.", "Nimm die Tropfen nach dem Frühstück."),
    ("Éric revient avant le 8 juin.", "Éric revient après le 8 juin."),
    ("El tren llega antes de las 8.", "El tren llega después de las 8."),
    ("Il treno arriva prima delle 8.", "Il treno arriva dopo le 8."),
    ("The bus goes to Turku on 8 May.", "The bus goes from Turku on 8 May."),
    ("The pump needs 2.5 bar.", "The pump needs less than 2.5 bar."),
    ("The oven needs at least 200 watts.", "The oven needs at most 200 watts."),
    ("Jill voted for the motion of Karl.", "Jill voted against the motion of Karl."),
    ("Flight KL 902 of Ove leaves at 7 am.", "Flight KL 902 of Ove leaves at 7 pm."),
    ("Sven may use the boat.", "Sven may use the boat only with Tilda."),
    ("Sven uses the boat.", "Sven always uses the boat unless Tilda does."),
    ("Maybe Anke comes on 4 July.", "Anke comes on 4 July."),
    # where, whose, which
    ("The pump is on in the night.", "The pump is off in the night."),
    ("The letters lie on the piano.", "The letters lie under the piano."),
    ("Die Briefe liegen auf dem Klavier.", "Die Briefe liegen unter dem Klavier."),
    ("Les lettres sont sur le piano.", "Les lettres sont sous le piano."),
    ("Soup with garlic for Nele.", "Soup without garlic for Nele."),
    ("Das Fahrrad gehört mir.", "Das Fahrrad gehört dir."),
    ("He waters the big old plants.", "She waters the big old plants."),
    ("Elle arrose les grandes plantes.", "Il arrose les grandes plantes."),
    ("The bins stand on the left side of the narrow street.", "The bins stand on the right side of the narrow street."),
)  # fmt: skip


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize(("before", "after"), [*PAIRS, *((b, a) for a, b in PAIRS)])
def test_a_correction_by_a_small_word_or_another_order_is_kept(before: str, after: str, everything: bool) -> None:
    assert kept_statements([before, after], f"## Facts\n- {before}\n", everything=everything) == [after]
    assert kept_statements([after], f"{HEAD}\n\n- {before}\n", everything=everything) == [after]


def test_of_sentences_that_correct_each_other_all_are_kept_where_the_model_noted_nothing() -> None:
    said = [sentence for pair in PAIRS for sentence in pair]
    assert kept_statements(said, "", everything=True) == said
    firsts, seconds = zip(*PAIRS, strict=True)
    assert kept_statements(said, "## Talk\n" + "".join(f"- {one}\n" for one in firsts), everything=True) == list(seconds)


NOTED = (
    ("We decided to launch Acme Dashboard on 2027-03-14 with Alice as lead.", "- Acme Dashboard: launch 2027-03-14, lead Alice"),
    ("My sister Anna is allergic to walnuts.", "- Anna (sister): allergic to walnuts"),
    ("The boiler needs 1.5 bar.", "- Boiler pressure: 1.5 bar needed"),
    ("Our plumber is Mr Okafor from Hill Lane.", "- Plumber: Mr Okafor, Hill Lane"),
    ("The bike lock opens with 5582.", "- Bike lock code: 5582 (opens it)"),
    ("I don't eat shellfish.", "- User does not eat shellfish."),
    ("We'll take the train, not the car.", "- Decision: take the train, not the car."),
    ("Unsere Tochter Linnea kommt am 4. Mai zurück.", "- Tochter Linnea kommt am 4. Mai zurück"),
    ("Der Zählerstand war 40912.", "- Zählerstand: 40912"),
    ("The dentist is on Tuesday 3 March at 10:30.", "- Dentist: Tuesday 3 March, 10:30"),
    ("My flight is LX 1073 and leaves at 9 am.", "- Flight LX 1073, leaves 9 am"),
    ("Ben's birthday is on 14 May.", "- Ben's birthday: 14 May. Olga's birthday: 3 June."),
    ("I like my tea without sugar.", "- Likes tea without sugar"),
    ("Tom moves to Bonn in September 2027.", "- Tom: moves to Bonn September 2027; wants a garden"),
    ("Sophie arrive avant le 5 juin.", "- Sophie arrive avant le 5 juin"),
    ("My manager Petra wants the report by Monday noon.", "- Petra (manager) wants the report by Monday noon"),
    ("I need to call Uncle Werner back before Easter.", "- To do: call Uncle Werner back before Easter"),
)  # fmt: skip


@pytest.mark.parametrize(("said", "noted"), NOTED)
def test_what_the_model_noted_in_its_own_words_is_not_repeated(said: str, noted: str) -> None:
    assert kept_statements([said], f"# Tuesday\n\n{noted}\n") == []


NAMES = st.permutations(["Anna", "Ben", "Carla", "Dora"])


@given(names=NAMES, others=NAMES)
def test_names_in_another_order_are_other_news(names: list[str], others: list[str]) -> None:
    before, after = (f"{a} gives the ladder to {b}, and {c} gives the barrow to {d}." for a, b, c, d in (names, others))
    assert kept_statements([after], f"- {before}\n") == ([] if names == others else [after])


SMALL = st.sampled_from(
    ["not", "never", "only", "before", "after", "without", "unless", "nicht", "nur", "pas", "jamais", "nunca", "mai"]
)
SAID = st.lists(
    st.sampled_from(["Oskar", "ladder", "barrow", "garden", "yesterday", "carried", "paints", "7", "rusty"]),
    min_size=3,
    unique=True,
)


@given(words=SAID, small=SMALL, at=st.integers(0, 9), everything=st.booleans())
def test_a_small_word_more_or_less_is_other_news(words: list[str], small: str, at: int, everything: bool) -> None:
    turned = [*words[:at], small, *words[at:]]
    month = small == "mai" and "7" in turned[max(turned.index(small) - 1, 0) : turned.index(small) + 2]
    for before, after in ((words, turned), (turned, words)):
        said, line = " ".join(after), " ".join(before)
        kept = kept_statements([said], f"- {line}\n", everything=everything)
        assert kept == [said] or month, (line, said)
        assert kept_statements([said], f"- {said}\n", everything=everything) == []
