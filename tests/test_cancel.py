import os
import signal
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from processes import eventually

from bantam.core.cancel import Cancel, Inbox
from bantam.core.errors import ExitStatus, Interrupted

# Far more than a wake-up takes, far less than a test may.
SOON_S = 5.0
LONG_S = 60.0


def started(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def inbox_of(*items: str) -> Inbox[str]:
    inbox: Inbox[str] = Inbox()
    for item in items:
        assert inbox.put(item)
    return inbox


def take_for_ever(cancel: Cancel, inbox: Inbox[str]) -> None:
    while True:
        cancel.get(inbox, LONG_S)
        inbox.put("again")


# -- taking -----------------------------------------------------------------------------------


def test_items_come_out_in_the_order_in_which_they_were_put() -> None:
    cancel, inbox = Cancel(), inbox_of("a", "b", "c")
    assert [cancel.get(inbox) for _ in range(3)] == ["a", "b", "c"]


def test_an_item_that_waits_is_taken_even_if_no_time_is_left() -> None:
    assert Cancel().get(inbox_of("a"), 0) == "a"
    assert Cancel().get(inbox_of("a"), -1.0) == "a"


@pytest.mark.parametrize("timeout", [-1.0, 0.0, 0.01, 0.12])
def test_nothing_within_the_time_is_a_timeout_and_not_before_it(timeout: float) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        Cancel().get(inbox_of(), timeout)
    assert time.monotonic() - began >= timeout


def test_an_item_put_by_a_thread_after_several_slices_is_taken() -> None:
    inbox = inbox_of()

    def put_late() -> None:
        Cancel().sleep(0.2)
        inbox.put("late")

    thread = started(put_late)
    assert Cancel().get(inbox) == "late"
    thread.join(SOON_S)


# -- cancelling -------------------------------------------------------------------------------


def test_nothing_is_cancelled_until_set_is_called() -> None:
    cancel = Cancel()
    cancel.check()
    assert not cancel.is_set
    assert cancel.why is None


@pytest.mark.parametrize(
    "reasons", [(), (ExitStatus.TERMINATED,), (ExitStatus.TERMINATED, ExitStatus.INTERRUPTED)]
)
def test_set_says_why_and_may_be_called_again(reasons: tuple[ExitStatus, ...]) -> None:
    cancel = Cancel()
    cancel.set()
    for reason in reasons:
        cancel.set(reason)
    assert cancel.is_set
    assert cancel.why is (reasons[-1] if reasons else ExitStatus.INTERRUPTED)
    with pytest.raises(Interrupted, match="interrupted by the user"):
        cancel.check()


def test_once_cancelled_a_get_raises_at_once_even_if_items_wait() -> None:
    cancel, inbox = Cancel(), inbox_of("a")
    cancel.set()
    for _ in range(2):
        with pytest.raises(Interrupted):
            cancel.get(inbox)
    with pytest.raises(Interrupted):
        cancel.sleep(LONG_S)


def test_a_cancel_between_two_gets_is_seen_by_the_second() -> None:
    cancel, inbox = Cancel(), inbox_of("a", "b")
    assert cancel.get(inbox) == "a"
    cancel.set()
    with pytest.raises(Interrupted):
        cancel.get(inbox, LONG_S)


@pytest.mark.parametrize("timeout", [None, LONG_S])
def test_another_thread_wakes_a_get_that_waits(timeout: float | None) -> None:
    cancel, inbox = Cancel(), inbox_of()
    ended: SimpleQueue[float] = SimpleQueue()

    def wait() -> None:
        with pytest.raises(Interrupted):
            cancel.get(inbox, timeout)
        ended.put(time.monotonic())

    thread = started(wait)
    Cancel().sleep(0.1)
    began = time.monotonic()
    cancel.set()
    assert ended.get(timeout=SOON_S) - began < SOON_S
    thread.join(SOON_S)
    assert not thread.is_alive()


def test_a_set_that_arrives_too_late_for_one_get_does_not_come_out_of_the_next() -> None:
    first, second, inbox = Cancel(), Cancel(), inbox_of()

    def wait() -> None:
        with pytest.raises(Interrupted):
            first.get(inbox)

    thread = started(wait)
    Cancel().sleep(0.1)
    first.set()
    thread.join(SOON_S)
    first.set()
    inbox.put("item")
    assert second.get(inbox) == "item"


def test_a_wake_up_for_another_cancel_is_not_taken_for_an_item() -> None:
    """Two turns may wait on one inbox, one after the other; what woke the first is no item."""
    first, second, inbox = Cancel(), Cancel(), inbox_of()

    def wait() -> None:
        with pytest.raises(Interrupted):
            first.get(inbox)

    threads = [started(wait) for _ in range(3)]
    Cancel().sleep(0.1)
    for _ in range(5):
        first.set()
    for thread in threads:
        thread.join(SOON_S)
    with pytest.raises(TimeoutError):
        second.get(inbox, 0.05)


@pytest.mark.parametrize("items", [(), ("a",)], ids=["empty", "full"])
def test_a_signal_handler_may_cancel_at_any_instant(items: tuple[str, ...]) -> None:
    """Signals come all the time while a turn takes: none deadlocks, each is seen."""
    before = signal.getsignal(signal.SIGUSR1)
    try:
        for delay in range(1, 40):
            cancel, inbox = Cancel(), inbox_of(*items)
            signal.signal(signal.SIGUSR1, lambda *_, c=cancel: c.set(ExitStatus.TERMINATED))
            timer = threading.Timer(delay * 0.0002, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            with pytest.raises(Interrupted):
                take_for_ever(cancel, inbox)
            assert cancel.why is ExitStatus.TERMINATED
            timer.join(SOON_S)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_sleep_returns_after_its_time() -> None:
    began = time.monotonic()
    assert Cancel().sleep(0.06) is None  # type: ignore[func-returns-value]  # that it returns
    assert time.monotonic() - began >= 0.06


# -- the bound --------------------------------------------------------------------------------


def test_a_full_inbox_blocks_its_reader_until_an_item_is_taken() -> None:
    inbox: Inbox[int] = Inbox(limit=2)
    put: list[int] = []

    def read() -> None:
        for number in range(5):
            assert inbox.put(number)
            put.append(number)

    thread = started(read)
    assert eventually(lambda: len(put) == 2)
    Cancel().sleep(0.1)
    assert put == [0, 1]
    cancel = Cancel()
    assert cancel.get(inbox) == 0
    assert eventually(lambda: len(put) == 3)
    assert [cancel.get(inbox) for _ in range(4)] == [1, 2, 3, 4]
    thread.join(SOON_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("readers", [1, 4])
def test_close_frees_every_reader_now_and_for_any_number_of_later_puts(readers: int) -> None:
    inbox: Inbox[int] = Inbox(limit=1)
    inbox.put(0)
    told: SimpleQueue[bool] = SimpleQueue()
    threads = [started(lambda: told.put(inbox.put(1))) for _ in range(readers)]
    Cancel().sleep(0.1)
    assert told.empty()
    inbox.close()
    assert [told.get(timeout=SOON_S) for _ in range(readers)] == [False] * readers
    assert [inbox.put(2) for _ in range(100)] == [False] * 100
    inbox.close()
    assert [inbox.put(3) for _ in range(100)] == [False] * 100
    for thread in threads:
        thread.join(SOON_S)
        assert not thread.is_alive()


def test_close_with_room_left_refuses_as_well() -> None:
    inbox: Inbox[int] = Inbox(limit=8)
    inbox.close()
    assert [inbox.put(number) for number in range(20)] == [False] * 20


def test_time_can_be_shown_while_a_turn_waits() -> None:
    cancel = Cancel()
    cancel.ticks.append(cancel.set)
    with pytest.raises(Interrupted):
        cancel.sleep(SOON_S)


class StoppedMeanwhile(SimpleQueue[Any]):
    """A queue whose `get` takes so long that ticks are due again, as if the process was stopped."""

    def get(self, *how: Any, **more: Any) -> Any:
        began = time.monotonic()
        assert eventually(lambda: time.monotonic() > began + 0.06)
        return super().get(*how, **more)


def test_what_came_while_the_process_was_stopped_comes_behind_a_tick() -> None:
    told: list[str] = []
    cancel, inbox = Cancel(), inbox_of()
    inbox.queue = StoppedMeanwhile()
    inbox.put("a")
    cancel.ticks.append(lambda: told.append("tick"))
    told.append(cancel.get(inbox))
    assert told == ["tick", "tick", "a"]


def test_what_is_there_by_now_is_taken_at_once_and_a_cancel_is_no_item() -> None:
    cancel, inbox = Cancel(), inbox_of("a", "b")
    assert [inbox.at_once(), cancel.get(inbox)] == ["a", "b"]
    inbox.queue = StoppedBySignal(cancel)
    inbox.put("c")
    with pytest.raises(Interrupted):
        cancel.get(inbox)
    assert inbox.put("d")
    taken = [inbox.at_once() for _ in range(4)]
    assert taken == ["c", None, "d", None], "the wake-up is no item"


class StoppedBySignal(SimpleQueue[Any]):
    """A queue in whose `get` a signal cancels, before it takes anything."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel

    def get(self, *how: Any, **more: Any) -> Any:
        del how, more
        self._cancel.set()
        raise Empty


class SignalledMeanwhile(SimpleQueue[Any]):
    """A queue in whose `get` a signal wants ticks."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel

    def get(self, *how: Any, **more: Any) -> Any:
        self._cancel.tick_soon()
        return super().get(*how, **more)


def test_a_signal_may_have_ticks_called_before_what_has_come_is_taken() -> None:
    told: list[str] = []
    cancel, inbox = Cancel(), inbox_of()
    inbox.queue = SignalledMeanwhile(cancel)
    inbox.put("a")
    cancel.ticks.append(lambda: told.append("tick"))
    told.append(cancel.get(inbox))
    assert told == ["tick", "tick", "a"]
