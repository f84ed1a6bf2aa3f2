"""What people do on the Telegram peer besides writing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.patience import PATIENCE
from tests.peers import telegram_files
from tests.peers.telegram_state import BOT, Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.telegram_state import Chats


class People:
    """A part of the peer, which says what this needs of it."""

    chats: Chats

    async def say(self, user: int, text: str = "", **more: Any) -> int:
        raise NotImplementedError

    async def inject(self, kind: str, content: dict[str, Any]) -> None:
        raise NotImplementedError

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        raise NotImplementedError

    async def attach(
        self, user: int, kind: str, content: bytes, name: str = "", media_type: str = "", *, text: str = "", **more: Any
    ) -> int:
        """Let a person send a file."""
        return await self.say(user, text, **{kind: telegram_files.put(self.chats, kind, content, name, media_type)}, **more)

    async def edit(self, chat: int, message_id: int, text: str) -> None:
        """Let the person who wrote a message change it."""
        message = self.chats.find(chat, message_id)
        assert message is not None
        message.update(text=text, edit_date=message["date"] + 7)
        await self.inject("edited_message", dict(message))

    async def react(
        self, user: int, chat: int, message_id: int, *emoji: str, before: tuple[str, ...] = (), bot: bool = False
    ) -> None:
        """Let a person have these emoji under a message, where those ``before`` were."""
        old, new = ([{"type": "emoji", "emoji": one} for one in some] for some in (before, emoji))
        person = {"id": user, "is_bot": bot, "first_name": "Anna"}
        about = {"chat": self.chats.people[chat], "message_id": message_id, "user": person, "date": 1_790_000_000}
        await self.inject("message_reaction", {**about, "old_reaction": old, "new_reaction": new})

    async def press(self, user: int, chat: int, label: str, *, wait: bool = True) -> None:
        """Let a person press the last button with this label, and wait until they see that the press was taken."""
        message, button = next(
            (message, button)
            for message in reversed(self.chats.messages[chat])
            for row in message.get("reply_markup", {}).get("inline_keyboard", [])
            for button in row
            if button["text"] == label
        )
        number = str(len(self.chats.queries) + 1)
        query = self.chats.queries.setdefault(number, Query(chat, message["message_id"]))
        person = {"id": user, "is_bot": False, "first_name": "Anna"}
        about = {"id": number, "from": person, "chat_instance": "7", "data": button["callback_data"]}
        await self.inject("callback_query", {**about, "message": dict(message)})
        if wait:
            await self.until(lambda: query.answered)

    async def become_supergroup(self, chat: int, present: int) -> None:
        """Turn a group into a supergroup, which both of them are told."""
        former = self.chats.people[chat]
        self.chats.people[present] = {**former, "id": present, "type": "supergroup"}
        self.chats.moved[chat] = present
        person = {"id": 42, "is_bot": False, "first_name": "Anna"}
        await self.inject("message", self.chats.note(chat, person, "", [], None, migrate_to_chat_id=present))
        await self.inject("message", self.chats.note(present, person, "", [], None, migrate_from_chat_id=chat))

    async def add_bot(self, chat: int, *, status: str = "member", before: str = "left", date: int = 1) -> None:
        """Let somebody add the bot to a group, or remove it."""
        me = {key: BOT[key] for key in ("id", "is_bot", "first_name", "username")}
        person = {"id": 42, "is_bot": False, "first_name": "Anna"}
        was, now = ({"user": me, "status": one} | ({"until_date": 0} if one == "kicked" else {}) for one in (before, status))
        about = {"chat": self.chats.people[chat], "from": person, "date": date, "old_chat_member": was, "new_chat_member": now}
        await self.inject("my_chat_member", about)
