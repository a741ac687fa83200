"""A conversation that outgrows the model's window goes on from a summary of itself.

The model writes the summary. It is asked with the conversation as it was last sent and one message
more, so that the provider's cache holds all but that; tools are shown, and calls forbidden. Then
the log holds the system message, the summary and, where it is not answered yet, the prompt in hand.

A conversation that is too long even to be summarised is shown with the middle of long texts left
out: old output is the least that a summary needs. After two such cuts it is given up.
"""

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Final

from bantam.agent.memory import Memory
from bantam.core.cancel import Cancel
from bantam.core.errors import BantamError, Interrupted, ModelError
from bantam.core.events import Compacted, Event, Notice, ReasoningDelta, TextDelta
from bantam.core.generators import through
from bantam.core.messages import (
    Answer,
    Message,
    Role,
    ToolCall,
    has_answer,
    last_prompt,
    parsed_arguments,
)
from bantam.model.client import Client
from bantam.model.dialects.dialect import Tools
from bantam.model.retry import PromptTooLong

AUTOMATIC_AT: Final = 0.9  # of the window: SPEC section 8
# Characters of one text that are shown, try by try. The first cut leaves a window of 32,000 tokens
# some 60 long texts, the second one of 8,000 tokens 160.
_CUTS: Final = (2000, 200)
_HEAD: Final = 0.6  # of what is left of a text, as of a tool's result (SPEC section 6)
_CUT_OFF: Final = frozenset({"length", "content_filter"})  # finish reasons
_NOT_COMPACTED: Final = "the conversation was not compacted"

_REQUEST: Final = """\
Summarise this conversation. Your summary will take its place, so what you leave out is lost. \
Call no tools; write plain text, concise and complete, under these headings:
Goal: what the user wants, with every condition that the user set.
Decisions: what was decided, and why.
Files: each file read, made or changed, by its path, and what matters of it.
Commands: what was run, and how it ended.
Open problems: what does not work yet, or is not known.
Next step: what is to be done now."""
# By its beginning it is known to be no prompt: `core.messages.NOTES`.
_SUMMARY: Final = """\
(The conversation up to here was replaced by this summary, which you wrote.)

{}

(End of the summary. What it reports as done is done: do not repeat it.)"""


def can_compact(messages: Sequence[Message]) -> bool:
    """Whether there is anything to summarise: the model has said something."""
    return has_answer(messages)


def compact(
    log: Memory, model: Client, tools: Tools, cancel: Cancel, *, was_refused: bool = False
) -> Generator[Event, None, str | None]:
    """Let the model's summary take the conversation's place; yield what happens, `Compacted` last.

    Return the fault of the paid answer (`Answer.fault`). `was_refused`: the whole conversation is
    known to be too long. Raises ModelError, BudgetSpent and Interrupted. Unless it came to
    `Compacted`, nothing has changed.
    """
    messages = log.messages
    before = model.context
    if before is None:
        before = model.estimated(messages, tools)
    history, in_hand = _divided(messages)
    versions = _versions(history, is_refused=was_refused and len(history) == len(messages))
    answer = yield from _summarised(versions, model, tools, cancel)
    summary = answer.message.content.strip()
    log.compact_to([messages[0], Message(Role.USER, _SUMMARY.format(summary)), *in_hand])
    model.context = model.estimated(log.messages, tools)
    yield Compacted(before, model.context, summary)
    return answer.fault


def compact_on_request(
    log: Memory, model: Client, tools: Tools, cancel: Cancel
) -> Generator[Event, None, bool]:
    """Compact outside of a turn; return whether it was done. Errors are notices."""
    if not can_compact(log.messages):
        yield Notice(f"{_NOT_COMPACTED}: the model has said nothing yet")
        return False
    try:
        fault = yield from compact(log, model, tools, cancel)
    except Interrupted:
        yield Notice(f"{_NOT_COMPACTED}: interrupted by the user")
        return False
    except BantamError as error:
        yield Notice(f"{_NOT_COMPACTED}: {error}")
        return False
    if fault is not None:
        yield Notice(fault)
    return True


