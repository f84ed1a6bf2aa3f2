"""Recognises what a message asks of the notebook: file, find, show, forget, remind, or nothing that it can do.

Rules only: English in some breadth, the commonest ways to say "remember" and to ask a question in other languages. What is
filed is the owner's own words; only the "remember that" before them is taken off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agent.models.notebook.lists import OnList, other_wish, section_of
from agent.models.notebook.reminders import Remind, Reminders, reminder_in
from agent.said_words import said_words
from memory.text.late_pattern import LatePattern


@dataclass(frozen=True, slots=True)
class File:
    """Write these lines down. ``then`` is said behind the receipt, such as why nobody will be reminded of them."""

    lines: tuple[str, ...]
    then: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """Find what answers this. ``bare`` says that it was a few words only, which might have been meant as a note."""

    query: str
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """Find what is to be taken out, and say where it stands."""

    query: str


@dataclass(frozen=True, slots=True)
class Show:
    """Show the notes of a day, a file by its path, the open tasks, what there is, or the date and time."""

    what: Literal["today", "yesterday", "all", "file", "tasks", "clock"]
    path: str = ""


@dataclass(frozen=True, slots=True)
class Talk:
    """Nothing to file or find: a greeting, thanks, a call for help, or something (a "task" on a schedule) that needs a language model."""

    kind: Literal["greeting", "smalltalk", "thanks", "help", "empty", "beyond", "task", "reminder", "wordless"]


Intent = File | Ask | Forget | Show | Talk | Remind | Reminders

ASKING = "?？؟;՞⸮¿፧"
"""Question marks of the world's scripts (Greek writes one like a semicolon)."""

STAMP = LatePattern(r"^\[[^\]\n]{0,20}(?P<date>\d{4}-\d{2}-\d{2})[ T](?P<time>\d{2}:\d{2})[^\]\n]{0,200}\]\s*")
"""The time that is put before what a person said, in the owner's zone."""
_POLITE = r"(?:please|pls|hey|ok|okay|so|and|also|bitte|por\s+favor|s'il\s+te\s+pla[iî]t|per\s+favore)"
_CAN_YOU = r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?|i\s+want\s+you\s+to\s+|kannst\s+du\s+(?:dir\s+)?)?"

