"""Stop words by language: they are ignored in queries.

The lists are our own and short: the words that questions are made of. A language without a list loses little, because frequent
words weigh little anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

_ENGLISH = (
    "a about after again all also am an and any are aren as at be because been before being between both but by can "
    "cannot could couldn d did didn do does doesn doing don down during each else ever few for from further get gets "
    "getting got had hadn has hasn have haven having he her here hers herself him himself his how however i if in into is "
    "isn it its itself just ll m me might mightn more most much must mustn my myself no nor not of off on once only or "
    "other our ours ourselves out over own please re s same shall shan she should shouldn so some such t tell than that "
    "the their theirs them themselves then there these they this those through to too under until up upon ve very was "
    "wasn we weren were what when where which while who whom whose why will with won would wouldn yet you your yours "
    "yourself yourselves"
)
_OTHERS = {
    "German": (
        "aber als am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den denn der des die dir doch du "
        "durch ein eine einem einen einer eines er es für gab gibt hab habe haben hast hat hatte hatten ich ihr ihre im in ins "
        "ist ja kann kannst können man mein meine mich mir mit nach nicht noch nun nur ob oder schon sein seine sich sie sind "
        "so über um und uns unser unsere unter vom von vor wann war waren warum was wegen weil welche welchem welchen welcher "
        "welches wem wen wenn wer werden wie wir wird wo woher wohin womit wurde wurden zu zum zur zwischen"
    ),
    "French": (
        "a ai as au aux avais avait avec avez avons c ce ces cet cette chez comment d dans de des donc du elle elles en es est "
        "et eu fait il ils j je l la le les leur leurs lui m ma mais me mes moi mon n ne nos notre nous on ont ou où par pas "
        "pour pourquoi qu quand que quel quelle quelles quels qui s sa sans se sera ses son sont suis sur t ta te tes toi ton "
        "tu un une vos votre vous y à été était"
    ),
    "Spanish": (
        "a al algo ante con cuál cuáles cuándo cuánto cuántos cómo de del desde dónde e el ella ellos en entre era eran es esa "
        "ese eso esta estaba este esto está están fue fueron ha han hasta hay he la las le les lo los me mi mis más muy no nos "
        "nuestra nuestro o para pero por porque qué que quien quién se ser si sin sobre son su sus sí también te tenía tiene "
        "tu tus tú un una unas uno unos y ya yo"
    ),
    "Italian": (
        "a abbiamo ai al alla alle anche c che chi ci come con cosa cui d da dal dalla dei del della delle di dove e ed era "
        "erano fu gli ha hai hanno ho i il in io l la le lei lo loro lui ma mi mia mio ne nei nel nella noi non nostra nostro "
        "o per perché più qual quale quali quando quanto quello questa questo se sei si sono su sua sul sulla suo ti tra tu tua "
        "tuo un una uno è"
    ),
    "Portuguese": (
        "a ao aos as até com como da das de dela dele do dos e ela eles em entre era essa esse esta este está eu foi foram há "
        "isso já lhe mais mas me meu minha muito na nas nem no nos nossa nosso não o onde os ou para pela pelo por porque "
        "qual quais quando quanto que quem se sem ser seu sobre sua são também te tem tinha um uma você à é"
    ),
    "Dutch": (
        "aan al als bij dat de den der deze die dit door een en er ge had hadden heb hebben heeft hem het hij hoe hun ik in is "
        "je kan maar me met mij mijn na naar niet nog nu of om omdat onder ons ook op over te tot uit u van vanaf voor waar "
        "waarom wanneer waren was wat we welke wel werd wie wij wordt worden ze zich zij zijn zo"
    ),
    "Swedish": (
        "alla att av blev de dem den denna det dig din du där efter ej eller en er ett från för ha hade han har hon hur i "
        "ingen inte jag kan man med men mig min mitt mot många ni nu när någon något och om oss på sig sin som till under upp "
        "ut vad var vart varför vem vi vid vilka vilken vilket våra än är åt"
    ),
    "Polish": (
        "a aby ale ani bo by być był była było były ci co czego czy dla do gdy gdzie go i ich ile im ja jak jaka jaki jakie je "
        "jego jej jest już kiedy kogo kto która które który lub ma mi mnie mu my na nad nas nasz nie niej o od po pod przez przy "
        "się są ta tak tam te tego tej ten to tu ty tym u w was we wy z za ze że"
    ),
    "Russian": (
        "а без бы был была были было в вас во вот все всё вы где да для до его ее если есть еще ещё её же за зачем и из или им "
        "их к как какая какие какой какую ко когда кого кто куда ли мне мной мой моя мы на над нам нас наш не нет ни но о об "
        "он она они от откуда по под почему при про с сколько со так там то тоже ты у уже чего чей чем что чтобы это этот я"
    ),
    "Arabic": (
        "أن أنا أنت أو أي أين إذا إلى إن التي الذي الذين الى ان انا اين بعد بين ثم حتى حول ذلك عن عند عندما على فقط في قبل قد كان "
        "كانت كل كم كنت كيف لا لأن لقد لم لماذا لن له لها ليس ما ماذا متى مع من منذ نحن هذا هذه هل هم هنا هناك هو هي و يا يكون"
    ),
}
_HAN = frozenset("的了是在吗呢吧啊和与我你您他她它们这那哪谁什么怎样为何有没不就都也很还要会能可以把被对从到几多少")
_HAN_PAIRS = frozenset(["时候", "時候", "什麼", "甚麼", "怎么", "哪里", "哪裡"])
_KOREAN = ("누구", "무엇", "뭐", "어디", "언제", "어떻", "어떤", "왜", "얼마", "몇", "우리", "나의", "내가")


@cache
def _lists() -> dict[str, frozenset[str]]:
    """The stop words of each language, English first. An idle gateway does without."""
    return {name: frozenset(words.split()) for name, words in (("English", _ENGLISH), *_OTHERS.items())}


def english() -> frozenset[str]:
    """Return those of English."""
    return _lists()["English"]


@cache
def _languages() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, words in _lists().items():
        for word in words:
            found.setdefault(word, []).append(name)
    return found


def is_one(word: str) -> bool:
    """Return whether a word in lower case is a stop word of any language, or made of several ("we'll")."""
    return all(part in _languages() for part in word.split("'"))


def of(words: Sequence[str]) -> frozenset[str]:
    """Return the stop words of the language of a query, which is the one with the most matches; English in case of a tie."""
    asked = set(words)
    best, most = frozenset[str](), -1
    for own in _lists().values():
        count = len(asked & own)
        if count > most:
            best, most = own, count
    return best


def language(words: Iterable[str]) -> tuple[str, int]:
    """Return the language with the most stop words among ``words`` in lower case, and their number; English in case of a tie."""
    counts = {"English": 0}
    languages = _languages()
    for word in words:
        for name in languages.get(word, ()):
            counts[name] = counts.get(name, 0) + 1
    return max(counts.items(), key=lambda one: one[1])


def content_bigrams(run: str, pairs: Sequence[str]) -> list[str]:
    """Return the bigrams of a run that carry its subject; ``run`` is text without spaces.

    Ignored are in Japanese the kana beside ideographs, in Korean the endings of words, and in Chinese some characters.
    """
    if "\uac00" <= run[0] <= "\ud7af":
        return [] if run.startswith(_KOREAN) else list(pairs[:1])
    ideographs = any("\u3400" <= character <= "\u9fff" for character in run)
    kept = [pair for pair in pairs if not _HAN & set(pair) and pair not in _HAN_PAIRS]
    return [pair for pair in kept if not ideographs or not any("\u3040" <= character <= "\u309f" for character in pair)]
