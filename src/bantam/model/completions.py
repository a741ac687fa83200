"""Answers: the bytes of a chat completion -> deltas, then one message.

The answer may be a stream of events or one JSON body, whatever was asked for and whatever the
Content-Type says; both become the same message. The assembler takes bytes and does no I/O. What it
returns does not depend on how the bytes were cut. An answer is good or it is an error: a message
exists only once the end was seen, so half a tool call is never run.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bantam.core.errors import ModelError
from bantam.core.events import ReasoningDelta, TextDelta
from bantam.core.messages import Message, Role
from bantam.model.body import Body, first_line
from bantam.model.calls import ToolCalls
from bantam.model.inband import error_in
from bantam.model.jsontext import SurrogatePairs, parsed
from bantam.model.plain import plain_text
from bantam.model.reasoning import Delta, ProviderState, ThinkTags, reasoning_of, text_of
from bantam.model.sse import MAX_ANSWER_BYTES, AnswerTooLarge
from bantam.model.usage import Usage, usage_in

# What a piece costs in memory beside its characters: thousands of tiny ones add up.
_PIECE_COST: Final = 50


class BrokenAnswer(ModelError):
    """The answer was cut off, malformed or empty; repeating the request may help."""


class AnswerFailed(ModelError):
    """The endpoint reports an error inside a 200; `status` is the one it names, if it names one.

    `codes` are the words that it calls the error by.
    """

    def __init__(self, message: str, status: int | None = None, codes: str = "") -> None:
        super().__init__(message, status)
        self.codes = codes


class Assembler:
    """One answer, from the bytes of a response with status 200.

    `call_id_prefix` begins the ids of calls that come without one. `content_type` is named where
    the body is no answer; which reader a body gets, its first byte tells.

    `feed` and `close` raise BrokenAnswer, AnswerFailed and AnswerTooLarge. Deltas that came before
    are void then, but none is withheld: an error behind deltas of one read is raised by the next
    call. Every answer is to be closed, also one that is `done`.

    `finish_reason` and `usage` are the last seen so far. `events` counts the data events so far, to
    measure silence by: comments, pings and other keep-alives do not count.
    """

    def __init__(self, call_id_prefix: str = "call", content_type: str = "") -> None:
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.events = 0
        self.done = False  # [DONE], or a whole JSON answer: nothing that counts can follow
        self._content_type = content_type
        self._body = Body()
        self._deltas: list[Delta] = []  # since the last call
        self._plain: list[str] = []  # behind those: text that becomes one delta
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._text_pairs = SurrogatePairs()
        self._reasoning_pairs = SurrogatePairs()
        self._tags = ThinkTags()
        self._calls = ToolCalls(call_id_prefix)
        self._state = ProviderState()
        self._any_delta = False
        self._length = 0  # characters, beside those of calls and state
        self._message: Message | None = None
        self._error: ModelError | None = None

    @property
    def complete(self) -> bool:
        """Whether the answer would be good if the body ended now."""
        return self._error is None and (self.done or self.finish_reason is not None)

    @property
    def size(self) -> int:
        """Bytes (UTF-8) of reasoning, text and arguments so far, to estimate tokens by."""
        texts = (text for texts in (self._reasoning, self._text) for text in texts)
        return sum(len(text.encode()) for text in texts) + self._calls.size

    @property
    def message(self) -> Message:
        """The assistant message; to be asked for once the answer is `complete`."""
        self._finish()
        assert self._message is not None
        return self._message

    def check(self) -> None:
        """Raise the error that stood behind the deltas of the last part, if there was one."""
        if self._error:
            raise self._error

    def feed(self, part: bytes) -> list[Delta]:
        """Return the deltas that `part` completes."""
        self.check()
        try:
            for payload in self._body.feed(part) if not self.done else ():
                self._take(payload)
        except ModelError as error:
            self._error = error
            self._join_plain()
            if not self._deltas:
                raise
        if self._body.is_json and part.strip():
            self.events += 1  # of a whole body each piece is data
        if self.done:
            self._finish()
        return self._taken()

    def close(self) -> list[Delta]:
        """Return the last deltas; the body has ended."""
        self.check()
        for payload in self._body.close():
            self._take_last(payload)
        if not self.complete:
            raise self._what_is_missing()
        self._finish()
        return self._taken()

    # -- from bytes to events -----------------------------------------------------------------

    def _take(self, payload: str) -> None:
        text = payload.strip()
        if self.done or not text or text.startswith(":"):  # keep-alives wrapped as data
            return
        if text == "[DONE]":
            self.done = True
            return
        try:
            value = parsed(text)
        except ValueError as error:
            self._take_lines(payload, error)
            return
        if self._tags.is_over and self._text_pairs.is_whole and (piece := plain_text(value)):
            self._take_plain(piece)
            return
        self._join_plain()
        for event in value if isinstance(value, list) else [value]:
            if isinstance(event, dict):
                self._take_event(event)

    def _take_lines(self, payload: str, error: ValueError) -> None:
        """Take each line as an event: a proxy dropped the blank lines between them."""
        lines = payload.split("\n")
        if len(lines) == 1 or self._body.is_json:
            raise BrokenAnswer(
                f"the answer holds data that is no JSON ({error}): {first_line(payload)}"
            ) from error
        for line in lines:
            self._take(line)

    def _take_last(self, payload: str) -> None:
        """Take an event that the body's end cut off: it counts if it is whole."""
        try:
            self._take(payload)
        except BrokenAnswer:
            if not self.complete:
                raise

    def _what_is_missing(self) -> ModelError:
        """Return the error for a body that ended before an answer did."""
        named = self._content_type.partition(";")[0].strip() or "no Content-Type"
        came = self._body.first_line
        if not came:
            return BrokenAnswer("the answer is empty: status 200 and no body")
        if came.startswith("<"):
            return AnswerFailed(
                f"a page came in place of an answer ({named}): {came}; is the endpoint's path"
                " right? It often ends in /v1"
            )
        if self.events == 0 or self._body.is_json:
            return BrokenAnswer(f"the body ({named}) holds no answer; it begins: {came}")
        return BrokenAnswer("the answer was cut off: it ended without finish_reason or [DONE]")

    # -- from events to the message -----------------------------------------------------------

    def _take_event(self, event: Mapping[str, Any]) -> None:
        error = error_in(event)
        if error is not None:
            text = f"the endpoint reported an error: {error.words}"
            raise AnswerFailed(text, error.status, error.codes)
        usage = usage_in(event)
        if usage is not None:
            self.usage = self.usage.updated(usage) if self.usage else usage
        self.events += "choices" in event or usage is not None
        for choice in _first_choices(event.get("choices")):
            self._take_choice(choice)

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict) and delta:
            self._take_delta(delta)
        # Some streams repeat the whole message beside their deltas, or behind them.
        elif isinstance(message, dict) and not self._any_delta:
            self._take_delta(message)
            self.done = self._body.is_json

    def _take_delta(self, delta: Mapping[str, Any]) -> None:
        self._any_delta = True
        reasoning, text = reasoning_of(delta), text_of(delta.get("content"))
        refusal = text_of(delta.get("refusal"))
        self._reason(self._reasoning_pairs.feed(reasoning))
        self._record(self._tags.feed(self._text_pairs.feed(text)))
        self._refusal.append(refusal)
        # The old single function; servers that send both send it twice.
        legacy = {"function": delta.get("function_call")} if delta.get("function_call") else None
        self._calls.feed(delta.get("tool_calls") or legacy)
        self._state.add(delta)
        self._grow(len(reasoning) + len(text) + len(refusal))

    def _take_plain(self, text: str) -> None:
        self.events += 1
        self._any_delta = True
        self._plain.append(text)
        self._grow(len(text))

    def _join_plain(self) -> None:
        if self._plain:
            self._record([TextDelta("".join(self._plain))])
            self._plain.clear()

    def _grow(self, length: int) -> None:
        self._length += length + _PIECE_COST
        if self._length + self._calls.length + self._state.length > MAX_ANSWER_BYTES:
            raise AnswerTooLarge("the answer", MAX_ANSWER_BYTES)

    def _reason(self, text: str) -> None:
        self._record([ReasoningDelta(text)] if text else [])

    def _record(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            texts = self._text if isinstance(delta, TextDelta) else self._reasoning
            texts.append(delta.text)
        self._deltas += deltas

    def _taken(self) -> list[Delta]:
        self._join_plain()
        deltas, self._deltas = self._deltas, []
        return deltas

    def _finish(self) -> None:
        """Release what was held back and build the message, once."""
        if self._message is not None:
            return
        self._join_plain()
        self._reason(self._reasoning_pairs.close())
        self._record(self._tags.feed(self._text_pairs.close()))
        self._record(self._tags.close())
        refusal = "".join(self._refusal)
        if refusal and not "".join(self._text).strip():
            self._record([TextDelta(refusal)])
        self._message = Message(
            Role.ASSISTANT,
            content="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=self._calls.collected(),
            extra=self._state.collected(streamed=not self._body.is_json),
        )


def _first_choices(choices: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of `choices` that belong to the first of the alternatives."""
    for position, choice in enumerate(choices if isinstance(choices, list) else ()):
        if not isinstance(choice, dict):
            continue
        index = choice.get("index")
        if (position if index is None else index) == 0:
            yield choice
