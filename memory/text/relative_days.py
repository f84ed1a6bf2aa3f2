"""Phrases by which a question counts days from today: "last Tuesday", "vor drei Wochen", "la semaine dernière", "hace dos meses".

English, German, French, Spanish and Italian. Seasons are those of the northern half of the earth.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct

from memory.text import stop_words
from memory.text.calendar_names import DAYS, MONTHS, NUMBERS, ONE_DAY, ONE_MONTH, ONE_SEASON, SEASONS, season_of
from memory.text.parts_of_months import PARTS, third_of_month
from memory.text.positions import overlaps
from memory.text.year_words import plain_words

Meaning = Callable[[re.Match[str], date], tuple[date, date]]

_UNITS = (
    ("d", "day tag jour dia giorno giorni"),
    ("w", "week woche semaine semana settimana settimane"),
    ("m", "month monat mois mes mese mesi"),
    ("y", "year jahr an annee ano anno anni"),
)
_UNIT_OF = {word: unit for unit, words in _UNITS for word in words.split()}
_LENGTHS = {"d": (1, 0), "w": (7, 3), "m": (30, 10), "y": (365, 45)}
_RECENT = timedelta(days=14)
_HERE = "hier"
"""Yesterday in French, and here in German."""
_FRENCH_PARTS = ("matin", "midi", "soir")
_SATURDAY = 5
_COUPLE = ("a couple of", "un par de", "un paio di")
_FEW = (
    *("a few", "several", "ein paar", "einigen", "mehreren", "quelques", "plusieurs", "unos", "unas", "algunos", "algunas"),
    *("varios", "varias", "alcuni", "alcune", "qualche"),
)
_MOST_FEW = 5
"""So many at most are a few; two are the fewest."""
_THIS = frozenset(
    {"this", "diese", "diesen", "diesem", "dieses", "dieser", "ce", "cet", "cette", "este", "esta", "questo", "questa", "quest"}
)


class Counted(Struct, frozen=True):
    """A relative date in a query: its position, and the first and last day that it means.

    ``name`` is the word for a season or month in it, in lower case and without accents: notes of that time may have it, too.
    ``itself`` is the day that it counts to, if some before and after may be meant as well.
    """

    start: int
    end: int
    first: date
    last: date
    name: str = ""
    itself: date | None = None


def counted(question: str, today: date) -> list[Counted]:
    """Return the phrases by which a question counts days from ``today``, in order. None overlap."""
    return list(_counted(question, today))


@lru_cache(maxsize=16)
def _counted(question: str, today: date) -> tuple[Counted, ...]:
    """Find them once for all that a search asks of a question: there are some forty patterns."""
    found: list[Counted] = []
    plain, words = plain_words(question)
    for keys, pattern, meaning in _RULES:
        for match in () if words.isdisjoint(keys) else pattern.finditer(plain):
            if match[0].lower().startswith(_HERE) and not (match[0].lower().endswith(_FRENCH_PARTS) or _is_french(question)):
                continue
            if overlaps(found, *match.span()):
                continue
            first, last = meaning(match, today)
            name = (_Either(match)["season"] or _Either(match)["name"]).lower()
            found.append(Counted(match.start(), match.end(), first, last, name, _itself(match, meaning, first, last, today)))
    return tuple(sorted(found, key=lambda one: one.start))


def _itself(match: re.Match[str], meaning: Meaning, first: date, last: date, today: date) -> date | None:
    if meaning is _ago and first < last and match["count"].lower() not in _FEW:
        return _to_the_day(match, today)[0]
    return first + (last - first) / 2 if meaning in _AROUND_A_DAY else None


def _is_french(question: str) -> bool:
    return stop_words.language(re.findall(r"[^\W_]+", question.lower()))[0] == "French"


def _day(back: int) -> Meaning:
    def meaning(_: re.Match[str], today: date) -> tuple[date, date]:
        day = _back(today, back)
        return day, day

    return meaning


def _ago(match: re.Match[str], today: date) -> tuple[date, date]:
    word, (length, slack) = match["count"].lower(), _length_of(match)
    if word in _COUPLE or word in _FEW:
        slack = max(1, slack)
        return _back(today, (2 if word in _COUPLE else _MOST_FEW) * length + slack), _back(today, 2 * length - slack)
    number = int(word) if word.isdigit() else NUMBERS.get(word, 1)
    return _back(today, number * length + slack), _back(today, number * length - slack)


def _to_the_day(match: re.Match[str], today: date) -> tuple[date, date]:
    """The same day, so many weeks, months or years ago; the last one of a month that has no such day."""
    word = match["count"].lower()
    number = int(word) if word.isdigit() else 2 if word in _COUPLE else NUMBERS.get(word, 1)
    if _LENGTHS["w"] == (length := _length_of(match)):
        day = _back(today, number * length[0])
        return day, day
    months = number * (12 if length == _LENGTHS["y"] else 1)
    year, month = divmod(today.year * 12 + today.month - 1 - months, 12)
    if year < 1:
        return date.min, date.min
    day = date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))
    return day, day


def _length_of(match: re.Match[str]) -> tuple[int, int]:
    unit = match["unit"].lower()
    return _LENGTHS[_UNIT_OF.get(unit) or _UNIT_OF[unit[:-1]]]


def _weeks_ago(number: int) -> Meaning:
    def meaning(_: re.Match[str], today: date) -> tuple[date, date]:
        length, slack = _LENGTHS["w"]
        return _back(today, number * length + slack), _back(today, number * length - slack)

    return meaning


_A_WEEK_AGO, _TWO_WEEKS_AGO = _weeks_ago(1), _weeks_ago(2)


def _fortnights_ago(match: re.Match[str], today: date) -> tuple[date, date]:
    word = (match["count"] or "a").lower()
    return _weeks_ago(2 * (int(word) if word.isdigit() else NUMBERS.get(word, 1)))(match, today)


def _half_a_year_ago(_: re.Match[str], today: date) -> tuple[date, date]:
    length, slack = _LENGTHS["m"]
    return _back(today, 6 * length + 2 * slack), _back(today, 6 * length - 2 * slack)


_AROUND_A_DAY = frozenset({_A_WEEK_AGO, _TWO_WEEKS_AGO, _fortnights_ago, _half_a_year_ago})


def _since(match: re.Match[str], today: date) -> tuple[date, date]:
    """The days from so many weeks, months or the like back until today; a few if it is not said how many."""
    word = match["count"].lower()
    number = int(word) if word.isdigit() else 2 if word in _COUPLE else NUMBERS.get(word, _MOST_FEW)
    return _back(today, number * _length_of(match)[0]), today


def _before_last(match: re.Match[str], today: date) -> tuple[date, date]:
    """The day, week, month, season or year before the last one."""
    named = {key.rstrip("23"): value.lower() for key, value in match.groupdict().items() if value}
    if "day" in named:
        day = _back(today, ((today.weekday() - DAYS[named["day"]]) % 7 or 7) + 7)
        return day, day
    if "season" in named:
        return _season_before_last(today, SEASONS[named["season"]])
    if "name" in named:
        return _month_of_name_before_last(today, MONTHS[named["name"]])
    return _period_before_last(named, today)


def _season_before_last(today: date, month: int) -> tuple[date, date]:
    first, last = _ended_season(today, month)
    return season_of(max(1, first.year - 1), first.month) if first.year > 1 else (first, last)


def _month_of_name_before_last(today: date, month: int) -> tuple[date, date]:
    year = max(1, today.year - 1 - (month >= today.month))
    return date(year, month, 1), date(year, month, monthrange(year, month)[1])


def _period_before_last(named: Mapping[str, str], today: date) -> tuple[date, date]:
    if "week" in named:
        monday = _back(today, today.weekday())
        return _back(monday, 14), _back(monday, 8)
    if "weekend" in named:
        saturday = _back(today, _since_saturday(today) + 7)
        return saturday, saturday + timedelta(days=1)
    if "month" in named:
        last = _back(_back(today.replace(day=1), 1).replace(day=1), 1)
        return last.replace(day=1), last
    year = max(1, today.year - 2)
    return date(year, 1, 1), date(year, 12, 31)


def _since_saturday(today: date) -> int:
    """Return how many days ago the last whole weekend began."""
    since = (today.weekday() - _SATURDAY) % 7
    return since + 7 if since <= 1 else since


def _is_this(match: re.Match[str]) -> bool:
    return match["which"].lower() in _THIS


def _weekday(match: re.Match[str], today: date) -> tuple[date, date]:
    """The last such day before today; of "this" one, today may be it."""
    day = _back(today, (today.weekday() - DAYS[match["day"].lower()]) % 7 or (0 if _is_this(match) else 7))
    return day, day


def _week(match: re.Match[str], today: date) -> tuple[date, date]:
    monday = _back(today, today.weekday())
    if _is_this(match):
        return monday, today
    if match["which"].lower() == "past":
        return _back(today, 7), today
    return _back(monday, 7), _back(monday, 1)


def _weekend(match: re.Match[str], today: date) -> tuple[date, date]:
    """The last whole weekend before today; of "this" one, it may be now."""
    saturday = _back(today, (today.weekday() - _SATURDAY) % 7 if _is_this(match) else _since_saturday(today))
    return saturday, min(today, saturday + timedelta(days=1))


def _month(match: re.Match[str], today: date) -> tuple[date, date]:
    last = today if _is_this(match) else _back(today.replace(day=1), 1)
    return last.replace(day=1), last


def _part_of_month(match: re.Match[str], today: date) -> tuple[date, date]:
    """A third of the last month, or of this one as far as it has begun."""
    day = today if _is_this(match) else _back(today.replace(day=1), 1)
    first, last = third_of_month(day.year, day.month, PARTS[match["part"].lower()])
    return min(first, today), min(last, today)


def _year(match: re.Match[str], today: date) -> tuple[date, date]:
    year = max(1, today.year - (not _is_this(match)))
    return date(year, 1, 1), date(year, 12, 31)


def _season(match: re.Match[str], today: date) -> tuple[date, date]:
    """The season of the year that is named; else the newest that has begun, and of a "last" one that has ended."""
    month = SEASONS[match["season"].lower()]
    if match["year"]:
        return season_of(int(match["year"]), month)
    if match["last"]:
        return _ended_season(today, month)
    first, last = season_of(today.year, month)
    if first > today and first.year > 1:
        first, last = season_of(first.year - 1, month)
    return first, min(last, today)


def _ended_season(today: date, month: int) -> tuple[date, date]:
    """Return the newest season of a kind that is over."""
    first, last = season_of(today.year, month)
    while last >= today and first.year > 1:
        first, last = season_of(first.year - 1, month)
    return first, min(last, today)


def _recently(_: re.Match[str], today: date) -> tuple[date, date]:
    return _back(today, _RECENT.days), today


def _back(day: date, days: int) -> date:
    """Return the day so many days earlier, or the calendar's first one."""
    return date.fromordinal(max(1, day.toordinal() - days))


