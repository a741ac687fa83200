"""Bytes of a server-sent event stream -> the payloads of its events (WHATWG HTML, section 9.2).

A decoder of our own, since the common ones split text at U+2028 or decode each read by itself.
It works on bytes and decodes whole events, so no cut can fall inside a character. Of the fields
only `data` matters: what `event: error` announces stands in the data as well.

Linear: a byte is searched once for a line end and then moved, however small the reads are. What
is held is bounded: a server that never ends its line is an error, not memory.
"""

import re
from typing import Final

from bantam.core.errors import ModelError

# SPEC section 5. What a model writes in one go is far below both. Of an answer what is kept counts:
# a stream's wrapping is a hundred times its text.
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024

# Not splitlines(): it also splits at FF, VT, U+0085 and U+2028, legal inside JSON strings.
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"


class AnswerTooLarge(ModelError):
    """The answer outgrew what is held in memory; it would do so again, so it is not repeated."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"{what} is larger than {limit // (1024 * 1024)} MiB and was given up;"
            " ask for less in one answer"
        )


class SSEDecoder:
    r"""The payloads of a stream: the data lines of each event, joined by LF.

    >>> decoder = SSEDecoder()
    >>> decoder.feed(b": hi\r\ndata: a\r\ndata:b\r"), decoder.feed(b"\n\n")
    ([], ['a\nb'])
    >>> decoder.feed(b"data: [DONE]"), decoder.close()
    ([], ['[DONE]'])
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._event_bytes = 0
        self._first_line = True
        self._after_cr = False

    def feed(self, part: bytes) -> list[str]:
        """Return the payloads that `part` completes; bytes that are not UTF-8 are U+FFFD.

        Raises AnswerTooLarge as soon as an event passes MAX_EVENT_BYTES.
        """
        if not part:
            return []
        if self._after_cr:
            part = part.removeprefix(b"\n")  # of a CRLF that was cut in two
        first, *others = _LINE_END.split(part)
        self._after_cr = part.endswith(b"\r")
        self._check_size(len(self._line) + len(first))
        self._line += first
        if not others:
            return []
        payloads: list[str] = []
        *whole, begun = others
        for line in (bytes(self._line), *whole):
            self._check_size(len(line))
            self._take_line(line, payloads)
        self._check_size(len(begun))
        self._line = bytearray(begun)
        return payloads

    def close(self) -> list[str]:
        """Return the payload of a last event whose blank line, or line end, never came."""
        payloads: list[str] = []
        self._take_line(bytes(self._line), payloads)
        self._end_event(payloads)
        self._line.clear()
        return payloads

    def _check_size(self, line_bytes: int) -> None:
        if self._event_bytes + line_bytes > MAX_EVENT_BYTES:
            raise AnswerTooLarge("one event of the answer", MAX_EVENT_BYTES)

    def _take_line(self, line: bytes, payloads: list[str]) -> None:
        """Take a whole line; add to `payloads` what it ends."""
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._end_event(payloads)
            return
        name, _, value = line.partition(b":")  # of a comment the name is empty
        if name != b"data":
            return
        value = value.removeprefix(b" ")
        if self._data and self._begins_another(value):
            self._end_event(payloads)
        self._data.append(value)
        self._event_bytes += len(line) + 1

    def _begins_another(self, value: bytes) -> bool:
        """Whether a data line opens a new event though no blank line came, as some proxies send.

        In no JSON text is a closing brace followed by an opening bracket.
        """
        begins = value.lstrip().startswith((b"{", b"["))
        return begins and self._data[-1].rstrip().endswith(b"}")

    def _end_event(self, payloads: list[str]) -> None:
        if self._data:
            payloads.append(b"\n".join(self._data).decode("utf-8", "replace"))
            self._data.clear()
            self._event_bytes = 0
