"""Tool calls from their pieces, whatever a server thinks `index` and `id` are for.

Which call a piece belongs to, first rule that decides:

1. An `id` seen before means its call; a new `id` opens a call, unless the piece only continues
   (arguments, no name) a call whose arguments are not whole: some servers invent an id per piece.
2. Without an `id`, `index` means the call opened last under it.
3. With neither, or an `index` never seen, a piece continues the call opened last.

And whatever they say: a name opens a call if the one it would go to has whole arguments and these
are more, or another name, or if that one got its name in the same event.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from bantam.core.messages import ToolCall
from bantam.model.jsontext import Nesting, whole_characters

# What the API defines; any other member is the provider's and goes back with the call.
_KNOWN: Final = frozenset({"id", "index", "type", "function"})


# What a call costs beside its arguments: no answer holds thousands of them.
_CALL_COST: Final = 4096


class _Call:
    """A call in the making."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.whole = False  # the arguments' outermost bracket is closed
        self.extra: dict[str, Any] = {}
        self._nesting = Nesting()

    def add(self, call_id: str, name: str, arguments: str, extra: Mapping[str, Any]) -> None:
        self.id = self.id or call_id
        # Repeated whole by some servers, streamed in pieces by others.
        if name != self.name:
            self.name += name
        if arguments:
            self.pieces.append(arguments)
            self.whole = self._nesting.end_in(arguments) is not None or self.whole
        self.extra |= extra

    @property
    def arguments(self) -> str:
        text = whole_characters("".join(self.pieces))
        # Models write null where a tool takes nothing.
        return "{}" if text.strip() in ("", "null") else text


class ToolCalls:
    """The calls of one answer; ids that are missing or not unique become `{id_prefix}_{n}`.

    >>> calls = ToolCalls("call")
    >>> calls.feed([{"index": 0, "function": {"name": "ls", "arguments": '{"a'}}])
    >>> calls.feed([{"index": 0, "function": {"arguments": '": 1}'}}])
    >>> calls.collected()
    (ToolCall(id='call_1', name='ls', arguments='{"a": 1}', extra={}),)
    """

    def __init__(self, id_prefix: str) -> None:
        self.length = 0  # about the memory held so far
        self._id_prefix = id_prefix
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    @property
    def size(self) -> int:
        """Bytes (UTF-8) of the arguments so far."""
        pieces = (piece for call in self._calls for piece in call.pieces)
        return sum(len(piece.encode("utf-8", "replace")) for piece in pieces)

    def feed(self, pieces: Any) -> None:
        """Take `tool_calls` of one delta or message; what is no list of objects is ignored."""
        if isinstance(pieces, dict):
            pieces = [pieces]
        named: set[_Call] = set()
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._add(piece, named)

    def collected(self) -> tuple[ToolCall, ...]:
        """Return the calls by index, or in order of appearance where one has no index."""
        calls = [call for call in self._calls if call.name or call.pieces]
        if all(call.index is not None for call in calls):
            calls.sort(key=lambda call: call.index or 0)
        return tuple(
            ToolCall(call_id, call.name, call.arguments, call.extra)
            for call, call_id in zip(calls, self._unique_ids(calls), strict=True)
        )

    def _add(self, piece: Mapping[str, Any], named: set[_Call]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = _text(piece.get("id")), _text(function.get("name"))
        arguments = _arguments(function.get("arguments"))
        self.length += len(arguments)
        index = piece.get("index")
        index = index if isinstance(index, int) else None
        call = self._meant(call_id, index, name, arguments)
        if call is not None and _repeats(call, call_id, arguments):
            return
        if call is None or _opens_another(call, call_id, name, arguments, named):
            call = _Call(index)
            self._calls.append(call)
            self.length += _CALL_COST
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id[call_id] = call
        if name:
            named.add(call)
        extra = {k: v for k, v in piece.items() if k not in _KNOWN and v is not None}
        call.add(call_id, name, arguments, extra)

    def _meant(self, call_id: str, index: int | None, name: str, arguments: str) -> _Call | None:
        last = self._calls[-1] if self._calls else None
        at_index = last if index is None else self._by_index.get(index)
        if not call_id:
            return at_index or (None if name else last)
        if at_index is not None and at_index.id == call_id:
            return at_index
        if at_index is None or call_id in self._by_id:
            return self._by_id.get(call_id)
        # A new id: late for the call that is open, another one for it, or a new call's.
        if at_index.whole and arguments:
            return None
        if not at_index.id:
            return at_index if index is not None or not name else None
        return at_index if arguments and not name else None

    def _unique_ids(self, calls: Sequence[_Call]) -> list[str]:
        given = {call.id for call in calls}
        unique: dict[str, None] = {}
        number = 0
        for call in calls:
            call_id = call.id
            while not call_id or call_id in unique:
                number += 1
                made_up = f"{self._id_prefix}_{number}"
                call_id = "" if made_up in given else made_up
            unique[call_id] = None
        return list(unique)


def _repeats(call: _Call, call_id: str, arguments: str) -> bool:
    """Whether a piece is a call over again, as some servers close their stream with."""
    return bool(call_id) and call_id == call.id and call.whole and arguments == call.arguments


def _opens_another(
    call: _Call, call_id: str, name: str, arguments: str, named: Collection[_Call]
) -> bool:
    if not name or not call.name:
        return False
    if call.whole:
        return bool(arguments) or name != call.name
    return call in named and not (call_id and call_id == call.id)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: Any) -> str:
    """Return arguments as JSON text, "" for none: most servers send text, a few the object."""
    if isinstance(value, str):
        return value
    if value is None or value == []:  # PHP's empty object
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
