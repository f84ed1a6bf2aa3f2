"""A short correction is kept in one line with the sentence that it corrects, in seven languages; talk after a fact mostly is not."""

from __future__ import annotations

import pytest

from agent.context.must_keep import HEAD, Saying, kept_statements
from tests.agent.said_sentences import KEEP, PASS, sentences

MOST_TALK_KEPT = 0.1
CORRECTIONS = {
    "English": [
        ("Tom is vegan.", "he isn't any more"),
        ("Swim class is on Mondays.", "no, on Saturdays"),
        ("The locker combination is walrus.", "er no, seal"),
        ("Send the card to Aunt May.", "wait, to Uncle Ned"),
        ("We booked twelve chairs.", "sorry, fifteen"),
        ("The tiles are beige.", "I mean cream"),
        ("Dinner is at seven.", "make it half eight"),
        ("Joan still drives.", "not any more"),
        ("Paint the door white.", "actually cream"),
        ("The choir meets in the chapel.", "in the library, I mean"),
        ("Lola eats eggs.", "no longer"),
        ("The bus leaves at nine.", "ten past nine, sorry"),
        ("Put it in the hall.", "better in the shed"),
        ("He plays the cello.", "viola, my mistake"),
        ("Six bags of cement.", "eight now"),
        ("The film is on Friday.", "nope, Thursday"),
        ("The potter comes on Friday.", "hang on, Saturday"),
        ("The potter comes on Friday.", "the baker, not the potter"),
        ("The potter comes on Friday.", "he isn't coming after all"),
    ],
    "German": [
        ("Schwimmen ist montags.", "nein, samstags"),
        ("Das Schloss geht mit Walross auf.", "ach nein, Robbe"),
        ("Die Karte geht an Tante Gerda.", "halt, an Onkel Ernst"),
        ("Wir haben zwölf Stühle bestellt.", "Moment, fünfzehn"),
        ("Die Fliesen sind beige.", "ich meine cremeweiß"),
        ("Essen gibt es um sieben.", "doch erst halb acht"),
        ("Joan fährt noch Auto.", "jetzt nicht mehr"),
        ("Streich die Tür weiß.", "besser hellgrau"),
        ("Der Chor trifft sich in der Kapelle.", "in der Bücherei, meinte ich"),
        ("Der Bus fährt um neun.", "zehn nach neun, Entschuldigung"),
        ("Stell es in den Flur.", "lieber in den Schuppen"),
        ("Sechs Säcke Zement.", "jetzt acht"),
        ("Der Film läuft am Freitag.", "nee, Donnerstag"),
        ("Er spielt Cello.", "Bratsche, Verzeihung"),
        ("Der Töpfer kommt am Freitag.", "Mist, Samstag"),
        ("Der Töpfer kommt am Freitag.", "der Bäcker, nicht der Töpfer"),
    ],
    "French": [
        ("La piscine est le lundi.", "non, le samedi"),
        ("Le cadenas s'ouvre avec morse.", "euh non, phoque"),
        ("Envoie la carte à tante Odile.", "attends, à oncle Paul"),
        ("On a commandé douze chaises.", "pardon, quinze"),
        ("Le carrelage est beige.", "je veux dire crème"),
        ("Le repas est à sept heures.", "finalement huit heures"),
        ("Jeanne conduit encore.", "plus du tout"),
        ("Peins la porte en blanc.", "plutôt gris clair"),
        ("La chorale se réunit à la chapelle.", "à la bibliothèque, je voulais dire"),
        ("Le bus part à neuf heures.", "dix heures, désolée"),
        ("Mets-le dans le couloir.", "plutôt dans la remise"),
        ("Six sacs de ciment.", "huit maintenant"),
        ("Le film passe vendredi.", "non, jeudi"),
        ("Il joue du violoncelle.", "de l'alto, pardon"),
        ("Le potier vient vendredi.", "zut, samedi"),
        ("Le potier vient vendredi.", "le boulanger, pas le potier"),
    ],
    "Spanish": [
        ("La natación es los lunes.", "no, los sábados"),
        ("El candado abre con morsa.", "perdón, foca"),
        ("Manda la tarjeta a la tía Rosa.", "espera, al tío Paco"),
        ("Pedimos doce sillas.", "digo quince"),
        ("Los azulejos son beige.", "quise decir crema"),
        ("La cena es a las siete.", "mejor a las ocho"),
        ("Juana todavía conduce.", "ya no conduce"),
        ("Pinta la puerta de blanco.", "mejor gris claro"),
        ("El coro se reúne en la capilla.", "en la biblioteca, quería decir"),
        ("El autobús sale a las nueve.", "a las diez, perdón"),
        ("Ponlo en el pasillo.", "más bien en el cobertizo"),
        ("La película es el viernes.", "no, el jueves"),
        ("El alfarero viene el viernes.", "vaya, el sábado"),
        ("El alfarero viene el viernes.", "no viene al final"),
    ],
    "Italian": [
        ("Il nuoto è il lunedì.", "no, il sabato"),
        ("Il lucchetto si apre con tricheco.", "scusa, foca"),
        ("Manda il biglietto a zia Rosa.", "aspetta, a zio Pino"),
        ("Abbiamo ordinato dodici sedie.", "anzi quindici"),
        ("Le piastrelle sono beige.", "cioè crema"),
        ("La cena è alle sette.", "meglio alle otto"),
        ("Gianna guida ancora.", "ora non più"),
        ("Dipingi la porta di bianco.", "meglio grigio chiaro"),
        ("Il coro si trova in cappella.", "in biblioteca, volevo dire"),
        ("L'autobus parte alle nove.", "alle dieci, scusa"),
        ("Mettilo nel corridoio.", "piuttosto nel capanno"),
        ("Sei sacchi di cemento.", "facciamo otto"),
        ("Il film è venerdì.", "no, giovedì"),
        ("Il vasaio viene venerdì.", "che dico, sabato"),
        ("Il vasaio viene venerdì.", "no il fornaio"),
    ],
    "Dutch": [
        ("Zwemmen is op maandag.", "nee, op zaterdag"),
        ("Het slot gaat open met walrus.", "sorry, zeehond"),
        ("Stuur de kaart aan tante Rie.", "wacht, aan oom Kees"),
        ("We hebben twaalf stoelen besteld.", "nee, vijftien"),
        ("De tegels zijn beige.", "ik bedoel crème"),
        ("Het eten is om zeven uur.", "toch om acht uur"),
        ("Joan rijdt nog auto.", "niet meer"),
        ("Verf de deur wit.", "liever lichtgrijs"),
        ("Het koor zit in de kapel.", "in de bibliotheek, bedoel ik"),
        ("De bus gaat om negen uur.", "tien uur, sorry"),
        ("Zes zakken cement.", "maak er acht van"),
        ("De film is op vrijdag.", "nee, donderdag"),
        ("De pottenbakker komt vrijdag.", "oeps, zaterdag"),
        ("De pottenbakker komt vrijdag.", "hij komt niet meer"),
    ],
    "Portuguese": [
        ("A natação é à segunda-feira.", "não, ao sábado"),
        ("O cadeado abre com morsa.", "desculpa, foca"),
        ("Manda o cartão à tia Rosa.", "espera, ao tio Zé"),
        ("Encomendámos doze cadeiras.", "aliás quinze"),
        ("Os azulejos são bege.", "quis dizer creme"),
        ("O jantar é às sete.", "melhor às oito"),
        ("A Joana ainda conduz.", "já não conduz"),
        ("Pinta a porta de branco.", "melhor cinzento claro"),
        ("O coro reúne-se na capela.", "na biblioteca, quis dizer"),
        ("O autocarro parte às nove.", "às dez, desculpa"),
        ("Seis sacos de cimento.", "afinal oito"),
        ("O filme é na sexta.", "não, na quinta"),
        ("O oleiro vem sexta-feira.", "ai não, sábado"),
        ("O oleiro vem sexta-feira.", "já não vem"),
    ],
}
PAIRS = [pair for pairs in CORRECTIONS.values() for pair in pairs]


