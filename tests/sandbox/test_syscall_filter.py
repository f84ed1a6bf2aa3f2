"""The seccomp program: interpreted here for both machines, and installed on this one."""

import ctypes
import ctypes.util
import errno
import json
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sandbox import restrict
from gateway.sandbox.protocol import Confined
from gateway.sandbox.syscall_filter import INET, INET6, NETLINK, NUMBERS, REFUSED, UNIX, FilterOptions, assemble

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
words = st.integers(0, 2**64 - 1)
six = st.tuples(words, words, words, words, words, words)
machines = st.sampled_from(list(ARCHITECTURES))


def verdict(program, number, arguments=(0,) * 6, *, arch):
    """What the kernel would answer: an interpreter of the few BPF instructions that seccomp knows."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *arguments)
    steps = list(struct.iter_unpack("=HBBI", program))
    at = held = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                held = struct.unpack_from("=I", data, value)[0]
            case 0x54:
                held &= value
            case 0x06:
                return value
            case 0x15 | 0x35 | 0x45:
                met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
                at += if_true if met else if_false
            case _:
                raise AssertionError(code)


def number_of(name, machine):
    return NUMBERS[name][list(ARCHITECTURES).index(machine)]


def refused(name, machine, *arguments, **options):
    arguments = (*arguments, *(0,) * (6 - len(arguments)))
    program = assemble(FilterOptions(**options), machine)
    said = verdict(program, number_of(name, machine), arguments, arch=ARCHITECTURES[machine])
    return 0 if said == ALLOW else said - 0x50000


@given(machines, st.sampled_from(REFUSED), six)
def test_a_refused_call_is_refused_whatever_its_arguments(machine, name, arguments):
    number = number_of(name, machine)
    if number is not None:
        assert refused(name, machine, *arguments) == errno.EPERM


@given(machines, st.integers(0, 600), six)
def test_every_other_call_is_allowed(machine, number, arguments):
    if number not in {number_of(name, machine) for name in NUMBERS}:
        assert verdict(assemble(FilterOptions(), machine), number, arguments, arch=ARCHITECTURES[machine]) == ALLOW


@given(machines, st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1), six)
def test_another_architecture_ends_the_process(machine, arch, number, arguments):
    if arch != ARCHITECTURES[machine]:
        assert verdict(assemble(FilterOptions(), machine), number, arguments, arch=arch) == KILL


@given(st.integers(0, 600), six)
def test_the_second_set_of_numbers_on_x86_64_is_not_there(number, arguments):
    said = verdict(assemble(FilterOptions(), "x86_64"), 0x40000000 | number, arguments, arch=ARCHITECTURES["x86_64"])
    assert said == 0x50000 | errno.ENOSYS


@given(machines, words)
def test_a_clone_is_refused_exactly_when_it_makes_a_namespace(machine, flags):
    assert refused("clone", machine, flags) == (errno.EPERM if flags & 0x7E020000 else 0)
    assert refused("clone3", machine, flags) == errno.ENOSYS


@given(machines, st.integers(0, 2**32 - 1))
def test_typing_into_a_terminal_is_refused_also_with_rubbish_above_32_bits(machine, rubbish):
    for request in (0x5412, 0x541C):
        assert refused("ioctl", machine, 1, rubbish << 32 | request) == errno.EPERM
    assert refused("ioctl", machine, 1, 0x5413) == 0


@given(machines, st.integers(0, 0o7777))
def test_nothing_is_made_setuid_or_setgid(machine, mode):
    expected = errno.EPERM if mode & 0o6000 else 0
    assert refused("fchmod", machine, 3, mode) == expected
    assert refused("fchmodat", machine, 3, 0, mode) == expected
    assert refused("openat", machine, 3, 0, os.O_CREAT | os.O_WRONLY, mode) == expected
    assert refused("openat", machine, 3, 0, 0o20200000, mode) == expected
    assert refused("mknodat", machine, 3, 0, mode) == expected
    assert refused("openat", machine, 3, 0, os.O_RDONLY, mode | 0o6000) == 0, "without O_CREAT that register is not a mode"
    if machine == "x86_64":
        assert refused("chmod", machine, 0, mode) == refused("creat", machine, 0, mode) == expected
        assert refused("open", machine, 0, os.O_CREAT, mode) == expected
    assert refused("openat2", machine) == refused("fchmodat2", machine) == errno.ENOSYS


@given(machines, st.integers(0, 60), st.sets(st.sampled_from([UNIX, INET, INET6, NETLINK])))
def test_only_the_named_families_of_sockets_are_made(machine, family, families):
    said = refused("socket", machine, family, 1, families=tuple(sorted(families)))
    assert said == (0 if family in families else errno.EAFNOSUPPORT)


def test_signals_are_refused_where_that_is_asked():
    for machine in ARCHITECTURES:
        assert refused("kill", machine, 1, 9) == 0
        assert refused("kill", machine, 1, 9, signals=False) == errno.EPERM
        assert refused("pidfd_send_signal", machine, signals=False) == errno.EPERM


@given(machines, st.integers(0, 2**32 - 1))
def test_without_namespaces_nothing_of_other_processes_is_reached(machine, process):
    expected = errno.EPERM if process else 0
    assert refused("prlimit64", machine, process) == refused("setpriority", machine, 0, process) == 0
    assert refused("prlimit64", machine, process, namespaces=False) == expected
    assert refused("setpriority", machine, 0, process, namespaces=False) == expected
    assert refused("shmget", machine) == refused("socketpair", machine, 1, 2) == 0
    assert refused("shmget", machine, namespaces=False) == refused("mq_open", machine, namespaces=False) == errno.EPERM
    assert refused("socketpair", machine, 1, 2 | 0o2000000, namespaces=False) == errno.EPERM
    assert refused("socketpair", machine, 1, 1, namespaces=False) == 0


def test_an_unknown_machine_has_no_filter():
    assert assemble(FilterOptions(), "riscv64") is None


def test_a_program_is_not_longer_than_the_kernel_takes():
    for machine in ARCHITECTURES:
        assert len(assemble(FilterOptions(signals=False, namespaces=False), machine)) // 8 < 4096


@pytest.mark.parametrize(("machine", "token"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_the_numbers_are_those_of_libseccomp(machine, token):
    found = ctypes.util.find_library("seccomp")
    if found is None:
        pytest.skip("libseccomp is not installed: the numbers have no second opinion here")
    resolve = ctypes.CDLL(found).seccomp_syscall_resolve_name_arch
    known = 0
    for name in NUMBERS:
        theirs = resolve(ctypes.c_uint32(token), name.encode())
        if theirs != -1:  # newer than the library
            known += 1
            assert number_of(name, machine) == (theirs if theirs >= 0 else None), name
    assert known > len(NUMBERS) * 0.9


PROGRAM = """
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
said = {}
for name, number in CALLS.items():
    ctypes.set_errno(0)
    said[name] = ctypes.get_errno() if libc.syscall(number, *[0] * 6) < 0 else 0