_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join((*_COUPLE, *_FEW, *NUMBERS))})"
_ABOUT_DE, _ABOUT_ES = r"(?:etwa |ungefahr |rund |gut |knapp |circa )?", r"(?:unos |unas |como |casi |mas o menos )?"
_NOT_OF = r"(?! (?:of|in|des|der|im|von|vom|before|vor|avant|de|du|del|di|della?|prima|antes|dei|delle|degli)\b| d'| dell')"
_DAY, _SEASON = rf"(?P<day>{ONE_DAY})", rf"(?P<season>{ONE_SEASON})"
_PART = (
    r"(?:\s+(?:morning|noon|afternoon|evening|night|fruh|morgen|vormittag|mittag|nachmittag|abend|nacht"
    r"|matin|midi|apres-midi|soir|por la (?:manana|tarde|noche)|mattina|pomeriggio|sera))?"
)
_BEFORE = (
    "(?P<last>last|letzten|vergangenen|vorigen)|in(?: the)?|this|during(?: the)?|of|im|diesen|en|au|cet?|est[ea]|quest[ao]|quest'"
    "|nell'|l'|la|el|le|il"
)
_AFTER = "(?P<last2> derniere?| passee?| pasad[oa]| scors[oa])?"
_LETZT = "(?:letzt|vergangen|vorig)"
_DERNIER, _PASSE = r"(?P<which>derniere?|passee?)", r"(?P<which>pasad[oa])"
_SCORSO = r"(?P<which>scors[oa]|passat[oa])"


