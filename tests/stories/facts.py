"""Forty facts are said in a conversation whose model is of no help: what is found of them afterwards, by `homebody memory search`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tests.stories.botapi import BotApi
from tests.stories.model import Asked, Said
from tests.stories.stage import Story, settings, together, until

if TYPE_CHECKING:
    from tests.stories.house import Done
    from tests.stories.stage import Stage

OWNER = 5_700_000_051
WINDOW = 32_000
WANTED = 36
REFUSAL = "I can't help with that request, sorry."


class Fact(NamedTuple):
    """What was said, what is asked afterwards, and the word of the answer that the question does not hold."""

    said: str
    question: str
    word: str


FACTS = [
    Fact("Our cat is called Mirabelle.", "what is the name of our cat?", "Mirabelle"),
    Fact("My sister Henrike has moved to Aarhus.", "where has my sister moved to?", "Aarhus"),
    Fact("The plumber who came last week is Mr Oduya.", "who is the plumber?", "Oduya"),
    Fact("My physiotherapist is Frau Ziegelmann.", "who is my physiotherapist?", "Ziegelmann"),
    Fact("The neighbour's boy is Lasse, he feeds the hens.", "who feeds the hens?", "Lasse"),
    Fact("Unser Schornsteinfeger heißt Herr Brömmel.", "wie heißt unser Schornsteinfeger?", "Brömmel"),
    Fact("I don't eat aubergines.", "which vegetables do I not eat?", "aubergines"),
    Fact("I never want to be called before nine.", "before when do I never want to be called?", "nine"),
    Fact("Ich vertrage keine Haselnüsse.", "was vertrage ich keine?", "Haselnüsse"),
    Fact("Please don't put cardamom into anything for us.", "what should be put into nothing for us?", "cardamom"),
    Fact("The printer has the address 192.168.40.17.", "what is the address of the printer?", "192.168.40.17"),
    Fact("The window in the study is 83 by 112.", "how large is the window in the study?", "112"),
    Fact("We fly home with SK 2714.", "with which number do we fly home?", "2714"),
    Fact("We need 14 chairs for the party.", "how many chairs for the party?", "14"),
    Fact("The gate opens with 6072.", "with what does the gate open?", "6072"),
    Fact("The car's plate is HB-QX 519.", "what is the plate of the car?", "519"),
    Fact("Der Zählerstand vom Gas ist 48812.", "was ist der Zählerstand vom Gas?", "48812"),
    Fact("My shoe size is 43 and a half.", "which shoe size is mine?", "43"),
    Fact("The boiler was serviced on 17 March.", "when was the boiler serviced?", "17 March"),
    Fact("The scans lie in ~/papers/scans.", "where do the scans lie?", "papers/scans"),
    Fact("The backup script is at /opt/nightly.", "where is the backup script?", "/opt/nightly"),
    Fact("The recipe stands in cooking.odt.", "where does the recipe stand?", "cooking.odt"),
    Fact("Die Fotos liegen in Bilder/Sommer.", "wo liegen die Fotos?", "Bilder/Sommer"),
    Fact("Let's go with the green tiles.", "which tiles do we go with?", "green"),
    Fact("We will spend the autumn in Lisbon.", "where will we spend the autumn?", "Lisbon"),
    Fact("Oak for the shelf, not pine.", "which wood for the shelf, and not pine?", "Oak"),
    Fact("We have decided to sell the trailer.", "what have we decided to sell?", "trailer"),
    Fact("Wir nehmen die Dachbox von Farad.", "von wem nehmen wir die Dachbox?", "Farad"),
    Fact("I have chosen the course on Thursdays.", "on which days is the course that I have chosen?", "Thursdays"),
    Fact("I promised Tilda a ride to the station.", "to whom did I promise a ride to the station?", "Tilda"),
    Fact("I'll bring the ladder back to Mr Quist.", "to whom will I bring the ladder back?", "Quist"),
    Fact("Ich habe Oma versprochen, den Zaun zu streichen.", "was habe ich Oma versprochen zu streichen?", "Zaun"),
    Fact("No, the dentist is in Kanalstraat, not in Dorpsweg.", "where is the dentist, if not in Dorpsweg?", "Kanalstraat"),
    Fact("I was wrong: the meeting is at the library.", "at which place is the meeting?", "library"),
    Fact("Korrektur: Der Schlüssel hängt beim Nachbarn Wessels.", "bei welchem Nachbarn hängt der Schlüssel?", "Wessels"),
    Fact("My favourite tea is lapsang.", "what is my favourite tea?", "lapsang"),
    Fact("The dog is afraid of thunder.", "of what is the dog afraid?", "thunder"),
    Fact("I sleep badly when there is a full moon.", "when do I sleep badly?", "moon"),
    Fact("Mein Lieblingskuchen ist Bienenstich.", "was ist mein Lieblingskuchen?", "Bienenstich"),
    Fact("The wifi for guests is called Owlery.", "what is the wifi for guests called?", "Owlery"),
]
CHATTER = [
    "weather",
    "garden",
    "street",
    "music",
    "evening",
    "market",
    "light",
    "river",
    "paper",
    "window",
    "story",
    "often",
    "maybe",
]


def _said() -> list[str]:
    """Return what is said turn by turn: the facts bare, before a question, after small talk, and two at the end of a long dictation."""
    dice = random.Random(8)

    def talk(words: int) -> str:
        return " ".join(dice.choices(CHATTER, k=words)).capitalize()

    said = []
    for number, one in enumerate(FACTS):
        forms = (one.said, f"{one.said} And {talk(6).lower()}?", f"{talk(9)}. {one.said}")
        said.append(f"{talk(12)}. " * 30 + one.said if number in DICTATED else forms[number % 3])
    return said + [f"{talk(250)}, {talk(20)}?" for _ in range(6)]


DICTATED = frozenset({12, 24})
SAID = _said()


@dataclass
class Mood:
    """A model that stores nothing. ``flush`` and ``summary`` are what it answers to those orders."""

    flush: str
    summary: str
    seed: int
    summaries: int = 0
    flushes: int = 0
    prompts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)

    def __call__(self, asked: Asked) -> Said:
        if asked.is_flush:
            self.flushes += 1
            return Said(self.flush)
        turn = next((number for number, text in enumerate(SAID) if text in asked.last_words), None)
        if turn is None:
            self.summaries += 1
            return Said(self.summary)
        self.prompts.append(asked.everything)
        return Said(f"heard {turn:03} " + " ".join(self._dice.choices(CHATTER, k=700)))


MOODS = {
    "lazy": (
        "NO_REPLY",
        "## Goal\nTalk about the household.\n\n## Progress\nSeveral things were discussed.\n\n## Next steps\nGo on.",
    ),
    "lying": ("I have saved everything that matters to memory.", REFUSAL),
}


async def facts(stage: Stage) -> None:
    """A lazy model and a lying one: at least 36 of 40 facts are found, and no refusal takes the place of history."""
    found: dict[str, tuple[Mood, list[Done]]] = {}

    async def one(name: str) -> None:
        mood = Mood(*MOODS[name], seed=stage.seed)
        found[name] = (mood, await _told(stage, name, mood))

    await together(*(one(name) for name in MOODS))
    for name, (mood, answers) in sorted(found.items()):
        missing = _missing([one.out for one in answers])
        figures = f"{len(FACTS) - len(missing)} of {len(FACTS)} found; missing: {', '.join(missing[:12])}"
        stage.hold(
            f"a {name} model: at least {WANTED} of {len(FACTS)} facts are found afterwards",
            len(FACTS) - len(missing) >= WANTED,
            figures,
        )
        stage.hold(
            f"a {name} model: flush and compaction took place",
            mood.flushes > 1 and mood.summaries > 0,
            f"{mood.flushes} and {mood.summaries}",
        )
    refused = [prompt for prompt in found["lying"][0].prompts if REFUSAL in prompt]
    stage.hold("a refusal is no summary: it never takes the place of history", not refused, f"in {len(refused)} requests")
    stage.control("facts that are not in the answers", _controls())


def _missing(answers: list[str]) -> list[str]:
    return [one.word for one, answer in zip(FACTS, answers, strict=True) if one.word.casefold() not in answer.casefold()]


def _controls() -> str:
    whole = [one.said for one in FACTS]
    missed = [] if not _missing(whole) else ["a complete answer"]
    missed += [] if len(_missing([""] * len(FACTS))) == len(FACTS) else ["an empty answer"]
    return ", ".join(missed + [one.word for one in FACTS if one.word.casefold() in one.question.casefold()])


async def _told(stage: Stage, name: str, mood: Mood) -> list[Done]:
    bots = BotApi(seed=stage.seed)
    await bots.port.open()
    try:
        async with stage.model(mind=mood) as model, stage.house(f"facts-{name}") as house:
            house.settle(
                settings(
                    model, window=WINDOW, channels={"telegram": bots.settings([OWNER])}, session={"reset": {"mode": "none"}}
                )
            )
            await house.start()
            for number, text in enumerate(SAID):
                bots.say(OWNER, text)
                await _heard(bots, number)
            shown = len(bots.shown)
            bots.say(OWNER, "/new")
            await until(lambda: len(bots.shown) > shown, 60)
            await house.end()
            return [await house.run("memory", "search", "--json", one.question) for one in FACTS]
    finally:
        await bots.port.close()


async def _heard(bots: BotApi, number: int) -> None:
    await until(lambda: any(f"heard {number:03}" in one.text for one in bots.shown[-6:]), 45, 0.03)


STORIES = {"facts": Story(facts, 600)}
