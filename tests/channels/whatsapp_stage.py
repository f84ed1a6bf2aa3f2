"""WhatsApp's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.protocol import HookRequest
from channels.testing.receive import LABEL
from channels.whatsapp.channel import WhatsAppChannel
from channels.whatsapp.settings import WhatsAppSettings
from tests.patience import PATIENCE
from tests.peers import whatsapp
from tests.peers.hasty import FastClock
from tests.peers.whatsapp import choices

if TYPE_CHECKING:
    from channels.testing import Trouble


class WhatsAppStage:
    lacks = (
        "says_a_doubtful_message_once",  # WhatsApp knows no key: what its reports do not settle in time is repeated with a mark
        "sends_a_doubtful_file_once",  # the same
        "sends_a_file_whole",  # it takes no files of unknown kinds, as the rule's is; tests/whatsapp/test_whatsapp_sending.py
        "tells_what_programs_wrote",  # it does not say which messages programs wrote
        "answers_in_the_thread",  # there are no threads
        "offers_its_menu_once",  # nor a menu
    )
    limit = 4096
    events = (
        *("edit", "reaction", "reaction taken off", "press", "taken back", "location", "contacts", "sticker", "poll", "order"),
        *("number changed", "status", "error", "another field", "unknown kind"),
    )
    patience = PATIENCE
    anna = "4915123456789"
    family = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"

    def __init__(self, peer: whatsapp.WhatsAppPeer) -> None:
        self.peer = peer
        self.last: dict[str, Any] = {}
        self.current: WhatsAppChannel | None = None
        peer.call_at(self._called)
        peer.reports = ()  # the rules want to see what is done about a message of which nobody reports anything

    async def _called(self, method: str, query: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if self.current is None:
            return 503, b""
        answer = await self.current.hear(HookRequest(method=method, query=query, headers=headers, body=body))
        return answer.status, answer.body

    def channel(self) -> WhatsAppChannel:
        self.current = self._made(whatsapp.TOKEN)
        return self.current

    def _made(self, token: str) -> WhatsAppChannel:
        given = {"phoneNumberId": whatsapp.NUMBER_ID, "accessToken": token, "appSecret": whatsapp.APP_SECRET}
        given |= {"apiRoot": self.peer.root, "timeoutSeconds": 5, "groups": {self.family: {}}}
        return WhatsAppChannel(WhatsAppSettings.model_validate(given), "default", clock=FastClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        self.last = self.peer.message(self.anna, "text", {"body": text})
        self.peer.tell_raw(self.anna, self.last)

    async def repeat(self) -> None:
        self.peer.tell_raw(self.anna, self.last)

    async def disconnect(self) -> None:
        self.peer.hooks.lose_answers += 1

    async def happen(self, event: str) -> None:
        peer, anna = self.peer, self.anna
        if event == "press":
            await peer.press(anna, LABEL)
            return
        for group in ("", self.family):
            theirs = [one for one in peer.home.chats[group or anna] if one["from"] == anna][-1]
            kind, content = _EVENTS.get(event, ("hologram", {"x": 1}))
            if callable(content):
                content = content(theirs["id"])
            match event:
                case "another field":
                    changes = [{"field": "account_update", "value": {"event": "VERIFIED_ACCOUNT"}}]
                    entry = [{"id": whatsapp.ACCOUNT_ID, "changes": changes}]
                    peer.hooks.put("other", {"object": "whatsapp_business_account", "entry": entry})
                case "error":
                    peer.hooks.put("other", peer.payload({"errors": [{"code": 131000, "title": "Something went wrong"}]}))
                case "status":
                    peer.report("wamid.OTHER", "read", {"to": anna})
                case _:
                    await peer.tell(anna, kind, content, group=group)

    async def garble(self) -> None:
        odd: list[Any] = [
            {},
            {"messages": 7},
            {"messages": [7, {}]},
            {"statuses": [{}, {"id": 7, "status": "risen"}], "contacts": 7},
        ]
        anna = {"from": self.anna, "id": "wamid.X", "timestamp": "1"}
        now = {**anna, "timestamp": "1900000000"}
        odd += [{"messages": [{**now, "type": kind, kind: 7}]} for kind in ("text", "image", "reaction", "edit", "interactive")]
        odd += [{"messages": [{**now, "id": 7, "type": "text"}, {**anna, "timestamp": "never", "type": "text"}]}]
        for value in odd:
            self.peer.hooks.put(f"messages {self.anna}", self.peer.payload(value))
        for raw in (
            {},
            {"object": "page"},
            {"object": "whatsapp_business_account", "entry": [7, {"changes": [7, {"value": 7}]}]},
        ):
            self.peer.hooks.put(f"messages {self.anna}", raw)

    async def go_away(self) -> None:
        await self.peer.go_away()

    async def come_back(self) -> None:
        await self.peer.come_back()

    def intruder(self) -> WhatsAppChannel:
        return self._made("EAAguessed")

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        written = f"@{whatsapp.OWN_NUMBER} {text}" if mention else text
        await self.peer.say(self.anna, written, group=self.family)

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.peer.fault("messages", "error", code=131026, status=400)
            case "rate limit":
                self.peer.fault("messages", "error", code=130429, status=429)
            case _:
                self.peer.fault("messages", kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return self.peer.said(self.anna)

    def typed(self) -> int:
        return len(self.peer.seen)

    def length(self, text: str) -> int:
        return len(text)

    async def edit(self, text: str) -> None:
        fresh = {"type": "text", "text": {"body": text}}
        await self.peer.tell(self.anna, "edit", {"original_message_id": self.last["id"], "message": fresh})

    async def react(self, emoji: str, message: str) -> None:
        await self.peer.tell(self.anna, "reaction", {"message_id": message, "emoji": emoji})

    def reactions(self) -> list[str]:
        last = [one for one in self.peer.home.chats[self.anna] if one["from"] == self.anna][-1]
        return [last["reaction"]] if last.get("reaction") else []

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        await self.peer.attach(self.anna, "document", content, media_type, name=name)

    def files(self) -> list[tuple[str, bytes]]:
        found = []
        for one in self.peer.home.chats[self.anna]:
            content = one["body"].get(one["body"].get("type")) if one["from"] == "us" else None
            if isinstance(content, dict) and "id" in content:
                file = self.peer.home.media[content["id"]]
                found.append((content.get("filename") or file.name, file.content))
        return found

    def buttons(self) -> list[str]:
        last = [one for one in self.peer.home.chats[self.anna] if one["from"] == "us"][-1]
        return [one.get("description") or one["title"] for one in choices(last["body"])]

    async def press(self, label: str) -> None:
        await self.peer.press(self.anna, label)
        await self.peer.until(lambda: not self.peer.hooks.waiting)


_EVENTS: dict[str, tuple[str, Any]] = {
    "edit": ("edit", lambda one: {"original_message_id": one, "message": {"type": "text", "text": {"body": "changed"}}}),
    "reaction": ("reaction", lambda one: {"message_id": one, "emoji": "👀"}),
    "reaction taken off": ("reaction", lambda one: {"message_id": one}),
    "taken back": ("revoke", lambda one: {"original_message_id": one}),
    "location": ("location", {"latitude": 52.5, "longitude": 13.4, "name": "Home"}),
    "contacts": ("contacts", [{"name": {"formatted_name": "Ben"}, "phones": [{"phone": "+49 1"}]}]),
    "sticker": ("sticker", {"id": "1", "mime_type": "image/webp", "animated": False}),
    "poll": ("unsupported", {"type": "poll"}),
    "order": ("order", {"catalog_id": "1", "product_items": [{}]}),
    "number changed": ("system", {"body": "the number changed", "type": "user_changed_number", "wa_id": "491512"}),
}
