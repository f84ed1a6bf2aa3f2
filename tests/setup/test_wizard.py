"""homebody setup, as a person sees it: in a terminal, with the strict Telegram peer, and without a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import programs
from tests.peers.compatible import CompatiblePeer, words
from tests.peers.telegram import TOKEN, TelegramPeer
from tests.service.conftest import HOMEBODY
from tests.setup.person import Home, answered
from tests.stories.terminal import CTRL_C, ENTER, Terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ADA, EVE = 42, 43
DOWN = "\x1b[B"


@pytest.fixture
async def peer(home: Home) -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as made:
        home.state.mkdir(mode=0o700)
        (home.state / "homebody.yaml").write_text(
            f"gateway: {{port: 0}}\nchannels: {{telegram: {{apiRoot: '{made.root}', pollTimeoutSeconds: 1}}}}\n"
        )
        yield made


async def test_from_nothing_to_the_first_answer_on_telegram(home: Home, peer: TelegramPeer, window: Terminal) -> None:
    """No file is edited and no code is copied: a token is pasted, and a link is opened."""
    before = (home.state / "homebody.yaml").read_text()
    await window.open(home, "setup")
    await answered(window, "Which language model", DOWN * 5)
    at = await answered(window, "Where do you want to talk", "")
    at = await answered(window, "Token of the bot (it is not shown; empty goes back)", "123", since=at)
    assert await window.until("is not a bot token", since=at)
    assert await window.until("Paste it again below", since=at)
    at = await answered(window, "Token of the bot", "123456:ABC...", since=window.shown.index("Paste it again below"))
    assert await window.until("example of a manual", since=at)
    assert "homebody.yaml:" not in window.shown, "the file does not hold what was typed"
    assert "Nothing was written" not in window.shown
    at = await answered(window, "empty goes back", TOKEN[:-1] + "x", since=window.shown.index("example of a manual"))
    assert await window.until("is not accepted", since=at)
    assert await window.until("paste it below", since=at)
    at = await answered(window, "empty goes back", "", since=window.shown.index("paste it below"))
    at = await answered(window, "Where do you want to talk", "", since=at)
    at = await answered(window, "Token of the bot", f'"{TOKEN}"', since=at)
    assert "config set" not in window.shown
    assert await window.until("The bot is @homebody_test_bot", since=at)
    await answered(window, "Folder of your agent's notes", "")
    at = await answered(window, "How should it be kept running", "")
    assert await window.until("Do it?", since=at)
    assert (home.state / "homebody.yaml").read_text() == before, "it was written before it was agreed to"
    assert TOKEN not in window.shown
    window.press(ENTER)
    assert await window.until("Waiting for you", since=at), window.shown[-1500:]
    link = re.search(r"https://t\.me/homebody_test_bot\?start=([A-Z0-9]+)", window.shown)
    assert link
    await peer.say(EVE, "/start WRONGCODEWRONGCO")
    await peer.until(lambda: len(peer.chats.said(EVE)) >= 1)
    assert "pairing code" in peer.chats.said(EVE)[0]
    await peer.say(ADA, f"/start {link[1]}")
    assert await window.until("is the owner", since=at), window.shown[-1500:]
    assert await window.until_ended(60) == 0
    assert "Write to @homebody_test_bot" in window.shown
    await peer.say(ADA, "remember that the spare key is under the blue pot")
    await peer.until(lambda: len(peer.chats.said(ADA)) >= 2)
    assert "Noted in" in peer.chats.said(ADA)[1]
    code, out, _ = await home.run("pairing", "list", "--json")
    assert code == 0
    [owner] = json.loads(out)["approved"]
    assert (owner["sender"], owner["role"]) == (str(ADA), "owner")


async def test_left_in_the_middle_nothing_is_written(home: Home, peer: TelegramPeer, window: Terminal) -> None:
    before = {path: path.read_bytes() for path in home.folder.rglob("*") if path.is_file()}
    await window.open(home, "setup")
    await answered(window, "Which language model", DOWN * 5)
    at = await answered(window, "Where do you want to talk", "")
    await answered(window, "Token of the bot", TOKEN, since=at)
    assert await window.until("Folder of your agent's notes")
    window.press(CTRL_C)
    assert await window.until_ended(60) == 130
    assert "Nothing was written." in window.shown
    assert {path: path.read_bytes() for path in home.folder.rglob("*") if path.is_file()} == before


async def test_a_step_is_done_again_alone_and_a_gateway_that_runs_is_used(
    home: Home, peer: TelegramPeer, window: Terminal
) -> None:
    assert (await home.run("start"))[0] == 0
    pid = home.holder()
    await window.open(home, "setup", "telegram")
    await answered(window, "Token of the bot", TOKEN)
    await answered(window, "Do it?", "")
    assert await window.until("Waiting for you"), window.shown[-1500:]
    assert home.holder() == pid
    window.press(CTRL_C)
    assert await window.until_ended(60) == 0
    assert "You are not paired yet" in window.shown
    assert home.holder() == pid


async def test_after_the_step_of_a_platform_alone_the_gateway_goes_on_to_answer(
    home: Home, peer: TelegramPeer, window: Terminal
) -> None:
    await window.open(home, "setup", "telegram")
    await answered(window, "Token of the bot", TOKEN)
    assert await window.until("start the gateway in the background")
    await answered(window, "Do it?", "")
    assert await window.until("Waiting for you"), window.shown[-1500:]
    await _opened_link(peer, window)
    assert await window.until_ended(90) == 0
    assert "Stopping the gateway" not in window.shown
    assert "Write to @homebody_test_bot on Telegram: it answers." in window.shown
    assert home.holder()


@pytest.mark.long
async def test_who_starts_the_gateway_themselves_has_it_run_for_the_pairing_alone(
    home: Home, peer: TelegramPeer, window: Terminal
) -> None:
    await window.open(home, "setup")
    await answered(window, "Which language model", DOWN * 5)
    at = await answered(window, "Where do you want to talk", "")
    await answered(window, "Token of the bot", TOKEN, since=at)
    await answered(window, "Folder of your agent's notes", "")
    at = await answered(window, "How should it be kept running", DOWN)
    assert await window.until("start the gateway for the pairing, and stop it afterwards", since=at)
    await answered(window, "Do it?", "", since=at)
    assert await window.until("Waiting for you"), window.shown[-1500:]
    assert home.holder()
    await _opened_link(peer, window)
    assert await window.until_ended(90) == 0
    assert re.search(r"Start the gateway with: \S*homebody start", window.shown)
    assert home.holder() == 0


async def test_left_while_the_gateway_starts_it_says_how_things_are(home: Home, peer: TelegramPeer, window: Terminal) -> None:
    await window.open(home, "setup", "telegram")
    await answered(window, "Token of the bot", TOKEN)
    await answered(window, "Do it?", "")
    assert await window.until("Starting the gateway ..."), window.shown[-1500:]
    window.press(CTRL_C)
    ended = await window.until_ended(60)
    for _ in range(300):  # the fixture ends what holds the lock
        if home.holder():
            break
        await asyncio.sleep(0.1)
    assert ended == 130
    assert "The settings are written" in window.shown
    assert re.search(r"You are not paired as the owner on Telegram yet: \S*homebody setup telegram", window.shown)
    assert re.search(r"The gateway \(process \d+\) runs|The gateway may still be starting", window.shown)


async def _opened_link(peer: TelegramPeer, window: Terminal) -> None:
    link = re.search(r"start=([A-Z0-9]+)", window.shown)
    assert link
    await peer.say(ADA, f"/start {link[1]}")
    assert await window.until("is the owner"), window.shown[-1500:]


async def test_without_a_terminal_the_commands_are_printed_and_nothing_is_changed(home: Home) -> None:
    home.more["ANTHROPIC_API_KEY"] = "sk-secret-1234"
    code, out, _ = await home.run("setup")
    assert code == 0
    for command in ("models auth add anthropic", "config set channels.telegram.botToken", "setup --yes"):
        assert command in out
    assert "sk-secret" not in out
    assert not home.state.exists()
    code, out, _ = await home.run("setup", "--json")
    facts = json.loads(out)
    assert facts["found"]["models"][0]["keyFrom"] == "ANTHROPIC_API_KEY"
    assert {line.split()[0] for line in facts["commands"]} == {"homebody", "printenv"}
    assert "#" not in "".join(facts["commands"])


async def test_with_json_nothing_else_is_on_stdout(home: Home) -> None:
    code, out, err = await home.run("setup", "--yes", "--json")
    assert code == 0, err
    assert json.loads(out)["running"] == "background"
    assert "only a notebook" in err


async def test_the_commands_of_a_profile_name_it(home: Home) -> None:
    code, out, _ = await home.run("--profile", "work", "setup", "--json")
    told = json.loads(out)["commands"]
    assert (code, len(told) > 2) == (0, True)
    assert all("homebody --profile work " in command for command in told), told


async def test_without_a_token_yes_says_where_it_is_taken_from(home: Home) -> None:
    code, out, err = await home.run("setup", "telegram", "--yes")
    assert code == 2
    assert "Set TELEGRAM_BOT_TOKEN, then: " in err
    assert "config set channels.telegram.botToken < FILE" in err
    assert "✗" not in out


async def test_a_step_that_is_not_there_is_told_with_those_that_are(home: Home) -> None:
    code, _, err = await home.run("setup", "nosuch")
    assert code == 2
    assert "setup has no step 'nosuch'" in err
    assert "setup has: model, telegram" in err


async def test_a_wrong_token_of_the_environment_is_named_by_its_variable(home: Home, peer: TelegramPeer) -> None:
    home.more["TELEGRAM_BOT_TOKEN"] = TOKEN[:-1] + "x"
    code, out, err = await home.run("setup", "telegram", "--yes")
    assert code == 1
    assert "The token in TELEGRAM_BOT_TOKEN is not accepted" in err
    assert "set TELEGRAM_BOT_TOKEN anew" in err
    assert "config set" not in out + err
    assert "not accepted" not in out


async def test_a_server_that_refuses_the_key_is_said_to_refuse_it(
    home: Home, window: Terminal, compatible_peer: CompatiblePeer
) -> None:
    from tests.peers.compatible import Refuse

    compatible_peer.answer(Refuse(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}))
    await window.open(home, "setup", "model")
    at = await answered(window, "Which language model", DOWN * 4)
    at = await answered(window, "Address of the server", compatible_peer.url, since=at)
    at = await answered(window, "Its key", "good-key-0123456789", since=at)
    assert await window.until("the server does not accept the key", since=at), window.shown[-1500:]


async def test_a_server_that_is_not_there_is_said_not_to_be_reached(home: Home, window: Terminal) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        await window.open(home, "setup", "model")
        at = await answered(window, "Which language model", DOWN * 4)
        at = await answered(window, "Address of the server", nobody, since=at)
        at = await answered(window, "Its key", "", since=at)
        assert await window.until("cannot be reached", since=at), window.shown[-1500:]
        assert await window.until("Start the server", since=at), window.shown[-1500:]


async def test_what_the_environment_says_is_tried_and_saved_for_the_service(
    home: Home, compatible_peer: CompatiblePeer
) -> None:
    compatible_peer.pages = {"/v1/models": {"data": [{"id": "house-7b"}]}}
    home.more |= {"OPENAI_BASE_URL": compatible_peer.url, "OPENAI_API_KEY": "sk-secret-1234"}
    compatible_peer.answer(words("here"))
    code, out, err = await home.run("setup", "model", "--yes", "--dry-run")
    assert code == 0, err
    assert "openai/house-7b answered" in out
    assert "Nothing was written." in out
    assert not home.state.exists()
    compatible_peer.answer(words("here"))
    assert (await home.run("setup", "model", "--yes"))[0] == 0
    home.more.clear()
    compatible_peer.answer(words("still here"))
    code, out, err = await home.run("models", "probe", "--json")
    assert code == 0, err
    assert json.loads(out)["model"] == "openai/house-7b"


async def test_a_key_that_is_refused_is_not_saved(home: Home, compatible_peer: CompatiblePeer) -> None:
    from tests.peers.compatible import Refuse

    compatible_peer.pages = {"/v1/models": {"data": [{"id": "house-7b"}]}}
    compatible_peer.answer(Refuse(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}))
    home.more |= {"OPENAI_BASE_URL": compatible_peer.url, "OPENAI_API_KEY": "sk-secret-1234"}
    code, out, err = await home.run("setup", "model", "--yes")
    assert code == 4
    assert "does not accept the key" in out + err
    assert "Set OPENAI_API_KEY anew, then: " in out + err
    assert "profile openai" not in out + err
    assert not (home.state / "auth-profiles.json").exists()


async def test_a_key_in_quotes_in_the_environment_is_told_and_not_used(home: Home) -> None:
    home.more |= {"OPENAI_API_KEY": '"sk-secret-1234"', "GEMINI_API_KEY": "sk secret"}
    code, out, err = await home.run("setup", "--json")
    assert code == 0
    assert json.loads(out)["found"]["models"] == []
    assert "OPENAI_API_KEY is set, but with quotes in it" in err
    assert "GEMINI_API_KEY is set, but with a blank" in err
    assert "secret" not in out + err


async def test_a_taken_port_is_replaced_by_a_free_one(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert (await home.run("config", "set", "gateway.port", str(port)))[0] == 0
        code, out, _ = await home.run("setup", "service", "--yes", "--dry-run")
    assert code == 0
    assert f"Port {port} is taken" in out
    assert re.search(r"gateway\.port: \d+", out)


async def test_a_workspace_that_cannot_be_written_is_refused(home: Home, window: Terminal) -> None:
    (home.folder / "file").touch()
    await window.open(home, "setup", "workspace")
    at = await answered(window, "Folder of your agent's notes", "\x15" + str(home.folder / "file" / "notes"))
    assert await window.until("a file of that name exists", since=at)
    at = await answered(window, "Folder of your agent's notes", "\x15~/diary", since=at + 40)
    await answered(window, "Do it?", "", since=at)
    assert await window.until_ended(60) == 0
    assert "workspace: ~/diary" in (home.state / "homebody.yaml").read_text()


async def test_a_folder_that_may_not_hold_the_notes_is_refused_at_the_question(home: Home, window: Terminal) -> None:
    await window.open(home, "setup", "workspace")
    refused = 0
    for folder, reason in (
        ("/", "is the whole disk"),
        ("/proc/x", "is in /proc, which belongs to the operating system"),
        ("~", "is or contains your home folder"),
        ("~/.homebody/notes", "is inside"),
    ):
        at = await answered(window, "Folder of your agent's notes", f"\x15{folder}", since=refused)
        assert await window.until("Choose a folder for the notes alone, such as ~/homebody.", since=at), window.shown[at:]
        assert f"notes cannot be in {folder.replace('~', str(home.folder))}: it {reason}" in " ".join(window.shown[at:].split())
        refused = window.shown.index("Choose a folder for the notes alone", at)
    assert "homebody.yaml" not in window.shown
    assert "config set" not in window.shown
    assert not home.state.exists()


async def test_the_search_by_meaning_takes_an_embedder_of_ollama(home: Home, compatible_peer: CompatiblePeer) -> None:
    vector = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}]}
    compatible_peer.pages = {"/api/tags": {"models": [{"name": "nomic-embed-text:latest"}]}, "/v1/embeddings": vector}
    home.more["OLLAMA_HOST"] = compatible_peer.url.removesuffix("/v1")
    code, out, err = await home.run("setup", "memory", "--yes")
    assert code == 0, err
    assert "nomic-embed-text:latest made a vector of 2 numbers" in out
    told = (await home.run("config", "get", "agents.defaults.memorySearch", "--json"))[1]
    values: Any = {one["path"].rpartition(".")[2]: one["value"] for one in json.loads(told)}
    assert (values["provider"], values["model"]) == ("openai", "nomic-embed-text:latest")


async def test_an_embedder_that_makes_no_vector_is_not_kept(home: Home, compatible_peer: CompatiblePeer) -> None:
    compatible_peer.pages = {"/api/tags": {"models": [{"name": "nomic-embed-text:latest"}]}}
    home.more["OLLAMA_HOST"] = compatible_peer.url.removesuffix("/v1")
    code, _, err = await home.run("setup", "memory", "--yes")
    assert code == 1
    assert "no vector was made" in err
    assert not home.state.exists()


async def test_yes_takes_the_first_model_that_was_found_and_answers(home: Home, compatible_peer: CompatiblePeer) -> None:
    from tests.peers.compatible import Refuse

    compatible_peer.pages = {"/v1/models": {"data": [{"id": "house-7b"}]}, "/api/tags": {"models": [{"name": "qwen3:8b"}]}}
    compatible_peer.answer(Refuse(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}))
    compatible_peer.answer(words("here"))
    home.more |= {"OPENAI_BASE_URL": compatible_peer.url, "OPENAI_API_KEY": "sk-secret-1234"}
    home.more["OLLAMA_HOST"] = compatible_peer.root
    code, out, err = await home.run("setup", "model", "--yes")
    assert code == 0, err
    assert "does not accept the key" in out
    assert re.search(r"✓ ollama/\S+ answered", out)
    assert not (home.state / "auth-profiles.json").exists()


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_first_message_that_is_not_answered_is_told_and_ends_with_an_error(
    home: Home, compatible_peer: CompatiblePeer, form: str
) -> None:
    from tests.peers.compatible import Refuse

    compatible_peer.pages = {"/v1/models": {"data": [{"id": "house-7b"}]}}
    compatible_peer.answer(words("here"))
    for _ in range(12):
        compatible_peer.answer(Refuse(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}))
    home.more |= {"OPENAI_BASE_URL": compatible_peer.url, "OPENAI_API_KEY": "sk-secret-1234"}
    code, out, err = await home.run("setup", "--yes", *(["--json"] if form == "json" else []))
    assert code == 1, (out, err)
    assert "Done." not in out + err
    if form == "json":
        facts = json.loads(out)
        assert facts["firstMessage"] == "failed"
        assert "homebody agent -m" in " ".join(facts["told"])
    else:
        assert "Your first message was not answered; the reason is above." in out
        assert "agent -m 'Hello! Who are you" in out


async def test_without_a_home_the_error_says_what_to_set(home: Home, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        "setpriv",
        "--reuid=54321",
        "--clear-groups",
        str(HOMEBODY),
        "setup",
        env={"PATH": os.environ["PATH"]},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    if os.geteuid() != 0 or b"Permission denied" in err:
        pytest.skip("only root can become a user without a home, who must be able to read this folder")
    assert process.returncode == 6
    assert b"Set HOME, or HOMEBODY_HOME" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without an account")
def test_a_user_without_an_account_has_notes_beside_homebody_home(tmp_path: Path) -> None:
    program = (
        "import os, sys; os.setgroups([]); os.setuid(54321); from gateway.cli import _settle_home; _settle_home(); "
        "print(os.environ.get('HOME'))"
    )
    for env, wanted in (
        ({"HOMEBODY_HOME": "/data/.homebody"}, "/data"),
        ({}, "None"),
        ({"HOME": "/x", "HOMEBODY_HOME": "/y/z"}, "/x"),
    ):
        done = programs.run([sys.executable, "-I", "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout.strip() == wanted, done.stderr
