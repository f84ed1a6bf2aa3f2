"""What the gateway says itself, in the language of the page that asks: nothing of the settings' help is missing, nothing is stale."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from channels.messages import ChatAddress
from gateway.base.errors import ScheduleError
from gateway.config.settings_form import groups, sections
from gateway.page.translation import LANGUAGES, SENTENCES, phrases, table
from gateway.schedules.parsing import parse_schedule
from gateway.schedules.schedule_words import in_words

if TYPE_CHECKING:
    from tests.page.conftest import ServedPage

ROOT = Path(__file__).parents[2]
GERMAN = {"x-homebody-language": "de"}
TRIED = [  # one for each way in which the words are put together
    *(
        "every 30 minutes",
        "every 90 minutes",
        "every hour",
        "every 3 days",
        "every day at 8:15",
        "every monday at 7",
        "2027-01-31 09:00",
    ),
    *("cron 0 9 1 * *", "cron */5 8-18 * * 1-5", "cron 0 0 L * *", "cron 0 9 LW * *", "cron 0 9 * * 1#2", "cron 0 9 * * 5L"),
    *("cron 30 7 1,15 1-6 *", "cron 5 * * * *", "cron 0 */3 * * *", "cron 0 8,20 * * *", "cron 0 9 * 12 0,6", "cron * * * * *"),
]


def helps() -> set[str]:
    found = {one["doc"] for one in sections()}
    for section in sections():
        for group in groups(section["name"], {}):
            found |= {group["doc"], *(row["doc"] for row in group["fields"])}
    return found - {""}


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_each_setting_is_explained_in_each_language(language: str) -> None:
    """A new or changed sentence: say it in gateway/page/phrases/LANGUAGE/settings_help.json, too."""
    known = table("settings_help", language)
    assert helps() - set(known) == set(), "these have no translation"
    assert set(known) - helps() == set(), "no setting says this any more"
    assert all(text.strip() for text in known.values())


PUT_TOGETHER = {
    "Nothing could be sent since {at}: {=why}. Messages are kept and sent when the platform answers again.",
    *("{n} errors in the configuration", "1 error in the configuration"),
    *("{text} has {n} field; a cron expression has five", "{text} has {n} fields; a cron expression has five"),
    *(
        "It is sent nowhere.",
        "The answer is sent nowhere.",
        "It goes to your latest chat.",
        "The answer goes to your latest chat.",
    ),
    *(
        f"{{path}}: {which} are not opened; give a path relative to the workspace, such as {{example}}"
        for which in ("parent folders", "absolute paths")
    ),
    *("It goes to {address}.", "The answer goes to {address}.", "It is paused.", "It is paused: {=why}."),
    *("only commands can be allowed for good", "a rule in approvals.rules allows a tool for good"),
    *("it sets variables ({names}), and no rule can allow that", "it runs in a terminal, and no rule can allow that"),
}
"""Sentences that the code makes of pieces which are no whole words of a text."""


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_no_sentence_is_translated_that_nobody_says(language: str) -> None:
    """Each piece of the English text that does not vary stands somewhere in the code."""
    sources = (
        path.read_text("utf-8") for part in ("agent", "channels", "gateway", "memory") for path in (ROOT / part).rglob("*.py")
    )
    said = "\n".join(re.sub(r"""["']\s*\n\s*f?["']""", "", text) for text in sources)
    known = {english: text for name in SENTENCES for english, text in table(name, language).items()}
    assert len(known) == sum(len(table(name, language)) for name in SENTENCES), "one is in two tables"
    for english, other in known.items():
        for piece in [] if english in PUT_TOGETHER else re.split(r"\{[=@+]?\w+\}", english):
            words = piece.strip(" .,:;()“”`#")
            assert words in said, f"{english}: nothing says {words!r}"
        places = [set(re.findall(r"\{[=@+]?(\w+)\}", text)) for text in (english, other)]
        assert places[1] <= places[0], english
    assert set(known) >= PUT_TOGETHER


@pytest.mark.parametrize("when", TRIED)
def test_schedules_are_said_whole_or_not_at_all(when: str) -> None:
    zone, now = ZoneInfo("Europe/Berlin"), datetime(2026, 11, 26, 8, tzinfo=UTC)
    english = in_words(parse_schedule(when, zone=zone, now=now), zone, now)
    german = phrases("de").schedule(english)
    assert german != english
    assert not re.search(r"\b(at|on|the|every|through|past|of|and|day|month|hour|minute)\b", german), german


@pytest.mark.parametrize("when", ["jeden zweiten Montag um 8", "at 25:00", "61 9 * * *", "0 9 * * 9", "0 9 *", "today at 8"])
def test_what_is_wrong_with_a_schedule_is_said_whole(when: str) -> None:
    now = datetime(2026, 11, 26, 12, tzinfo=UTC)
    with pytest.raises(ScheduleError) as told:
        parse_schedule(when, zone=ZoneInfo("UTC"), now=now)
    for text in (told.value.message, told.value.hint):
        german = phrases("de").sentence(text)
        assert german != text
        assert not re.search(r"\b(the|is|or|write|fields?|such)\b", german.replace(when, ""), re.IGNORECASE), german
    assert not told.value.message.endswith("."), "the page ends it"


KEPT, BLEIBEN = (
    ". Messages are kept and sent when the platform answers again.",
    ". Nachrichten werden aufbewahrt und gesendet, wenn die Plattform wieder antwortet.",
)
SEIT = "Seit 2026-11-26 konnte nichts gesendet werden"


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("Telegram asked to wait", "Telegram hat gebeten zu warten"),
        ("may have arrived: Slack cannot be reached", "Ist vielleicht angekommen: Slack ist nicht erreichbar"),
        (
            f"Nothing could be sent since 2026-11-26: telegram does not answer{KEPT}",
            f"{SEIT}: telegram antwortet nicht{BLEIBEN}",
        ),
        (
            "a has 9 MB, which is more than the homeserver takes: send a smaller one, or a link",
            "a hat 9 MB, mehr als der Homeserver annimmt: Sende eine kleinere, oder einen Link",
        ),
        (
            "telegram cannot be petted: send a smaller one, or a link",
            "telegram cannot be petted: send a smaller one, or a link",
        ),
        ("a.txt has 70 MB, and Discord accepts 25 MB from a bot", "a.txt hat 70 MB, und Discord nimmt von einem Bot 25 MB an"),
    ],
)
def test_reasons_of_channels_and_of_what_was_not_sent_are_said_in_the_language(english: str, german: str) -> None:
    assert phrases("de").answer("outbox.list", {"reason": english}) == {"reason": german}
    assert phrases("de").answer("status", {"sending": english, "trouble": english})["trouble"] == german


