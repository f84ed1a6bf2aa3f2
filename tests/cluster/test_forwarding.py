"""Any gateway of a cluster takes commands, pages, terminals and webhooks, and the holder answers."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gateway.approvals.stored_rules import StoredRule, StoredRules
from gateway.base.clock import SystemClock
from gateway.base.errors import HolderAway, StorageFailed
from gateway.cli.gateway_calls import LONGEST
from gateway.cluster.database_lock import database_lock
from gateway.cluster.peer_proof import ASKED, PROOF, Signer, digest_of
from gateway.settings.root import Settings
from gateway.supervision.connected_elsewhere import ConnectedElsewhere
from gateway.supervision.platforms import platforms
from tests.cluster.pair import NAMES, VERIFY, until
from tests.peers.whatsapp import APP_SECRET, NUMBER_ID
from tests.peers.whatsapp_calls import signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.pair import Pair

pytestmark = pytest.mark.postgres
OTHER = {"anna": "cellar", "bob": "kitchen"}
"""At which gateway an agent is not."""


def secret_of(pair: Pair) -> tuple[bytes, dict[str, str]]:
    """Return the secret of the cluster, and the processes by their gateways' names."""
    import psycopg

    with psycopg.connect(pair.url, options="-c search_path=homebody") as connection:
        [(secret,)] = connection.execute("SELECT secret FROM cluster_secret WHERE purpose = 'proof'").fetchall()
        names = connection.execute("SELECT label, name FROM cluster_gateway WHERE until > clock_timestamp()").fetchall()
    return str(secret).encode(), {str(label): str(name) for label, name in names}


def test_commands_at_any_gateway_are_about_all_agents(pair: Pair) -> None:
    for agent, name in OTHER.items():
        pair.run(name, "cron", "add", "every day at 9:00", "water the plants", "--agent", agent, "--name", f"plants of {agent}")
    for name in NAMES:
        jobs = pair.facts(name, "cron", "list")
        assert sorted(job["agent"] for job in jobs if "plants" in job["name"]) == ["anna", "bob"]
    pair.run("kitchen", "cron", "pause", "plants of bob")
    assert pair.facts("cellar", "cron", "show", "plants of bob")["state"] == "paused"
    assert "nobody" in pair.run("cellar", "cron", "add", "every day at 9:00", "x", "--agent", "nobody", code=2)
    assert "there is no job" in pair.run("cellar", "cron", "pause", "never made", code=2)


@pytest.mark.parametrize("agent", ["anna", "bob"])
def test_a_terminal_is_answered_by_the_holder(pair: Pair, agent: str) -> None:
    facts = pair.facts(OTHER[agent], "agent", "--agent", agent, "-m", f"the key is under stone {agent}")
    assert f"stone {agent}" in facts["reply"]
    assert f"agent:{agent}:main" in {one["sessionKey"] for one in pair.page("kitchen").call("sessions.list")["sessions"]}


@pytest.mark.parametrize("agent", ["anna", "bob"])
def test_a_page_talks_with_agents_of_the_other_gateway_and_is_told_as_it_happens(pair: Pair, agent: str) -> None:
    page, session = pair.page(OTHER[agent]), f"agent:{agent}:main"
    assert {one["id"] for one in page.me["agents"]} == {"anna", "bob"}
    heard: list[dict[str, Any]] = []
    with page.client.stream("GET", "/page/events") as stream:

        def listen() -> None:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    heard.append(json.loads(line[5:]))
                if heard and heard[-1]["kind"] == "chat.said" and heard[-1]["data"]["item"]["who"] == "agent":
                    return

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        while listening.is_alive():  # the other gateway is followed some time after the page was opened
            page.call("chat.say", session=session, text=f"remember the lamp of {agent}", key=f"lamp{secrets.token_hex(4)}")
            listening.join(3)
    said = [event["data"]["item"] for event in heard if event["kind"] == "chat.said"]
    assert {one["who"] for one in said} >= {"agent"}
    assert f"lamp of {agent}" in json.dumps(page.call("chat.history", session=session))
    assert page.post("chat.stop", session=session).status_code == 200


def test_rights_are_those_of_the_gateway_that_the_browser_reached(pair: Pair) -> None:
    cellar = pair.base("cellar")
    viewer = httpx.Client(base_url=pair.base("kitchen"), headers={"origin": pair.base("kitchen")})
    code = pair.facts("cellar", "open", "--viewer")["url"].partition("#")[2]
    assert viewer.post("/enter", json={"code": code}).status_code == 200
    csrf = {"x-homebody-csrf": viewer.get("/page/me").json()["csrf"]}
    assert viewer.get(f"{cellar}/page/me", headers={"origin": cellar}).status_code == 200, (
        "one cookie for gateways of several ports"
    )
    say = {"session": "agent:bob:main", "text": "hello", "key": "viewer0000"}
    assert viewer.post("/page/call/chat.say", json=say, headers=csrf).status_code == 403
    assert viewer.post("/page/call/chat.history", json={"session": "agent:bob:main"}).status_code == 403
    assert viewer.post("/page/call/chat.history", json={"session": "agent:bob:main"}, headers=csrf).status_code == 200
    assert viewer.post("/page/call/tools.list", json={"agent": "bob"}, headers=csrf).status_code == 404
    viewer.close()