class CompactingModel:
    """The model as one turn asks it: a `loop.Model` whose messages are those of `log`.

    The log is compacted before a request once 0.9 of the window is in use, and after one that was
    refused as too long; that one is repeated then, once in the turn. Not `unasked`: only then.
    """

    def __init__(self, log: Memory, model: Client, *, unasked: bool = True) -> None:
        self._log = log
        self._model = model
        # Nobody wants it, or a summary failed or freed nothing: so would one at each step.
        self._gave_up = not unasked
        self._is_fresh = False  # nothing was asked since a summary
        self._has_repeated = False

    def reply(
        self, messages: Sequence[Message], tools: Tools, cancel: Cancel
    ) -> Generator[Event, None, Answer]:
        """As `Client.reply`; the log may be another one afterwards."""
        if self._is_nearly_full(messages, tools):
            yield from self._make_room(tools, cancel)
            messages = self._log.messages
        else:
            self._is_fresh = False
        try:
            return (yield from self._model.reply(messages, tools, cancel))
        except PromptTooLong:
            if self._has_repeated or not can_compact(messages):
                raise
            self._has_repeated = True
            yield Notice("the conversation is longer than the model's context window: compacting")
            if not (yield from self._compacted(tools, cancel, was_refused=True)):
                raise
        return (yield from self._model.reply(self._log.messages, tools, cancel))

    def _make_room(self, tools: Tools, cancel: Cancel) -> Generator[Event, None, None]:
        """Compact, unless that was in vain just now. Raises ModelError as `_compacted` does."""
        if self._is_fresh:
            self._gave_up = True
            yield Notice("compacting has freed too little room: not again in this turn")
            return
        yield Notice(f"{AUTOMATIC_AT:.0%} of the window is in use: compacting")
        self._is_fresh = yield from self._compacted(tools, cancel)
        self._gave_up = not self._is_fresh

    def _is_nearly_full(self, messages: Sequence[Message], tools: Tools) -> bool:
        if self._gave_up or not can_compact(messages):
            return False
        used = self._model.context
        if used is None:  # a conversation from an earlier run
            used = self._model.estimated(messages, tools)
        return used >= AUTOMATIC_AT * self._model.window

    def _compacted(
        self, tools: Tools, cancel: Cancel, *, was_refused: bool = False
    ) -> Generator[Event, None, bool]:
        """Compact; return whether it was done. Raises ModelError for a fault of the paid answer."""
        run = compact(self._log, self._model, tools, cancel, was_refused=was_refused)
        try:
            fault = yield from run
        except ModelError as error:
            yield Notice(f"{_NOT_COMPACTED}: {error}")
            return False
        if fault is not None:
            raise ModelError(fault)
        return True


def _divided(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return what is to be summarised, and the prompt that is not answered yet, if there is one."""
    at = last_prompt(messages)
    if at is None:
        return messages, ()
    came_of_it = [message.role for message in messages[at:] if message.role is not Role.USER]
    if not came_of_it:
        return messages[:at], messages[at:]
    in_hand = messages[at : at + 1] if came_of_it[-1] is Role.TOOL else ()
    return messages, in_hand


def _versions(history: Sequence[Message], *, is_refused: bool) -> Iterator[Sequence[Message]]:
    """Yield what can be shown to be summarised, each shorter than the one before."""
    system, *others = history
    if not is_refused:
        yield history
    before = others
    for most in _CUTS:
        cut = [_cut(message, most) for message in others]
        if cut != before:  # never the same twice
            yield [system, *cut]
        before = cut


def _summarised(
    versions: Iterator[Sequence[Message]], model: Client, tools: Tools, cancel: Cancel
) -> Generator[Event, None, Answer]:
    """Return the summary of the first of `versions` that the model takes. Raises ModelError."""
    too_long = ModelError("it is too long to be summarised")
    for number, version in enumerate(versions):
        if number:
            yield Notice("too long to be summarised: the middle of long texts is left out")
        asked = [*version, Message(Role.USER, _REQUEST)]
        reply = model.reply(asked, tools, cancel, may_call=False)
        try:
            answer = yield from through(reply, unspoken)
        except PromptTooLong as error:
            too_long = error
            continue
        if answer.message.tool_calls:  # what stands beside them announces them
            raise ModelError("the model called a tool and wrote no summary")
        if answer.finish_reason in _CUT_OFF:
            raise ModelError(f"the summary is not whole (finish_reason: {answer.finish_reason})")
        return answer
    raise too_long


def unspoken(event: Event) -> list[Event]:
    """Return `event` if it is no part of what the model says: that is no answer to the user."""
    return [] if isinstance(event, TextDelta | ReasoningDelta) else [event]


# -- shorter messages -------------------------------------------------------------------------


def _cut(message: Message, most: int) -> Message:
    """Return `message` with texts of at most `most` characters and what says how many are gone.

    The reasoning stays: an endpoint that wants it back may hold it against a signature.
    """
    return replace(
        message,
        content=_without_middle(message.content, most),
        tool_calls=tuple(_cut_call(call, most) for call in message.tool_calls),
    )


def _cut_call(call: ToolCall, most: int) -> ToolCall:
    if len(call.arguments) <= most:
        return call
    arguments = {
        name: _without_middle(value, most) if isinstance(value, str) else value
        for name, value in (parsed_arguments(call.arguments) or {}).items()
    }
    return replace(call, arguments=json.dumps(arguments, ensure_ascii=False))


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head = int(most * _HEAD)
    return f"{text[:head]}\n[{len(text) - most} characters left out]\n{text[head - most :]}"