def _before_last_phrases() -> Sequence[tuple[str, Meaning]]:
    """These come first: they hold phrases for the last week or year."""
    season, month, year = rf"(?P<season2>{ONE_SEASON})", "(?P<month2>mois|mes|mese)", "(?P<year2>annee|ano|anno)"
    name, name2 = rf"(?P<name>{ONE_MONTH})", rf"(?P<name2>{ONE_MONTH})"
    week, weekend = "(?P<week2>semaine|semana|settimana)", "(?P<weekend2>week-?end|fin de semana|fine settimana|weekend)"
    day = rf"(?P<day2>{ONE_DAY})"
    theirs = f"(?:{week}|{weekend}|{month}|{year}|{season}|{day}|{name2})"
    english = f"(?:(?P<week>week)|(?P<weekend>weekend)|(?P<month>month)|(?P<year>year)|{_SEASON}|{_DAY}|{name})"
    german = f"(?:(?P<week>woche)|(?P<weekend>wochenende)|(?P<month>monats?)|(?P<year>jahr)|{_SEASON}|{_DAY}|{name})"
    return (
        (rf"(?:(?:in|on) )?(?:the )?{english} before last", _before_last),
        (rf"(?:(?:in der|im|am|das|die|den|der) )?vorletzte[nmrs]? {german}", _before_last),
        (rf"(?:l'|la |le )?avant-derniere? {theirs}", _before_last),
        (rf"(?:el |la )?{theirs} antepasad[oa]", _before_last),
        (rf"(?:el |la |il )?penultim[oa] {theirs}", _before_last),
        (rf"(?:il |la |l')?{theirs} prima (?:della scorsa|dello scorso|di quell[oa] scors[oa])", _before_last),
        (r"vorvorgestern|trasanteayer|trasantier|avant-avant-hier", _day(3)),
        (r"the night before last|anteanoche|antenoche", _day(2)),
    )


