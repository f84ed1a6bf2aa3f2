"""The system calls that a confined command may not make, as a seccomp program (BPF) for x86_64 and aarch64.

A list of refused calls, as in the default profile of Docker: namespaces, mounts, keyrings, tracing, kernel administration, devices.
The program is assembled here because libseccomp is not installed everywhere, and some twenty lines do it. Elsewhere there is none.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence

from msgspec import Struct

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_* of linux/audit.h
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # linux/seccomp.h
_X32 = 0x40000000  # calls of the x32 interface: the same kernel functions under other numbers

_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SETUID_SETGID = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
_DATAGRAM = 2
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
"""Families of sockets: AF_* of linux/socket.h."""

NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
"""Numbers of the system calls that the filter names, on x86_64 and aarch64; None where there is no such call."""

_ABSENT = ("clone3", "openat2", "fchmodat2", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""Calls whose arguments no filter can see, or that make calls no filter sees. They fail with ENOSYS, so programs use the older ones."""
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_SHARED = (
    *("shmget", "shmat", "shmctl", "semget", "semctl", "semop", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl"),
    *("mq_open", "mq_unlink", "migrate_pages", "move_pages"),
)
"""Calls about memory, queues and processes that every process of the user shares unless it has namespaces of its own."""
_PROCESS_ARGUMENT = {
    **dict.fromkeys(("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"), 0),
    **dict.fromkeys(("setpriority", "ioprio_set"), 1),
}
"""Calls that change another process, and which argument says which; 0 means the caller."""
_JUDGED = (
    "chmod",
    "clone",
    "creat",
    "fchmod",
    "fchmodat",
    "ioctl",
    "mknod",
    "mknodat",
    "open",
    "openat",
    "socket",
    "socketpair",
)
REFUSED = tuple(name for name in NUMBERS if name not in {*_ABSENT, *_SIGNALS, *_SHARED, *_PROCESS_ARGUMENT, *_JUDGED})
"""Calls that fail with EPERM, whatever their arguments."""


class FilterOptions(Struct, frozen=True, kw_only=True):
    """What depends on the rest of the confinement.

    ``families``: which sockets may be made. ``namespaces``: whether the command has its own processes and shared memory; without,
    calls that reach those of others are refused, and datagram socket pairs, which can send to any unix socket in the file system.
    ``signals``: whether signals may be sent; refused where neither namespaces nor the kernel confine them.
    """

    families: tuple[int, ...] = (UNIX, INET, INET6, NETLINK)
    namespaces: bool = True
    signals: bool = True


def assemble(options: FilterOptions, machine: str = "") -> bytes | None:
    """Return the program for a machine as ``uname -m`` names it (default: this one); None where it is not known."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    column = list(_ARCHITECTURES).index(machine)

    def of(name: str, body: Sequence[bytes]) -> list[bytes]:
        number = NUMBERS[name][column]
        return [] if number is None else [_step(_EQUAL, number, 0, len(body)), *body]

    program = [_step(_LOAD, 4), _step(_EQUAL, _ARCHITECTURES[machine], 1, 0), _step(_RETURN, _KILL), _step(_LOAD, 0)]
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _X32, 0, 1), _refuse(errno.ENOSYS)]
    for name in _ABSENT:
        program += of(name, [_refuse(errno.ENOSYS)])
    for name in (*REFUSED, *(() if options.signals else _SIGNALS), *(() if options.namespaces else _SHARED)):
        program += of(name, [_refuse(errno.EPERM)])
    for name, body in _by_arguments(options).items():
        program += of(name, body)
    return b"".join((*program, _step(_RETURN, _ALLOW)))


def _by_arguments(options: FilterOptions) -> dict[str, list[bytes]]:
    setuid = {name: _unless_bits(place, _SETUID_SETGID) for name, place in
              {"chmod": 1, "fchmod": 1, "fchmodat": 2, "creat": 1, "mknod": 1, "mknodat": 2}.items()}  # fmt: skip
    return {
        **setuid,
        "open": _creating(flags=1, mode=2),
        "openat": _creating(flags=2, mode=3),
        "clone": _unless_bits(0, _NEW_NAMESPACES),
        "ioctl": _unless_equal(1, (_TIOCSTI, _TIOCLINUX)),
        "socket": _only_equal(0, options.families, errno.EAFNOSUPPORT),
        **({} if options.namespaces else _shared()),
    }


def _shared() -> dict[str, list[bytes]]:
    own = {name: _only_equal(place, (0,), errno.EPERM) for name, place in _PROCESS_ARGUMENT.items()}
    return {**own, "socketpair": _unless_equal(1, (_DATAGRAM,), mask=0xF)}


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _argument(place: int) -> bytes:
    return _step(_LOAD, 16 + 8 * place)  # the low half: the kernel itself reads no more of these arguments


def _unless_bits(place: int, bits: int) -> list[bytes]:
    return [_argument(place), _step(_ANY_BIT, bits, 0, 1), _refuse(errno.EPERM), _step(_RETURN, _ALLOW)]


def _creating(*, flags: int, mode: int) -> list[bytes]:
    """The mode counts only where a file may be created; otherwise its register holds anything."""
    return [_argument(flags), _step(_ANY_BIT, _CREATES, 0, 3), *_unless_bits(mode, _SETUID_SETGID)[:3], _step(_RETURN, _ALLOW)]


def _unless_equal(place: int, values: Sequence[int], mask: int = 0xFFFFFFFF) -> list[bytes]:
    compare = [part for value in values for part in (_step(_EQUAL, value, 0, 1), _refuse(errno.EPERM))]
    return [_argument(place), _step(_AND, mask), *compare, _step(_RETURN, _ALLOW)]


def _only_equal(place: int, values: Sequence[int], number: int) -> list[bytes]:
    compare = [part for value in values for part in (_step(_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW))]
    return [_argument(place), *compare, _refuse(number)]