_FILE = LatePattern(
    rf"""^(?:{_POLITE}[\s,]+)*[请請]?{_CAN_YOU}(?:
      (?:remember|note(?:\s+to\s+self)?|(?:make|take|add)\s+a\s+note|(?:write|note|jot)(?:\s+(?:this|it))?\s+down
         |keep\s+in\s+mind|don['’]?t\s+(?:let\s+me\s+)?forget|do\s+not\s+forget|memori[sz]e|for\s+the\s+record|fyi)\b
         (?!\s+(?:when|where|what|who|why|how|which|if|whether)\b)(?:\s*:|(?:\s*[,-])?(?:\s+(?:that|this|of|about|to)\b)?)
      |(?:save|record|log|store)\s+(?:that|this)\b | (?:save|record|log|store|memo)\s*:
      |(?:correction|correct|mistake|update|important|info|idea|korrektur|richtigstellung|wichtig|idee|merke?|erinnerung)\s*[:：]
      |(?:merk(?:e)?(?:['’]s)?\s*dir|notier(?:e)?(?:\s+dir)?|schreib(?:e)?(?:\s+dir)?\s+auf|vergiss\s+nicht|denk\s+daran|notiz)
         \b\s*[:,]?(?:\s*dass\b)?
      |(?:recuerda(?:me)?|acu[eé]rdate|an[oó]ta(?:lo|me)?|apunta|toma\s+nota|no\s+olvides|nota)\b\s*[:,]?(?:\s*(?:de\s+)?que\b)?
      |(?:retiens|souviens-toi|rappelle-toi|prends\s+note|note[zr]?|n['’]oublie\s+pas)\b\s*[:,]?(?:\s*(?:de\s+)?qu(?:e\b|['’]))?
      |(?:ricord(?:a|ati)|annota|segna(?:ti)?|prendi\s+nota|non\s+dimenticare)\b\s*[:,]?(?:\s*che\b)?
      |(?:lembr(?:a|e)(?:-(?:te|se))?|anot[ae]|n[aã]o\s+(?:te\s+)?esque[cç]as?)\b\s*[:,]?(?:\s*(?:de\s+)?que\b)?
      |(?:onthoud|noteer|vergeet\s+niet|schrijf\s+op)\b\s*[:,]?(?:\s*dat\b)?
      |(?:zapami[eę]taj|zapisz|zanotuj|nie\s+zapomnij)\s*[:,]?(?:\s*[zż]e\b)?
      |(?:kom\s+ih[aå]g|notera|husk|muista|unutma|not\s+al)\b\s*[:,]?(?:\s*att\b)?
      |(?:запомни(?:те)?|запиши(?:те)?|не\s+забудь(?:те)?|запам['’ʼ]ятай)\b\s*[:,]?(?:\s*(?:что|що)\b)?
      |(?:تذكر|سجل|احفظ)\s*[:،]?(?:\s*أن\b)? | (?:याद\s+(?:रखना|रखो|रखें)|लिख\s+लो)\s*[:,]?(?:\s*कि\b)?
      |(?:记住|記住|记下(?:来)?|記下(?:來)?|记一下|記一下|帮我记(?:住|下|一下)?|幫我記(?:住|下|一下)?|别忘了|別忘了|备忘|備忘)
      |(?:メモ|覚えて(?:おいて)?|기억해(?:\s*줘)?|메모)\s*[:：]
    )[\s:：,，、—–-]*(?P<fact>\S.*)$""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_DU = r"(?:kannst|könntest|koenntest|würdest|magst|willst)\s+du\s+(?:(?:bitte|dir|mir|mal|dann|noch)\s+)*"
_FILE_GERMAN = LatePattern(
    rf"""^(?:{_POLITE}[\s,]+)*(?:
      {_DU}(?:merken|notieren|aufschreiben|festhalten|speichern)
      |(?:merkst|notierst|schreibst)\s+du(?:\s+(?:dir|mir|bitte|auf|mal))*
      |(?:merke?|notiere?|schreibe?)(?:\s+(?:dir|mir|bitte|auf|mal))+
      |vergiss\s+(?:bitte\s+)?nicht
      |(?:did\s+you\s+know|wusstest\s+du(?:\s+schon)?|weißt\s+du\s+schon)(?=\s*,?\s*(?:that|dass)\b)
    )\b\s*[:,]?\s*(?:(?:dass|that)\b)?[\s:,-]*(?P<fact>\S.*)$""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ON_LIST_GERMAN = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*{_DU}(?P<what>\S.*?)\s+(?:auf|zu)\s+(?:die|den|der|meine[nr]?|unsere[nr]?)\s+(?P<list>[\w-]*(?:liste|zettel))"
    r"\s+(?:setzen|schreiben|packen|tun|nehmen|hinzufügen)$",
    re.IGNORECASE | re.DOTALL,
)
_FILE_LAST = LatePattern(
    r"^(?P<fact>\S.*?)(?:って|と|を|라고|을|를)?[\s、,]*(?:覚えて(?:おいて|おけ|ね)?|覚えといて|メモして(?:おいて)?|기억해|메모해|적어)"
    r"\s*(?:ください|下さい|ね|줘|주세요|둬)?[。．.!！]*$",
    re.DOTALL,
)
_TASK = LatePattern(rf"^(?:{_POLITE}[\s,]+)*(?:to-?do|task|aufgabe)\s*[:：-]\s*(?P<fact>\S.*)$", re.IGNORECASE | re.DOTALL)
_TASKS = LatePattern(
    r"^(?:(?:show|list|what\s+are|which\s+are|zeig(?:e)?(?:\s+mir)?|was\s+sind)\s+)?(?:me\s+)?(?:all\s+)?(?:my|the|open|meine|die|offene)?\s*(?:open\s+|offenen?\s+)?"
    r"(?:to-?dos?|tasks|to-?do\s+list|aufgaben|todo-?liste)$|^what\s+(?:do\s+i\s+have|is\s+there)\s+(?:left\s+)?to\s+do$|^was\s+(?:muss|soll)\s+ich\s+(?:noch\s+)?(?:tun|machen|erledigen)$",
    re.IGNORECASE,
)
_CLOCK = LatePattern(
    r"^(?:what\s+(?:time|day|date)\s+is\s+(?:it|today)(?:\s+(?:now|today))?|what(?:['’]s|\s+is)\s+(?:the\s+(?:time|date)|today['’]?s\s+date)(?:\s+(?:now|today))?"
    r"|wie\s*(?:viel\s+uhr|spät)\s+ist\s+es|welcher\s+tag\s+ist\s+heute|welches\s+datum\s+(?:ist|haben\s+wir)\s+heute)$",
    re.IGNORECASE,
)
_ON_LIST = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*{_CAN_YOU}(?:add|put|setz(?:e)?|schreib(?:e)?|pack(?:e)?|tu(?:e)?|nimm)\s+(?P<what>\S.*?)\s+"
    r"(?:(?:on)?to|on|in|auf|zur?)\s+(?:(?:the|my|our|die|den|der|meine[nr]?|unsere[nr]?)\s+)?(?P<list>(?:[\w-]+\s+){0,2}?[\w-]*(?:list|liste|zettel))(?:\s+(?:hinzu|dazu))?$",
    re.IGNORECASE | re.DOTALL,
)
_FORGET = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*{_CAN_YOU}(?:forget|delete|remove|erase|vergiss|olvida|borra|oublie|efface|dimentica|忘记|忘掉|删除|刪除)\b"
    r"(?!\s+(?:not|nicht|pas)\b)\s*(?:about|that|what|the\s+note|:)?\s*(?P<query>\S.*)$",
    re.IGNORECASE | re.DOTALL,
)
_QUESTION = LatePattern(
    r"""^(?:(?:and|so|but|ok|okay|hey|please)[\s,]+)*(?:
      (?:what|where|when|who|whom|whose|which|why|how)(?:['’]s|['’]re|['’]d)?\b
      |(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|shall)\s+(?:i|you|we|he|she|it|they|there|the|my|our
         |your|his|her|their|any|anyone|someone|this|that)\b
      |(?:find(?!\s+(?:an?|some|out)\b)|search(?:\s+for)?|look\s+(?:up|for)|tell\s+me\s+(?:about|what|where|when|who|how|which|why)|remind\s+me\s+(?:what|where|when|who|how)
         |remember\s+(?:what|where|when|who|how|which|why)|any\s+notes?\s+(?:on|about))\b
      |(?:wo|was|wann|wer|wem|wen|wie|warum|wieso|weshalb|welche[rsmn]?|wohin|woher|weißt\s+du|kennst\s+du)\b
      |(?:d[oó]nde|qu[eé]|cu[aá]ndo|qui[eé]n|c[oó]mo|cu[aá]l(?:es)?|cu[aá]nt[oa]s?|por\s+qu[eé])\b
      |(?:où|quoi|quand|qui|comment|pourquoi|quels?|quelles?|combien|est-ce\s+qu)
      |(?:dove|cosa|che\s+cosa|quando|chi|come|perch[eé]|quale|onde|quem|quando|quanto)\b
      |(?:где|что|когда|кто|как|почему|какой|какая|какие|сколько|куда)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_ASIDE = LatePattern(r"[,:;–—]|\.\.\.|…")
"""Signs of a sentence that only begins like a question ("What a day, the car broke down"): without a question mark it is told."""
_TOLD_AFTER_ALL = LatePattern(rf"[{ASKING}]\s+\S+\s+\S+\s+\S.*[^{ASKING}\s]\s*$", re.DOTALL)
"""A question that its own speaker answers ("Is it at 5? No, it is at 6")."""
_QUESTION_CJK = LatePattern(
    r"(?:哪里|哪裡|哪儿|在哪|什么|什麼|谁|誰|几点|幾點|多少|怎么|怎麼|为什么|吗|嗎|呢|どこ|なに|何|いつ|だれ|誰|ですか|ますか|어디|무엇|뭐|언제|누구|까)"
    r"[^。.!！]*[。.]?$"
)
_LEAD = LatePattern(
    r"^(?:(?:please|hey)[\s,]+)*(?:find|search(?:\s+for)?|look\s+(?:up|for)|tell\s+me\s+about|any\s+notes?\s+(?:on|about)"
    r"|what\s+do\s+you\s+(?:know|remember)\s+about)\s+",
    re.IGNORECASE,
)
_ALL = LatePattern(
    r"""^(?:please\s+)?(?:(?:list|show|ls|notes|memory|index)(?:\s+me)?(?:\s+(?:all|everything))?(?:\s+of)?(?:\s+(?:my|the|your))?
        (?:\s+(?:notes?|files?|memory|memories|notebook))?
      |(?:my\s+notes)|what\s+do\s+you\s+(?:know|remember)(?:\s+(?:about\s+me|so\s+far|already))?
      |what(?:['’]s|\s+is)\s+in\s+(?:my|your|the)\s+(?:notes?|notebook|memory)
      |what\s+have\s+(?:i|you)\s+(?:told\s+you|noted|written(?:\s+down)?|filed|remembered)(?:\s+so\s+far)?
      |was\s+weißt\s+du(?:\s+über\s+mich)?|zeig(?:e)?(?:\s+mir)?(?:\s+alle)?\s+(?:meine\s+)?notizen|qu[eé]\s+sabes(?:\s+de\s+m[ií])?
      |que\s+sais-tu(?:\s+de\s+moi)?|你知道什么|你记得什么|列出(?:所有)?笔记)$""",
    re.IGNORECASE | re.VERBOSE,
)
_DAY = LatePattern(
    r"""^(?:please\s+)?(?:(?:show|list|read|open)(?:\s+me)?|what\s+did\s+(?:i|we)\s+(?:say|tell\s+you|note|write(?:\s+down)?)
         |what\s+(?:have\s+i|was)\s+(?:noted|said|written)(?:\s+down)?)?
        (?:\s+(?:my|the))?(?:\s+notes?)?(?:\s+(?:of|from|for))?\s*
        (?P<day>today|yesterday|heute|gestern|hoy|ayer|今天|昨天)(?:['’]s)?(?:\s+(?:notes?|page))?$""",
    re.IGNORECASE | re.VERBOSE,
)
_FILE_NAME = LatePattern(r"^(?:show|read|open|cat|print)\s+(?:me\s+)?(?P<path>[\w./-]+\.md)$", re.IGNORECASE)
_GREETING = LatePattern(
    r"^(?:hi|hello|hey|hiya|yo|good\s+(?:morning|evening|afternoon|day)|hallo|guten\s+(?:tag|morgen|abend)|moin|servus|hola|buenos\s+d[ií]as"
    r"|bonjour|salut|bonsoir|ciao|buongiorno|ol[aá]|hoi|hej|cześć|привет|здравствуй(?:те)?|привіт|你好|您好|こんにちは|안녕(?:하세요)?|नमस्ते|مرحبا)"
    r"(?:[\s,]+(?:there|homebody|you|again|all|everyone))*$",
    re.IGNORECASE,
)
_SMALLTALK = LatePattern(
    r"^(?:how\s+are\s+(?:you|things)(?:\s+(?:doing|today))*|how(?:['’]s|\s+is)\s+it\s+going|what(?:['’]s|\s+is)\s+up|wie\s+geht(?:['’]?s|\s+es)(?:\s+(?:dir|ihnen|denn|so))*"
    r"|na|alles\s+(?:klar|gut)|gute\s+nacht|good\s+night|bye|goodbye|tschüss|see\s+you|bis\s+(?:bald|später|dann))$",
    re.IGNORECASE,
)
_COURTESY = LatePattern(
    r"^(?:thanks|thank\s+you|thx|danke(?:schön|sehr)?|vielen\s+dank|tschüss|bye|goodbye|good\s+night|gute\s+nacht)\b(?:[\s,!]+[^\W\d]+['’]?\w*){0,4}$",
    re.IGNORECASE,
)
_THANKS = LatePattern(
    r"^(?:thanks|thank\s+you|thx|cheers|great|perfect|ok|okay|nice|cool|danke|vielen\s+dank|gracias|merci|grazie|obrigad[oa]|forget\s+it|never\s*mind|dank\s+je|tack"
    r"|спасибо|дякую|谢谢|謝謝|ありがとう|고마워|감사합니다|शुक्रिया|شكرا)(?:[\s,]+(?:a\s+lot|so\s+much|very\s+much|you|that.s\s+all))*$",
    re.IGNORECASE,
)
_HELP = LatePattern(
    r"^(?:help|\?|(?:what|how)\s+(?:can|do)\s+(?:you|i|this)\s+(?:do|work|use\s+(?:you|this))|who\s+are\s+you|what\s+are\s+you|are\s+you\s+(?:an?\s+)?(?:ai|bot|robot|human)"
    r"|how\s+does\s+this\s+work|hilfe|was\s+kannst\s+du|wer\s+bist\s+du|ayuda|aide|aiuto|ajuda|помощь|帮助|ヘルプ)$",
    re.IGNORECASE,
)
_REQUEST = LatePattern(
    r"^(?:(?:please|bitte)[\s,]+)?(?:write|draft|translate|explain|summari[sz]e|generate|calculate|compute|tell|give|send|play|turn|run|execute|install"
    r"|code|compose|sing|draw|imagine|pretend|let['’]?s|schreib(?:e)?|übersetz(?:e)?|erkl[aä]r(?:e)?|erz[aä]hl(?:e)?|berechne|rechne|sing(?:e)?|escribe|traduce"
    r"|[eé]cris|traduis)\b",
    re.IGNORECASE,
)
_VERB = LatePattern(
    r"""(?:\b(?:is|are|was|were|am|be|has|have|had|will|won['’]?t|can|can['’]?t|does|doesn['’]?t|don['’]?t|did|lives?|likes?|loves?|hates?|prefers?
       |owes?|needs?|wants?|works?|starts?|ends?|begins?|costs?|eats?|drinks?|sleeps?|goes|comes|gets?|got|went|put|puts|left|met|bought|sold
       |paid|told|said|took|gave|made|found|lost|saw|kept|keeps?|hid|hides?|means?|belongs?|expires?|ist|sind|war|waren|hat|haben|hatte|kommt|kommen|liegt|steht|heißt|wohnt|mag|isst|kostet|gehört|arrives?|leaves?|meets?|\w{3,}ed|sits?)\b
       |['’](?:s|m|re|ve|ll|d)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_PERSON = LatePattern(r"^(?:i|we|he|she|it|they|you|ich|wir|er|sie|es|du|ihr|man)\s+\w", re.IGNORECASE)
_DOING = LatePattern(
    r"^(?:buy|call|pay|book|order|fix|clean|wash|water|feed|bring|take|get|pick|return|renew|cancel|ask|check|visit|send|make|set|build|phone|mail|print"
    r"|kauf(?:e|en)?|ruf(?:e)?|hol(?:e|en)?|bring(?:e|en)?|bezahl(?:e|en)?|zahl(?:e|en)?|bestell(?:e|en)?|putz(?:e|en)?|gieß(?:e|en)?)\b"
    r"|\S+\s.*(?-i:\b[a-zäöüß]+(?:en|ern|eln))$",
    re.IGNORECASE,
)
"""What a person has to do: an order to themselves, which is a note."""
_SET_PHRASES: tuple[tuple[LatePattern, Intent], ...] = (
    (_HELP, Talk("help")),
    (_GREETING, Talk("greeting")),
    (_SMALLTALK, Talk("smalltalk")),
    (_THANKS, Talk("thanks")),
    (_COURTESY, Talk("thanks")),
    (_ALL, Show("all")),
    (_TASKS, Show("tasks")),
    (_CLOCK, Show("clock")),
)
_EMPTY_FACT = frozenset({"that", "this", "it", "das", "eso", "ça"})
_CJK = LatePattern(r"[぀-ヿ㐀-鿿가-힯]")
_FULL_STOPS = ".。．।։።!！"
_WORDS_OF_A_SENTENCE = 4
"""Words from which on it is no mere name of something."""
_SIGNS_OF_A_SENTENCE = 6
_LONGEST_SENTENCE = 20_000
"""Characters above which only the words at the very beginning are looked at."""


def without_stamp(text: str) -> str:
    """Return a message without its time stamp."""
    return STAMP.sub("", text.strip()).strip()


def owner_text(text: str) -> str:
    """Return what the owner said, without a time stamp and what else the gateway put there."""
    return said_words(without_stamp(text)).own


def understand(text: str) -> Intent:
    """Tell what a message asks of the notebook."""
    words = owner_text(text)
    bare = words.strip(ASKING + _FULL_STOPS + " ,，、\n")
    if not bare:
        if words.strip() == "?":
            return Talk("help")
        return Talk("wordless" if without_stamp(text) and not words else "empty")
    if len(words) > _LONGEST_SENTENCE:
        found = _FILE.match(words)
        return File(lines_of(found["fact"])) if found else Talk("beyond")
    return (
        _set_phrase(bare)
        or reminder_in(words, bare)
        or _listed(words, bare)
        or _asked_politely(words)
        or _filed(words, bare)
        or _question(words, bare)
        or _statement(words)
    )


def _set_phrase(bare: str) -> Intent | None:
    for pattern, intent in _SET_PHRASES:
        if pattern.match(bare):
            return intent
    if found := _DAY.match(bare):
        return Show("yesterday" if found["day"].lower() in {"yesterday", "gestern", "ayer", "昨天"} else "today")
    if found := _FILE_NAME.match(bare):
        return Show("file", found["path"])
    return None


def _listed(words: str, bare: str) -> Intent | None:
    """A task becomes a task of Markdown; what goes on a list is kept under its name, by which it is asked for."""
    if found := _TASK.match(words):
        return File(tuple(f"[ ] {line}" for line in lines_of(found["fact"])))
    if (found := _ON_LIST.match(bare) or _ON_LIST_GERMAN.match(bare)) and "\n" not in bare:
        return File((f"{found['list'][:1].upper()}{found['list'][1:]}: {found['what']}",))
    return None


def list_wish(text: str, understood: Intent) -> OnList | None:
    """Return what a message asks of the list of things to do, or None. ``understood`` is what it asks where there is no such list."""
    words = owner_text(text)
    bare = words.strip(ASKING + _FULL_STOPS + " ,，、\n")
    if not bare or len(words) > _LONGEST_SENTENCE:
        return None
    if understood == Show("tasks"):
        return OnList("list", understood)
    if found := _TASK.match(words):
        return OnList("add", understood, lines_of(found["fact"]))
    if (found := _ON_LIST.match(bare) or _ON_LIST_GERMAN.match(bare)) and "\n" not in bare:
        return OnList("add", understood, (found["what"],), section_of(found["list"]))
    return other_wish(bare, understood)


def _asked_politely(words: str) -> Intent | None:
    """German asks with the verb at the end ("Kannst du dir merken, dass …?") and with the verb in front ("Merkst du dir …?")."""
    if found := _FILE_GERMAN.match(words):
        return File(lines_of(found["fact"].rstrip(ASKING + " ")))
    return None


def _filed(words: str, bare: str) -> Intent | None:
    found = _FILE.match(words) or _FILE_LAST.match(words)
    if found and found["fact"].strip(_FULL_STOPS + " ").lower() in _EMPTY_FACT:
        return Talk("help")
    if found:
        fact = found["fact"]
        asked = bool(re.match(_CAN_YOU[:-1], words, re.IGNORECASE))  # "can you remember that …?": the mark is not the fact's
        return File(lines_of(fact.rstrip(ASKING + " ") if asked else fact))
    if found := _FORGET.match(bare):
        return Forget(found["query"])
    return None


def _question(words: str, bare: str) -> Intent | None:
    if _TOLD_AFTER_ALL.search(words):
        return None
    unmarked = _QUESTION.match(bare) and not _ASIDE.search(bare)
    asking = words[-1] in ASKING or words[0] == "¿" or unmarked or _QUESTION_CJK.search(words)
    return Ask(_LEAD.sub("", bare)) if asking else None


def _statement(words: str) -> Intent:
    """File what is neither a question nor an order that needs a language model: a note too many is better than one lost."""
    if _REQUEST.match(words) or not any(sign.isalpha() for sign in words):
        return Talk("beyond")
    if _is_bare(words):
        return Ask(words.strip(_FULL_STOPS + " "), bare=True)
    return File(lines_of(words))


def _is_bare(words: str) -> bool:
    """Whether this is a name or a few words without a verb or a figure: more likely looked up than told."""
    if "\n" in words or any(sign.isdigit() or sign in ":=@/" for sign in words):
        return False
    if _CJK.search(words):
        return len(_CJK.findall(words)) < _SIGNS_OF_A_SENTENCE
    count = len(words.split())
    return count < _WORDS_OF_A_SENTENCE and not _PERSON.match(words) and not _VERB.search(words) and not _DOING.match(words)


def lines_of(fact: str) -> tuple[str, ...]:
    """Split into lines, take list marks off, and begin the first one with a capital letter where its script has them."""
    kept = [re.sub(r"^\s*[-*+•]\s+", "", line).strip() for line in fact.splitlines()]
    lines = [line for line in kept if line] or [fact.strip()]
    return (lines[0][:1].upper() + lines[0][1:], *lines[1:])