try:
    os.chmod("made", 0o4755)
    said["setuid"] = 0
except OSError as error:
    said["setuid"] = error.errno
os.chmod("made", 0o755)
said["fds"] = sorted(map(int, os.listdir("/proc/self/fd")))
print(json.dumps(said))
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in ARCHITECTURES, reason="seccomp is Linux")
def test_the_kernel_of_this_machine_takes_it_and_refuses(tmp_path):
    (tmp_path / "made").touch()
    calls = {
        name: number_of(name, platform.machine())
        for name in (*REFUSED, "clone3", "openat2")
        if number_of(name, platform.machine())
    }
    calls.pop("vhangup")
    program = f"CALLS = {calls!r}\n{PROGRAM}"

    def run(seccomp):
        plan = Confined(
            rung="off", argv=(sys.executable, "-I", "-S", "-c", program), env={}, cwd=str(tmp_path), seccomp=seccomp
        )
        (tmp_path / "plan").write_text(json.dumps(plan.to_json()))
        with (tmp_path / "plan").open() as file:
            start = [sys.executable, "-I", "-S", restrict.__file__, str(file.fileno())]
            done = subprocess.run(start, capture_output=True, text=True, check=True, env={}, pass_fds=(file.fileno(),))
        return json.loads(done.stdout)

    said = run(assemble(FilterOptions()))
    assert {name: said[name] for name in REFUSED if name in calls} == dict.fromkeys(
        (n for n in REFUSED if n in calls), errno.EPERM
    )
    assert said["clone3"] == said["openat2"] == errno.ENOSYS
    assert said["setuid"] == errno.EPERM
    assert said["fds"] == [0, 1, 2, 3], "3 is the listing itself"


def test_the_part_that_the_runner_loads_imports_the_standard_library_alone():
    source = Path(restrict.__file__).read_text(encoding="utf-8")
    lines = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
    assert {line.split()[1].partition(".")[0] for line in lines} <= set(sys.stdlib_module_names)
