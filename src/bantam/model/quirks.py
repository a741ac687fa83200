"""Rejections with a known cure: a table from what a server says to what is sent instead.

Each cure is applied once, remembered for the run, and told in one line. Whether a row fits is
read from the server's words, since no two servers use the same code for the same refusal.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bantam.core.messages import Message, Role
from bantam.model.failures import Failure
from bantam.model.refusals import refused_members

# What servers answer when they do not like the request itself.
_REFUSALS: Final = frozenset({400, 422})
_NEVER_DROPPED: Final = frozenset({"model", "messages", "tools", "stream"})
LIMITS: Final = ("max_tokens", "max_completion_tokens")
# The members that a message must have, and those of a call.
_OURS: Final = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "id", "type", "function"}
)
_REASONING: Final = r"(?i)reasoning_(content|details)|(reasoning|thinking) (content|field|blocks?)"
_WANTED_BACK: Final = (
    r"(?i)(passed|sent|given) back|missing|required|without"
    r"|(must|has to|have to|needs? to|should) (be (passed|sent|provided|included|present|set)"
    r"|include|contain|have)"
)
_BAD_ASSISTANT: Final = r"(?i)content\W+or\W+tool_calls"


@dataclass(slots=True)
class Quirks:
    """What was learned about the endpoint in this run.

    `withheld`: members of messages that are not sent. From the start these are the reasoning, which
    most servers ignore, some refuse, and all count, and how a call ended: that is our own.
    """

    dropped: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    withheld: set[str] = field(default_factory=lambda: {"reasoning_content", "status"})
    left_out: list[Message] = field(default_factory=list)
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

    def history(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the conversation without the messages that the endpoint refused."""
        if not self.left_out:
            return messages
        return [message for message in messages if message not in self.left_out]

    def messages(self, encoded: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return encoded messages, and their calls, without what this endpoint does not want."""
        kept = [self._wanted(message) for message in encoded]
        for message in kept:
            if "tool_calls" in message:
                message["tool_calls"] = [self._wanted(call) for call in message["tool_calls"]]
        return kept

    def _wanted(self, members: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in members.items() if name not in self.withheld}


# The rows. Each returns the line to tell, or None where it does not fit.


def _rename(
    quirks: Quirks, failure: Failure, body: Mapping[str, Any], _: Sequence[Message]
) -> str | None:
    for old, new in (LIMITS, LIMITS[::-1]):
        # Not back again: if both names are refused, there is no right one.
        if old not in body or new in body or new in quirks.renamed:
            continue
        if _refused(failure, {old}):
            quirks.renamed = {old: new}
            return f"the endpoint wants {new} instead of {old}: renamed for this run"
    return None


def _echo(
    quirks: Quirks, failure: Failure, _: Mapping[str, Any], history: Sequence[Message]
) -> str | None:
    said = failure.words
    if not (re.search(_REASONING, said) and re.search(_WANTED_BACK, said)) or refused_members(
        failure
    ):
        return None
    if "reasoning_content" not in quirks.withheld or not any(m.reasoning for m in history):
        return None
    quirks.withheld.discard("reasoning_content")
    return "the endpoint wants the reasoning of earlier answers back: sent from now on"


def _withhold(
    quirks: Quirks, failure: Failure, body: Mapping[str, Any], _: Sequence[Message]
) -> str | None:
    calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    sent = {name for members in (*body["messages"], *calls) for name in members}
    refused = _refused(failure, sent - _OURS, inside="messages")
    if not refused:
        return None
    quirks.withheld |= set(refused)
    return f"the endpoint refuses {', '.join(refused)} in messages: left out from now on"


def _drop(
    quirks: Quirks, failure: Failure, body: Mapping[str, Any], _: Sequence[Message]
) -> str | None:
    refused = _refused(failure, body.keys() - _NEVER_DROPPED)
    if not refused:
        return None
    set_as = {new: old for old, new in quirks.renamed.items()}
    quirks.dropped |= {set_as.get(name, name) for name in refused}
    return f"the endpoint refuses {', '.join(refused)}: left out for this run"


def _leave_out(
    quirks: Quirks, failure: Failure, _: Mapping[str, Any], history: Sequence[Message]
) -> str | None:
    said = [message for message in history if message.role is Role.ASSISTANT]
    if not said or not re.search(_BAD_ASSISTANT, failure.words):
        return None
    # Its results go too: `repaired` drops an answer without its call.
    quirks.left_out = [said[-1]]
    return "the endpoint refuses the last assistant message: left out, trying again"


def _refused(failure: Failure, names: Collection[str], inside: str = "") -> list[str]:
    """Return those of `names` that `failure` refuses; with `inside`, at any depth there.

    `reasoningEffort` means reasoning_effort: some servers name what they made of it.
    """
    if failure.status not in _REFUSALS:
        return []
    known = {_plain(name): name for name in names}
    found: list[str] = []
    for path in refused_members(failure):
        parts = path.split(".")
        # A path that starts elsewhere speaks of another thing of that name.
        reach = parts if inside and (parts[0] == inside or len(parts) == 1) else parts[:1]
        found += [known[_plain(part)] for part in reach if _plain(part) in known]
    return list(dict.fromkeys(found))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
