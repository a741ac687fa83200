"""What a process, with all that it starts, asks of the system: strace's log, read.

trace = Trace(folder / "log")
run("-p", "Go.", program=trace.of(BANTAM), ...)
assert trace.connections == {("127.0.0.1", port)}
"""

import re
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Final

_CALLS: Final = "execve,execveat,open,openat,openat2,connect,bind,listen,sendto,sendmsg"
_ADDRESS: Final = re.compile(
    r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]*)"'
)
_UNFINISHED: Final = " <unfinished ...>"  # another process had something to say meanwhile
_RESUMED: Final = re.compile(r"\d+ +<\.\.\. \w+ resumed>")
_FAILED: Final = re.compile(r"\) += -1 ")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Trace:
    """The calls of a process that is started as `of` says; read once it has ended."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def of(self, program: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs `program` and writes the log."""
        strace = which("strace")
        assert strace, "no strace; on Debian: apt-get install strace"
        how = (
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-s",
            "4096",
            "-e",
            f"trace={_CALLS}",
            "-e",
            "signal=none",
        )
        return (strace, *how, "-o", str(self._log), *program)

    @property
    def lines(self) -> list[str]:
        """The calls in the order of their ends, each with the number of its process before it."""
        whole: list[str] = []
        begun: dict[str, str] = {}
        for line in self._log.read_text(errors="replace").splitlines():
            process = line.partition(" ")[0]
            if line.endswith(_UNFINISHED):
                begun[process] = line.removesuffix(_UNFINISHED)
            elif resumed := _RESUMED.match(line):
                whole.append(begun.pop(process) + line[resumed.end() :])
            else:
                whole.append(line)
        assert any(" execve(" in line for line in whole), "nothing was traced"
        return [*whole, *begun.values()]

    @property
    def executed(self) -> list[str]:
        """The programs that were started, in order."""
        calls = self._calls("execve", "execveat")
        return [_QUOTED.findall(line)[0] for line in calls if not _FAILED.search(line)]

    @property
    def connections(self) -> set[tuple[str, int]]:
        """Where packets went to over IP: addresses and ports."""
        found: set[tuple[str, int]] = set()
        for line in self._calls("connect", "sendto", "sendmsg"):
            found |= {(host, int(port)) for port, host in _ADDRESS.findall(line)}
        return found

    @property
    def listening(self) -> list[str]:
        """The calls that let others in."""
        bound = [line for line in self._calls("bind") if "AF_INET" in line]
        return [*self._calls("listen"), *bound]

    def opened(self) -> set[str]:
        """Return the names under which files were opened."""
        calls = self._calls("open", "openat", "openat2")
        return {_QUOTED.findall(line)[0] for line in calls if not _FAILED.search(line)}

    def _calls(self, *names: str) -> list[str]:
        wanted = re.compile(rf"\d+ +(?:{'|'.join(names)})\(")
        return [line for line in self.lines if wanted.match(line)]
