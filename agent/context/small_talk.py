"""Patterns of what people say in passing: small talk, requests of the moment, questions, comments on an answer; in seven languages.

And patterns of sentences that tell something of a person or a thing: in the first person, or with a subject in front.
"""

from __future__ import annotations

import re
from functools import cache

_SMALL_TALK = (
    # thanks, greetings, assent
    r"(?:vielen dank|herzlichen dank|besten dank)|(?:many |oh |ok(?:ay)?,? |super,? |great,? |no,? |nein,? |non,? )?(?:thanks?|"
    r"thank you|thx|danke|merci|gracias|grazie|obrigad[oa]|bedankt|dank je)"
    r"(?: (?:a lot|so much|very much|again|dir|dir sehr|schön|beaucoup|à toi|mille|you))?|"
    r"(?:muchas|mille|tante) gra\w+|muito obrigad[oa]|"
    r"(?:hello|hi|hey|hallo|hej|salut|bonjour|hola|ciao|olá)(?: \w+){0,2}|"
    r"(?:good|guten?|gute|bonne?|buen[oa]s?|buon[ao]?|boa|bom|goede?n?) ?(?:morning|night|evening|day|luck|morgen|tag|abend|nacht|"
    r"nuit|journée|soirée|"
    r"d[ií]as|noches|tardes|notte|giorno|sera|noite|dia|nacht|avond)|"
    r"(?:see you|bis|à|hasta|a|até|tot) (?:tomorrow|later|soon|morgen|später|bald|gleich|demain|bientôt|plus tard|mañana|luego|domani|"
    r"presto|amanhã|logo)|"
    r"(?:that|this|it|das|jetzt|ça|c['’]est|c['’]était|eso|questo|isso|dat)?\s*(?:['’]s|is|was|ist|ist es|war|sounds?|looks?|klingt|"
    r"helps?|hilft|will do)?\s*"
    r"(?:great|good|better|best|fine|nice|funny|perfect|interesting|cool|lovely|right|wrong|enough|gut|besser|super|prima|toll|schön|"
    r"lustig|perfekt|"
    r"interessant|richtig|falsch|genug|bien|mieux|drôle|parfait|intéressant|juste|faux|perfetto|perfecto)(?: (?:mir|now|jetzt|"
    r"maintenant|gemacht|joué|aus|me))?|"
    r"(?:(?:that|it) (?:helps|works)|das (?:hilft|passt|geht|reicht|gefällt)(?: mir)?|ça (?:m['’]aide(?: bien)?|me va|me plaît|marche|"
    r"suffit))|"
    r"(?:yes|no|ja|nein|oui|non|sí|si|sì|sim|não|nee|ok(?:ay)?|bon|na)(?:,? (?:please|bitte|s['’]il (?:te|vous) plaît|gut|d['’]accord|"
    r"then|por favor|per favore))?|"
    r"(?:no|kein|pas de|ningún|nessun|sem|geen) (?:problem\w*|problème)|not (?:really|yet|at all|sure)|never mind|nicht wirklich|"
    r"noch nicht|schon gut|"
    r"pas (?:vraiment|encore|grave)|peu importe|da igual|non importa|doesn['’]t matter|whatever.*|"
    r"(?:it|that|das|es|ça|cela) (?:doesn['’]t|does not|macht nichts|ne fait rien).{0,12}|wie du meinst|comme tu veux|as you (?:like|"
    r"wish)|"
    r"(?:you|dir|toi|euch|vous|tu) (?:too|auch|aussi)|who knows|wer weiß|qui sait|well done|gut gemacht|bien joué|"
    r"(?:what|was für|quelle?) (?:an? |ein )?(?:day|tag|journée)|mal sehen|let(?:['’]s| us) see|voyons(?: voir)?|vamos a ver|vediamo|"
    r"(?:sorry|entschuldig\w*|désolée?|pardon|excuse me|perdón|scusa)(?: (?:to|about|for|für|pour|por|per)\b.{0,30})?|"
    r"(?:ha(?:ha)+\b|ha,).{0,30}|(?:allez,? )?on y va|los geht['’]?s|andiamo|"
    r"(?:you|du|tu) (?:are|['’]re|hast|as) (?:so )?(?:right|recht|raison|wrong)|"
    r"i was (?:away|out|busy)|ich war weg|j['’]étais (?:partie?|absente?)|"
    r"(?:one more thing|noch etwas|encore une chose|una cosa más|un['’]altra cosa)|"
    # of the speaker's own state in the talk
    r"(?:and |but )?i(?: (?:really|still|just))? (?:see|understand|guess|suppose|think so(?: too)?|hope so|get it|agree|wonder|know)|"
    r"i (?:don['’]t|do not) (?:know|understand|care|think so|get it)(?: yet)?|"
    r"i(?: am|['’]m) (?:not sure|back|here|bored|ready|done|confused|curious|sorry|listening|tired|fine|happy|glad)(?: (?:again|now|"
    r"too|yet))?|"
    r"i was (?:just )?wondering.{0,30}|"
    r"i (?:have|['’]ve got) (?:a|another|one more) (?:question|idea|request)|"
    r"i need (?:your |some |a bit of )?(?:help|moment)\b.{0,12}|"
    r"i(?: will|['’]ll) (?:be (?:right )?back|think about it|let you know|try(?: it| that)?|have a look)|"
    r"i(?: would|['’]d) like (?:to (?:know|ask|see|hear|understand|learn)|you to)\b.*|"
    r"i (?:really )?(?:like|love|hate) (?:it|that|this|them)|"
    r"ich (?:weiß(?: es)? nicht|verstehe(?: das)?(?: nicht)?|hoffe(?: es)?|glaube (?:schon|nicht)|denke schon|"
    r"bin (?:nicht (?:ganz )?sicher|(?:gleich )?(?:wieder )?(?:da|hier|zurück)|"
    r"bereit|fertig|müde|neugierig)|liebe es|habe (?:noch )?eine (?:frage|bitte|idee)|brauche (?:mal )?(?:deine |etwas )?hilfe|"
    r"(?:habe|hab) mich nur gefragt|überlege noch)|"
    r"ich (?:möchte|würde gern|will) (?:gern )?(?:mehr wissen|wissen|(?:dich|dir) etwas|etwas fragen|verstehen)\b.*|das (?:denke|"
    r"finde|glaube) ich auch|"
    r"(?:das|so) (?:meinte|meine|wollte) ich nicht|mir ist langweilig|lass mich (?:\w+ )?(?:überlegen|nachdenken|sehen)|verstehe|"
    r"(?:je|j['’]) ?(?:vois|comprends|sais|espère|adore|m['’]ennuie|le pense aussi|pense que oui|suis (?:là|de retour|prête?|perdue?|"
    r"fatiguée?)|reviens(?: tout de suite)?|"
    r"ai (?:une (?:autre )?(?:question|idée)|besoin de (?:ton |votre )?(?:aide)\b.{0,10})|me (?:le )?demand\w+(?: juste)?)|"
    r"je ne (?:sais|comprends|crois|suis)(?: pas)(?: (?:sûre?|trop|bien))?|je n['’]en sais rien|"
    r"(?:je voudrais|j['’]aimerais|je veux) (?:en |te |vous )?(?:savoir|demander|poser|voir|comprendre)\b.*|"
    r"c(?:e n)?['’]est pas (?:ce que|ça)\b.*|on peut en parler|laisse-moi \w+|tu es là|qu['’]en (?:penses-tu|dis-tu)|"
    r"no (?:sé|entiendo|importa|pasa nada)|entiendo|ya veo|tengo una (?:pregunta|duda)|non (?:so|capisco|importa)|capisco|"
    r"ho una domanda|não sei|entendi|ik (?:snap|begrijp) het|"
    r"ik weet het niet|"
    # comments on an answer
    r"(?:the|this|that|your|der|die|das|dein\w*|le|la|l['’]|ta|ton|cette|ce)\s?(?:(?:last|first|new|letzte|erste|dernière) )?(?:text|"
    r"answer|title|list|summary|translation|version|draft|"
    r"sentence|paragraph|tone|antwort|titel|liste|zusammenfassung|übersetzung|fassung|entwurf|satz|absatz|ton|texte|réponse|titre|"
    r"résumé|traduction|phrase|paragraphe)"
    r" (?:is|are|was|looks|sounds|ist|war|sieht|klingt|est|était|semble) (?:(?:still|noch|encore|much|viel) )?(?:too|zu|trop|wrong|"
    r"right|good|great|better|fine|perfect|not|"
    r"falsch|richtig|gut|besser|perfekt|nicht|fausse?|bonne?|bien|mieux|parfaite?)\b.*|"
    r"(?:this|that|it|das|es|c['’]est|ça)(?:['’]s)? ?(?:is|looks|sounds|ist|sieht|klingt|a l['’]air|war|was)? ?(?:(?:much|still|all|"
    r"noch|viel) )?"
    r"(?:too|zu|trop|wrong|falsch|faux) ?\w*(?: aus)?|"
    r"(?:(?:that|this|das)(?:['’]s| is| was|) )?not what i\b.*|(?:nicht|pas) (?:ganz|tout à fait)|not quite|aucune idée|keine ahnung|"
    r"no idea|ni idea|nessuna idea|"
    r"(?:it|this|that|es|das|jetzt|ça|c['’]|(?:the|der|die|das|le|la|el|il) (?:first|second|third|last|new|other|erste|zweite|dritte|"
    r"letzte|neue|andere|première|premier|deuxième|troisième|dernière|autre|primera|segunda|otra|prima|seconda)(?: (?:one|version|"
    r"fassung))?) ?(?:is|are|was|sounds|looks|ist|sind|war|klingt|est|sont|era|es|è) (?:(?:much|viel|bien|mucho|molto) )?(?:better|"
    r"besser|mieux|meilleure?s?|mejor|meglio)|"
    r"(?:(?:i|ich|je) (?:really )?(?:mean|meant|liked?|meinte|meine|parlais|parle|veux dire|aime(?: bien)?)|j['’]aime(?: bien)?|"
    r"mir gefällt|me gusta|mi piace) (?:the|de[nrs]?|die|das|le|la|l['’]|de l['’]|el|il)\s?"
    r"(?:first|second|third|last|other|new|old|erste\w*|zweite\w*|dritte\w*|letzte\w*|andere\w*|neue\w*|première?|premier|deuxième|"
    r"second\w?|troisième|dernière?|autre|primer\w|segund\w|otr\w|prim\w|altr\w)"
    r"(?: (?:one|version|idea|part|fassung|idee|teil|idée|partie))?|"
    r"i (?:don['’]t|didn['’]t|do not) (?:get|understand) the \w+ (?:part|bit|sentence|one)|den \w+ (?:teil|satz) verstehe ich nicht|"
    r"je n['’]ai pas compris(?: la fin| le début| la \w+)?|"
    r"(?:that|das|c['’]était|c['’]est|ça) ?(?:was|war|ging|went)? (?:really |sehr |très )?(?:fast|quick|schnell|rapide|nett|nice|kind|"
    r"gentil|vrai|true|stimmt|clear|klar|clair)(?: (?:of you|von dir|de ta part))?|"
    r"you did (?:well|great)|das hast du (?:gut|toll|super) gemacht|tu as bien fait|exactement|genau(?: so)?|exactly|"
    r"(?:let(?:['’]s| us)|we can|lasst? uns|wir können|on peut|nous pouvons) (?:hier |now |here )?(?:continue|go on|move on|talk|stop|"
    r"start|begin|weitermachen|aufhören|anfangen|reden|"
    r"arrêter|s['’]arrêter|continuer|parler|commencer)(?: (?:here|now|there|then|là|ici|about something else|d['’]autre chose))?|"
    r"machen wir (?:weiter|schluss)|(?:reden|sprechen) wir über (?:etwas|was) anderes|"
    r"parlons d['’]autre chose|continuons|arrêtons(?: là)?|reprenons|commençons|"
    r"(?:that |it )?makes sense|(?:das )?ergibt sinn|c['’]est logique|got it|(?:das )?(?:ich )?(?:hab|habe) (?:ich )?(?:es |"
    r"das )?verstanden|j['’]ai (?:bien )?compris|ça marche(?: comme ça)?|(?:coole?|gute|tolle|cool|nice|good|great|"
    r"bonne) (?:idea|idee|idée)|(?:all )?(?:alles klar|alright|d['’]accord)\b.{0,12}|"
    r"(?:in|auf|en) [a-zäöüßéèêç]+,? (?:please|bitte|s['’]il (?:te|vous) plaît)|(?:some |ein paar )?(?:more|less|fewer|mehr|weniger|"
    r"plus|moins|shorter|longer|kürzer|länger)\b.{0,30}"
    r"(?:please|bitte|s['’]il (?:te|vous) plaît)|(?:any|some)?(?:thing )?(?:else|other ideas)|anything else|any other ideas|"
    r"(?:sonst noch|autre chose)\b.{0,10}|"
    r"(?:that|this|das|dies|c['’]est) ?(?:is|are|sind|ist)? ?(?:(?:a|une|un|eine?) )?(?:great|good|bad|gute|schlechte|bonne|"
    r"mauvaise) (?:news|idea|neuigkeit\w*|nachricht\w*|idee|nouvelle|idée)"
)
_INTERJECTION = (
    r"^(?:(?:yes|no|ok(?:ay)?|great|good|well|oh|ah|hm+|so|wait|sorry|thanks|hi|hello|warte|entschuldige|danke|hallo|"
    r"attends|désolée?|pardon|merci|bonjour|salut|ja|nein|gut|na ja|oui|non|bon|bien|alors|sí|no|sì|vale|bene|nee),\s)+"
)
_QUESTION_START = r"(?:and |und |et |y |e |hm+,? |so |but |aber |mais )?"
_QUESTION_WORD = (
    r"(?:what|why|how|which|who|whose|where|when|was|warum|wieso|wie|welche\w*|wer|wo|wann|wozu|comment|pourquoi|quoi|quand|laquelle|"
    r"lequel|combien|quels?|quelles?|qui|où|"
    r"que|cómo|qué|por qué|cuál|quién|come|cosa|perché|quale|como|o que|porque|qual|wat|waarom|hoe|welke)\b"
)
"""How a question begins that ends without a mark; with a full stop it is none ("What I want is a garden.")."""
_QUESTION = (
    r"(?:(?:can|could|would|will|do|does|did|are|have|should|may) (?:you|i|we|it|they|there)\b|(?:is|was|does|did|do|has) (?:it|this|"
    r"that|there|he|she|you)\b|"
    r"(?:kannst|könntest|würdest|bist|hast|weißt|magst|willst) du\b|(?:können|könnten|sollen|wollen) (?:wir|sie)\b|"
    r"(?!\w+ment\b)\w+(?:e?st|t) (?:du|es|er|ihr|man)\b|(?:geht|ist|passt|stimmt) das\b|"
    r"est-ce qu|qu['’](?:est|en)|(?:peux|pourrais|es|as|sais|veux|penses)-tu\b|(?:tu|vous) (?:connais\w*|sais|as une idée)\b|"
    r"(?:puedes|podrías|puoi|potresti|pode|kun je|kan je)\b)"
)
_POLITE = r"(?:(?:please|bitte|ok(?:ay)?|and|und|et|now|jetzt|then|dann),? )*"
_REQUEST = (
    r"(?:show|tell me|explain|write|translate|summari[sz]e|list|search|look|open|read|check|try|give me|send me|repeat|continue|"
    r"go (?:on|ahead)|compare|find|draft|fix|"
    r"shorten|rewrite|rephrase|add|remove|delete|make (?:it|the|this|that|me)|run|stop|cancel (?:that|it|this)|do (?:it|that|this|so)|"
    r"help|let me|wait|sing|play|be more|print|"
    r"count|calculate|convert|correct|improve|describe|suggest|recommend|start|restart|undo|update|please be|say|use (?:bullet|"
    r"a table|simple|short|fewer|more)|sum|put (?:it|the|this|that)|turn (?:it|this|that)|(?!we|i|he|she|they|you|\w+ing\b)\w+ (?:it|"
    r"this|that)|"
    r"montre|traduis|écris|rends|résume|donne|explique|laisse|attends|essaie|vérifie|cherche|lis|ouvre|relance|arrête|annule (?:ça|"
    r"cela)|fais|continue|raconte|chante|dis-(?:moi|m['’]en)|"
    r"préviens|aide|corrige|trouve|compare|sois|raccourcis|ajoute|enlève|supprime|vas-y|calcule|améliore|utilise|mets|recommence|"
    r"réessaie|\w+(?:-(?:le|la|les|en))|"
    r"muéstrame|escribe|traduce|resume|explica\w*|busca|abre|lee|repite|dame|dime|ayúdame|espera|para|añade|quita|"
    r"mostrami|scrivi|traduci|riassumi|spiega\w*|cerca|apri|leggi|ripeti|dammi|dimmi|aiutami|aspetta|aggiungi|togli|"
    r"mostra|escreve|traduz|explica|procura|lê|repete|diz-me|ajuda|espera|"
    r"laat|schrijf|vertaal|vat|leg uit|zoek|lees|herhaal|geef|help|wacht)\b"
)
_NO_SUBJECT = r"(?!\w+ (?!that|this|it)\w+ (?:is|are|was|were)\b)"
"""No noun ("Open fires are", "List price was")."""
_GERMAN_REQUEST = (
    r"(?:zeig|erkläre?|schreibe?|übersetze?|fass|such|öffne|lies|lese|prüfe?|versuche?|gib mir|schick mir|wiederhole?|mach (?:es|das|"
    r"den|die|weiter|mir)|vergleiche?|finde|füge?|streiche?|lösche?|"
    r"starte|stopp?|brich|tu (?:es|das)|leg los|weiter|hilf|lass mich|warte|sing|spiel|sei (?:bitte )?\w+er|liste|erzähle? mir|"
    r"sag (?:mir|bescheid)|schlag|kürze|ergänze|ändere|berechne|rechne|"
    r"bitte sei|sag das|nimm stich\w+|stelle? (?:das|die|den)|mach (?:\w+ )*da?raus|fang|korrigiere?|verbessere?|beschreibe?)\b"
)
_STANDING = (
    r"\b(?:always|never|every|whenever|from now on|in future|at all times|only|immer|nie|niemals|jede[nsr]?|ab jetzt|ab sofort|"
    r"künftig|in zukunft|nur|toujours|jamais|"
    r"désormais|dorénavant|chaque|seulement|siempre|nunca|sempre|altijd|nooit)\b|wenn ich\b|when i\b|quand je\b"
)
_FIRST_PERSON = (
    r"\b(?:i|i['’](?:m|ve|d|ll)|we|we['’](?:re|ve|d|ll)|my|mine|our|ours|ich|wir|mir|mich|uns|mein\w*|unser\w*|je|nous|mon|ma|mes|"
    r"notre|nos|moi|"
    r"yo|nosotr[oa]s|mi|mis|nuestr[oa]s?|me|he|hemos|tengo|tenemos|soy|somos|estoy|estamos|quiero|queremos|voy|vamos|prefiero|vivo|"
    r"trabajo|"
    r"prometo|odio|odeio|prometto|detesto|ci|io|noi|mio|mia|miei|mie|nostr[oaie]|ho|abbiamo|sono|siamo|voglio|vorrei|preferisco|odio|"
    r"eu|nós|meus?|minhas?|noss[oa]s?|tenho|sou|estou|quero|vou|temos|somos|"
    r"ik|wij|mijn|ons|onze)\b|\b(?:j|m)['’]|^on (?:a|s['’]|va|se|ne|n['’]|m['’]|nous|prend|\w+e\b)|^\w{3,}(?:amos|emos|imos|iamo)\b|"
    r"^\w{3,}(?:é|í)\b"
)
_SUBJECT = (
    r"^(?:the|an?|he|she|they|his|her|their|some(?:one|body)|any(?:one|body)|nobody|no one|every(?:one|body)|there (?:is|are)|only|"
    r"both|you (?:may|can|must|should)|it (?:is|has|was|must|needs|turned)|"
    r"der|die|das \w+ (?!ich)|ein|eine|er|sie|sein\w*|ihre?|jemand|niemand|nur|es (?:ist|gibt|muss|war|wird)|du (?:darfst|kannst|"
    r"musst|sollst)|"
    r"le|la|les|un|une|des|ils?|elles?|quelqu['’]un|personne|seule?s?|il y a|c['’](?:est|était)|seulement|tu (?:peux|dois|pourras)|"
    r"el|los|las|una|unos|él|ella|ellos|alguien|nadie|hay|lo|gli|i|lui|lei|loro|qualcuno|nessuno|o|a|os|as|um|uma|eles?|elas?|alguém|"
    r"ninguém|"
    r"de|het|een|hij|zij|ze|iemand|niemand)\s+\S+\s+\S+|^l['’]\w+\s+\S+|"
    r"^\w+ (?:is|are|was|were|has|have|had|ist|sind|war|hat|haben|liegt|steht|hängt|wird|wurde|est|sont|a|ont|es|está|son|è|são|staat|"
    r"ligt) \w+"
)
_LEAST_WORDS = 4
"""So many words tell something, whatever their form, unless they begin as a comment does."""
_COMMENT = (
    r"(?:it|it['’]s|that|that['’]s|th[oe]se|this|you\w*|you['’]\w+|glad|good|great|nice|thanks?|congrat\w*|wish(?:ing)?|feel|hope|"
    r"sounds?|looks?|see(?:ing)?|being|having|wow|yeah|hey|"
    r"sorry|appreciate|maybe|if|talk|let|here['’]?s?|there['’]s|so|such|how|what|can['’]?t|been|got|gonna|and|but|"
    r"das|es|dies\w*|du|dein\w*|schön|toll|gut|danke|freut|viel|super|vielleicht|wenn|"
    r"ça|cela|ce|c['’]\w+|tu|ton|ta|tes|vous|votre|contente?|bravo|merci|bonne?|si|peut-être|"
    r"eso|esto|es|tú|gracias|questo|quello|è|grazie|isso|isto|obrigad[oa]|dat|dit|je|jouw|fijn|leuk)\b"
)
_CODE = re.compile(r"[(){}\[\]=;<>|]|:$")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def is_small_talk(sentence: str) -> bool:
    """Whether a sentence is small talk, a question or a comment on an answer."""
    bare = without_interjection(sentence)
    return bool(_compiled(_SMALL_TALK).fullmatch(bare) or _is_question(sentence, bare))