def _phrases_of_this_day() -> Iterator[tuple[str, Meaning]]:
    """Yield how the day is written on which something was a year ago, which holds the word for today."""
    count = rf"(?P<count>\d{{1,3}}|{'|'.join(NUMBERS)})"
    for today, ago in (
        ("today", rf"{count} (?P<unit>week|month|year)s? ago"),
        ("heute", rf"(?:genau )?vor {count} (?P<unit>woche|monat|jahr)(?:en|e|n)?"),
        ("aujourd'hui", rf"il y a {count} (?P<unit>semaine|mois|annee|an)s?"),
        ("hoy", rf"hace {count} (?P<unit>semana|mes|ano)(?:es|s)?"),
        ("oggi", rf"{count} (?P<unit>settiman[ae]|mes[ei]|ann[io]) fa"),
    ):
        second = ago.replace("<count>", "<count2>").replace("<unit>", "<unit2>")
        yield rf"{ago},? {today}|{today},? {second}", _second(_to_the_day)


def _fortnight_phrases() -> Sequence[tuple[str, Meaning]]:
    return (
        (rf"(?:{_COUNT} )?fortnights? ago", _fortnights_ago),
        (r"(?:(?:in|during|over) )?(?:the )?(?:last|past) fortnight", _recently),
        (rf"vor {_ABOUT_DE}(?:vierzehn|14) tagen", _TWO_WEEKS_AGO),
        (rf"vor {_ABOUT_DE}acht tagen", _A_WEEK_AGO),
        (r"il y a (?:environ )?(?:quinze|15) jours|il y a une quinzaine(?: de jours)?", _TWO_WEEKS_AGO),
        (r"il y a (?:environ )?huit jours", _A_WEEK_AGO),
        (rf"hace {_ABOUT_ES}(?:quince|15) dias|hace una quincena", _TWO_WEEKS_AGO),
        (r"(?:circa )?(?:quindici|15) giorni fa|una quindicina di giorni fa", _TWO_WEEKS_AGO),
        (
            r"half a year ago|vor einem halben jahr|hace medio ano|(?:mezz'|mezzo )anno fa",
            _half_a_year_ago,
        ),
        *((rf"{text}{_NOT_OF}", _second(_since)) for text in _last_of_a_unit()),
    )


