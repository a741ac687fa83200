"""One reply: a request goes out, deltas come back, one whole message is returned.

Everything that can go wrong on the way ends in one of three: the same request again after a wait,
a changed request at once (a cure), or a ModelError. A partial answer is never returned.
"""

import json
import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from bantam.core.cancel import Cancel
from bantam.core.errors import BudgetSpent, ModelError
from bantam.core.events import Event, Notice, Request, Retry, TextDelta, UsageReport
from bantam.core.messages import Answer, Message, Role, last_prompt
from bantam.core.redaction import Redaction
from bantam.model.attempt import Attempt
from bantam.model.catalogue import Catalogue
from bantam.model.completions import Assembler
from bantam.model.dialects.dialect import Dialect, Tools, View
from bantam.model.failures import AttemptFailed, Failure
from bantam.model.quirks import LIMITS, Quirks
from bantam.model.reasoning import without_orphan
from bantam.model.refusals import refuses_tools
from bantam.model.requests import request_body, serialised
from bantam.model.retry import error_for, repeats, wait_s
from bantam.model.transports import Transport
from bantam.model.usage import CacheProof, Usage, estimated_tokens
from bantam.model.wire import Encoded, Wire

# An answer without text and calls is asked for again twice (SPEC section 5).
_EMPTY_ANSWERS: Final = 3
# The finish reasons that a user has to know: what came is not all that was meant.
_CUT: Final = {
    "length": "was cut at the token limit",
    "content_filter": "was stopped by the provider's content filter",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What of the configuration a request depends on."""

    model: str
    stream: bool = True
    timeout_s: float = 300.0
    options: Mapping[str, Any] = field(default_factory=dict)
    budget_tokens: int | None = None
    cache_proof: str = "off"
    min_cacheable_tokens: int = 0
    secrets: Redaction = field(default_factory=lambda: Redaction(()), repr=False)  # in no error


class Client:
    """A model behind a transport; keeps what it learns about the endpoint for the run.

    `context`: tokens of the conversation as it was last sent, None if it was not yet. `spent`: all
    that the run has used, which whoever goes on with another client hands on.
    """

    def __init__(
        self, settings: Settings, transport: Transport, dialect: Dialect, catalogue: Catalogue
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._dialect = dialect
        self._catalogue = catalogue
        self._quirks = Quirks()
        self._proof = CacheProof(settings.min_cacheable_tokens)
        self.context: int | None = None
        self._told: set[str] = set()
        self.spent = 0
        self._wire = Wire(dialect, self._quirks)
        self._previous = b""  # the messages of the request before, for the proof

    @property
    def window(self) -> int:
        """The tokens that the model's window holds, as far as is known."""
        return self._catalogue.window

    def estimated(self, messages: Sequence[Message], tools: Tools) -> int:
        """Return about how many tokens a request with `messages` has, as usage is estimated."""
        _, sent = self._request(messages, tools)
        return estimated_tokens(len(sent))

    def reply(
        self,
        messages: Sequence[Message],
        tools: Tools,
        cancel: Cancel,
        *,
        may_call: bool = True,
    ) -> Generator[Event, None, Answer]:
        """Ask for the next assistant message; yield what happens, return it whole.

        `may_call`: else the model is asked for text alone, and sees the tools all the same: they
        are part of the cached prefix. Raises ModelError (PromptTooLong among them), BudgetSpent,
        Interrupted.
        """
        for _ in range(_EMPTY_ANSWERS):
            answer = yield from self._until_answered(messages, tools, cancel, may_call=may_call)
            message = answer.message
            if message.content.strip() or message.tool_calls:
                yield from map(Notice, answer.notices)
                if answer.finish_reason in _CUT:
                    how = _CUT[answer.finish_reason]
                    yield Notice(f"the answer {how} (finish_reason: {answer.finish_reason})")
                return answer
            ended = f" (finish_reason: {answer.finish_reason})" if answer.finish_reason else ""
            yield Notice(f"the model's answer was empty{ended}")
        raise ModelError(f"the model's answer was empty {_EMPTY_ANSWERS} times; nothing was stored")

    def close(self) -> None:
        """Close the connection."""
        self._catalogue.close()
        self._transport.close()

    def _until_answered(
        self, messages: Sequence[Message], tools: Tools, cancel: Cancel, *, may_call: bool
    ) -> Generator[Event, None, Answer]:
        attempt = 0
        while True:
            self._check_budget()
            encoded, sent = self._request(messages, tools, may_call=may_call)
            yield Request(_step(messages), encoded.number, len(sent))
            try:
                view = self._dialect.view() if may_call else None
                answer, usage = yield from self._attempt(sent, _made_up_ids(messages), view, cancel)
            except AttemptFailed as error:
                failure = error.failure.without(self._settings.secrets)
            else:
                fault = yield from self._proof_of_cache(usage, encoded.messages)
                if may_call:
                    answer = self._dialect.decode(answer, messages, tools)
                return replace(answer, fault=fault or answer.fault)
            if line := self._cure(failure, json.loads(sent), messages):
                yield Notice(line)
                continue
            attempt += 1
            now = datetime.now(UTC)
            wait = wait_s(failure, attempt, random.random(), now)  # noqa: S311  # spreads waits
            if wait is None:
                raise error_for(failure, self._transport.url, attempt, now)
            self._check_budget()  # before a wait for nothing
            yield from self._server_says(failure)
            yield Retry(attempt, repeats(failure), round(wait, 2), failure.reason)
            cancel.sleep(wait)

    def _cure(
        self, failure: Failure, body: Mapping[str, Any], messages: Sequence[Message]
    ) -> str | None:
        """Learn from `failure` what to send instead; return the line to tell, None if nothing."""
        if "tools" in body and refuses_tools(failure) and (line := self._dialect.without_tools()):
            return line
        return self._quirks.cure(failure, body, messages)

    def _server_says(self, failure: Failure) -> Iterator[Notice]:
        """Say once what the server says besides its status: `Loading model` is good to know."""
        said = failure.message
        if said and said not in failure.reason and said not in self._told:
            self._told.add(said)
            yield Notice(f"the server says: {said}")

    def _check_budget(self) -> None:
        budget = self._settings.budget_tokens
        if budget is not None and self.spent >= budget:
            raise BudgetSpent(f"budget_tokens={budget} is used up: {self.spent} tokens so far")

    def _request(
        self, messages: Sequence[Message], tools: Tools, *, may_call: bool = True
    ) -> tuple[Encoded, bytes]:
        """Return what is sent of the conversation, and the whole body."""
        settings = self._settings
        encoded = self._wire.encoded(messages, tools)
        others, options = dict(encoded.others), settings.options
        if not may_call:  # what an answer may have at most is not what a summary needs
            options = {name: options[name] for name in options if name not in LIMITS}
            if "tools" in others:  # without tools it is an error
                others["tool_choice"] = "none"
        body = request_body(settings.model, others, stream=settings.stream, options=options)
        return encoded, serialised(self._quirks.options(body), encoded.messages)

    def _attempt(
        self, sent: bytes, made_up_ids: str, view: View | None, cancel: Cancel
    ) -> Generator[Event, None, tuple[Answer, UsageReport]]:
        """Send once; return the answer and what it cost. Raises AttemptFailed."""
        attempt = Attempt(self._transport, sent, made_up_ids)
        events = attempt.run(self._settings.timeout_s, self._catalogue, cancel)
        try:
            yield from _seen(events, view) if view else events
        except BaseException:  # Ctrl+C and `close()` too: the tokens were used, and are counted
            if attempt.answer is not None:
                self._account(attempt.answer, sent)
            raise
        answer = attempt.answer
        assert answer is not None
        self._catalogue.refresh(cancel)
        usage = replace(self._account(answer, sent), window=self._catalogue.window)
        self.context = usage.context
        yield usage
        message = without_orphan(answer.message)
        if view and view.ended:  # of a call that came beside it there may be half
            message = replace(message, tool_calls=())
        return Answer(message, answer.finish_reason), usage

    def _account(self, assembler: Assembler, sent: bytes) -> UsageReport:
        """Count one request's tokens, estimated where the endpoint is silent; return them."""
        told = assembler.usage or Usage(None, None, None)
        prompt = told.prompt if told.prompt is not None else estimated_tokens(len(sent))
        completion = told.completion
        if completion is None:
            completion = estimated_tokens(assembler.size)
        self.spent += prompt + completion
        estimated = told.prompt is None or told.completion is None
        return UsageReport(prompt, completion, told.cached, estimated, prompt, 0)

    def _proof_of_cache(
        self, usage: UsageReport, encoded: bytes
    ) -> Generator[Event, None, str | None]:
        """Hold the reported cache against the prefix; return the fault that ends the turn."""
        mode = self._settings.cache_proof
        if mode == "off":
            return None
        before, self._previous = self._previous, encoded
        unbroken = bool(before) and encoded.startswith(before)
        fault = self._proof.check(usage.prompt, usage.cached, unbroken=unbroken)
        if fault is not None and mode == "warn":
            yield Notice(fault)
            return None
        return fault


def _seen(events: Generator[Event, None, Any], view: View) -> Iterator[Event]:
    """Yield `events` with the text as `view` shows it; they are closed where that has ended."""
    with closing(events):
        for event in events:
            if not isinstance(event, TextDelta):
                yield event
                continue
            yield from map(TextDelta, view.feed(event.text))
            if view.ended:
                break
    yield from map(TextDelta, view.close())


def _step(messages: Sequence[Message]) -> int:
    """Return the number of this request in its turn, from 1."""
    start = last_prompt(messages) or 0
    return 1 + sum(message.role is Role.ASSISTANT for message in messages[start:])


def _made_up_ids(messages: Sequence[Message]) -> str:
    """Return a prefix for ids that a server leaves out: new in each reply, the same in each run."""
    return f"call_{len(messages)}"
