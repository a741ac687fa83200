"""One attempt at a request: the bytes out, the answer in, or the reason why not.

Here the time is watched, since only here are data events known from keep-alives: servers send
headers at once and pings while nothing comes (SPEC section 2, `timeout`).
"""

from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from time import monotonic
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.events import Event
from bantam.model.catalogue import Catalogue
from bantam.model.completions import AnswerFailed, Assembler, BrokenAnswer
from bantam.model.failures import AttemptFailed, Failure, Kind, rejection, status_line
from bantam.model.transports import Exchange, Head, Item, Transport

# Behind finish_reason a usage event and [DONE] may come; some servers send neither and wait.
_AFTERTHOUGHT_S: Final = 2.0
# The body of an error is read so long, however slowly it comes.
_ERROR_S: Final = 2.0
# Behind [DONE] only the end of the body can come; reading it keeps the connection.
_LAST_BYTES_S: Final = 0.1
_ERROR_BYTES: Final = 65536
_MOST_TOGETHER: Final = 64  # parts of a body: a faster sender is not waited for


class Attempt:
    """A request under way. `answer` is set when the body of a 200 begins, whole at the end."""

    def __init__(self, transport: Transport, sent: bytes, made_up_ids: str) -> None:
        self._transport = transport
        self._sent = sent
        self._made_up_ids = made_up_ids
        self.answer: Assembler | None = None

    def run(
        self, timeout_s: float, catalogue: Catalogue, cancel: Cancel
    ) -> Generator[Event, None, Assembler]:
        """Send; yield the deltas; return the whole answer. A good status starts `catalogue`.

        Raises AttemptFailed (the deltas are void then), AnswerTooLarge and Interrupted. However it
        ends, `close()` included, the exchange is over.
        """
        with closing(self._transport.send(self._sent)) as exchange:
            head = _head(exchange, timeout_s, cancel)
            if not 200 <= head.status < 300:
                raise AttemptFailed(_rejection(exchange, head, cancel))
            catalogue.start()
            self.answer = Assembler(self._made_up_ids, head.headers.get("content-type", ""))
            try:
                yield from _deltas(exchange, self.answer, timeout_s, cancel)
                yield from self.answer.close()
            except (BrokenAnswer, AnswerFailed) as error:
                raise AttemptFailed(_broken(error, head)) from None
            return self.answer


def _head(exchange: Exchange, timeout_s: float, cancel: Cancel) -> Head:
    try:
        item = cancel.get(exchange.inbox, timeout_s)
    except TimeoutError:
        raise AttemptFailed(_silence(timeout_s)) from None
    if isinstance(item, Failure):
        raise AttemptFailed(item)
    assert isinstance(item, Head)
    return item


def _rejection(exchange: Exchange, head: Head, cancel: Cancel) -> Failure:
    body = bytearray()
    for part in _rest(exchange, _ERROR_S, cancel):
        body += part
        if len(body) > _ERROR_BYTES:
            break
    return rejection(head.status, head.reason, head.headers, bytes(body))


def _deltas(
    exchange: Exchange, answer: Assembler, timeout_s: float, cancel: Cancel
) -> Generator[Event, None, None]:
    """Feed the body to `answer` until it is whole or the body ends; yield its deltas."""
    deadline = monotonic() + timeout_s
    item: Item | None = None
    while not answer.done:
        events = answer.events
        try:
            item = item or _next(exchange, deadline, cancel)
        except TimeoutError:
            if answer.complete:
                return
            if answer.events:
                stopped = f"the answer stopped: nothing came for {timeout_s:g} s (timeout)"
                raise AttemptFailed(Failure(Kind.STALL, stopped)) from None
            raise AttemptFailed(_silence(timeout_s)) from None
        match item:
            case bytes():
                part, item = _together(item, exchange)
                yield from answer.feed(part)
                answer.check()  # at once: the rest of a broken answer is not worth the wait
            case Failure() if not answer.complete:
                raise AttemptFailed(_in_mid_stream(item))
            case _:
                return
        if answer.events > events:
            deadline = monotonic() + (_AFTERTHOUGHT_S if answer.complete else timeout_s)
    # If it comes at once, so that the connection is kept; else that is given up.
    if item is None or isinstance(item, bytes):
        for _ in _rest(exchange, _LAST_BYTES_S, cancel):
            pass


def _together(part: bytes, exchange: Exchange) -> tuple[bytes, Item | None]:
    """Return `part` with what has come behind it by now, and the item that is no part of it.

    Servers send every token in a chunk of its own: a step for each would take most of the time.
    """
    parts = [part]
    while isinstance(item := exchange.inbox.at_once(), bytes) and len(parts) < _MOST_TOGETHER:
        parts.append(item)
    return b"".join(parts), item


def _rest(exchange: Exchange, seconds: float, cancel: Cancel) -> Iterator[bytes]:
    """Yield what comes of the body within `seconds`."""
    deadline = monotonic() + seconds
    with suppress(TimeoutError):
        while isinstance(item := _next(exchange, deadline, cancel), bytes):
            yield item


def _next(exchange: Exchange, deadline: float, cancel: Cancel) -> Item:
    """Return what comes next. Raises TimeoutError behind `deadline`, even if more waits.

    A server may send its comments faster than they are read.
    """
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return cancel.get(exchange.inbox, left)


def _silence(timeout_s: float) -> Failure:
    return Failure(Kind.SILENCE, f"no answer for {timeout_s:g} s (timeout)")


def _in_mid_stream(failure: Failure) -> Failure:
    """Return a failure of the network as what it is here: an answer that broke off."""
    kind = Kind.BROKEN if failure.kind is Kind.CONNECTION else failure.kind
    return Failure(kind, failure.reason, failure.message)


def _broken(error: BrokenAnswer | AnswerFailed, head: Head) -> Failure:
    """Return the failure behind a 200: what the stream itself said, or that it broke."""
    if error.status is not None:
        reason = f"{status_line(error.status)} in the answer"
        said = f"{error.codes}: {error}" if isinstance(error, AnswerFailed) else ""
        return Failure(Kind.STATUS, reason, str(error), error.status, head.headers, said=said)
    if "html" in head.headers.get("content-type", "").lower():
        return Failure(Kind.FINAL, str(error))  # a page stands at this address, not an API
    return Failure(Kind.BROKEN, str(error), said=str(error))
