"""What the error codes of the Cloud API mean, and what is to be done about each.

https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes. An error comes with the answer to a request,
or later with a message's status. Importing this module loads aiohttp.
"""

from __future__ import annotations

from typing import Final

import aiohttp

from channels.common.json_answers import BadAnswer
from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.whatsapp.graph_api import Refused
from channels.whatsapp.settings import APPS, section_of

SHUT: Final = 131047
"""More than 24 hours have passed since the person wrote."""
TOO_OFTEN: Final = frozenset({4, 80007, 130429, 131048, 131056, 131057})
"""The API, a pair of numbers or Meta itself takes no more at the moment; nothing was sent."""
TOKEN: Final = frozenset({0, 190})
PERMISSIONS: Final = frozenset({3, 10, 131005, *range(200, 300)})
TEMPLATE: Final = range(132000, 133000)
LONGEST_WAIT: Final = 120.0
_MANAGER: Final = "https://business.facebook.com/wa/manage"
_FOR_GOOD: Final = {
    130403: ("the person has blocked the number, or does not take messages of businesses", ""),
    130472: ("Meta keeps this message back, because the person is in one of its experiments", ""),
    130497: ("Meta does not let this account write to people in their country", ""),
    131021: ("the agent cannot write to its own number", ""),
    131026: ("it cannot be delivered: the number has no WhatsApp, an old version, or has not agreed to its terms", ""),
    131030: (
        "the test number of Meta writes only to people on its list",
        f"add the number ({APPS}, your app, WhatsApp, API Setup, To), or use a number of your own",
    ),
    131041: ("there is no such group, or the number is not in it", "look at channels.whatsapp.groups"),
    131049: ("Meta keeps this message back, to spare the person", ""),
    131050: ("the person takes no such messages of this number any more", ""),
    131051: ("WhatsApp does not know this kind of message", ""),
    131052: ("Meta could not take the file from its store", ""),
    131053: ("WhatsApp does not take this file", "send it in another format, or a link"),
}
_OWNERS: Final = {
    368: ("Meta has restricted the account for a violation of its rules", f"see why: {_MANAGER}"),
    131031: ("Meta has locked the account", f"see why: {_MANAGER}"),
    131037: ("the number has no display name that Meta has approved", f"ask for one: {_MANAGER}"),
    131042: ("Meta has no way to be paid for this account", "add a card: https://business.facebook.com/billing_hub"),
    131045: ("the number is not registered", f"register it: {_MANAGER}, Phone numbers"),
    133010: ("the number is not registered", f"register it: {_MANAGER}, Phone numbers"),
}
"""What the owner can mend: the message waits meanwhile, and expires as others do."""
_TEMPLATES: Final = {
    132000: ("the template has another number of variables", "channels.whatsapp.template.parameters"),
    132001: (
        "there is no such template in this language, or it is not approved",
        "channels.whatsapp.template.name and .language",
    ),
    132005: ("the text of the template is too long with these parameters", "channels.whatsapp.template.parameters"),
    132007: ("a parameter of the template holds what Meta does not allow", "channels.whatsapp.template.parameters"),
    132012: ("a parameter of the template has the wrong form", "channels.whatsapp.template.parameters"),
    132015: ("Meta has paused the template, because people complained", "channels.whatsapp.template.name"),
    132016: ("Meta has disabled the template for good, because people complained", "channels.whatsapp.template.name"),
}
_METAS_OWN: Final = frozenset({1, 2, 131000})
"""Failures of Meta's own, after which a message may have been sent."""
_PARAMETER, _NO_OBJECT = 100, 33
_SERVER, _UNAUTHORISED, _TOO_MANY = 500, 401, 429


def is_template(code: int) -> bool:
    """Return whether an error is about the template, and not about the person or the account."""
    return code in TEMPLATE


def template_line(code: int, text: str) -> str:
    """Return what is wrong with the template, and where it is set."""
    reason, where = _TEMPLATES.get(code, (text or "Meta does not take it", "channels.whatsapp.template"))
    return f"{reason} ({code}; see {where})"


