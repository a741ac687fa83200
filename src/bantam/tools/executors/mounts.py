"""What bubblewrap has mounted, looked at from outside before the command runs.

It mounts by name, and while it does so the command of another Bantam may swap a folder of the
project for a link, or the project itself or the folder of the sandbox's /tmp, if they lie in its
own: then another folder would be mounted, or in another place. So bubblewrap is held after the last
mount, and each is held against what the kernel says: of which file system it shows which folder
(proc(5), mountinfo). Nothing that could be swapped is looked at by name: a mount stays where it is.

Held by an end of input: the last thing that bubblewrap has to do is to copy a file from a pipe. The
pipe is full, so that there is room again once it has come that far; and it waits for the end.

Refused: sources as descriptors, which older versions cannot mount, and which say nothing about the
place; bubblewrap's --block-fd, which does not tell when it has come there.
"""

import fcntl
import json
import os
import re
import select
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError, why_of

_SLICE_MS: Final = 50  # how late a cancel is seen
_ROOT: Final = "/newroot"  # bubblewrap's name for what becomes the command's root
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")  # which its --dev mounts


class Mount(NamedTuple):
    """What a mount shows: the folder or file `root` of the file system `device`."""

    device: str
    root: str
    is_writable: bool = False

    def below(self, name: str) -> "Mount":
        """Return what is seen under the relative path `name` in it."""
        # Not Path: it keeps a `.` apart from nothing, and normpath two slashes at the beginning.
        return Mount(self.device, os.path.normpath(os.path.join(self.root, name)))  # noqa: PTH118  # text


class Wanted(NamedTuple):
    """What must be mounted: in `sources`, by place, what is seen there.

    `covers`: where something empty is; `read_only`: what must be that. `project`: all in it counts.
    """

    project: Path
    sources: Mapping[str, str]
    covers: frozenset[str]
    read_only: frozenset[str]


class Gate:
    """Holds bubblewrap between its last mount and the command until `pass_through`."""

    def __init__(self, wanted: Wanted, cancel: Cancel, opened: ExitStack) -> None:
        """`opened` closes what is left open."""
        self._wanted = wanted
        self._cancel = cancel
        self._ours = ExitStack()
        self._theirs = ExitStack()
        for stack in (self._ours, self._theirs):
            opened.enter_context(stack)
        self._copied, self._held = self._pipe()
        self._said, told = self._pipe(reads=True)
        size = fcntl.fcntl(self._held, fcntl.F_SETPIPE_SZ, 1)  # a page, the least there is
        os.write(self._held, b"\n" * size)
        self.fds = (self._copied, told)
        self.arguments = ("--info-fd", str(told), "--file", str(self._copied), "/dev/.mounted")

    def _pipe(self, *, reads: bool = False) -> tuple[int, int]:
        ends = os.pipe()
        for end, is_ours in zip(ends, (reads, not reads), strict=True):
            (self._ours if is_ours else self._theirs).callback(os.close, end)
        return ends

    def pass_through(self) -> None:
        """Let the command run once all is mounted as wanted.

        Called when bubblewrap runs. Raises ToolError if it is not, and Interrupted: the caller must
        kill bubblewrap then.
        """
        self._theirs.close()
        poll = select.poll()
        poll.register(self._held, select.POLLOUT)
        while not (events := poll.poll(_SLICE_MS)):
            self._cancel.check()
        # Else it has ended, and says why.
        if events[0][1] == select.POLLOUT:
            try:
                child = json.loads(os.read(self._said, 4096))["child-pid"]
                has_what_is_wanted = _fits(self._wanted, mounts_of(str(child)), mounts_of("self"))
            except OSError as error:
                raise ToolError(f"the sandbox cannot be checked: {why_of(error)}") from error
            if not has_what_is_wanted:
                raise ToolError(
                    "a folder of the project was replaced while the sandbox was made; nothing was "
                    "run. Try again"
                )
        self._ours.close()


def _fits(wanted: Wanted, inside: Mapping[str, Mount], outside: Mapping[str, Mount]) -> bool:
    """Whether the sandbox whose mounts are `inside` is as wanted; `outside` are Bantam's own."""
    seen = {
        place.removeprefix(_ROOT) or "/": mount
        for place, mount in inside.items()
        if place == _ROOT or place.startswith(f"{_ROOT}/")
    }
    # In a chroot nothing is known of the mount that its root lies in.
    outside = {"/": seen["/"], **outside}
    known = {mount.device for mount in outside.values()}
    for place, mount in seen.items():
        # What is new holds nothing yet.
        if mount.device not in known:
            continue
        source = wanted.sources.get(place)
        if source is None:
            if wanted.project in Path(place).parents:
                source = place
            elif not mount.is_writable or place in {f"/dev/{name}" for name in _DEVICES}:
                continue
        if source is None or _shown_at(source, outside)[:2] != mount[:2]:
            return False
    return (
        wanted.sources.keys() <= seen.keys()
        and all(place in seen and seen[place].device not in known for place in wanted.covers)
        and not any(seen[place].is_writable for place in wanted.read_only)
    )


def _shown_at(path: str, mounts: Mapping[str, Mount]) -> Mount:
    """Return what is seen under `path`, which has no links."""
    for above in (Path(path), *Path(path).parents):
        if mount := mounts.get(str(above)):
            return mount.below(os.path.relpath(path, above))
    raise AssertionError(path)  # pragma: no cover  # there always is a root


def mounts_of(process: str) -> dict[str, Mount]:
    """Return what `process` has mounted by place, of several in one place the last."""
    with open(f"/proc/{process}/mountinfo", "rb") as file:  # noqa: PTH123  # no Path is needed
        return dict(_mounts(file.read()))


def _mounts(text: bytes) -> Iterator[tuple[str, Mount]]:
    for line in text.splitlines():
        _, _, device, root, place, options, *_ = line.split(b" ")
        is_writable = b"rw" in options.split(b",")
        yield _unescaped(place), Mount(device.decode(), _unescaped(root), is_writable)


def _unescaped(field: bytes) -> str:
    r"""Return the path that `field` means, `\040` being a blank."""
    return os.fsdecode(
        re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], base=8)]), field)
    )
