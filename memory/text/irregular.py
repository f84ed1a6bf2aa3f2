"""Words of five languages whose forms have no common stem: a question has "buy" or "leihen", and the note "bought" or "geliehen"."""

from __future__ import annotations

from functools import cache

from memory.text.folding import folded

_ENGLISH = (
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

_GERMAN = (
    "fahren fährt fuhr fuhren gefahren;nehmen nimmt nahm nahmen genommen;geben gibt gab gaben gegeben;essen isst aß aßen gegessen;"
    "trinken trank tranken getrunken;lesen liest las lasen gelesen;vorlesen vorgelesen;sehen sieht sah sahen gesehen;"
    "laufen läuft lief liefen gelaufen;weglaufen weggelaufen;schreiben schrieb schrieben geschrieben;leihen lieh liehen geliehen;"
    "verleihen verlieh verliehen;gießen gießt goss gossen gegossen;bringen brachte brachten gebracht;mitbringen mitgebracht;"
    "denken dachte dachten gedacht;kommen kam kamen gekommen;gehen ging gingen gegangen;stehen stand standen gestanden;"
    "finden fand fanden gefunden;fallen fällt fiel fielen gefallen;sprechen spricht sprach sprachen gesprochen;"
    "brechen bricht brach brachen gebrochen;treffen trifft traf trafen getroffen;helfen hilft halfen geholfen;"
    "werfen wirft warf warfen geworfen;sterben stirbt starb starben gestorben;verlieren verlor verloren;"
    "gewinnen gewann gewannen gewonnen;schneiden schnitt schnitten geschnitten;streichen strich gestrichen;"
    "schließen schließt schlossen geschlossen;fressen frisst fraßen gefressen;schlafen schläft schlief schliefen geschlafen;"
    "tragen trägt trug trugen getragen;waschen wäscht wusch gewaschen;backen bäckt gebacken;ziehen zog zogen gezogen;"
    "umziehen umgezogen;fliegen flog flogen geflogen;bleiben blieb blieben geblieben;steigen stieg stiegen gestiegen;"
    "rufen rief riefen gerufen;anrufen angerufen;heißen hieß geheißen;lassen lässt ließ ließen gelassen;halten hält hielt gehalten;"
    "schwimmen schwamm geschwommen;singen sang sangen gesungen;springen sprang gesprungen;werden wurde wurden geworden;"
    "wissen weiß wusste gewusst;kennen kannte gekannt;brennen brannte gebrannt;liegen lag lagen gelegen;sitzen saß saßen gesessen;"
    "reißen riss gerissen;beißen biss gebissen;frieren fror gefroren;stehlen stiehlt stahl gestohlen;vergessen vergisst vergaß vergaßen;"
    "schieben schob geschoben;wiegen wog gewogen;reiten ritt geritten;streiten stritt gestritten;maus mäuse;haus häuser;gast gäste"
)
_FRENCH = (
    "vendre vend vendu vendue vendus;peindre peint peinte peints;recevoir reçu reçue reçus reçoit reçois;boire boit bu bue;"
    "mettre mettent mis mise;naître naît née;lire lu lue lus;ouvrir ouvre ouvert ouverte;prendre prend pris prise;"
    "venir vient venu venue venus;tenir tient tenu tenue;voir voit vu vue;écrire écrit écrite;mourir meurt mort morte;"
    "perdre perd perdu perdue;rendre rend rendu rendue;répondre répond répondu;attendre attendu;descendre descend descendu;"
    "conduire conduit conduite;cuire cuit cuite;construire construit construite;vivre vécu;croire croit cru;offrir offre offert offerte;"
    "couvrir couvre couvert couverte;apprendre apprend appris;comprendre comprend compris;permettre permis;promettre promis;"
    "cheval chevaux;travail travaux;journal journaux;animal animaux;œil yeux"
)
_ITALIAN = (
    "vendere vende venduto venduta venduti;scrivere scrive scritto scritta;rompere rompe rotto rotta ruppe;"
    "leggere legge letto letta lesse;venire viene venuto venuta venuti venne;prendere prende preso presa prese;"
    "chiudere chiude chiuso chiusa;spendere spende speso spesa;mettere mette messo messa;vedere vede visto vista;"
    "aprire apre aperto aperta;perdere perde perso persa;scegliere sceglie scelto scelta;vincere vince vinto vinta;"
    "bere beve bevuto;nascere nasce nato nata;morire muore morto morta;rimanere rimane rimasto rimasta;"
    "rispondere risponde risposto risposta;chiedere chiede chiesto;offrire offre offerto;dipingere dipinge dipinto;"
    "correre corre;cuocere cuoce cotto;uovo uova;zio zii;braccio braccia;dito dita;uomo uomini"
)
_SPANISH = (
    "poner pone puso puse pusieron puesto;traer trae trajo trajeron traído;venir viene vino vine vinieron venido;"
    "dormir duerme durmió durmieron dormido;conducir conduce condujo conducido;romper rompe rompió roto rota;"
    "escribir escribe escribió escrito;abrir abre abrió abierto;morir muere murió muerto;volver vuelve volvió vuelto;"
    "perder pierde perdió perdido;pedir pide pidió pedido;elegir elige eligió elegido;caer cae cayó caído;leer leyó leído;"
    "jugar juega jugó jugado;empezar empieza empezó empezado;cerrar cierra cerró cerrado;encontrar encuentra encontró encontrado;"
    "freír fríe frito;cubrir cubre cubierto"
)
_AMBIGUOUS = "letto letta legge messa spesa vista presa rotta vino vine puesto mise prise vue mort lag las riss weiß stand fand"
_OTHER_MEANING = frozenset(map(folded, _AMBIGUOUS.split()))
"""Forms that are searched for others of their group, but mean something else by themselves ("letto" is a bed)."""


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, table in enumerate((_ENGLISH, _GERMAN, _FRENCH, _ITALIAN, _SPANISH)):
        for group in table.split(";"):
            forms = tuple(group.split())
            for form in forms if number == 0 else [form for form in forms if folded(form) not in _OTHER_MEANING]:
                found[folded(form)] = tuple(dict.fromkeys((*found.get(folded(form), ()), *forms)))
    return found


def irregular_forms(word: str) -> tuple[str, ...]:
    """Return the other forms of a word in lower case; nothing for words whose forms have one stem."""
    asked = folded(word)
    return tuple(form for form in _forms().get(asked, ()) if folded(form) != asked)