def _last_of_a_unit() -> Iterator[str]:
    """Yield how the last days, weeks, months or years are written: so many of them, or a few."""
    count = rf"(?:{_COUNT}|few|paar)"
    units, units2 = "(?P<unit>day|week|month|year)", "(?P<unit2>day|week|month|year)s"
    yield rf"(?:(?:in|during|over) )?(?:the |these )?(?:last|past) (?:{count} {units}s?|{units2})"
    yield rf"(?:in den |den |die )?(?:letzten|letzte|vergangenen) (?:{count} )?(?P<unit>tag|woche|monat|jahr)(?:en|e|n)"
    units = "(?P<unit>jour|semaine|mois|annee|an)s?"
    yield rf"(?:(?:pendant|durant) )?(?:ces|les|des) {count} (?:derniers|dernieres) {units}"
    yield rf"(?:(?:pendant|durant) )?ces (?:derniers|dernieres) {units}"
    count2, units = _COUNT.replace("count", "count2"), "(?P<unit>dia|semana|mes|ano)(?:es|s)"
    yield rf"(?:(?:en|durante) )?(?:los|las|estos|estas) (?:ultim[oa]s (?:{count} )?|{count2} ultim[oa]s ){units}"
    units = "(?P<unit>giorni|settimane|mesi|anni)"
    yield rf"(?:negli|nelle|nei|gli|le|i|questi|queste) (?:ultim[ie] (?:{count} )?|{count2} ultim[ie] ){units}"


