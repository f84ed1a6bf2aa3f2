"""Repositories that are reached by https and ssh: what opens them, and what is said when they do not open."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from gateway.base.errors import GitFailed
from gateway.settings.workspace_store_settings import WorkspaceStoreSettings
from gateway.workspaces.git_program import GitProgram, RemoteAccess, remote_failure
from tests.workspaces.clones import git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.workspaces.clones import Clones

TOKEN = "ghp-a-token-of-the-owner"


@contextmanager
def served(folder: Path, user: str, token: str) -> Iterator[str]:
    """Serve the repositories of a folder as git's own CGI program does, to whoever has the token."""
    wanted = "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()

    class Door(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            if self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
                "REMOTE_USER": user,
            }
            done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True).stdout
            head, _, answer = done.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in {**fields, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET  # noqa: N815 - names of the library

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_token_opens_a_repository_and_stands_in_no_argument_and_no_file(clones: Clones) -> None:
    with served(clones.folder, "x-access-token", TOKEN) as place:
        one = clones.clone("one", url=f"{place}/all.git", token=TOKEN)
        two = clones.clone("two", url=f"{place}/all.git", token=TOKEN)
        one.write("MEMORY.md", "a\n")
        one.sync()
        two.sync()
        assert two.read("MEMORY.md") == "a\n"
        wrong = clones.clone("three", url=f"{place}/all.git", token="another")
        with pytest.raises(GitFailed) as failed:
            wrong.sync()
        assert failed.value.kind == "refused"
    assert git("log", "--format=%s", "main", at=clones.remote) == "main: MEMORY.md\n"
    kept = [path.read_bytes() for path in one.state.rglob("*") if path.is_file()]
    assert kept
    assert not any(TOKEN.encode() in data for data in kept)
    assert TOKEN not in repr(one.kept.access.url)


def test_a_user_in_the_address_is_the_one_whose_token_it_is(clones: Clones) -> None:
    with served(clones.folder, "ann", TOKEN) as place:
        one = clones.clone("one", url=f"{place.replace('http://', 'http://ann@')}/all.git", token=TOKEN)
        one.write("MEMORY.md", "a\n")
        one.sync()
    assert git("log", "--format=%s", "main", at=clones.remote) == "main: MEMORY.md\n"


def test_ssh_asks_nothing_and_uses_the_key_that_the_settings_name(tmp_path: Path) -> None:
    """A program in the place of ssh says what it was called with."""
    called = tmp_path / "called"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {called}\nenv > {called}.env\necho "Host key verification failed." >&2\nexit 255\n'
    )
    (tmp_path / "bin" / "ssh").chmod(0o755)
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "OPENAI_API_KEY": "sk-not-for-git",
        "SSH_AUTH_SOCK": "/run/agent",
    }
    access = RemoteAccess(url="git@nas.example:notes/main.git", ssh_key=tmp_path / "my key")
    with pytest.raises(GitFailed) as failed:
        GitProgram(tmp_path / "none.git", access, environ).remote("ls-remote", access.url)
    assert (failed.value.kind, failed.value.hint) == (
        "refused",
        "Make the host known to the gateway's user: ssh git@nas.example",
    )
    words = called.read_text().splitlines()
    assert {"-oBatchMode=yes", "-oIdentitiesOnly=yes", str(tmp_path / "my key"), "git@nas.example"} <= set(words)
    seen = (tmp_path / "called.env").read_text()
    assert "sk-not-for-git" not in seen
    assert "SSH_AUTH_SOCK=/run/agent" in seen


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("fatal: unable to access 'https://x/': Could not resolve host: x", "away"),
        ("ssh: connect to host x port 22: Connection refused", "away"),
        ("fatal: Authentication failed for 'https://x/'", "refused"),
        ("fatal: detected dubious ownership in repository at '/mnt/x'", "refused"),
        ("! [remote rejected] a -> main (protected branch hook declined)", "refused"),
        ("! [rejected] a -> main (fetch first)", "rejected"),
        ("! [remote rejected] a -> main (failed to update ref)", "rejected"),
    ],
)
def test_what_the_other_side_says_is_told_apart(said: str, kind: str) -> None:
    assert remote_failure(said, "https://x/").kind == kind


@pytest.mark.parametrize(
    ("url", "command"),
    [("git@nas:notes.git", "ssh git@nas"), ("ssh://git@nas:2222/x.git", "ssh -p 2222 git@nas"), ("ssh://[::1]/x", "ssh ::1")],
)
def test_a_host_that_is_not_known_is_made_known_by_a_command_that_works(url: str, command: str) -> None:
    assert remote_failure("Host key verification failed.", url).hint.endswith(f"user: {command}")


@pytest.mark.parametrize(
    "remote",
    [
        "https://git.example/me/notes.git",
        "https://ann@git.example/notes-{agentId}.git",
        "ssh://git@nas.example:2222/srv/x.git",
        "git@nas.example:notes.git",
        "nas:notes.git",
        "/mnt/nas/{agentId}.git",
        "~/notes.git",
        "file:///mnt/x.git",
    ],
)
def test_an_address_that_git_takes_is_taken(remote: str) -> None:
    assert WorkspaceStoreSettings(type="git", remote=remote).remote == remote


@pytest.mark.parametrize(
    "remote",
    [
        "ext::sh -c touch% /tmp/x",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x@y:z",
        "https://ann:secret@git.example/x",
        "git://x/y",
        "notes",
        "ssh://-oProxyCommand=x/y",
    ],
)
def test_an_address_that_could_run_something_or_shows_a_password_is_refused(remote: str) -> None:
    with pytest.raises(ValidationError):
        WorkspaceStoreSettings(type="git", remote=remote)


def test_an_object_that_git_takes_from_nobody_is_said_to_be_one(clones: Clones) -> None:
    def put(kind: str, data: bytes) -> str:
        words = ["git", "hash-object", "-t", kind, "-w", "--literally", "--stdin"]
        return subprocess.run(words, cwd=clones.remote, input=data, check=True, capture_output=True).stdout.decode().strip()

    blob = bytes.fromhex(put("blob", b"a\n"))
    one = clones.clone("one")
    for mode, name, kind in ((b"0100644", b"old.md", ""), (b"100644", b".git", "unfit")):
        tree = put("tree", mode + b" " + name + b"\0" + blob)
        commit = git("commit-tree", tree, "-m", "x", at=clones.remote).strip()
        git("update-ref", "refs/heads/main", commit, at=clones.remote)
        if not kind:
            one.sync()
            continue
        with pytest.raises(GitFailed, match="takes for forged or broken") as failed:
            one.sync()
        assert (failed.value.kind, "git fsck" in failed.value.hint) == (kind, True)
    assert one.read("old.md") == "a\n"
