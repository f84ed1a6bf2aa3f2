"""English words whose forms have no common stem: a question has "buy", and the note "bought"."""

from __future__ import annotations

from functools import cache

_GROUPS = (
    "be am is are was were been;become became;begin began begun;bend bent;bet;bite bit bitten;blow blew blown;break broke broken;"
    "bring brought;build built;burn burnt;buy bought;catch caught;choose chose chosen;come came;creep crept;cut;deal dealt;dig dug;"
    "do did done does;draw drew drawn;dream dreamt;drink drank drunk;drive drove driven;eat ate eaten;fall fell fallen;feed fed;"
    "feel felt;fight fought;find found;flee fled;fly flew flown flies;forget forgot forgotten;forgive forgave forgiven;freeze froze frozen;"
    "get got gotten;give gave given;go went gone goes;grow grew grown;hang hung;have had has;hear heard;hide hid hidden;hold held;"
    "keep kept;know knew known;lay laid;lead led;lean leant;leap leapt;learn learnt;leave left;lend lent;lie lay lain;light lit;"
    "lose lost;make made;mean meant;meet met;pay paid;ride rode ridden;ring rang rung;rise rose risen;run ran;say said;see saw seen;"
    "seek sought;sell sold;send sent;shake shook shaken;shine shone;shoot shot;show shown;shrink shrank shrunk;sing sang sung;"
    "sink sank sunk;sit sat;sleep slept;slide slid;smell smelt;speak spoke spoken;spell spelt;spend spent;spill spilt;spin spun;"
    "spring sprang sprung;stand stood;steal stole stolen;stick stuck;sting stung;strike struck;swear swore sworn;sweep swept;"
    "swim swam swum;swing swung;take took taken;teach taught;tear tore torn;tell told;think thought;throw threw thrown;"
    "understand understood;wake woke woken;wear wore worn;weep wept;win won;wind wound;write wrote written;"
    "child children;foot feet;goose geese;half halves;knife knives;leaf leaves;life lives;loaf loaves;man men;mouse mice;person people;"
    "shelf shelves;thief thieves;tooth teeth;wife wives;wolf wolves;woman women"
)


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    return {word: tuple(group.split()) for group in _GROUPS.split(";") for word in group.split()}


def irregular_forms(word: str) -> tuple[str, ...]:
    """Return the other forms of a word in lower case; nothing for words whose forms have one stem."""
    return tuple(form for form in _forms().get(word, ()) if form != word)