def _day_phrases() -> Sequence[tuple[str, Meaning]]:
    return (
        (
            rf"(?:(?:the )?day before yesterday|vorgestern|avant-hier|anteayer|antes de ayer|l'altro ieri|ieri l'altro|altroieri){_PART}",
            _day(2),
        ),
        (rf"(?:yesterday|gestern|hier|ayer|ieri){_PART}|last night|anoche", _day(1)),
        (rf"(?:today|heute|aujourd'hui|hoy|oggi){_PART}|tonight|stamattina|stasera|stanotte", _day(0)),
        (r"this (?:morning|afternoon|evening)|ce (?:matin|soir)|cet apres-midi|esta (?:manana|tarde|noche)", _day(0)),
        (rf"{_COUNT} (?P<unit>day|week|month|year)s? ago", _ago),
        (rf"vor {_ABOUT_DE}{_COUNT} (?P<unit>tag|woche|monat|jahr)(?:en|e|n)?", _ago),
        (rf"il y a (?:environ )?{_COUNT} (?P<unit>jour|semaine|mois|annee|an)s?", _ago),
        (rf"hace {_ABOUT_ES}{_COUNT} (?P<unit>dia|semana|mes|ano)(?:es|s)?", _ago),
        (rf"{_COUNT} (?P<unit>giorn[io]|settiman[ae]|mes[ei]|ann[io]) fa", _ago),
        (rf"(?P<which>this past|last|past|this|previous|on) {_DAY}{_PART}", _weekday),
        (rf"(?P<which>{_LETZT}e[nm]|diese[nm]|am) {_DAY}{_PART}", _weekday),
        (rf"(?:le )?{_DAY} {_DERNIER}{_PART}|(?P<which2>ce) (?P<day2>{ONE_DAY}){_PART}", _second(_weekday)),
        (
            rf"(?:el )?{_DAY} {_PASSE}{_PART}|(?P<which2>el|este|el pasado) (?P<day2>{ONE_DAY}){_PART}",
            _second(_weekday),
        ),
        (
            rf"(?:il |la )?{_DAY} {_SCORSO}{_PART}|(?P<which2>lo scorso|la scorsa|questo|questa) (?P<day2>{ONE_DAY})",
            _second(_weekday),
        ),
        (
            r"(?:the )?(?P<which>last|past|this past|this|previous) weekend|(?P<which2>at|on|over) the weekend",
            _second(_weekend),
        ),
        (rf"(?P<which>{_LETZT}e[sn]|diese[sn]|am) wochenende", _weekend),
        (r"le week-?end (?P<which>dernier|passe)|(?P<which2>ce) week-?end", _second(_weekend)),
        (r"el fin de semana (?P<which>pasado)|(?P<which2>este) fin de semana", _second(_weekend)),
        (r"(?:lo )?(?P<which>scorso|questo) (?:fine settimana|weekend)", _weekend),
        (r"(?:il )?(?:fine settimana|weekend) (?P<which>scorso)", _weekend),
    )


def _parts_of_a_month() -> Iterator[str]:
    """Yield how parts of the last month and of this one are written."""
    part, part2 = "(?P<part>beginning|start|middle|end)", "(?P<part2>early|mid|late)"
    which, which2 = "(?P<which>last|past|this|previous)", "(?P<which2>last|this)"
    yield rf"(?:(?:at|by|in|towards?|around|since|until) )?(?:the )?{part} of {which} month|{part2} {which2} month"
    yield rf"(?:(?:seit|gegen|ab|bis|zu) )?(?P<part>anfang|mitte|ende) (?:des )?(?P<which>{_LETZT}en|dieses|diesen) monate?s?"
    yield rf"(?:(?:au|vers(?: l[ea])?|a la|en) )?(?P<part>debut|milieu|fin) (?:du mois {_DERNIER}|de (?P<which2>ce) mois)"
    part = "(?P<part>principios?|comienzos?|inicios?|mediados|finales|fines|final)"
    yield rf"(?:(?:a|al|hacia) )?{part} (?:del mes {_PASSE}|de (?P<which2>este) mes)"
    which = rf"(?:del mese {_SCORSO}|dello (?P<which2>scorso) mese|di (?P<which3>questo) mese)"
    yield rf"(?:(?:all'|alla |a |verso la ))?(?P<part>inizio|fine|meta) {which}"


