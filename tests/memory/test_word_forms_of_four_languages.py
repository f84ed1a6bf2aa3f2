"""Twenty-one questions in German, Chinese, Japanese and Arabic whose words are in the notes in another form, among notes of all four."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from pathlib import Path

    from memory.embedding.protocol import Embedder

LEAST = 19
FILLERS = (
    "Am Morgen waren wir auf dem Markt {n} und haben Brot, Käse und Äpfel gekauft.",
    "今天早上我们去了市场{n}，买了面包和苹果。",
    "今朝は市場{n}に行って、パンとりんごを買いました。",
    "ذهبنا هذا الصباح إلى السوق {n} واشترينا الخبز والتفاح.",
)
ASKED = (
    ("Der Hausschlüssel liegt unter dem blauen Topf.", "Wo ist der Schlüssel?"),
    ("Die Schornsteinfegerin kommt am Montag um acht.", "Wann kommt der Schornsteinfeger?"),
    ("Lena bekommt im Herbst eine Zahnspange.", "Wer bekommt eine Spange?"),
    ("Der Kinderarzt heißt Doktor Weber.", "Wie heißt unsere Kinderärztin?"),
    ("Die Versicherungen der Autos laufen im Mai ab.", "Wann läuft die Autoversicherung ab?"),
    ("Oma hat die Fotoalben auf den Dachboden gebracht.", "Wo ist das Fotoalbum?"),
    ("Das Passwort für das WLAN hängt am Kühlschrank.", "Wo hängt das WLAN-Passwort?"),
    ("Papa hat gestern den Rasenmäher repariert.", "Wer repariert Rasenmäher?"),
    ("小明的生日是三月五日，他想要一辆自行车。", "小明什么时候过生日？"),
    ("牙医的电话号码是六二七八。", "牙医的电话是多少？"),
    ("暖气的保修期到明年十月。", "暖气保修到什么时候？"),
    ("奶奶对花生过敏。", "谁不能吃花生？"),
    ("健太の誕生日は三月五日です。", "健太の誕生日はいつでしたか？"),
    ("スペアキーはガレージの棚にあります。", "ｽﾍﾟｱｷｰはどこ？"),
    ("歯医者の予約は金曜日の十時です。", "歯医者はいつ予約しましたか？"),
    ("母は海老アレルギーです。", "海老を食べられないのは誰？"),
    ("اشتريت السيارة من أحمد.", "من باع سيارة؟"),
    ("موعد الطبيب يوم الثلاثاء.", "متى سنذهب للطبيب؟"),
    ("مفتاح البيت تحت الإناء الأزرق.", "أين المفتاح؟"),
    ("ليلى تحب الكتب القديمة.", "من يحب كتابا قديما؟"),
    ("كلمة السر للشبكة على الثلاجة.", "أين كلمة سر الشبكة؟"),
)


async def found(tmp_path: Path, embedder: Embedder | None) -> list[str]:
    """Return the questions whose note is the first result."""
    notes = tmp_path / "notes/memory"
    notes.mkdir(parents=True)
    for number in range(200):
        text = FILLERS[number % len(FILLERS)].format(n=number)
        (notes / f"day-{number}.md").write_text(text + "\n", encoding="utf-8")
    for number, (fact, _) in enumerate(ASKED):
        (notes / f"fact-{number}.md").write_text(fact + "\n", encoding="utf-8")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    memory = memory_at(notes.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock, embedder=embedder)
    await memory.sync()
    answered = []
    for number, (_, question) in enumerate(ASKED):
        hits = (await memory.search(question, audience=OWNER)).hits
        if hits and hits[0].path == f"memory/fact-{number}.md":
            answered.append(question)
    await memory.close()
    return answered


async def test_nineteen_of_twenty_one_are_answered_first_by_words_alone(tmp_path: Path) -> None:
    answered = await found(tmp_path, None)
    assert len(answered) >= LEAST, f"not answered: {[question for _, question in ASKED if question not in answered]}"
