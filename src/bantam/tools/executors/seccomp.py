"""The system calls that a sandboxed command may not make: a seccomp filter, as bytes.

Mounts and namespaces do not keep a process from a Unix socket: a socket's file may lie anywhere on
the disk, connecting needs no writable mount, and abstract names follow the network namespace. So no
such socket can be made. `socketpair` stays, which programs use to talk with their children, but for
its datagram kinds: those can be sent, and connected, to any other address. Of the other families
IP and netlink (by which a program looks up its own addresses) stay; vsock, which no network
namespace holds, does not. io_uring would do all of it past any filter.

Refused besides: new namespaces, in which a process is root again and the kernel's mount and network
code is open to attack; looking into other processes; keys of the kernel; bpf, perf and userfaultfd,
which the kernel's faults are mostly in. What needs a capability is left to the kernel: the sandbox
has none. `clone3` hides its flags in memory, where no filter can read: it does not exist, and the
C library goes back to `clone`.

The price: multiprocessing's managers and `forkserver`, gdb, strace, and sandboxes of others
(browsers, bubblewrap itself) do not work inside.

Refused: libseccomp, a dependency for eighty instructions; a list of what is allowed instead, as
a new kernel or C library would break programs with it.
"""

import errno
import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class _Machine(NamedTuple):
    """A machine: its `AUDIT_ARCH_` (linux/audit.h), and where its numbers stand in `_NUMBERS`."""

    audit: int
    column: int


_MACHINES: Final = {"x86_64": _Machine(0xC000003E, 0), "aarch64": _Machine(0xC00000B7, 1)}

# Linux's syscall_64.tbl and asm-generic/unistd.h; from 424 on all machines count alike.
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "clone3": (435, 435),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "setns": (308, 268),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_ARGUMENTS_READ: Final = ("socket", "socketpair", "clone", "clone3")

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _TYPE_MASK = 1, 5, 0xF
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET (linux/sched.h).
_NEW_NAMESPACES: Final = 0x7E020000
_X32: Final = 0x40000000  # set in the numbers of x86_64's second table

# linux/bpf_common.h and linux/seccomp.h
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_ANY_BIT = 0x15, 0x45
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # offsets in struct seccomp_data

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value


def machines() -> tuple[str, ...]:
    """Return the machines, as `os.uname` calls them, for which there is a filter."""
    return tuple(_MACHINES)


def refused(machine: str) -> dict[str, int]:
    """Return the numbers of the calls that are refused with EPERM, whatever their arguments."""
    column = _MACHINES[machine].column
    return {name: of[column] for name, of in _NUMBERS.items() if name not in _ARGUMENTS_READ}


def program(machine: str) -> bytes:
    """Return the filter for `machine` as an array of `struct sock_filter` (linux/filter.h)."""
    audit, column = _MACHINES[machine]
    number = {name: of[column] for name, of in _NUMBERS.items()}
    instructions: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL),  # the 32-bit calls have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_ANY_BIT, 0, 1, _X32),
        _fail(errno.ENOSYS),
        *_when(number["clone3"], [_fail(errno.ENOSYS)]),
        *_when(number["socket"], _sockets()),
        *_when(number["socketpair"], _pairs()),
        *_when(number["clone"], _clones()),
    ]
    for each in sorted(refused(machine).values()):
        instructions += _when(each, [_fail(errno.EPERM)])
    instructions.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)


def _fail(number: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _when(number: int, block: list[_Instruction]) -> list[_Instruction]:
    """Return `block`, which ends in a return whatever it finds, for the call `number` alone."""
    return [(_IF_EQUAL, 0, len(block), number), *block]


def _argument(index: int) -> _Instruction:
    # Its lower half: the kernel takes no more of these, and both machines are little-endian.
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _allow_only(values: Iterable[int], otherwise: int) -> list[_Instruction]:
    block: list[_Instruction] = []
    for value in values:
        block += [(_IF_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*block, _fail(otherwise)]


def _sockets() -> list[_Instruction]:
    # The error of a kernel without that family: programs go on without.
    return [
        _argument(0),
        *_allow_only((_AF_INET, _AF_INET6, _AF_NETLINK), otherwise=errno.EAFNOSUPPORT),
    ]


def _pairs() -> list[_Instruction]:
    return [
        _argument(0),
        (_IF_EQUAL, 1, 0, _AF_UNIX),
        _fail(errno.EAFNOSUPPORT),
        _argument(1),
        (_AND, 0, 0, _TYPE_MASK),  # beside the type stand SOCK_CLOEXEC and SOCK_NONBLOCK
        *_allow_only((_SOCK_STREAM, _SOCK_SEQPACKET), otherwise=errno.EPERM),
    ]


def _clones() -> list[_Instruction]:
    return [
        _argument(0),
        (_IF_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        _fail(errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