def broken(error: Refused, account: str) -> ChannelBroken | None:
    """Return what the owner must do about an error, or None when trying again can help, or another message go."""
    if error.page:
        return None
    section = section_of(account)
    if error.code == 190 or (error.code == 0 and error.status == _UNAUTHORISED):  # noqa: PLR2004 - Meta's code of a token
        return ChannelBroken(
            f"the token in {section}.accessToken is not accepted: {error}",
            hint="make one that does not expire (docs/whatsapp.md, The token), then: "
            f"homebody config set {section}.accessToken TOKEN",
        )
    if error.code in PERMISSIONS:
        return ChannelBroken(
            f"the token in {section}.accessToken may not use this number: {error}",
            hint="give its system user the app and the WhatsApp account, with whatsapp_business_messaging and "
            f"whatsapp_business_management, then: homebody config set {section}.accessToken TOKEN",
        )
    return None


def unknown_number(error: Refused, account: str) -> ChannelBroken | None:
    """Return the error of an id that names no phone number which the token may see."""
    if not _no_such_number(error):
        return None
    section = section_of(account)
    return ChannelBroken(
        f"{section}.phoneNumberId names no phone number that the token may use: {error}",
        hint=f"copy the Phone number ID ({APPS}, your app, WhatsApp, API Setup), not the number, then: "
        f"homebody config set {section}.phoneNumberId DIGITS",
    )


def _no_such_number(error: Refused) -> bool:
    """Return whether Meta knows no object of the id in the address: code 100 alone is any parameter that is wrong."""
    return error.code == _NO_OBJECT or (error.code == _PARAMETER and error.subcode == _NO_OBJECT)


def send_error(error: BaseException, attempt: int = 1) -> ChannelError:
    """Return the error of a request to send. What Meta may have taken is in doubt."""
    if isinstance(error, Refused):
        return _refused(error, attempt)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSent("WhatsApp cannot be reached")
    if isinstance(error, BadAnswer):
        return Uncertain(f"WhatsApp: {error}")
    return Uncertain(f"WhatsApp: the connection was lost: {str(error) or type(error).__name__}")


def _refused(error: Refused, attempt: int) -> ChannelError:
    if error.page:
        return NotSent(f"WhatsApp: {error}")
    if error.code not in TOO_OFTEN and (error.status >= _SERVER or error.code in _METAS_OWN):
        return Uncertain(f"WhatsApp: {error}")
    if _no_such_number(error):
        return NotSent(f"WhatsApp: {error}", hint="homebody channels status --probe")
    if error.status == _TOO_MANY:
        return _too_often(error.code, error.text, attempt)
    return meaning(error.code, error.text, attempt)


def meaning(code: int, text: str, attempt: int = 1) -> NotSent:
    """Return the error of a message that was certainly not sent, or not delivered, by Meta's code."""
    if code in TOO_OFTEN:
        return _too_often(code, text, attempt)
    if code == SHUT:
        return NotSent(
            "more than 24 hours have passed since they wrote, and WhatsApp takes no message until they write again", held=True
        )
    if code in _OWNERS:
        reason, hint = _OWNERS[code]
        return NotSent(f"WhatsApp: {reason} ({code})", hint=hint)
    if code in TOKEN or code in PERMISSIONS:
        return NotSent(
            f"WhatsApp: {text or 'the access token is not accepted'} ({code})", hint="homebody channels status --probe"
        )
    reason, hint = _FOR_GOOD.get(code, (text or "the message is refused", ""))
    return NotSent(f"WhatsApp: {reason} ({code})", permanent=True, hint=hint)


def _too_often(code: int, text: str, attempt: int) -> NotSent:
    """Return the error of a rate limit. Meta asks to wait 4^n seconds before the nth repetition."""
    return NotSent(f"WhatsApp asks to wait: {text} ({code})", retry_after=min(4.0 ** max(1, attempt), LONGEST_WAIT))
