"""Files, buttons, edits and presses through the whole house: from a platform to the model and back."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from msgspec.structs import replace

from agent.events import TextDelta
from agent.messages import Failure, Image, ToolCall
from agent.models.scripted import Stall
from channels.messages import ChatAddress
from gateway.app.services import tcp_api
from gateway.base.state_lock import describe
from gateway.ledger.rows import NewOutbound
from tests.attachments.test_intake import png
from tests.peers.phone import OPEN, Village

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., Village]


@pytest.fixture
def village(tmp_path: Path) -> Make:
    return lambda **settings: Village(tmp_path, **settings)


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"{name}-{number}", name=name, arguments=arguments)


def media(v: Village) -> list[Path]:
    return [path for path in (v.root / "home" / "state" / "media").rglob("*") if path.is_file()]


async def test_a_picture_without_words_is_answered_and_shown_to_the_model(village: Make) -> None:
    v = village()
    v.model.then("A dot.")
    async with v.house() as (_, phone):
        await phone.say("", attachments=(phone.attach(png(), kind="image"),))
        await phone.until(lambda: phone.texts() == ["A dot."])
    (message,) = v.model.requests[0].messages
    assert any(isinstance(part, Image) for part in message.content)
    assert "[file: inbox/" in message.text
    assert len(list((v.workspace / "inbox").iterdir())) == 1


@pytest.mark.sec(43)
async def test_a_file_that_is_asked_for_goes_out_behind_the_reply_and_its_copy_is_thrown_away(village: Make) -> None:
    v = village()
    v.model.then(
        [call("write", path="out/plan.txt", content="the plan")],
        [call("send_file", path="out/plan.txt", caption="as you wished")],
        [call("write", 2, path="out/plan.txt", content="another plan", mode="overwrite")],
        "Here you are. MEDIA:/etc/passwd",
    )
    async with v.house() as (house, phone):
        await phone.say("send me the plan")
        await phone.until(lambda: len(phone.sent) == 2)
        reply, file = phone.sent
        assert (reply.text, reply.enclosure) == ("Here you are. MEDIA:/etc/passwd", None)
        assert (file.text, file.enclosure.name, file.enclosure.media_type) == ("as you wished", "plan.txt", "text/plain")
        assert list(phone.enclosed.values()) == [b"the plan"], "what goes out is what was there when it was asked for"
        await house.delivery.settled()
        assert media(v) == []


async def test_the_same_file_goes_out_once_however_often_it_is_asked_for(village: Make) -> None:
    v = village()
    v.model.then(
        [call("write", path="a.txt", content="one")],
        [call("send_file", path="a.txt"), call("send_file", 2, path="a.txt", caption="now with words")],
        [call("send_file", 3, path="nowhere.txt"), call("send_file", 4, path="../secret"), call("send_file", 5, path="memory")],
        "Done.",
    )
    async with v.house() as (_, phone):
        await phone.say("go")
        await phone.until(lambda: len(phone.sent) == 2)
        assert [one.text for one in phone.sent] == ["Done.", "now with words"]
    refused = [message for message in v.model.requests[-1].messages if message.role == "tool" and message.is_error]
    assert len(refused) == 3


async def test_files_survive_a_crash_before_the_reply_and_go_out_once(village: Make) -> None:
    v = village()
    v.model.then([call("write", path="a.txt", content="one")], [call("send_file", path="a.txt")], [Stall()], "Done.")
    async with v.house() as (house, phone):
        await phone.say("go")
        while len(v.model.requests) < 3:  # noqa: ASYNC110  (the model has no event for it)
            await asyncio.sleep(0.001)
        await house.lanes.drain(0)
    async with v.house() as (_, phone):
        await phone.until(lambda: len(phone.sent) == 2)
        assert list(phone.enclosed.values()) == [b"one"]
    async with v.house() as (_, phone):
        assert phone.sent == []


async def test_a_file_that_waits_for_its_channel_is_still_there_after_a_restart(village: Make) -> None:
    v = village()
    v.model.then([call("write", path="a.txt", content="one")], [call("send_file", path="a.txt")], "Done.")
    async with v.house(away=True) as (house, phone):
        await phone.say("go")
        await house.lanes.quiet()
        for path in media(v):
            os.utime(path.parent, (0, 0))
        await house.schedule.tick()
    v.clock.move(120)
    async with v.house() as (_, phone):
        await phone.until(lambda: len(phone.sent) == 2)
        assert list(phone.enclosed.values()) == [b"one"]


async def test_a_channel_without_files_and_buttons_gets_words(village: Make) -> None:
    v = village()
    v.model.then([call("write", path="a.txt", content="one")], [call("send_file", path="a.txt", caption="look")], "Done.")
    async with v.house(shows=frozenset()) as (_, phone):
        await phone.say("go")
        await phone.until(lambda: len(phone.sent) == 2)
        assert phone.sent[1].text == "look\n\n📎 a.txt (I cannot send files here; it is in my workspace)"
        await phone.say("/think")
        await phone.until(lambda: len(phone.sent) == 3)
        assert all(one.buttons == () and one.enclosure is None for one in phone.sent)


async def test_what_nobody_wants_any_more_is_swept_and_nothing_else(village: Make) -> None:
    v = village()
    v.model.then("Noted.", "Noted.")
    async with v.house() as (house, phone):
        await phone.say("one", attachments=(phone.attach(b"old", "old.txt"),))
        await phone.say("two", attachments=(phone.attach(b"new", "new.txt"),))
        await phone.until(lambda: len(phone.sent) == 2)
        inbox = v.workspace / "inbox"
        (inbox / "mine.txt").write_text("the owner's own")
        before = (v.clock.now() - timedelta(days=31)).timestamp()
        for path in inbox.iterdir():
            os.utime(path, (before, before) if "new" not in path.name else (v.clock.now().timestamp(),) * 2)
        house.media.outgoing.put("abc", "x.txt", b"orphan", "")
        (orphan,) = {path.parent for path in media(v)}
        os.utime(orphan, (before, before))
        incoming = v.root / "home" / "state" / "incoming" / "half"
        incoming.write_bytes(b"x")
        os.utime(incoming, (before, before))
        await house.schedule.tick()
        assert sorted(path.name.rpartition("-")[2] for path in inbox.iterdir()) == ["mine.txt", "new.txt"]
        assert media(v) == []
        assert not incoming.exists()


async def test_the_oldest_files_go_when_an_inbox_is_too_full(village: Make) -> None:
    v = village(messages={"attachments": {"keepBytes": 1000}})
    v.model.then("Noted.")
    async with v.house() as (house, phone):
        files = tuple(phone.attach(bytes(400), f"{number}.bin") for number in range(4))
        await phone.say("keep these", attachments=files)
        await phone.until(lambda: phone.sent)
        for path in (v.workspace / "inbox").iterdir():
            at = v.clock.now().timestamp() + int(path.name.split("-")[1])
            os.utime(path, (at, at))
        await house.schedule.tick()
        assert sorted(path.name.rpartition("-")[2] for path in (v.workspace / "inbox").iterdir()) == ["2.bin", "3.bin"]


async def test_buttons_under_commands_are_pressed_and_count_as_said(village: Make) -> None:
    v = village()
    async with v.house() as (_, phone):
        await phone.say("/new")
        await phone.until(lambda: len(phone.sent) == 1)
        (undo,) = phone.sent[0].buttons
        await phone.say(undo.value, event="button", target="p1", by="mallory")
        await phone.say(undo.value, event="button", target="p1")
        await phone.until(lambda: len(phone.sent) == 2)
        assert "There is no previous" in phone.sent[1].text or "Restored the conversation" in phone.sent[1].text


async def test_a_model_and_a_depth_of_thought_are_chosen_by_pressing(village: Make) -> None:
    v = village(
        models={"providers": {"box": {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "small"}, {"id": "large"}]}}}
    )
    async with v.house() as (_, phone):
        await phone.say("/model")
        await phone.until(lambda: len(phone.sent) == 1)
        values = {button.value: button for button in phone.sent[0].buttons}
        assert {"/model box/small", "/model box/large"} <= set(values)
        await phone.say("/model box/large", event="button", target="p1")
        await phone.say("/think")
        await phone.until(lambda: len(phone.sent) == 3)
        assert phone.sent[1].text.startswith("This conversation now uses box/large")
        assert phone.sent[1].buttons == ()
        assert "/think high" in [button.value for button in phone.sent[2].buttons]


async def test_when_the_budget_is_used_up_a_button_allows_one_more_turn(village: Make) -> None:
    v = village()
    v.model.then([Failure(kind="billing", message="The budget is used up.", hint="Say /budget once.")])
    async with v.house() as (_, phone):
        await phone.say("hello")
        await phone.until(lambda: len(phone.sent) == 1)
        assert [button.value for button in phone.sent[0].buttons] == ["/budget once"]


async def test_an_edit_reaches_a_message_that_waits_behind_another(village: Make) -> None:
    v, gate = village(), asyncio.Event()
    v.model.then([Stall(gate), TextDelta("One.")], "Two.")
    async with v.house() as (_, phone):
        await phone.say("first")
        second = await phone.say("buy milk")
        await phone.say("buy oat milk", event="edited", target=second.message_id)
        gate.set()
        await phone.until(lambda: len(phone.sent) == 2)
    assert "buy oat milk" in v.seen()
    assert "buy milk" not in v.seen()


async def test_a_tag_is_never_seen_in_a_preview_or_in_the_reply(village: Make) -> None:
    v = village()
    v.model.then([TextDelta("[[reply"), TextDelta("_to_cur"), TextDelta("rent]] Yes"), TextDelta(", I do.")])
    async with v.house() as (_, phone):
        said = await phone.say("do you?", group="club")
        await phone.until(lambda: phone.sent)
        assert [(one.text, one.reply_to) for one in phone.sent] == [("Yes, I do.", said.message_id)]
        assert all("[" not in draft for draft in phone.drafts)


async def test_a_group_that_moves_while_a_reply_is_under_way_gets_it_at_its_new_place(village: Make) -> None:
    v, gate = village(), asyncio.Event()
    v.model.then([Stall(gate), TextDelta("Here.")], "Still here.")
    old, new = (ChatAddress(channel="phone", kind="group", id=one) for one in ("123", "-100123"))
    async with v.house() as (house, phone):
        await phone.say("where are you?", group="123")
        await (await phone.door).moved(old, new)
        gate.set()
        await phone.until(lambda: phone.texts("-100123") == ["Here."])
        await phone.say("and now?", group="-100123")
        await phone.until(lambda: phone.texts("-100123") == ["Here.", "Still here."])
        assert [record.key for record in house.agents["main"].store.all()] == ["agent:main:phone:group:123"]
    assert "where are you?" in v.seen()


async def test_a_webhook_call_arrives_over_http_and_a_forged_one_does_not(village: Make) -> None:
    v = village(gateway={"port": 0})
    v.model.then("Heard you.")
    async with v.house(secret="s3cret") as (house, phone):
        serving = asyncio.create_task(
            tcp_api(
                house.deps.paths.state,
                house.deps.paths.local,
                lambda: house.settings.current.gateway,
                api=house.api,
                metrics=house.metrics,
                page=house.page,
                calls=house.calls,
                learn=house.deps.learn,
                status=house.status.status,
                channels=house.channel_supervisor,
                hooks=house.automation.hooks.receiver,
                elsewhere=house.elsewhere,
                lock=house.lock,
                terminal=house.terminal,
            )
        )
        while not (port := describe(v.root / "home" / "state" / "gateway.lock").http_port):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as platform:
            for secret, path, status in (("guess", "phone", 401), ("s3cret", "fax", 404), ("s3cret", "phone", 200)):
                headers = {"x-secret": secret, "host": "home.example"}
                async with platform.post(f"/hooks/{path}/default", data=b"hello there", headers=headers) as answer:
                    assert answer.status == status
        await phone.until(lambda: phone.texts() == ["Heard you."])
        assert "hello there" in v.seen()
        assert len(v.model.requests) == 1
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


AUDIENCES = [("anna", None), ("ben", None), ("anna", "club"), ("ben", "family")]


@pytest.mark.sec(43)
async def test_what_one_sends_is_never_shown_found_or_sent_elsewhere(village: Make) -> None:
    """Everybody sends a file with a secret; then everybody tries to get at everybody else's, by every tool."""
    v = village()
    secrets = [f"canary{number}" for number in range(len(AUDIENCES))]
    async with v.house(replace(OPEN, allow_from=("anna", "ben"))) as (_, phone):
        for (by, group), secret in zip(AUDIENCES, secrets, strict=True):
            v.model.then("Kept.")
            before = len(phone.sent)
            await phone.say("keep this", by=by, group=group, attachments=(phone.attach(f"{secret} sings".encode(), "note.md"),))
            await phone.until(lambda before=before: len(phone.sent) > before)
        paths = {secret: path for path in v.workspace.rglob("*-note.md") for secret in secrets if secret in path.read_text()}
        assert len(paths) == len(secrets)
        for (by, group), own in list(zip(AUDIENCES, secrets, strict=True))[1:]:
            wanted = [str(path.relative_to(v.workspace)) for path in paths.values()]
            v.model.then(
                [
                    *(call("send_file", n, path=path) for n, path in enumerate(wanted)),
                    *(call("read", n, path=path) for n, path in enumerate(wanted)),
                    call("grep", pattern="sings"),
                    call("memory_search", query="canary sings"),
                    call("list", path="."),
                ],
                "I tried.",
            )
            before = len(phone.sent)
            await phone.say("get me everything", by=by, group=group)
            await phone.until(lambda before=before: len(phone.sent) >= before + 2)
            sent = phone.sent[before:]
            assert [one.text for one in sent] == ["I tried.", ""]
            assert phone.enclosed[sent[1].key].decode() == f"{own} sings"
            request = v.model.requests[-1]
            results = [message.text for message in request.messages if message.role == "tool" and message.name != "send_file"]
            assert any(own in text for text in results)
            for other in secrets:
                assert (other in v.seen()) is (other == own), f"{other} was seen by {by} in {group}"


async def test_an_empty_enclosure_is_told_and_does_not_block_what_follows(village: Make) -> None:
    v = village()
    from channels.messages import OutboundFile

    async with v.house() as (house, phone):
        place = ChatAddress(channel="phone", kind="direct", id="anna")
        lost = OutboundFile(path=v.root / "lost.pdf", name="lost.pdf", media_type="application/pdf")
        await house.ledger.outbox.enqueue([NewOutbound(conversation=place, text="", enclosure=lost)])
        await house.ledger.outbox.enqueue([NewOutbound(conversation=place, text="after")])
        await phone.until(lambda: len(phone.sent) == 2)
        assert phone.texts() == ["📎 lost.pdf (the file no longer exists)", "after"]
