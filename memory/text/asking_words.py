"""Words of a question that say little about its subject, and its names: what decides whether notes are relevant to it.

The lists are our own: besides stop words, the verbs, adverbs and nouns that questions of any kind are made of.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from memory.text import stop_words
from memory.text.folding import folded
from memory.text.stems import stem

_WORDS = {
    "English": (
        "say says said tell tells told make makes made go goes going gone went take takes taken took come comes came know knows "
        "knew known think thinks thought see sees saw seen look looks looked want wants wanted give gives gave given use uses used "
        "find found call called try tried ask asked need needs needed feel feels felt become became leave leaves left put keep "
        "keeps kept let begin begins began begun start starts started seem show shows showed shown hear heard happen happens "
        "happened mean means meant bring brings brought hold held stand stands stood like likes liked work works worked pay pays "
        "paid cost costs buy bought live lives lived stay stays stayed set turn turns turned run runs ran move moved meet met "
        "plan planned plans decide decided consider considered describe mention mentioned likely now many long often kind kinds "
        "type types sort name names number numbers thing things something anything anyone someone everything way time times lot "
        "old new good great big last first one two always never still already today currently recently usually around away back "
        "together instead well really even"
    ),
    "German": (
        "sagen sagt sagte gesagt machen macht machte gemacht gehen geht ging gegangen kommen kommt kam gekommen nehmen nimmt nahm "
        "genommen geben gibt gab gegeben sehen sieht sah gesehen wissen weiß wusste heißen heißt hieß lassen lässt ließ stehen "
        "steht stand gestanden finden findet fand gefunden liegen liegt lag bleiben bleibt blieb halten hält hielt gehalten "
        "bekommen bekommt bekam kriegen kriegt brauchen braucht brauchte kosten kostet kostete bezahlen bezahlt zahlen zahlt "
        "gezahlt laufen läuft lief gelaufen fahren fährt fuhr gefahren bringen bringt brachte gebracht tun tut tat getan wollen "
        "will wollte sollen soll sollte müssen muss musste dürfen darf mögen nennen nennt genannt lautet gehört kaufen kauft "
        "gekauft arbeiten anfangen beginnen beginnt begann nutzen nutzt benutzen wohnen wohnt passieren passiert passierte "
        "geschah viel viele vielen oft lange lang alt neu neue neuen gut hoch groß jetzt heute immer nie wieder zurück weg ab los "
        "hin her beim dabei eigentlich denn mal art name namen nummer ding sache zeit"
    ),
    "French": (
        "dire dit disait faire fait faisait aller va allait allé venir vient venu prendre prend pris donner donne donné voir voit "
        "vu savoir sait vouloir veut voulait pouvoir peut pouvait devoir doit devait faut mettre met mis appeler appelle trouver "
        "trouve trouvé rester reste resté passer passe passé arriver arrive arrivé laisser laisse parler parle coûter coûte coûté "
        "payer paie payé acheter acheté tenir tient habiter habite commencer commence utiliser utilise combien beaucoup peu "
        "souvent maintenant toujours jamais encore déjà nouveau nouvelle vieux vieille bon bonne bien grand nom numéro type sorte "
        "genre chose lequel laquelle"
    ),
    "Spanish": (
        "decir dice dijo dicho hacer hace hizo hecho ir va iba ido venir viene vino tomar toma tomó dar da dio dado ver ve vio "
        "visto saber sabe querer quiere quería poder puede podía deber debe poner pone puso puesto llamar llama llaman encontrar "
        "encontró quedar queda pasar pasa pasó pasado llegar llega llegó dejar deja dejó hablar costar cuesta costó pagar paga "
        "pagué pagó comprar compró compré tener tengo tuvo vivir vive empezar empieza usar usa cuál cuánta cuántas mucho mucha poco "
        "ahora siempre nunca todavía nuevo nueva viejo vieja bueno buena grande nombre número tipo clase cosa vez veces"
    ),
    "Italian": (
        "dire dice disse detto fare fa faceva fatto andare va andato venire viene venuto prendere prende preso dare dà dato vedere "
        "vede visto sapere sa volere vuole voleva potere può poteva dovere deve mettere mette messo chiamare chiama chiamano "
        "trovare trova trovato restare resta rimane rimasto passare passa passato arrivare arriva lasciare lascia parlare costare "
        "costa costato pagare paga pagato comprare compra comprato tenere tiene vivere vive abitare abita cominciare comincia "
        "inizia usare usa quali quanta quanti quante molto molta poco ora adesso sempre mai ancora nuovo nuova vecchio vecchia "
        "buono buona grande nome numero tipo genere cosa volta volte"
    ),
}
_NOUNS_HAVE_CAPITALS = "German"
_WORD = re.compile(r"[^\W_]+")
_INSIDE = re.compile(r"(?<=[\w,;:)’'\"-] )[\"'(«„“]?([^\W\d_]\w*)")
"""A word that does not begin a sentence."""


class AskingWords(NamedTuple):
    """The words of a question that say little about its subject, and those that are names by their capital, by their stems."""

    usual: frozenset[str]
    names: frozenset[str]


@cache
def _usual(language: str) -> frozenset[str]:
    return frozenset(stem(folded(word), "") for word in _WORDS.get(language, "").split())


def asking_words(question: str) -> AskingWords:
    """Return those of a question. One without stop words, in capitals throughout, or in a language whose nouns have them, has no names."""
    words = _WORD.findall(question)
    language, stopped = stop_words.language(word.lower() for word in words)
    usual = _usual(language).intersection(stem(folded(word), "") for word in words)
    inside = _INSIDE.findall(question)
    capitals = {stem(folded(word), "") for word in inside if word[0].isupper()}
    told = stopped and language != _NOUNS_HAVE_CAPITALS and any(word[0].islower() for word in inside)
    return AskingWords(usual, frozenset(capitals) if told else frozenset())