@pytest.mark.parametrize(("said", "correction"), PAIRS)
def test_a_short_correction_is_kept_with_what_it_corrects_where_the_model_noted_the_first(said: str, correction: str) -> None:
    kept = kept_statements([said, correction], f"## Facts\n- {said}\n")
    assert any(correction in line for line in kept)
    assert kept in ([f"{said} – {correction}"], [correction])


@pytest.mark.parametrize("language", CORRECTIONS)
def test_nearly_every_short_correction_has_the_sentence_before_it_in_its_line(language: str) -> None:
    said = [one for pair in CORRECTIONS[language] for one in pair]
    noted = "## Facts\n" + "".join(f"- {first}\n" for first, _ in CORRECTIONS[language])
    kept = kept_statements(said, noted)
    assert [then for _, then in CORRECTIONS[language] if then not in "\n".join(kept)] == []
    alone = [then for first, then in CORRECTIONS[language] if not any(first in line and then in line for line in kept)]
    assert len(alone) <= 0.3 * len(CORRECTIONS[language]), alone


@pytest.mark.parametrize("language", CORRECTIONS)
def test_every_short_correction_is_kept_once_where_the_model_noted_nothing(language: str) -> None:
    said = [one for pair in CORRECTIONS[language] for one in pair]
    kept = kept_statements(said, "", everything=True)
    assert [one for one in said if one not in "\n".join(kept)] == []
    assert kept_statements(said, f"{HEAD}\n\n" + "".join(f"- {one}\n" for one in kept), everything=True) == []


