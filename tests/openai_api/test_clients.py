"""Real programs that speak OpenAI's API: the command `llm`, and OpenAI's library for Node."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.openai_api.conftest import ApiVillage
from tests.patience import PATIENCE
from tests.peers.aimock import node_path, node_version, peer_folder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.openai_api.conftest import Served

_MODELS = """
- model_id: homebody
  model_name: homebody
  api_base: {url}
  api_key_name: homebody
"""
_NODE = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.env.URL, apiKey: process.env.TOKEN });
const messages = [{ role: "user", content: "hello from node" }];
const models = [];
for await (const model of client.models.list()) models.push(model.id);
const whole = await client.chat.completions.create({ model: "homebody", messages });
let text = "", usage = 0;
const given = { model: "homebody", messages, stream: true, stream_options: { include_usage: true } };
for await (const chunk of await client.chat.completions.create(given)) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage?.total_tokens ?? usage;
}
let code = "";
try { await client.chat.completions.create({ model: "gpt-4o", messages }); } catch (error) { code = error.code; }
console.log(JSON.stringify({ models, whole: whole.choices[0].message.content, text, usage, code }));
"""


async def run(*command: str, cwd: Path, **env: str) -> str:
    """Run a program; return what it prints."""
    given = {"PATH": os.environ["PATH"], "HOME": str(cwd), "NO_PROXY": "*", **env}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=given,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        told, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    return told.decode()


def _set_up(folder: Path, url: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "extra-openai-models.yaml").write_text(_MODELS.format(url=url))


async def llm(served: Served, folder: Path, *arguments: str) -> str:
    _set_up(folder, served.url)
    command = (sys.executable, "-m", "llm", "-m", "homebody", "--key", served.gateway_token, *arguments)
    return await run(*command, cwd=folder, LLM_USER_PATH=str(folder))


@pytest.mark.long
async def test_the_command_llm_asks_streams_and_goes_on(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.then("The first answer.", "The second answer.")
    async with village.served() as served:
        assert (await llm(served, tmp_path / "llm", "-s", "Be brief.", "hello")).strip() == "The first answer."
        assert (await llm(served, tmp_path / "llm", "--no-stream", "-c", "and more")).strip() == "The second answer."
        said = [message.text for message in village.model.requests[-1].messages]
        assert sum("hello" in text for text in said) == 1  # it sends its own history again, and that is not new
        assert "Be brief." in said[0]


async def test_openais_library_for_node(tmp_path: Path) -> None:
    if node_version() is None or not (peer_folder().parent.parent / "openai").is_dir():
        told = "the library for Node is not installed (tests/peers/install)"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "Hello, node.")
    (tmp_path / "ask.mjs").write_text(_NODE)
    (tmp_path / "node_modules").symlink_to(peer_folder().parent.parent)
    async with village.served() as served:
        told = json.loads(await run(str(node_path()), "ask.mjs", cwd=tmp_path, URL=served.url, TOKEN=served.gateway_token))
        assert told["models"] == ["homebody", "homebody/main"]
        assert (told["whole"], told["text"], told["code"]) == ("Hello, node.", "Hello, node.", "model_not_found")
        assert told["usage"] > 0
