"""Forty things that people tell an agent once, in English and German, of every kind; and how each is asked for weeks later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """What is said, what to look for later, and the words that what is found must hold."""

    said: str
    query: str
    answer: tuple[str, ...]


FACTS = (
    # people and names
    Fact("My sister is called Henrike.", "sister name", ("Henrike",)),
    Fact("Our plumber is Mr Okafor from Hill Lane.", "plumber", ("Okafor",)),
    Fact("The neighbour's dog answers to Biscuit.", "neighbour's dog", ("Biscuit",)),
    Fact("Unsere Tochter heißt Linnea.", "Tochter", ("Linnea",)),
    Fact("Der Hausmeister ist Herr Brandauer.", "Hausmeister", ("Brandauer",)),
    Fact("Ask for Priya at the bank.", "bank contact", ("Priya",)),
    # what people like, and what they do not
    Fact("I can't stand aubergines.", "aubergines", ("can't stand",)),
    Fact("I don't eat shellfish.", "shellfish", ("don't",)),
    Fact("Ich vertrage keine Laktose.", "Laktose", ("keine",)),
    Fact("Tom never drinks coffee after noon.", "Tom coffee", ("never",)),
    Fact("I like my tea without sugar.", "tea sugar", ("without",)),
    Fact("Meine Frau mag keine Lilien.", "Frau Lilien", ("keine",)),
    # numbers of all kinds
    Fact("The router sits at 10.20.0.254.", "router address", ("10.20.0.254",)),
    Fact("The attic window measures 78 by 118.", "attic window measures", ("78 by 118",)),
    Fact("My flight is LX 1073.", "flight", ("LX 1073",)),
    Fact("We need 14 chairs for the party.", "chairs party", ("14",)),
    Fact("The bike lock opens with 5582.", "bike lock", ("5582",)),
    Fact("Der Zählerstand war 40912.", "Zählerstand", ("40912",)),
    Fact("Die Miete beträgt 1.140 Euro.", "Miete", ("1.140",)),
    Fact("Grandma's birthday is on 3 June.", "grandma birthday", ("3 June",)),
    Fact("Der TÜV ist im September 2027 fällig.", "TÜV fällig", ("2027",)),
    # where things are
    Fact("The tax papers are in ~/papers/tax-2025.", "tax papers folder", ("~/papers/tax-2025",)),
    Fact("Backups go to nas:/volume2/backup.", "backups go to", ("/volume2/backup",)),
    Fact("The script is called tidy_photos.", "script photos", ("tidy_photos",)),
    Fact("Der Ersatzschlüssel hängt hinter dem Spiegel.", "Ersatzschlüssel", ("Spiegel",)),
    Fact("The stopcock is behind the washing machine.", "stopcock", ("washing machine",)),
    # decisions
    Fact("Let's go with the grey tiles.", "tiles", ("grey",)),
    Fact("We'll take the train, not the car.", "train or car", ("not the car",)),
    Fact("Postgres it is, instead of MySQL.", "Postgres MySQL", ("instead",)),
    Fact("Wir nehmen die Wärmepumpe statt der Gasheizung.", "Wärmepumpe Gasheizung", ("statt",)),
    Fact("We will paint the hallway in sage.", "paint hallway", ("sage",)),
    Fact("Wir haben uns gegen den Anbau entschieden.", "Anbau", ("gegen",)),
    # promises and duties
    Fact("I promised Nadia to bring a lemon cake.", "Nadia promised", ("lemon cake",)),
    Fact("Remind me to cancel the gym in spring.", "cancel gym", ("spring",)),
    Fact("Ich muss Onkel Werner zurückrufen.", "Onkel Werner", ("zurückrufen",)),
    Fact("The library books are due on Friday.", "library books due", ("Friday",)),
    # corrections
    Fact("Actually the meeting moved to Thursday.", "meeting moved", ("Thursday",)),
    Fact("No, her surname is spelled Meier with i.", "surname spelled", ("Meier",)),
    Fact("Nicht Raum drei, sondern Raum sieben.", "Raum", ("sieben",)),
    Fact("The door is teal now and no longer green.", "door colour teal", ("teal",)),
)