def test_the_same_correction_of_another_sentence_is_kept_again() -> None:
    noted = f"{HEAD}\n\n- The vet is on Monday. – no, Friday\n"
    assert kept_statements(["The dentist is on Tuesday.", "no, Friday"], noted) == ["The dentist is on Tuesday. – no, Friday"]


def test_a_second_correction_comes_behind_the_first() -> None:
    said = ["We are nine for dinner.", "thank you", "no, eleven", "make that twelve"]
    assert kept_statements(said, "- other\n") == ["We are nine for dinner. – no, eleven – make that twelve"]


@pytest.mark.parametrize(
    ("said", "correction", "noted"),
    [
        ("The dentist is on Thursday at noon.", "no wait, Friday", "- Dentist: Friday at noon"),
        ("Wir sind neun zum Essen.", "doch elf", "- Essen: elf sind da"),
        ("My shoe size is 43.", "er, 44", "- Shoe size 44"),
    ],
)
def test_a_correction_that_the_model_took_up_is_not_repeated(said: str, correction: str, noted: str) -> None:
    assert kept_statements([said, correction], f"## Facts\n{noted}\n") == []


def test_two_items_of_a_list_and_an_answer_to_a_question_of_ones_own_are_not_put_together() -> None:
    assert kept_statements(["Buy:\n- six eggs\n- two lemons"], "- other\n") == ["Buy:", "six eggs", "two lemons"]
    assert kept_statements(["What day is it?", "Friday"], "- other\n") == []


def test_talk_after_a_fact_is_mostly_not_kept() -> None:
    kept = asked = 0
    for language in PASS:
        facts = sentences(KEEP[language])
        for n, talk in enumerate(sentences(PASS[language])):
            asked += 1
            kept += any(talk in line for line in kept_statements([facts[n % len(facts)], talk], "- other\n"))
    assert kept <= MOST_TALK_KEPT * asked


GROUP = [
    Saying("The hall is mine on Thursday evening.", "Anna"),
    Saying("I will bring two crates of lemonade.", "Gina"),
    Saying("My dog must come along, he bites.", "Oskar"),
    Saying("My dog stays at home, he bites.", "Oskar", edited=True),
    Saying("not two, three", "Gina"),
]


def test_of_a_group_each_sentence_says_whose_it_is_and_a_correction_is_of_the_same_person() -> None:
    kept = kept_statements(GROUP, "", everything=True)
    assert kept == [
        "Anna: The hall is mine on Thursday evening.",
        "Gina: I will bring two crates of lemonade. – not two, three",
        "Oskar: My dog must come along, he bites.",
        "Oskar: My dog stays at home, he bites. (edited)",
    ]
    assert kept_statements(GROUP, f"{HEAD}\n\n" + "".join(f"- {one}\n" for one in kept), everything=True) == []


def test_what_one_person_said_does_not_stand_for_the_same_words_of_another() -> None:
    noted = f"{HEAD}\n\n- Gina: I am allergic to walnuts.\n"
    assert kept_statements([Saying("I am allergic to walnuts.", "Oskar")], noted) == ["Oskar: I am allergic to walnuts."]


def test_a_note_with_the_name_tells_what_its_person_said() -> None:
    assert (
        kept_statements([Saying("The ladder stands in the boat house.", "Gina")], "- Gina: ladder stands in the boat house\n")
        == []
    )


def test_edited_words_are_marked_so_that_they_are_not_taken_for_the_older_ones() -> None:
    said = [Saying("The cellar code is 5519."), Saying("The cellar code is 5591.", edited=True)]
    assert kept_statements(said, "- other\n") == ["The cellar code is 5519.", "The cellar code is 5591. (edited)"]
