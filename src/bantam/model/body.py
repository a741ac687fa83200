"""A response's body -> the JSON texts in it, be it a stream of events or plain JSON.

Servers send either, whatever was asked for, and under either Content-Type. The first byte tells:
no event stream begins with a bracket, and no JSON answer without one.
"""

from typing import Final, Protocol

from bantam.model.jsontext import JSONTexts
from bantam.model.sse import SSEDecoder

_BLANKS: Final = b" \t\r\n"  # some servers pad with them while the model thinks
_BOM: Final = b"\xef\xbb\xbf"
# Of a body that is no answer, this much shows what it is.
_BEGINNING_BYTES: Final = 1000
_LINE_LENGTH: Final = 200


class _Decoder(Protocol):
    def feed(self, part: bytes) -> list[str]: ...
    def close(self) -> list[str]: ...


class Body:
    r"""The payloads of one body: of its events, or the JSON texts that it consists of.

    >>> body = Body()
    >>> body.feed(b" \n"), body.feed(b'{"a'), body.feed(b'": 1}'), body.is_json
    ([], [], ['{"a": 1}'], True)
    """

    def __init__(self) -> None:
        self.is_json = False
        self._decoder: _Decoder | None = None
        self._beginning = b""

    @property
    def first_line(self) -> str:
        """The first line that is not blank, cut to 200 characters; "" for a blank body."""
        return first_line(self._beginning.decode("utf-8", "replace"))

    def feed(self, part: bytes) -> list[str]:
        """Return the payloads that `part` completes. Raises AnswerTooLarge."""
        if self._decoder is None:
            part = self._beginning = (self._beginning + part).lstrip(_BLANKS)
            begun = part.removeprefix(_BOM).lstrip(_BLANKS)
            if not begun or _BOM.startswith(begun):
                return []
            self.is_json = begun.startswith((b"{", b"["))
            self._decoder = JSONTexts() if self.is_json else SSEDecoder()
            self._beginning = begun[:_BEGINNING_BYTES]
        elif len(self._beginning) < _BEGINNING_BYTES:
            self._beginning += part[:_BEGINNING_BYTES]
        return self._decoder.feed(part)

    def close(self) -> list[str]:
        """Return the payload that the end of the body completes, or cuts off."""
        return self._decoder.close() if self._decoder else []


def first_line(text: str) -> str:
    """Return the first line of `text` that is not blank, cut to 200 characters."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_LINE_LENGTH]
