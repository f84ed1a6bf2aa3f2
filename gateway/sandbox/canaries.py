"""A program that runs as a command of an agent and tries to see, change and reach what it must not. Imports the standard library alone.

`check.py` puts decoys in its way, runs it inside and outside of the confinement, and compares. It gets their places as one line of
JSON in its first argument, and prints one line: for each canary "" where the confinement holds, or what was seen.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

GIVEN_DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "stdin", "stdout", "stderr", "core"}
DEVICES = (
    "kmsg",
    "mem",
    "port",
    "kvm",
    "fuse",
    "vda",
    "sda",
    "nvme0n1",
    "dm-0",
    "loop-control",
    "input/event0",
    "net/tun",
    "uinput",
)
_libc = ctypes.CDLL(None, use_errno=True)
_call = _libc.syscall
_TESTS: dict[str, Callable[[dict[str, Any]], str]] = {}
_NUMBERS = {"x86_64": {"add_key": 248, "clone": 56, "unshare": 272, "bpf": 321, "perf": 298, "shmget": 29, "shmat": 30},
            "aarch64": {"add_key": 217, "clone": 220, "unshare": 97, "bpf": 280, "perf": 241, "shmget": 194, "shmat": 196}}  # fmt: skip


def canary(test: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], str]:
    """Add a test. It returns "" or what it saw; an error of the system means that it was refused."""
    _TESTS[test.__name__] = test
    return test


def _number(name: str) -> int:
    return _NUMBERS[os.uname().machine][name]


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(1 << 20).decode("utf-8", "replace")


@canary
def keys_in_the_environment(given: dict[str, Any]) -> str:
    """A variable of the process that started the confinement."""
    return "a variable of the gateway" if given["token"] in json.dumps(dict(os.environ)) else ""


@canary
def environment_of_processes(given: dict[str, Any]) -> str:
    """Any /proc/*/environ, that of the first process inside included."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if given["token"] in _read(f"/proc/{name}/environ"):
                return f"/proc/{name}/environ"
        except OSError:
            continue
    return ""


@canary
def other_processes(given: dict[str, Any]) -> str:
    """The command line of a process outside. Its mark is given backwards, so that it is not seen in our own."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if given["mark"][::-1] in _read(f"/proc/{name}/cmdline"):
                return f"/proc/{name}/cmdline"
        except OSError:
            continue
    return ""


@canary
def home(given: dict[str, Any]) -> str:
    """A file in a home."""
    return _read(given["home"]) and str(given["home"])


@canary
def closed_folders(given: dict[str, Any]) -> str:
    """The real home, state folder and workspaces of this installation, but for what leads to folders that are given."""
    for folder in given["closed"]:
        try:
            names = set(os.listdir(folder))
        except OSError:
            continue
        inside = [way for way in given["ways"] if way.startswith(folder.rstrip("/") + "/")]
        ways = {os.path.relpath(way, folder).split("/")[0] for way in inside}
        if names - ways:
            return str(folder)
    return ""


@canary
def state_folder(given: dict[str, Any]) -> str:
    """A file in the gateway's state folder."""
    return _read(given["state"]) and str(given["state"])


@canary
def state_socket(given: dict[str, Any]) -> str:
    """The socket in it, over which the owner's commands reach the gateway."""
    return _connected(socket.AF_UNIX, socket.SOCK_STREAM, given["socket"])


@canary
def workspace_of_another_agent(given: dict[str, Any]) -> str:
    """A file of another agent."""
    return _read(given["other"]) and str(given["other"])


@canary
def datagram_socket(given: dict[str, Any]) -> str:
    """A datagram socket in a folder outside, also by way of a pair of sockets."""
    try:
        left, _right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        left.sendto(b"x", given["datagram"])
    except OSError:
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", given["datagram"])
    return f"sent to {given['datagram']}"


@canary
def abstract_socket(given: dict[str, Any]) -> str:
    """A unix socket without a file."""
    return _connected(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + given["abstract"])


@canary
def tcp(given: dict[str, Any]) -> str:
    """A server on this machine, where the network is off."""
    if given["network"]:
        return ""
    return _connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", given["tcp"]))


@canary
def udp(given: dict[str, Any]) -> str:
    """A datagram sent to this machine, where the network is off. Its arrival is looked for outside."""
    if not given["network"]:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(given["token"].encode(), ("127.0.0.1", given["udp"]))
    return ""


@canary
def raw_sockets(given: dict[str, Any]) -> str:
    """Sockets below the network, and to the host of a virtual machine."""
    del given
    for family, kind in ((17, socket.SOCK_RAW), (40, socket.SOCK_STREAM), (38, socket.SOCK_SEQPACKET)):
        try:
            socket.socket(family, kind)
        except OSError:
            continue
        return f"a socket of family {family}"
    return ""


def _connected(family: int, kind: int, address: str | tuple[str, int]) -> str:
    with socket.socket(family, kind) as peer:
        peer.settimeout(5)
        peer.connect(address)
    return f"connected to {address!r}"


@canary
def tracing(given: dict[str, Any]) -> str:
    """Attach to a process outside as a debugger does, or read its memory."""
    if _libc.ptrace(16, given["process"], None, None) == 0:
        os.waitpid(given["process"], 0x40000000)
        _libc.ptrace(17, given["process"], None, None)
        return f"attached to {given['process']}"
    with open(f"/proc/{given['process']}/mem", "rb"):
        return "opened its memory"


@canary
def signals(given: dict[str, Any]) -> str:
    """A signal to a process outside, and a change of its limits."""
    try:
        resource.prlimit(given["process"], resource.RLIMIT_CORE, (0, 0))
    except OSError:
        os.kill(given["process"], 0)
    return f"process {given['process']}"


@canary
def nested_namespaces(given: dict[str, Any]) -> str:
    """A user namespace of its own, in which it could mount."""
    del given
    return _in_child(lambda: _call(_number("unshare"), 0x10000000) == 0 or _call(_number("clone"), 0x10000011, 0, 0, 0, 0) >= 0)


@canary
def mounts(given: dict[str, Any]) -> str:
    """A copy of the tree of mounts, or a new file system."""
    del given
    return _in_child(lambda: _call(428, -100, b"/", 1) >= 0 or _call(430, b"tmpfs", 0) >= 0)


@canary
def kernel_keys(given: dict[str, Any]) -> str:
    """A key in the kernel's keyring."""
    return "added a key" if _call(_number("add_key"), b"user", b"canary", given["token"].encode(), 4, -2) >= 0 else ""


@canary
def kernel_programs(given: dict[str, Any]) -> str:
    """BPF maps and performance counters."""
    del given
    table = struct.pack("=IIII", 2, 4, 8, 1) + bytes(56)
    counter = struct.pack("=IIQQQQQ", 1, 64, 0, 0, 0, 0, 1) + bytes(16)
    seen = _call(_number("bpf"), 0, table, 72) >= 0 or _call(_number("perf"), counter, 0, -1, -1, 0) >= 0
    return "a BPF map or a performance counter" if seen else ""


@canary
def shared_memory(given: dict[str, Any]) -> str:
    """Memory that a process outside shares by a number."""
    segment = _call(_number("shmget"), given["shared"], 0, 0)
    _call.restype = ctypes.c_long
    try:
        return "attached" if segment >= 0 and _call(_number("shmat"), segment, None, 0o10000) != -1 else ""
    finally:
        _call.restype = ctypes.c_int


@canary
def typing_into_the_terminal(given: dict[str, Any]) -> str:
    """Characters put into the input of the terminal, as if somebody had typed them."""
    del given
    with open("/dev/tty", "wb", buffering=0) as terminal:
        fcntl.ioctl(terminal, 0x5412, b" ")
    return "typed a character"


@canary
def devices(given: dict[str, Any]) -> str:
    """Devices but for null, zero, random and the terminal."""
    del given
    try:
        named = set(os.listdir("/dev"))
    except OSError:
        named = set()
    for name in sorted({*named, *DEVICES} - GIVEN_DEVICES):
        path = f"/dev/{name}"
        try:
            if not os.path.isdir(path):
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
                return path
        except OSError:
            continue
    return ""


@canary
def setuid_programs(given: dict[str, Any]) -> str:
    """Programs that run as their owner, there or made."""
    if _libc.prctl(39, 0, 0, 0, 0) != 1:
        return "programs may gain rights"
    made = os.path.join(given["workspace"], "made")
    os.close(os.open(made, os.O_CREAT | os.O_WRONLY, 0o700))
    try:
        os.chmod(made, 0o4700)
    except OSError:
        os.close(os.open(made + "2", os.O_CREAT | os.O_WRONLY, 0o4700))
        return "made one" if os.stat(made + "2").st_mode & 0o4000 else ""
    return "made one"


@canary
def capabilities(given: dict[str, Any]) -> str:
    """Rights of root."""
    del given
    data = ctypes.create_string_buffer(24)
    _libc.capget(struct.pack("=Ii", 0x20080522, 0), data)
    return f"{data.raw.hex()}" if any(data.raw) else ""


@canary
def link_out_of_the_workspace(given: dict[str, Any]) -> str:
    """A symbolic link to a file outside."""
    return _read(given["link"]) and "read it"


@canary
def hard_link(given: dict[str, Any]) -> str:
    """A second name in the workspace for a file outside."""
    os.link(given["home"], os.path.join(given["workspace"], "hard"))
    return "linked it"


@canary
def inherited_files(given: dict[str, Any]) -> str:
    """A file that the starting process had open."""
    del given
    for number in range(3, 256):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            target = ""
        try:
            os.fstat(number)
        except OSError:
            continue
        return f"descriptor {number} {target}"
    return ""


@canary
def writing_outside(given: dict[str, Any]) -> str:
    """Files of the system, settings of the kernel, and a file in a home."""
    for path in (
        given["home"],
        "/canary",
        "/usr/canary",
        "/etc/canary",
        "/var/canary",
        "/dev/canary",
        "/proc/sys/kernel/core_pattern",
    ):
        flags = os.O_WRONLY if os.path.exists(path) else os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            os.close(os.open(path, flags, 0o600))
        except OSError:
            continue
        if flags & os.O_CREAT:
            os.unlink(path)
        return path
    return ""


@canary
def workspace(given: dict[str, Any]) -> str:
    """The workspace: what `workspaceAccess` says, no more and no less."""
    folder, access = given["workspace"], given["access"]
    can = "none" if not _reads(folder) else "rw" if _writes(folder) else "ro"
    return "" if can == access else f"{can} in the place of {access}"


@canary
def limits(given: dict[str, Any]) -> str:
    """Limits on what it uses."""
    del given
    kinds = ("CORE", "DATA", "FSIZE", "CPU", "NOFILE", "NPROC")
    endless = [kind for kind in kinds if resource.getrlimit(getattr(resource, f"RLIMIT_{kind}"))[1] == resource.RLIM_INFINITY]
    return ", ".join(endless)


def _reads(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


def _writes(folder: str) -> bool:
    path = os.path.join(folder, "written")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return False
    os.unlink(path)
    return True


def _in_child(test: Callable[[], bool]) -> str:
    child = os.fork()
    if not child:
        os._exit(1 if test() else 0)
    return "it could" if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1 else ""


def main(given: dict[str, Any]) -> dict[str, str]:
    """Run the tests, or those that are named."""
    said = {}
    for name in given.get("only") or _TESTS:
        try:
            said[name] = _TESTS[name](given)
        except OSError:
            said[name] = ""
    return said


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))) + "\n")