def test_what_people_wrote_stays() -> None:
    de = phrases("de")
    assert de.sentence("Please tell them that there is no agent 'x' any more, and more") == (
        "Please tell them that there is no agent 'x' any more, and more"
    )
    for other in (
        "reminders come too early or too late after some weeks",
        "set backup.schedule 03:30, or once: homebody backup",
    ):
        assert de.sentence(other) == other, "no word of a sentence that is not known"
    assert de.sentence("'a', 'b' or a number") != de.sentence("some list or a number") == "some list or a number"
    assert de.sentence("1 is not allowed here; allowed: 'a', 'b' or 'c'").endswith("'a', 'b' oder 'c'")
    finding = {"message": "the text is empty", "hint": "Reload the page."}
    assert de.answer("doctor.findings", finding) == finding
    assert de.schedule("At the sea every day") == "At the sea every day"
    told = {"text": "the text is empty", "reason": "the text is empty", "words": "Every hour"}
    assert de.answer("jobs.calendar", told) == {
        "text": "the text is empty",
        "reason": "Der Text ist leer",
        "words": "Jede Stunde",
    }
    assert de.answer("chat.history", told) == told


async def test_errors_and_answers_are_in_the_language_of_the_page(served: ServedPage) -> None:
    tab, viewer = await served.tab(), await served.tab(viewer=True)
    answer = await tab.post("/page/call/approvals.show", {"name": "nonsense"}, **GERMAN)
    assert answer.json()["error"]["message"] == "Es gibt keine Frage 'nonsense'"
    assert answer.json()["error"]["hint"] == "`homebody approvals list` zeigt die offenen."
    refused = await viewer.post("/page/call/page.revoke", {"browser": "all"}, **GERMAN)
    assert (refused.status_code, refused.json()["error"]) == (403, "Nur ein Besitzer darf das")
    meaning = await tab.post("/page/call/jobs.preview", {"when": "every day at 8:15"}, **GERMAN)
    assert meaning.json()["result"]["words"] == "Um 08:15 jeden Tag"
    form = await tab.post("/page/call/settings.form", {"section": "logging"}, **GERMAN)
    [level] = [row for row in form.json()["result"]["groups"][0]["fields"] if row["key"] == "logging.level"]
    assert level["doc"].startswith("Mindeststufe der Zeilen in der Protokolldatei")
    code = await tab.post("/enter", {"code": "x"}, **GERMAN)
    assert code.json()["error"]["message"] == "Dieser Code gilt nicht (mehr)"
    for language in ("", "en", "fr", "../de"):
        plain = await tab.post("/page/call/approvals.show", {"name": "nonsense"}, x_homebody_language=language)
        assert plain.json()["error"]["message"] == "there is no question 'nonsense'"


async def test_a_reminder_goes_to_the_page_where_that_is_what_is_used(served: ServedPage) -> None:
    tab = await served.tab()
    targets = served.house.automation.jobs.targets
    web, terminal = (
        ChatAddress(channel="web", kind="direct", id="main/main"),
        ChatAddress(channel="terminal", kind="direct", id="local"),
    )
    assert await targets.latest_chat() == terminal
    async with tab.events():
        assert await targets.latest_chat() == web, "it is open, and no terminal is"
        assert (await targets.audience("main", web)).kind == "owner"
        added = (await tab.call("jobs.add", agent="main", text="Water the plants", kind="reminder", when="every day at 8"))[
            "job"
        ]
        await tab.call("jobs.run", job=added["id"])
        for _ in range(200):
            items = (await tab.call("chat.history", session="agent:main:main"))["items"]
            if any("Water the plants" in one.get("text", "") for one in items):
                break
        else:
            raise AssertionError("the reminder did not come")


async def test_a_second_undo_is_a_conflict_and_said_in_the_language_of_the_page(served: ServedPage) -> None:
    tab = await served.tab()
    made = await tab.call("memory.write", agent="main", path="memory/new.md", text="Tee\n", expected=None)
    assert made["written"]
    (newest, *_) = (await tab.call("memory.log", agent="main", path="memory/new.md"))["versions"]
    undo = {"agent": "main", "version": newest["name"]}
    await tab.call("memory.undo", **undo)
    refused = await tab.post("/page/call/memory.undo", undo, **GERMAN)
    assert refused.status_code == 409
    said = refused.json()["error"]
    assert "wurde schon zurückgenommen" in said["message"]
    assert said["hint"].startswith("Um die Änderung wiederzubekommen: homebody memory undo ")
