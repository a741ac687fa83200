"""Rejections with a known cure: a table from what a server says to what is sent instead.

Each cure is applied once, remembered for the run, and told in one line. Whether a row fits is
read from the server's words, since no two servers use the same code for the same refusal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bantam.core.messages import Message, Role
from bantam.model.failures import Failure

# What servers answer when they do not like the request itself.
_REFUSALS: Final = frozenset({400, 422})
_NEVER_DROPPED: Final = frozenset({"model", "messages", "tools", "stream"})
_UNWANTED: Final = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed"
    r"|forbidden|invalid|only|deprecated|cannot|not available|does not",
    re.IGNORECASE,
)
_REASONING: Final = re.compile(r"reasoning_content|reasoning|thinking", re.IGNORECASE)
_WANTED_BACK: Final = re.compile(
    r"pass(ed)? back|must be|required|missing|has to be", re.IGNORECASE
)
_BAD_ASSISTANT: Final = re.compile(r"content or tool_calls", re.IGNORECASE)


@dataclass(slots=True)
class Quirks:
    """What was learned about the endpoint in this run.

    `withheld`: members of messages that are not sent. The reasoning is one of them from the
    start: most servers ignore it, some refuse it, and it costs tokens.
    """

    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    withheld: set[str] = field(default_factory=lambda: {"reasoning_content"})
    left_out: set[int] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    def cure(
        self, failure: Failure, body: Mapping[str, Any], history: Sequence[Message]
    ) -> str | None:
        """Learn from `failure` of `body`; return the line that says what changes, None if nothing.

        A cure that was tried before is no cure: None again.
        """
        if failure.status is None or not 400 <= failure.status <= 500:
            return None
        for row in (_rename, _echo, _withhold, _drop, _leave_out):
            line = row(self, failure, body, history)
            if line and line not in self._told:
                self._told.add(line)
                return line
        return None

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request's options as this endpoint takes them."""
        kept = {key: value for key, value in options.items() if key not in self.dropped}
        return {self.renamed.get(key, key): value for key, value in kept.items()}

    def history(self, messages: Sequence[Message]) -> list[Message]:
        """Return the conversation without the messages that the endpoint refused."""
        return [m for index, m in enumerate(messages) if index not in self.left_out]

    def messages(self, encoded: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return encoded messages without the members that this endpoint does not want."""
        return [{k: v for k, v in m.items() if k not in self.withheld} for m in encoded]


# The rows. Each returns the line to tell, or None where it does not fit.


def _rename(
    quirks: Quirks, failure: Failure, body: Mapping[str, Any], _: Sequence[Message]
) -> str | None:
    pair = ("max_tokens", "max_completion_tokens")
    for old, new in (pair, pair[::-1]):
        if old in body and _names(failure, old) and _mentions(failure.message, new):
            quirks.renamed = {old: new}
            return f"the endpoint wants {new} instead of {old}: renamed for this run"
    return None


def _echo(
    quirks: Quirks, failure: Failure, _body: Mapping[str, Any], _: Sequence[Message]
) -> str | None:
    said = failure.message
    if not (_REASONING.search(said) and _WANTED_BACK.search(said)) or _UNWANTED.search(said):
        return None
    quirks.withheld.discard("reasoning_content")
    return "the endpoint wants the reasoning of earlier answers back: sent from now on"


def _withhold(
    quirks: Quirks, failure: Failure, _body: Mapping[str, Any], history: Sequence[Message]
) -> str | None:
    if failure.status not in _REFUSALS or not _UNWANTED.search(f"{failure.code} {failure.message}"):
        return None
    said = " ".join([*failure.named, failure.message])
    members = {key for message in history for key in message.extra} | {"reasoning_content"}
    refused = {member for member in members if _mentions(said, member)}
    if not refused:
        return None
    quirks.withheld |= refused
    return f"the endpoint refuses {', '.join(sorted(refused))} in messages: left out from now on"


def _drop(
    quirks: Quirks, failure: Failure, body: Mapping[str, Any], _: Sequence[Message]
) -> str | None:
    if failure.status not in _REFUSALS or "messages" in failure.named:
        return None
    if not (failure.named or _UNWANTED.search(failure.message)):
        return None
    for member in body.keys() - _NEVER_DROPPED:
        if not _names(failure, member):
            continue
        sent_as = {new: old for old, new in quirks.renamed.items()}
        quirks.dropped.add(sent_as.get(member, member))
        return f"the endpoint refuses {member}: left out for this run"
    return None


def _leave_out(
    quirks: Quirks, failure: Failure, _body: Mapping[str, Any], history: Sequence[Message]
) -> str | None:
    said = [index for index, m in enumerate(history) if m.role is Role.ASSISTANT]
    if not said or not _BAD_ASSISTANT.search(failure.message):
        return None
    # Its results go too: `repaired` drops an answer without its call.
    quirks.left_out = {said[-1]}
    return "the endpoint refuses the last assistant message: left out, trying again"


def _names(failure: Failure, member: str) -> bool:
    """Whether the server speaks of `member`: in the fields made for that, else in its text."""
    if failure.named:
        return any(name.split(".")[0] == member for name in failure.named)
    return _mentions(failure.message, member)


def _mentions(text: str, member: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(member)}(?!\w)", text) is not None
