"""What mail programs make of a mail that is passed on or answered: words of others, fenced, and the sender's own outside of the fence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.turns.user_message import body, forwarded_from
from tests.email_channel.email_stage import AGENT, EmailStage
from tests.email_channel.test_email_mails import heard, opened

if TYPE_CHECKING:
    from email.message import EmailMessage

    from tests.mail.dovecot import Dovecot

APPLE = """


> Begin forwarded message:
>
> From: Bob <bob@example.net>
> Subject: x
> Date: 27. November 2026 at 10:00:00 CET
> To: anna@example.org
>
> EVIL
"""
APPLE_HTML = (
    '<html><head></head><body><br id="lineBreakAtBeginningOfMessage"><div><br><blockquote type="cite"><div>Begin forwarded message:'
    '</div><br class="Apple-interchange-newline"><div style="margin: 0px;"><span><b>From: </b></span><span>Bob &lt;bob@example.net&gt;<br>'
    "</span></div><div><span><b>Subject: </b></span><span><b>x</b><br></span></div><div><span><b>Date: </b></span><span>27. November 2026"
    "<br></span></div><div><span><b>To: </b>"
    "</span><span>anna@example.org<br></span></div><br><div>EVIL</div></blockquote></div></body></html>"
)
GMAIL_HTML = (
    '<div dir="ltr"><div class="gmail_quote"><div dir="ltr" class="gmail_attr">---------- Mensaje reenviado ---------<br>De: <b>Bob</b>'
    " &lt;bob@example.net&gt;<br>Date: vie<br>Subject: x<br>To: Anna<br></div><br>EVIL</div></div>"
)
OUTLOOK_HTML = (
    '<div>{}</div><hr><div id="divRplyFwdMsg"><b>Da:</b> Bob &lt;bob@example.net&gt;<br><b>Inviato:</b> venerdì<br><b>A:</b> Anna<br>'
    "<b>Oggetto:</b> x</div><div>EVIL</div>"
)
SAMSUNG = "From: Bob <bob@example.net> Date: 27/11/2026  10:00  (GMT+00:00) To: anna Subject: EVIL subject \nEVIL\n"
FIELDS = {
    "es": "De: Bob <bob@example.net>\nEnviado el: viernes\nPara: Anna\nAsunto: x",
    "it": "Da: Bob <bob@example.net>\nInviato: venerdì\nA: Anna\nOggetto: x",
    "nl": "Van: Bob <bob@example.net>\nVerzonden: vrijdag\nAan: Anna\nOnderwerp: x",
    "fr": "De : Bob <bob@example.net>\nEnvoyé : vendredi\nÀ : Anna\nObjet : x",
    "pt": "De: Bob <bob@example.net>\nEnviado: sexta\nPara: Anna\nAssunto: x",
}
FORWARDED = {
    "apple mail": APPLE,
    "apple mail, nothing but the mail": "> EVIL",
    "samsung": f"\n-------- Original message --------{SAMSUNG}",
    "samsung, german": f"-------- Ursprüngliche Nachricht --------{SAMSUNG.replace('From', 'Von')}",
    "samsung, dutch": f"-------- Oorspronkelijk bericht --------{SAMSUNG.replace('From', 'Van')}",
    "gmail, es": f"---------- Mensaje reenviado ---------\n{FIELDS['es']}\n\nEVIL",
    "gmail, it": f"---------- Messaggio inoltrato ---------\n{FIELDS['it']}\n\nEVIL",
    "gmail, nl": f"---------- Doorgestuurd bericht ---------\n{FIELDS['nl']}\n\nEVIL",
    "thunderbird, es": f"-------- Mensaje reenviado --------\nAsunto: \tEVIL\nFecha: \tvie\n{FIELDS['es']}\n\nEVIL",
    "thunderbird, it": f"-------- Messaggio Inoltrato --------\nOggetto: \tEVIL\n{FIELDS['it']}\n\nEVIL",
    "apple mail, it": f"Inizio messaggio inoltrato:\n\nEVIL\n\n{FIELDS['it']}\n\nEVIL",
    "apple mail, es": "Inicio del mensaje reenviado:\n\n> De: Bob\n> EVIL",
    "apple mail, nl": "Begin doorgestuurd bericht:\n\nVan: Bob\n\nEVIL",
    "apple mail, fr": "Début du message réexpédié :\n\nEVIL",
    **{f"outlook, {language}": f"{fields}\n\nEVIL" for language, fields in FIELDS.items()},
    "a program nobody knows": "-------- Välitetty viesti --------\nAihe: x\nLähettäjä: Bob <bob@example.net>\n\nEVIL",
    "the subject first": "Betreff: EVIL\nDatum: Freitag\nVon: Bob <bob@example.net>\nAn: Anna\n\nEVIL",
}
COMMENTED = {
    "below": "> EVIL\n\nwhat does he want?",
    "between": "what\n> EVIL\ndoes he\n> EVIL\nwant?",
    "around": "what does\n\n> EVIL\n\nhe want?",
    "a head": "El vie, 27 nov 2026 a las 10:00, Bob EVIL (<bob@example.net>) escribió:\n\n> EVIL\n\nwhat does he want?",
    "a head nobody knows": "pe 27. marrask. 2026 klo 10.00 EVIL <bob@example.net> kirjoitti:\n\n> EVIL\n\nwhat does he want?",
}
HTML = {
    "apple mail": APPLE_HTML,
    "gmail, es": GMAIL_HTML,
    "outlook, it": OUTLOOK_HTML.format(""),
    "a quotation alone": '<blockquote type="cite">EVIL</blockquote>',
    "a quotation in plain HTML": "<div>&gt; EVIL<br>&gt; EVIL</div>",
    "a comment below": '<blockquote type="cite">EVIL</blockquote><div>what does he want?</div>',
    "a comment above": OUTLOOK_HTML.format("what does he want?"),
}


def mails(stage: EmailStage) -> dict[str, tuple[EmailMessage, bool]]:
    """Return the mails, and whether a comment is in them."""
    made = {f"plain, {name}": (stage.mail(text, Subject="Fwd: x"), False) for name, text in FORWARDED.items()}
    made |= {f"comment, {name}": (stage.mail(text, Subject="Re: x"), True) for name, text in COMMENTED.items()}
    for name, html in HTML.items():
        mail = stage.mail("", Subject="Fwd: x")
        mail.set_content(html, subtype="html")
        made[f"html, {name}"] = mail, "want?" in html
    both = stage.mail(APPLE, Subject="Fwd: x")
    both.add_alternative(APPLE_HTML, subtype="html")
    made["both, apple mail"] = both, False
    return made | {"the subject alone": (stage.mail("", Subject="Fwd: EVIL"), False)}


@pytest.mark.sec(76)
async def test_words_of_others_are_fenced_whatever_the_mail_program(dovecot: Dovecot) -> None:
    unfenced, lost = {}, {}
    async with opened(dovecot) as (stage, run):
        for name, (mail, commented) in mails(stage).items():
            text = (await heard(stage, run, mail)).text
            own, mark, fenced = body(text).partition("<untrusted")
            if "EVIL" in own or "EVIL" not in fenced or not mark or not forwarded_from(text):
                unfenced[name] = text
            said = " ".join(own.replace("[forwarded]", "").split())
            if said != ("what does he want?" if commented else ""):
                lost[name] = text
    assert unfenced == {}
    assert lost == {}


@pytest.mark.parametrize(
    "text",
    [
        "Thursday\n\nOn Monday, 1 May 2026 at 10:00, Homebody <{}> wrote:\n\n> Which day?\n",
        "On Monday, 1 May 2026 at 10:00, Homebody <{}> wrote:\n> Which day?\n\nThursday\n",
        "> Which day?\n\nThursday\n\n-- \nAnna",
        "Thursday\n\nVan: Homebody <{}>\nVerzonden: maandag\nAan: Anna\nOnderwerp: x\n\nWhich day?",
    ],
)
async def test_a_plain_answer_to_the_agents_mail_has_no_words_of_others(dovecot: Dovecot, text: str) -> None:
    async with opened(dovecot) as (stage, run):
        sent = await run.send((await heard(stage, run, stage.mail("ask me"))).conversation, "Which day?", "key-1", turn="t")
        answer = await heard(stage, run, stage.mail(text.format(AGENT), Subject="Re: x", In_Reply_To=sent.platform_id))
        assert (answer.text, forwarded_from(answer.text)) == ("Thursday", ())


async def test_a_mail_passed_on_in_the_thread_of_the_agents_is_not_taken_for_the_agents(dovecot: Dovecot) -> None:
    async with opened(dovecot) as (stage, run):
        sent = await run.send((await heard(stage, run, stage.mail("ask me"))).conversation, "Which day?", "key-1", turn="t")
        for text in (APPLE, "what\n> EVIL\nnow\n> EVIL\n"):
            passed = await heard(stage, run, stage.mail(text, Subject="Re: x", In_Reply_To=sent.platform_id))
            own, _, fenced = body(passed.text).partition("<untrusted")
            assert "EVIL" not in own
            assert "EVIL" in fenced
