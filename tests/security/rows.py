"""The attacks that are defended against, by number: what must hold, and for those that cannot happen here, why.

The numbers are stable: tests name them (``test_sec_54_...`` or ``@pytest.mark.sec(54)``), and `table.py` makes the table of
docs/security.md of both.
"""

from __future__ import annotations

from typing import Final

SECTIONS: Final = {
    "Reaching the gateway": range(1, 20),
    "Who is speaking": range(20, 40),
    "Files, media and network": range(40, 50),
    "Commands, confinement and self-modification": range(50, 70),
    "Injected instructions and leaks": range(70, 80),
}

ROWS: Final = {
    1: "The page in the browser talks to the gateway that it came from and no other, whatever a link says",
    2: "Loopback is no proof of identity: status needs the token there too, and a forwarding header from an unknown proxy is refused",
    3: "Forwarding headers cannot be forged: only the hop of a known proxy counts",
    4: "Over TCP webhooks alone change anything and, where it is on, the API of programs: admin calls are on a unix socket",
    5: "A foreign web page is refused by its origin, and a rebound name by its host, even with the token",
    6: "A client cannot claim rights for itself",
    7: "A credential cannot be used to make a stronger one",
    8: "A replaced token stops working at once, on open connections too",
    9: "Tools cannot be called over HTTP",
    10: "The token is not taken from an address or a cookie, and is in no answer",
    11: "Blank, default-like and short tokens are refused at the start",
    12: "Malformed, endless and oversized requests neither stop the gateway nor fill its memory",
    13: "The gateway's token and keys are given to no program that it starts",
    14: "One secret cannot serve two purposes",
    15: "A program's token reaches the agents and the person that its owner said, whatever a request says",
    16: "What a program asks for is asked of the owner elsewhere, and no program decides about itself",
    17: "However many programs ask, and however slowly they read, the gateway goes on and the others are answered",
    18: "The page lets in by a code of the owner's, once; forged and foreign requests reach nothing, and a viewer changes nothing",
    19: "In the page text from outside stays text, whatever it holds, and no request names a file by a path",
    20: "Access goes by a platform's unchangeable ids; names in the settings are refused",
    21: "A copied display name opens nothing",
    22: "Being paired in private gives no right in a group",
    23: "A webhook without a secret does not start, and an unsigned call is refused",
    24: "A webhook's secret is checked before its body is read",
    25: "A copied request is refused, however it is written",
    26: "Only an owner approves, once, and exactly the act that was shown",
    27: "Edits, reactions, buttons and commands pass the same check as messages",
    28: "In groups, commands that affect others are the owner's",
    29: "Who speaks is decided in one place, and no turn starts without that decision",
    30: "Without an allowlist nobody but paired people is heard",
    31: "A stranger causes no download and one bounded row",
    40: "No id from outside becomes a path",
    41: "No path leads out of the workspace, however it is written",
    42: "No symbolic or hard link leads out of it, also when links are swapped meanwhile",
    43: "Only a file that this conversation may see is sent, and never because a reply names a path",
    44: "A fetch reaches public addresses only: after resolving, at each redirect, at the connection",
    45: "Archives are not unpacked",
    46: "Generated text runs nowhere as a program of a web page",
    47: "Settings include no other files, and `.env` files of a workspace are not read",
    50: "No allowed command carries another one: what needs a shell is asked about",
    51: "A question shows the whole command, with what is invisible or misleading named",
    52: "Whether something was approved is never taken from the model's arguments",
    53: "A command's environment is made from nothing and holds no key",
    54: "A command is confined to its workspace, or is said to be unconfined and asked about",
    55: "The settings choose among confinements and cannot make holes in them",
    56: "Between check and use nothing can be swapped, and who the owner is comes from the platform",
    57: "Every program is started by few known places of the code",
    58: "Without somebody who can approve, the answer is no",
    59: "An agent cannot change its own settings, rules, state or confinement",
    60: "Nothing in a workspace is loaded as code of the gateway; its skills are texts, and count once the owner has approved them",
    61: "Conversations are searched and read by their owner alone, and no sub-agent reads its parent's",
    62: "Rules hold for everything that a tool server offers",
    63: "Stored and received data is never turned into objects or code",
    70: "Instructions in pages, files and messages of others cause no act without the owner's yes",
    71: "No address is fetched by a preview, and known secrets leave in no form",
    72: "Text from outside stands between marks that it cannot forge",
    73: "Known secrets are in no log, transcript or output file",
    74: "Removing secrets damages nothing else",
    75: "Stopping needs no queue and no model, and ends what was started",
    76: "Words of others in the owner's turn are marked as theirs",
    77: "Memory that was written from untrusted text stays known as such",
}

NOT_APPLICABLE: Final = {
    7: "credentials are made on the machine alone",
}
"""What cannot happen because the feature does not exist, with the reason. It becomes open when the feature comes."""
