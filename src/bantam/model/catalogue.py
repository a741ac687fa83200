"""What `GET /models` says: the ids, and the window of the configured model.

The answer is never waited for on the way of a request: it is asked for when the first answer has
begun, on a connection of its own (a server may serve one at a time), and read when it is wanted.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ModelError
from bantam.model.failures import Failure
from bantam.model.transports import End, Head, HTTPExchange, HTTPTransport

_PATIENCE_S: Final = 5.0
# A usage line may wait so long for an answer that is due at any moment, once.
_SHORT_WAIT_S: Final = 0.2
_BYTES: Final = 8 * 1024 * 1024
_WINDOW_FIELDS: Final = (
    ("context_length",),
    ("context_window",),
    ("max_context_length",),
    ("max_model_len",),
    ("loaded_context_length",),
    ("max_input_tokens",),
    ("top_provider", "context_length"),
    ("meta", "n_ctx"),
    ("meta", "n_ctx_train"),
)


class Catalogue:
    """The endpoint's models, asked once."""

    def __init__(
        self,
        transport: HTTPTransport | None,
        model: str,
        configured: int,
        *,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._transport = transport
        self._model = model
        self._exchange: HTTPExchange | None = None
        self._patience_s = patience_s
        self._deadline = 0.0
        self._body = bytearray()
        self._wait_s = _SHORT_WAIT_S
        self.window = configured
        self.source = "context_window"

    def start(self) -> None:
        """Ask, if that was not done and there is somebody to ask."""
        if self._transport is not None and self._exchange is None:
            self._exchange = self._transport.fetch()
            self._deadline = time.monotonic() + self._patience_s

    @property
    def is_settled(self) -> bool:
        """Whether nothing more can come: it was told, or given up, or there is nobody to ask."""
        return self._transport is None

    def refresh(self, cancel: Cancel) -> None:
        """Take what has come; set `window` and `source` if it was the whole answer.

        Waits 0.2 s in all, the first time alone. Raises Interrupted.
        """
        exchange = self._exchange
        if exchange is None or self._transport is None:
            return
        until = time.monotonic() + self._wait_s
        self._wait_s = 0.0
        try:
            while not self._take(exchange, max(0.0, until - time.monotonic()), cancel):
                pass
        except TimeoutError:
            if time.monotonic() < self._deadline:
                return
        self.close()

    def close(self) -> None:
        """Ask no more."""
        if self._exchange is not None and self._transport is not None:
            self._exchange.close()
            self._transport.close()
        self._transport = None

    def _take(self, exchange: HTTPExchange, wait_s: float, cancel: Cancel) -> bool:
        """Take one item; return whether it was the last that counts. Raises TimeoutError."""
        item = cancel.get(exchange.inbox, wait_s)
        match item:
            case Head(status):
                return status != 200
            case bytes():
                self._body += item
                return len(self._body) > _BYTES
            case End():
                if (window := window_of(self._model, bytes(self._body))) is not None:
                    self.window, self.source = window, "/models"
                return True
            case _:  # a Failure
                return True


def model_ids(
    transport: HTTPTransport, cancel: Cancel, *, patience_s: float = _PATIENCE_S
) -> list[str]:
    """Return the ids of the endpoint's models, in its order. Raises ModelError, Interrupted."""
    exchange, body = transport.fetch(), bytearray()
    try:
        while not isinstance(item := cancel.get(exchange.inbox, patience_s), End):
            match item:
                case Head(status) if status != 200:
                    raise ModelError(f"{transport.url} answers {status} {item.reason}", status)
                case bytes() if len(body) + len(item) > _BYTES:
                    raise ModelError(f"{transport.url} answers more than {_BYTES >> 20} MiB")
                case bytes():
                    body += item
                case Failure():
                    raise ModelError(f"{transport.url}: {item.reason}")
    except TimeoutError:
        raise ModelError(f"{transport.url}: no answer within {patience_s:g} s") from None
    finally:
        exchange.close()
    ids = [name for entry in _entries(bytes(body)) if isinstance(name := entry.get("id"), str)]
    if not ids:
        raise ModelError(f"{transport.url} names no models")
    return ids


def window_of(model: str, body: bytes) -> int | None:
    """Return the window that a /models answer gives for exactly `model`, None if it does not.

    >>> window_of("m", b'{"data": [{"id": "m", "max_model_len": 4096}]}')
    4096
    """
    entry = next((e for e in _entries(body) if e.get("id") == model), {})
    for path in _WINDOW_FIELDS:
        value: Any = entry
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if (number := _positive(value)) is not None:
            return number
    return None


def _entries(body: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        facts = json.loads(body)
    except (ValueError, RecursionError):
        return
    entries = facts.get("data", facts.get("models")) if isinstance(facts, Mapping) else facts
    if isinstance(entries, list):
        yield from (entry for entry in entries if isinstance(entry, Mapping))


def _positive(value: Any) -> int | None:
    """Return `value` as a positive number; some servers send numbers as text."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 1 <= value < 2**63 else None
