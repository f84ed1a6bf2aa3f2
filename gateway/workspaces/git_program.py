"""Runs the git program on one repository: without hooks, settings or credentials of anybody else, and with limits on time.

git never sees the workspace. The repository is a bare one in the state folder, so that nothing an agent writes (``.git/config``,
attributes, filters) has a meaning for it; files are read and written by our own code.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from gateway.base.errors import GitFailed

LOCAL_SECONDS: Final = 120.0
REMOTE_SECONDS: Final = 120.0
_KEPT: Final = (
    "PATH",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    *(name for one in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (one, one.upper())),
)
"""Variables of the gateway's environment that git gets: none of them is a secret but a proxy's, which is needed."""
_SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.fsync": "all",
    "core.logAllRefUpdates": "false",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "100",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "http.lowSpeedLimit": "100",
    "http.lowSpeedTime": "30",
    "maintenance.auto": "false",
    "protocol.version": "2",
    "push.recurseSubmodules": "no",
    "transfer.fsckObjects": "true",
    **{
        f"{kind}.zeroPaddedFilemode": "ignore" for kind in ("fsck", "fetch.fsck", "receive.fsck")
    },  # of old programs, and harmless
}
_RECEIVE: Final = "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand= -c core.fsmonitor=false receive-pack"
"""What takes a push in a repository on this machine: nothing that lies in it is run."""
_REJECTED: Final = re.compile(
    r"non-fast-forward|fetch first|\[rejected\]|cannot lock ref|failed to update ref|incorrect old value"
)
_UNFIT: Final = re.compile(r"fsck error|object [0-9a-f]{40}: \w+: ")
"""What git says of an object that it takes from nobody."""
_REFUSED: Final = re.compile(
    r"Authentication failed|Permission denied|could not read (Username|Password)|Host key verification failed|terminal prompts disabled"
    r"|requested URL returned error: 40[13]|dubious ownership|access denied|protected branch|pre-receive hook declined",
    re.IGNORECASE,
)
_DAMAGED: Final = re.compile(
    r"object file .* is empty|loose object .* is corrupt|bad object|unable to read (tree|sha1|[0-9a-f]{40})|is corrupted|not a valid object"
    r"|missing (blob|tree|commit)|invalid object|bad tree|broken|unable to parse|not a git repository: |did not match expected|inflate"
    r"|packfile .* (cannot|does not|is far)|not a valid ref|dangling symref|bad config|not a git repository \(or any",
    re.IGNORECASE,
)


class RemoteAccess(Struct, frozen=True, kw_only=True):
    """Where the repository of all is, and what opens it. ``token`` is for https."""

    url: str
    branch: str = "main"
    token: str = ""
    ssh_key: Path | None = None

    @property
    def local(self) -> bool:
        """Whether it is a path of this machine, or of a disk that it has mounted."""
        return self.url.startswith(("/", "file://"))


class GitProgram:
    """Runs commands on the bare repository ``folder``. All methods block, and raise GitFailed.

    ``lock`` is a descriptor that each process inherits: while one lives, also after our end, the lock on it is held.
    """

    def __init__(self, folder: Path, access: RemoteAccess, environ: Mapping[str, str], lock: int = -1) -> None:
        self.folder = folder
        self.access = access
        self._lock = lock
        self._env = self._environment(environ)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._ended = False

    def run(self, *words: str, data: bytes = b"", seconds: float = LOCAL_SECONDS) -> bytes:
        """Run one command and return what it prints."""
        return self.stream(words, [data] if data else (), seconds=seconds)

    def succeeds(self, *words: str) -> bool:
        """Run a command that answers with its exit status: 0 is yes, 1 is no."""
        try:
            self.run(*words)
        except _Exit as ended:
            if ended.status != 1:
                raise
            return False
        return True

    def remote(self, *words: str, seconds: float = REMOTE_SECONDS) -> bytes:
        """Run a command that talks to the other repository."""
        try:
            return self.stream(words, (), seconds=seconds, distant=True)
        except _Exit as ended:
            if ended.kind == "damaged":
                raise
            raise remote_failure(ended.said, self.access.url) from ended

    def stream(self, words: Iterable[str], pieces: Iterable[bytes], *, seconds: float, distant: bool = False) -> bytes:
        """Run a command that reads ``pieces`` and return what it prints."""
        with self._started(list(words)) as process:
            late = threading.Timer(seconds, _end, [process])
            late.start()
            said = bytearray()
            listening = threading.Thread(target=_listen, args=(process, said), daemon=True)
            listening.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                with contextlib.suppress(BrokenPipeError):  # it says why when it ends
                    for piece in pieces:
                        process.stdin.write(piece)
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                printed = process.stdout.read()
                listening.join()
                status = process.wait()
            finally:
                late.cancel()
                _end(process)
            if status == 0:
                return printed
        text = said.decode("utf-8", "replace").strip()
        if status == -signal.SIGKILL:
            kind = "away" if distant else "failed"
            raise GitFailed(
                f"git {_verb(words)} was ended after {seconds:.0f} s",
                kind=kind,
                where=self.access.url if distant else str(self.folder),
            )
        ours = "\n".join(line for line in text.splitlines() if not line.startswith("remote:"))
        kind = "damaged" if _DAMAGED.search(ours) else "failed"
        raise _Exit(status, f"git {_verb(words)}: {_shortened(text)}", kind=kind, where=str(self.folder), said=text)

    def close(self) -> None:
        """End what runs, and start nothing more."""
        with self._guard:
            self._ended = True
            for process in self._running:
                _end(process)

    @contextlib.contextmanager
    def _started(self, words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        with self._guard:
            if self._ended:
                raise GitFailed("the gateway stops", where=str(self.folder))
            try:
                process = subprocess.Popen(  # noqa: S603 - the words are ours
                    ["git", f"--git-dir={self.folder}", *words],  # noqa: S607 - found in PATH, as people have it
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self._env,
                    cwd="/",
                    start_new_session=True,
                    pass_fds=(self._lock,) if self._lock >= 0 else (),
                )
            except OSError as error:
                hint = "Install it: sudo apt install git" if isinstance(error, FileNotFoundError) else ""
                raise GitFailed(f"the program git cannot be started: {error.strerror}", hint=hint) from error
            self._running.add(process)
        try:
            yield process
        finally:
            with self._guard:
                self._running.discard(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        settings = dict(_SETTINGS)
        access = self.access
        if access.token and access.url.startswith(("https://", "http://")):
            parts = urlsplit(access.url)
            word = base64.b64encode(f"{parts.username or 'x-access-token'}:{access.token}".encode()).decode()
            settings[f"http.{parts.scheme}://{parts.netloc.rpartition('@')[2]}/.extraHeader"] = f"Authorization: Basic {word}"
        ssh = "ssh -oBatchMode=yes -oConnectTimeout=15 -oServerAliveInterval=15 -oServerAliveCountMax=2"
        if access.ssh_key is not None:
            ssh += f" -oIdentitiesOnly=yes -i {shlex.quote(str(Path.home() / access.ssh_key.expanduser()))}"
        numbered = {"GIT_CONFIG_COUNT": str(len(settings))}
        for number, (key, value) in enumerate(settings.items()):
            numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return {
            **{name: environ[name] for name in _KEPT if environ.get(name)},
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_SSH_COMMAND": ssh,
            "GIT_SSH_VARIANT": "ssh",
            "GIT_ALLOW_PROTOCOL": "file:ssh:https:http",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            **numbered,
        }

    @property
    def receiver(self) -> list[str]:
        """What a push is given besides, so that a repository on this machine runs none of its hooks."""
        return [f"--receive-pack={_RECEIVE}"] if self.access.local else []


class _Exit(GitFailed):
    """A command ended with another status than 0."""

    def __init__(self, status: int, message: str, *, kind: str, where: str, said: str) -> None:
        super().__init__(message, kind=kind, where=where)
        self.status = status
        self.said = said


def remote_failure(said: str, url: str) -> GitFailed:
    """Return what a command that talked to the other repository failed with, by what it said."""
    text = _shortened(said)
    if _REJECTED.search(said):
        return GitFailed("somebody else pushed before us", kind="rejected", where=url)
    if _UNFIT.search(said) is not None:
        hint = "Find it with git fsck in a copy, and make that history anew without it; or set another workspaceStore.branch or remote"
        return GitFailed(f"it has an object that git takes for forged or broken: {text}", kind="unfit", where=url, hint=hint)
    if (refusal := _REFUSED.search(said)) is not None:
        if refusal[0] not in text:
            text = f"{refusal[0]} ({text})"
        hint = "Look at workspaceStore.remote, token and sshKey"
        if "Host key" in text:
            hint = f"Make the host known to the gateway's user: ssh {_host_of(url)}"
        elif "dubious ownership" in text:
            hint = "The repository must belong to the user that runs the gateway: chown -R"
        return GitFailed(text, kind="refused", where=url, hint=hint)
    if "does not appear to be a git repository" in text and url.startswith(("/", "file://")):
        text = "there is no repository; is its disk mounted?"
    return GitFailed(text, kind="away", where=url, hint="It is tried again by itself. By hand: homebody workspace sync")


def _host_of(url: str) -> str:
    """Return what the program ssh is given to reach the host of an address."""
    if "://" not in url:
        return url.partition(":")[0]
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(f":{parts.port}").replace("[", "").replace("]", "")
    return f"-p {parts.port} {host}" if parts.port else host


def _verb(words: Iterable[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _shortened(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR", "!", "remote:", "ssh:", "! "))]
    return " ".join(telling or lines or ["it said nothing"])[:400]


def _listen(process: subprocess.Popen[bytes], said: bytearray) -> None:
    assert process.stderr is not None
    with contextlib.suppress(OSError, ValueError):
        while piece := process.stderr.read(4096):
            if len(said) < 1 << 16:
                said.extend(piece)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it started. Does nothing where it has ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
