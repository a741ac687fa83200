"""The event that nearly all of a stream are: a piece of text and nothing else."""

from collections.abc import Mapping
from typing import Any, Final

from bantam.model.jsontext import whole_characters

# What says nothing about the answer itself; `usage` is null in all events but one.
_IDLE: Final = frozenset(
    {"id", "object", "created", "model", "system_fingerprint", "service_tier", "provider"}
    | {"obfuscation", "usage", "choices"}
)
_ALTERNATIVE: Final = frozenset({"index", "delta", "finish_reason", "logprobs"})
_TEXT: Final = frozenset({"content", "role"})


def plain_text(event: Any) -> str:
    """Return the text of an event that holds nothing else; "" for any other event.

    Nearly all of a stream are such, and what all the rest is asked for takes ten times as long.
    """
    if not isinstance(event, dict) or not _IDLE.issuperset(event) or event.get("usage") is not None:
        return ""
    choices = event.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or event.get("object") == "error":
        return ""
    choice = choices[0]
    if not isinstance(choice, dict) or choice.get("index", 0) != 0:
        return ""
    if choice.get("finish_reason") is not None or choice.get("logprobs") is not None:
        return ""
    delta = choice.get("delta")
    if not isinstance(delta, dict) or not _has_only(choice, _ALTERNATIVE):
        return ""
    text = delta.get("content")
    # Half a character is to be joined with the other half.
    if not isinstance(text, str) or not _has_only(delta, _TEXT):
        return ""
    return text if whole_characters(text) is text else ""


def _has_only(members: Mapping[str, Any], names: frozenset[str]) -> bool:
    """Whether all but `names` is missing or null."""
    return names.issuperset(members) or all(
        value is None for name, value in members.items() if name not in names
    )
