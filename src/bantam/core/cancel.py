"""The one way to wait: a turn blocks in `Cancel.get` and nowhere else.

Every blocking source (a socket, a child process) is read by a daemon thread into an `Inbox`; the
turn takes from it through its `Cancel`. `Cancel.set` may be called from a signal handler or from
any thread. `threading.Event.set` may not: its lock deadlocks when the handler interrupts a waiter
that holds it. `SimpleQueue.put` is reentrant by contract, so the wake-up is a queue item.
"""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Semaphore
from typing import Final, Generic, TypeVar

from bantam.core.errors import ExitStatus, Interrupted

T = TypeVar("T")

# A signal that arrives between the last bytecode and the blocking call is handled only when that
# call returns, so no single wait is longer than this. It bounds the delay of Ctrl+C.
_SLICE_S: Final = 0.05


class _Wake:
    """What `Cancel.set` puts into the queue that the turn is waiting on."""


_WAKE: Final = _Wake()


class Inbox(Generic[T]):
    """What a reader thread has read and the turn has not yet taken: at most `limit` items.

    The bound is what keeps memory flat when a source is faster than the turn.
    """

    def __init__(self, limit: int = 32) -> None:
        self.queue: SimpleQueue[T | _Wake] = SimpleQueue()
        self._room = Semaphore(limit)
        self._closed = False

    def put(self, item: T) -> bool:
        """Add `item`, waiting for room; False once nobody will take it: stop reading.

        For the reader's thread.
        """
        self._room.acquire()
        if self._closed:
            self._room.release()
            return False
        self.queue.put(item)
        return True

    def taken(self) -> None:
        """Make room for one more item. For `Cancel.get`."""
        self._room.release()

    def at_once(self) -> T | None:
        """Return the next item if it is there by now."""
        try:
            item = self.queue.get_nowait()
        except Empty:
            return None
        if isinstance(item, _Wake):  # the next `Cancel.get` sees what it stands for
            return None
        self.taken()
        return item

    def close(self) -> None:
        """Nothing more will be taken: let the reader's `put`, now or later, return False."""
        self._closed = True
        # Wakes a `put` that waits; each `put` hands the room on to the next.
        self._room.release()


class Cancel:
    """Whether the turn in hand was cancelled; wakes the turn when it is.

    `ticks` are called some 20 times a second while the turn waits for what comes, or takes it: what
    shows the time needs no thread of its own.
    """

    def __init__(self) -> None:
        self.why: ExitStatus | None = None
        self.ticks: list[Callable[[], None]] = []
        self._due = 0.0  # when they are called again
        self._waiting: SimpleQueue[object] | None = None

    @property
    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self.why is not None

    def set(self, why: ExitStatus = ExitStatus.INTERRUPTED) -> None:
        """Cancel. Safe in a signal handler, from any thread, and more than once."""
        self.why = why
        waiting = self._waiting
        if waiting is not None:
            waiting.put(_WAKE)

    def check(self) -> None:
        """Raise `Interrupted` if the turn was cancelled."""
        if self.is_set:
            raise Interrupted("interrupted by the user")

    def get(self, inbox: Inbox[T], timeout: float | None = None) -> T:
        """Return the next item of `inbox`.

        Raises Interrupted at once when cancelled, even if items are waiting, and TimeoutError
        after `timeout` seconds (None: wait for ever).
        """
        queue = inbox.queue
        deadline = None if timeout is None else time.monotonic() + timeout
        self._waiting = queue  # type: ignore[assignment]  # any item may be put: _WAKE is one
        try:
            while True:
                self._tick_if_due()
                self.check()
                left = _SLICE_S if deadline is None else deadline - time.monotonic()
                try:
                    item = queue.get(timeout=max(0.0, min(left, _SLICE_S)))
                except Empty:
                    if deadline is not None and time.monotonic() >= deadline:
                        raise TimeoutError from None
                    continue
                if isinstance(item, _Wake):
                    continue
                inbox.taken()
                # Again: the process may have been stopped meanwhile, before the item came.
                self._tick_if_due()
                return item
        finally:
            self._waiting = None

    def _tick_if_due(self) -> None:
        if self.ticks and (now := time.monotonic()) >= self._due:
            self._due = now + _SLICE_S
            for tick in self.ticks:
                tick()

    def tick_soon(self) -> None:
        """Let the ticks be called before anything more is taken. Safe in a signal handler.

        It wakes whoever waits, too: CPython's `SimpleQueue.get` waits for ever where a signal comes
        behind its time-out, as after a stop.
        """
        self._due = 0.0
        waiting = self._waiting
        if waiting is not None:
            waiting.put(_WAKE)

    def sleep(self, seconds: float) -> None:
        """Wait `seconds`. Raises Interrupted at once when cancelled."""
        nothing: Inbox[None] = Inbox()
        try:
            self.get(nothing, seconds)
        except TimeoutError:
            return