def test_a_platforms_call_reaches_the_gateway_that_holds_the_account(pair: Pair) -> None:
    asked = {"hub.mode": "subscribe", "hub.challenge": "12345", "hub.verify_token": VERIFY}
    for name in NAMES:
        hook = f"{pair.base(name)}/hooks/whatsapp/default"
        assert httpx.get(hook, params=asked).text == "12345"
        body, headers = signed({"object": "whatsapp_business_account", "entry": []}, APP_SECRET)
        assert httpx.post(hook, content=body, headers=headers).status_code == 200
        assert httpx.post(hook, content=body + b" ", headers=headers).status_code == 401
        assert httpx.get(f"{pair.base(name)}/hooks/whatsapp/other", params=asked).status_code == 404


def test_webhooks_of_ones_own_reach_the_agent_wherever_they_are_called(pair: Pair) -> None:
    token = pair.facts("kitchen", "hooks", "add", "bell", "--agent", "bob", "--instruction", "somebody rang")["token"]
    for number, name in enumerate(NAMES):
        call = {"url": f"{pair.base(name)}/hooks/in/bell", "json": {"door": number}}
        assert httpx.post(**call, headers={"authorization": "Bearer wrong"}).status_code == 401
        key = {"authorization": f"Bearer {token}", "idempotency-key": "once"}
        assert httpx.post(**call, headers=key).status_code == (200 if number else 202)
    fresh = pair.facts("cellar", "hooks", "rotate", "bell")["token"]
    for name in NAMES:
        for credential, status in ((token, 401), (fresh, 200)):
            headers = {"authorization": f"Bearer {credential}", "idempotency-key": "once"}
            until(lambda s=status, h=headers, n=name: httpx.post(f"{pair.base(n)}/hooks/in/bell", headers=h).status_code == s)


def test_programs_talk_with_agents_of_the_other_gateway(pair: Pair) -> None:
    token = (pair.root / "state" / "state" / "gateway.token").read_text().strip()
    for agent, name in OTHER.items():
        body = {
            "model": f"homebody/{agent}",
            "messages": [{"role": "user", "content": f"a program writes to {agent}"}],
            "stream": True,
        }
        headers = {"authorization": f"Bearer {token}"}
        with httpx.stream("POST", f"{pair.base(name)}/v1/chat/completions", json=body, headers=headers, timeout=60) as answer:
            assert answer.status_code == 200, answer.read()
            text = "".join(
                (json.loads(line[6:])["choices"] or [{"delta": {}}])[0]["delta"].get("content") or ""
                for line in answer.iter_lines()
                if line.startswith("data: {")
            )
        assert agent in text


def test_an_agent_without_a_chat_is_told_of_that_of_its_owner_by_the_gateway_that_has_it(pair: Pair) -> None:
    secret, names = secret_of(pair)
    message = {
        "from": "4915123456789",
        "id": "wamid.owner",
        "timestamp": f"{time.time():.0f}",
        "type": "text",
        "text": {"body": "hello"},
    }
    metadata = {"phone_number_id": NUMBER_ID, "display_phone_number": "15550001111"}
    contacts = [{"wa_id": "4915123456789", "profile": {"name": "Anna"}}]
    value = {"messaging_product": "whatsapp", "metadata": metadata, "contacts": contacts, "messages": [message]}
    entry = [{"id": "1", "changes": [{"field": "messages", "value": value}]}]
    body, signature = signed({"object": "whatsapp_business_account", "entry": entry}, APP_SECRET)
    assert httpx.post(f"{pair.base('kitchen')}/hooks/whatsapp/default", content=body, headers=signature).status_code == 200
    chat = "whatsapp:default:direct:4915123456789"

    async def current(*, fresh: bool = False) -> bytes:
        return secret

    def told(**asked: str) -> str:
        content, target = json.dumps(asked).encode(), "/cluster/call/cluster.ownerPlace"
        signer = Signer(names["kitchen"] + secrets.token_hex(4), current)
        headers = asyncio.run(signer.headers(names["cellar"], "POST", target, body=digest_of(content), asked="{}"))
        answer = httpx.post(pair.base("cellar") + target, content=content, headers=headers)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["result"]["address"])

    until(lambda: told(agent="bob") == chat)
    assert (told(agent="anna"), told()) == ("", chat), "which agent it is about goes along"
    job = pair.facts("kitchen", "cron", "add", "every day at 9:00", "anna says: water", "--agent", "anna")["job"]["id"]
    pair.run("kitchen", "cron", "run", job)
    rows = pair.facts("kitchen", "outbox", "list", "--all")
    assert [row["conversation"] for row in rows if "anna says: water" in row["text"]] == [chat]


