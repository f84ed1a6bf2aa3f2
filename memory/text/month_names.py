"""Names of months in five languages, in lower case and without accents."""

from __future__ import annotations

_NAMES = (
    "january jan januar janvier enero gennaio",
    "february feb februar fevrier febrero febbraio",
    "march mar marz mars marzo",
    "april apr avril abril aprile",
    "may mai mayo maggio",
    "june jun juni juin junio giugno",
    "july jul juli juillet julio luglio",
    "august aug aout agosto",
    "september sept sep septembre septiembre settembre",
    "october oct oktober okt octobre octubre ottobre",
    "november nov novembre noviembre",
    "december dec dezember dez decembre diciembre dicembre",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
ONE_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
"""A pattern that matches each of them."""