def _period_phrases() -> Sequence[tuple[str, Meaning]]:
    return (
        *((text, _second(_part_of_month)) for text in _parts_of_a_month()),
        (r"(?P<which>last|past|this|previous) week", _week),
        (rf"(?P<which>{_LETZT}e[nr]?|diese[rn]?) woche", _week),
        (rf"(?:la )?semaine {_DERNIER}|(?P<which2>cette) semaine", _second(_week)),
        (rf"(?:la )?semana {_PASSE}|(?P<which2>esta|la pasada) semana", _second(_week)),
        (rf"(?:la )?settimana {_SCORSO}|(?P<which2>questa|la scorsa) settimana", _second(_week)),
        (r"(?P<which>last|past|this|previous) month", _month),
        (rf"(?P<which>{_LETZT}e[nm]|diese[nm]) monat", _month),
        (rf"(?:le )?mois {_DERNIER}|(?P<which2>ce) mois", _second(_month)),
        (rf"(?:el )?mes {_PASSE}|(?P<which2>este|el pasado) mes", _second(_month)),
        (rf"(?:il )?mese {_SCORSO}|(?P<which2>questo|lo scorso) mese", _second(_month)),
        (r"(?P<which>last|past|this|previous) year", _year),
        (rf"(?P<which>{_LETZT}e[sm]|diese[sm]) jahre?", _year),
        (r"(?:im|des) (?P<which>vorjahr)e?s?", _year),
        (rf"l'an(?:nee)? {_DERNIER}|(?P<which2>cette) annee", _second(_year)),
        (rf"(?:el )?ano {_PASSE}|(?P<which2>este|el pasado) ano", _second(_year)),
        (rf"l'anno {_SCORSO}|(?P<which2>quest)'anno|(?P<which3>lo scorso) anno", _second(_year)),
        (rf"(?:{_BEFORE})[ ]?{_SEASON}{_AFTER}(?: (?:of |de |del )?(?P<year>(?:19|20)\d\d))?", _second(_season)),
        (
            r"recently|lately|neulich|kurzlich|in letzter zeit|recemment|dernierement|recientemente|ultimamente|di recente",
            _recently,
        ),
    )


_BEFORE_LAST_KEYS = frozenset(
    """
    before vorletzte vorletzten vorletzter vorletztes vorletztem avant antepasado antepasada penultimo penultima prima vorvorgestern
    trasanteayer trasantier anteanoche antenoche
    """.split()  # noqa: SIM905 - a list literal of them is longer
)
_UNIT_KEYS = frozenset(
    """
    day days week weeks month months year years tag tage tagen woche wochen monat monate monaten monats jahr jahre jahren jahres vorjahr
    vorjahre vorjahres jour jours semaine semaines mois an ans annee annees dia dias semana semanas mes meses ano anos giorno giorni
    settimana settimane mese mesi anno anni fortnight fortnights quinzaine quincena quindicina weekend wochenende
    """.split()  # noqa: SIM905 - a list literal of them is longer
)
_DAY_KEYS = frozenset(
    """
    yesterday gestern vorgestern hier ayer anteayer ieri altroieri anoche night today heute aujourd hoy oggi tonight stamattina stasera
    stanotte morning afternoon evening matin soir midi manana tarde noche
    """.split()  # noqa: SIM905 - a list literal of them is longer
).union(_UNIT_KEYS, DAYS)
_RECENT_KEYS = (
    "recently",
    "lately",
    "neulich",
    "kurzlich",
    "zeit",
    "recemment",
    "dernierement",
    "recientemente",
    "ultimamente",
    "recente",
)
_PERIOD_KEYS = _UNIT_KEYS.union(SEASONS, _RECENT_KEYS)
"""Words of which a question with such phrases has one: most have none, and a hundred patterns take a fifth of a millisecond."""


def _rules() -> Iterator[tuple[frozenset[str], re.Pattern[str], Meaning]]:
    for keys, phrases in (
        (_BEFORE_LAST_KEYS, _before_last_phrases()),
        (_UNIT_KEYS, tuple(_phrases_of_this_day())),
        (_UNIT_KEYS, _fortnight_phrases()),
        (_DAY_KEYS, _day_phrases()),
        (_PERIOD_KEYS, _period_phrases()),
    ):
        for text, meaning in phrases:
            yield keys, re.compile(rf"\b(?:{text})\b", re.IGNORECASE), meaning


class _Either:
    """A match whose groups may have another name: ``which2`` for ``which``, where a language has two orders of words."""

    def __init__(self, match: re.Match[str]) -> None:
        self._match = match

    def __getitem__(self, name: str) -> str:
        named = self._match.groupdict()
        return next((named[key] for key in (name, f"{name}2", f"{name}3") if named.get(key)), "")


def _second(meaning: Callable[..., tuple[date, date]]) -> Meaning:
    return lambda match, today: meaning(_Either(match), today)


_RULES = tuple(_rules())
