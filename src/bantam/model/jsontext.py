"""JSON text of a stranger: where it ends, what it holds, and characters cut by its escapes.

Servers send a plain JSON body where a stream was asked for, keep the connection open behind it,
and nest, count and escape as they like. Everything here is linear in the text.
"""

import codecs
import json
import re
from typing import Any, Final

from bantam.core.messages import MAX_DEPTH, is_too_deep
from bantam.model.sse import MAX_ANSWER_BYTES, AnswerTooLarge

# Python servers write NaN and -Infinity (log probabilities), which JSON does not know.
_JSON: Final = json.JSONDecoder(parse_constant=lambda _: None)
_BLANKS: Final = " \t\r\n"
_OPENING: Final = re.compile(r"[{\[]")
_OUTSIDE_STRINGS: Final = re.compile(r'[{}\[\]"]')
# The rest of a string, up to its quote or to a backslash whose character is not here yet.
_REST_OF_STRING: Final = re.compile(r'(?:[^"\\]++|\\[\s\S])*+')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def parsed(text: str) -> Any:
    """Return the value of the JSON text `text`, NaN and infinities as None.

    Raises ValueError if it is none, is nested deeper than MAX_DEPTH, or holds a number of more
    digits than Python converts.

    >>> parsed('{"logprob": -Infinity}')
    {'logprob': None}
    """
    text = text.strip(_BLANKS)
    try:
        # Not `decode`, which looks for the blanks with patterns: for a short text it takes as long.
        value, end = _JSON.raw_decode(text)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH}") from None
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    if text.count("{") + text.count("[") > MAX_DEPTH and is_too_deep(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    return value


class Nesting:
    """Where an object or array that arrives in pieces ends."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def end_in(self, piece: str, start: int = 0) -> int | None:
        """Return the index behind the bracket that closes the outermost one, or None.

        >>> nesting = Nesting()
        >>> nesting.end_in('{"a": "}'), nesting.end_in('"} {')
        (None, 2)
        """
        position = start
        if self._escaped and position < len(piece):
            self._escaped = False
            position += 1
        while True:
            if self._in_string:
                position = self._behind_string(piece, position)
            mark = _OUTSIDE_STRINGS.search(piece, position)
            if mark is None:
                return None
            position = mark.end()
            if self._closes(mark[0]):
                return position

    def _behind_string(self, piece: str, position: int) -> int:
        rest = _REST_OF_STRING.match(piece, position)
        assert rest  # it matches the empty string
        stop = piece[rest.end() : rest.end() + 1]
        self._in_string = stop != '"'
        self._escaped = stop == "\\"
        return rest.end() + 1

    def _closes(self, mark: str) -> bool:
        match mark:
            case '"':
                self._in_string = True
            case "{" | "[":
                self._depth += 1
            case _:
                self._depth = max(0, self._depth - 1)
                return self._depth == 0
        return False


class JSONTexts:
    r"""The top-level objects and arrays of a body, each as soon as it is whole.

    Blanks, a byte-order mark and anything else between them are skipped.

    >>> texts = JSONTexts()
    >>> texts.feed(b' {"a": 1}\n{"b'), texts.feed(b'": [2]}'), texts.close()
    (['{"a": 1}'], ['{"b": [2]}'], [])
    """

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._nesting = Nesting()
        self._pieces: list[str] = []
        self._bytes = 0

    def feed(self, part: bytes) -> list[str]:
        """Return the texts that `part` completes; bytes that are not UTF-8 are U+FFFD.

        Raises AnswerTooLarge when the body passes MAX_ANSWER_BYTES.
        """
        self._bytes += len(part)
        if self._bytes > MAX_ANSWER_BYTES:
            raise AnswerTooLarge("the answer", MAX_ANSWER_BYTES)
        return self._texts_in(self._utf8.decode(part))

    def close(self) -> list[str]:
        """Return the rest of a text that was cut off, if there is one."""
        rest = "".join([*self._pieces, self._utf8.decode(b"", final=True)])
        return [rest] if self._pieces else []

    def _texts_in(self, piece: str) -> list[str]:
        texts: list[str] = []
        start = 0
        while start < len(piece):
            if not self._pieces:
                opening = _OPENING.search(piece, start)
                if opening is None:
                    break
                start = opening.start()
            end = self._nesting.end_in(piece, start)
            self._pieces.append(piece[start:end])
            if end is None:
                break
            texts.append("".join(self._pieces))
            self._pieces.clear()
            start = end
        return texts


class SurrogatePairs:
    r"""Text whose characters were cut in two by escapes: `\ud83d`, then `\ude42` in the next piece.

    >>> pairs = SurrogatePairs()
    >>> pairs.feed("a\ud83d"), pairs.feed("\ude42\ud83d"), pairs.close() == "\ufffd"
    ('a', '🙂', True)
    """

    def __init__(self) -> None:
        self._half = ""

    @property
    def is_whole(self) -> bool:
        """Whether no half is held back."""
        return not self._half

    def feed(self, piece: str) -> str:
        """Return the text so far complete; a half without its other half is U+FFFD."""
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return whole_characters(text[: len(text) - len(self._half)])

    def close(self) -> str:
        """Return U+FFFD if the other half never came."""
        half, self._half = self._half, ""
        return whole_characters(half)


def whole_characters(text: str) -> str:
    """Return `text` with surrogate pairs as the characters they mean and lone ones as U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