def test_nobody_else_is_taken_for_a_gateway_of_the_cluster(pair: Pair) -> None:
    secret, names = secret_of(pair)
    base, target, body = pair.base("kitchen"), "/cluster/call/status", b"{}"

    async def current(*, fresh: bool = False) -> bytes:
        return secret

    async def wrong(*, fresh: bool = False) -> bytes:
        return b"guessed"

    def proof(key: Any = current, *, method: str = "POST", to: str = "kitchen", path: str = target) -> dict[str, str]:
        signer = Signer(names["cellar"] + "x", key)
        return asyncio.run(signer.headers(names[to], method, path, body=digest_of(body), asked="{}"))

    def status(headers: dict[str, str], *, path: str = target, content: bytes = body) -> int:
        return httpx.post(base + path, content=content, headers=headers).status_code

    good = proof()
    assert status(good) == 200
    assert status(good) == 401  # the same once more
    assert status(proof(wrong)) == 401
    assert status(proof(method="GET")) == 401
    assert status(proof(path="/cluster/call/resume")) == 401
    assert status(proof(to="cellar")) == 421
    assert status({**proof(), ASKED: '{"token": ""}'}) == 401
    assert status({}) == 401
    for path in ("/page/call/status", "/hooks/in/bell", "/healthz"):
        assert status({PROOF: "v1 a b 1 stream c"}, path=path) == 401


def test_the_secret_can_be_exchanged_at_any_time(pair: Pair) -> None:
    former, _ = secret_of(pair)
    pair.run("kitchen", "cluster", "rotate")
    assert secret_of(pair)[0] != former
    for agent, name in OTHER.items():
        assert pair.facts(name, "todo", "list", "--agent", agent)["items"] is not None


def test_a_command_says_soon_why_the_holder_is_not_reached(pair: Pair) -> None:
    for address, why in (("http://127.0.0.1:1", "cellar cannot be reached at"), (pair.base("kitchen"), "is not cellar")):
        with pair.cellar_at(address):
            until(lambda: pair.page("kitchen").post("chat.history", session="agent:bob:main").status_code == 503)
            began = time.monotonic()
            told = pair.run("kitchen", "agent", "--agent", "bob", "-m", "hello", code=1)
            assert "the agent bob is with another gateway: " in told
            assert why in told
            assert "is starting" not in told
            assert time.monotonic() - began < LONGEST / 2
    until(lambda: pair.page("kitchen").post("chat.history", session="agent:bob:main").status_code == 200)


def test_settings_that_differ_are_named(pair: Pair) -> None:
    import psycopg

    with psycopg.connect(pair.url, autocommit=True, options="-c search_path=homebody") as connection:
        connection.execute(
            'UPDATE cluster_settings SET keys = (keys::jsonb || \'{"agents.defaults.userTimezone": "else"}\')::text '
            "WHERE gateway LIKE 'cellar.%'"
        )
    facts = pair.facts("kitchen", "cluster", "status")
    assert facts["differing"] == ["agents.defaults.userTimezone"]


def test_what_a_gateway_that_was_killed_held_is_named_until_another_one_takes_it(pair: Pair) -> None:
    page = pair.page("kitchen")
    pair.end("cellar", signal.SIGKILL)
    told = pair.run("kitchen", "todo", "list", "--agent", "bob", code=1)
    assert "the agent bob is with another gateway: cellar cannot be reached" in told
    answer = page.post("chat.history", session="agent:bob:main")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert "cellar" in answer.json()["error"]["message"]
    hook = httpx.get(f"{pair.base('kitchen')}/hooks/whatsapp/default", params={"hub.mode": "subscribe"})
    assert (hook.status_code, hook.headers["retry-after"]) == (503, "10")
    status = pair.facts("kitchen", "status")
    assert any("cellar" in notice for notice in status["notices"])
    until(lambda: pair.holders()["agent:bob"] == "kitchen")
    until(lambda: page.post("chat.history", session="agent:bob:main").status_code == 200)
    pair.start("cellar")
    pair.settle()


