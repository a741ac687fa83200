"""The filter of system calls: what it says of each call, and what the kernel makes of it."""

import errno
import platform
import struct
from collections.abc import Iterator

import pytest
from sandboxes import Site, site_for

from bantam.tools.executors.seccomp import machines, program, refused

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED, KILLED = 0x7FFF0000, 0x80000000
# From the kernel's tables: (x86_64, aarch64).
READ, SOCKET, SOCKETPAIR, CLONE, CLONE3 = (0, 63), (41, 198), (53, 199), (56, 220), (435, 435)
SIGCHLD, NEW_USER, NEW_NETWORK, THREAD = 17, 0x10000000, 0x40000000, 0x003D0F00
CLOEXEC, NONBLOCK = 0o2000000, 0o4000


def fails(number: int) -> int:
    return 0x50000 | number


def decision(code: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Return what the filter `code` returns for a call, read as the kernel does."""
    call = struct.pack("=IIQ6Q", number, architecture, 0, *(*arguments, *(0,) * 6)[:6])
    instructions = list(struct.iter_unpack("=HBBI", code))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = instructions[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", call, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case _:
                assert operation == 0x06
                result: int = value
                return result


DECISIONS = [
    (READ, (), ALLOWED),
    (SOCKET, (1,), fails(errno.EAFNOSUPPORT)),
    (SOCKET, (2,), ALLOWED),
    (SOCKET, (10,), ALLOWED),
    (SOCKET, (16,), ALLOWED),
    (SOCKET, (17,), fails(errno.EAFNOSUPPORT)),
    (SOCKET, (40,), fails(errno.EAFNOSUPPORT)),
    (SOCKET, (1 << 32 | 1,), fails(errno.EAFNOSUPPORT)),
    (SOCKETPAIR, (1, 1), ALLOWED),
    (SOCKETPAIR, (1, 1 | CLOEXEC | NONBLOCK), ALLOWED),
    (SOCKETPAIR, (1, 5 | CLOEXEC), ALLOWED),
    (SOCKETPAIR, (1, 2), fails(errno.EPERM)),
    (SOCKETPAIR, (1, 2 | CLOEXEC), fails(errno.EPERM)),
    (SOCKETPAIR, (1, 3), fails(errno.EPERM)),
    (SOCKETPAIR, (2, 1), fails(errno.EAFNOSUPPORT)),
    (CLONE, (SIGCHLD,), ALLOWED),
    (CLONE, (THREAD,), ALLOWED),
    (CLONE, (NEW_USER | SIGCHLD,), fails(errno.EPERM)),
    (CLONE, (NEW_NETWORK,), fails(errno.EPERM)),
    (CLONE, (1 << 32 | NEW_USER,), fails(errno.EPERM)),
    (CLONE3, (), fails(errno.ENOSYS)),
]


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize(("call", "arguments", "expected"), DECISIONS)
def test_a_call_is_judged_by_its_arguments(
    machine: str, call: tuple[int, int], arguments: tuple[int, ...], expected: int
) -> None:
    number = call[list(ARCHITECTURES).index(machine)]
    found = decision(program(machine), ARCHITECTURES[machine], number, *arguments)
    assert hex(found) == hex(expected)


@pytest.mark.parametrize("machine", machines())
def test_a_refused_call_is_refused_whatever_its_arguments(machine: str) -> None:
    code, architecture = program(machine), ARCHITECTURES[machine]
    numbers = refused(machine).values()
    assert len(set(numbers)) == len(numbers) > 20
    for number in numbers:
        assert decision(code, architecture, number) == fails(errno.EPERM)
    others = set(range(600)) - {*numbers}
    others -= {call[list(ARCHITECTURES).index(machine)] for call, *_ in DECISIONS[1:]}
    assert {decision(code, architecture, number) for number in others} == {ALLOWED}


@pytest.mark.parametrize("machine", machines())
def test_calls_of_another_machine_and_of_a_second_table_do_not_pass(machine: str) -> None:
    code, architecture = program(machine), ARCHITECTURES[machine]
    for other in {*ARCHITECTURES.values(), 0x40000003, 0x40000028} - {architecture}:
        assert decision(code, other, 0) == KILLED
    assert decision(code, architecture, 0x40000000 | 41, 1) == fails(errno.ENOSYS)


@pytest.fixture(params=["this", "ordinary"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with site_for(request.param) as site:
        yield site


CALLS = """
import ctypes, errno, os
system = ctypes.CDLL(None, use_errno=True)
for name, number in NUMBERS.items():
    result = system.syscall(number, 0, 0, 0, 0, 0, 0)
    print(name, errno.errorcode.get(ctypes.get_errno()) if result < 0 else "done")
"""


def test_the_kernel_refuses_each_of_them(site: Site) -> None:
    numbers = refused(platform.machine())
    lines = site.python(f"NUMBERS = {numbers!r}\n{CALLS}").splitlines()
    assert lines == [f"{name} EPERM" for name in numbers]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("unshare --user true", "Operation not permitted"),
        ("unshare --net true", "Operation not permitted"),
        ("unshare --mount true", "Operation not permitted"),
        ("mount -t tmpfs x /tmp", ""),
        ("bwrap --ro-bind / / true", "bwrap: "),
        ("nsenter --target 1 --mount true", ""),
        ("chroot / true", ""),
    ],
)
def test_no_new_namespace_can_be_made(command: str, says: str, site: Site) -> None:
    text, end = site.run(command)
    assert end.code != 0
    assert says in text


PTRACE = """
import ctypes
system = ctypes.CDLL(None, use_errno=True)
print(system.ptrace(16, 1, 0, 0), system.ptrace(0, 0, 0, 0))
"""


def test_no_process_can_be_traced(site: Site) -> None:
    assert site.python(PTRACE) == "-1 -1\n"