def _is_question(sentence: str, bare: str) -> bool:
    if _compiled(_QUESTION_START + _QUESTION).match(bare):
        return True
    return sentence[-1:].isalnum() and bool(_compiled(_QUESTION_START + _QUESTION_WORD).match(bare))


def is_request(sentence: str) -> bool:
    """Whether a sentence asks for something to be done now, not from now on."""
    verbs = f"{_POLITE}(?:{_GERMAN_REQUEST}|{_NO_SUBJECT}{_REQUEST})"
    return bool(_compiled(verbs).match(without_interjection(sentence))) and not is_standing(sentence)


def is_german_request(sentence: str) -> bool:
    """Whether it is one in German, whose nouns look like names."""
    return bool(_compiled(_POLITE + _GERMAN_REQUEST).match(without_interjection(sentence)))


def is_standing(sentence: str) -> bool:
    """Whether a sentence says what holds from now on."""
    return bool(_compiled(_STANDING).search(sentence))


def without_interjection(sentence: str) -> str:
    """Return a sentence without a yes, a no or the like before its first comma, and without marks around it."""
    return _compiled(_INTERJECTION).sub("", sentence.strip(" .!…\"'“”„"), count=1)


def declares(sentence: str) -> bool:
    """Whether a sentence is in the first person, has its subject in front, or is long and no comment."""
    bare = without_interjection(sentence)
    if _compiled(_FIRST_PERSON).search(bare) or _compiled(_SUBJECT).match(bare):
        return True
    return len(bare.split()) >= _LEAST_WORDS and not (_compiled(_COMMENT).match(bare) or is_code(bare))


def is_code(sentence: str) -> bool:
    """Whether a sentence has signs of a program."""
    return bool(_CODE.search(sentence))