async def test_rows_of_the_ledger_are_looked_up_by_whom_they_belong_to(pair: Pair) -> None:
    import psycopg

    from gateway.cluster.directory import Directory

    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(pair.url, autocommit=True, options="-c search_path=homebody")

    await asyncio.to_thread(
        pair.run, "kitchen", "cron", "add", "every day at 7:00", "x", "--agent", "bob", "--name", "Early tea"
    )
    directory = Directory(connect, "nobody")
    try:
        assert await directory.tokens_of("job", " early TEA ") == ["agent:bob"]
        for kind in ("approval", "hook", "inbox", "job", "outbox", "session", "unasked"):
            for unknown in ("never", "7000000000", "²", "9" * 40, "' OR '1'='1"):
                assert await directory.tokens_of(kind, unknown) == []
        standing = await directory.standing()
        assert {standing.peers[name].label for name in standing.holders.values()} <= set(NAMES)
        assert all(peer.address.startswith("http://127.0.0.1:") for peer in standing.peers.values())
    finally:
        await directory.close()


def test_lasting_rules_that_two_gateways_make_at_once_are_all_kept(pair: Pair, tmp_path: Path) -> None:
    storage = Settings.model_validate({"storage": {"url": pair.url}}).storage
    told: list[int] = []

    def make(gateway: int) -> None:
        stored = StoredRules(tmp_path)
        stored.guard = partial(database_lock, storage, "rules")
        stored.changed = lambda: told.append(gateway)
        for number in range(5):
            argv = ("echo", f"{gateway}.{number}")
            stored.add(StoredRule(agent="anna", program="/bin/echo", argv=argv, cwd="/", made=datetime.now(UTC)))

    with ThreadPoolExecutor() as pool:
        list(pool.map(make, range(2)))
    assert len(StoredRules(tmp_path).all()) == len(told) == 10


def test_whoever_lost_the_lock_of_lasting_rules_writes_nothing(pair: Pair, tmp_path: Path) -> None:
    import psycopg

    storage = Settings.model_validate({"storage": {"url": pair.url}}).storage
    stored = StoredRules(tmp_path)

    @contextmanager
    def lost() -> Iterator[Callable[[], None]]:
        with database_lock(storage, "rules of a test") as still:
            with psycopg.connect(pair.url, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid IN (SELECT pid FROM "
                    "pg_stat_activity WHERE query LIKE '%pg_advisory_xact_lock%' AND state = 'idle in transaction')"
                )
            yield still

    stored.guard = lost
    with pytest.raises(StorageFailed):
        stored.switch("ls", on=False)
    assert not stored.path.exists()


def test_texts_for_an_account_of_another_gateway_are_cut_as_the_platform_needs_it() -> None:
    [whatsapp] = [
        channel
        for channel, _ in platforms(
            Settings.model_validate(
                {"channels": {"whatsapp": {"phoneNumberId": NUMBER_ID, "accessToken": "EAA", "appSecret": "s"}}}
            ),
            SystemClock(),
            {},
        )
        if channel.name == "whatsapp"
    ]
    there = ConnectedElsewhere(whatsapp)
    text = "word " * 3000
    assert len(there.chunks(text)) > 1
    assert there.chunks(text) == whatsapp.chunks(text)
    assert not hasattr(there, "draft")


async def test_a_gateway_whose_address_leads_to_silence_is_not_waited_for(pair: Pair) -> None:
    import psycopg

    from gateway.api.forwarding.peers import Peers
    from gateway.cluster.directory import Directory

    taken: list[asyncio.StreamWriter] = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)

    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(pair.url, autocommit=True, options="-c search_path=homebody")

    silent = await asyncio.start_server(take, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    directory = Directory(connect, "nobody")
    peers = Peers(directory, look=0.02, probe=0.2)
    async with await connect() as admin:
        await admin.execute(
            "INSERT INTO cluster_gateway (name, label, address, settings, until, leaving) "
            "VALUES ('attic.1', 'attic', %s, '', clock_timestamp() + interval '1 hour', false)",
            (address,),
        )
        try:
            peer = (await directory.standing(fresh=True)).peers["attic.1"]
            with pytest.raises(HolderAway, match="attic works, but nobody answers at its address") as told:
                await peers.call(peer, "call", "status", {})
        finally:
            await admin.execute("DELETE FROM cluster_gateway WHERE label = 'attic'")
            await peers.close()
            await directory.close()
            silent.close()
            for writer in taken:
                writer.close()
    assert (told.value.where, "look before you repeat it" in told.value.hint) == (address, True)


def test_where_no_gateway_is_named_one_of_the_home_is_asked_and_what_is_about_one_says_that_it_has_to_be_named(
    pair: Pair,
) -> None:
    pair.run("", "cron", "list")
    assert pair.facts("", "status")["gateway"] == "cellar"
    for words in (("stop",), ("restart",), ("logs",), ("cluster", "drain"), ("gateway",)):
        said = pair.run("", *words, code=2)
        assert "In this home run cellar, kitchen" in said, words
        assert "export HOMEBODY_GATEWAY=" in said, words
