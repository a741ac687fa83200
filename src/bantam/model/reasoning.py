"""Reasoning: told from the answer's text, and kept in the form in which its provider wants it back.

Providers name it differently, some mirror it under two names, some hide it in the text between
`<think>` tags. Beside what people can read there may be provider state (signatures, encrypted
blocks) that must come back unchanged with the next request.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Any, Final

from bantam.core.events import ReasoningDelta, TextDelta
from bantam.core.messages import Message

Delta = ReasoningDelta | TextDelta

# DeepSeek; vLLM, Ollama and OpenRouter; GitHub Copilot; OpenRouter and MiniMax.
_NAMES: Final = ("reasoning_content", "reasoning", "reasoning_text", "reasoning_details")
_THINKING_PARTS: Final = ("thinking", "reasoning")

# Members of a message that are state of its provider, sent back with it. Nothing else is kept:
# strict servers refuse a request for a member that they do not know.
_STATE_VALUES: Final = (
    "extra_content",  # Gemini's thought signature
    "reasoning_opaque",  # GitHub Copilot's encrypted reasoning
)
_STATE_LISTS: Final = (
    "reasoning_details",  # OpenRouter, MiniMax
    "thinking_blocks",  # LiteLLM: Anthropic's blocks with their signatures
)
_PIECED: Final = ("text", "summary", "thinking")

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


def text_of(content: Any) -> str:
    """Return the text in `content`: a string, or a list of typed parts, some of them reasoning."""
    return "".join(text for kind, text in _parts(content) if kind not in _THINKING_PARTS)


def reasoning_of(delta: Mapping[str, Any]) -> str:
    """Return the reasoning that a delta or message shows, once, whatever names it stands under.

    >>> reasoning_of({"reasoning": "Why", "reasoning_details": [{"text": "Why"}]})
    'Why'
    """
    for name in _NAMES:
        if text := "".join(text for _, text in _parts(delta.get(name))):
            return text
    parts = _parts(delta.get("content"))
    return "".join(text for kind, text in parts if kind in _THINKING_PARTS)


def _parts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield type and text of each part of a string, a typed part, or a list of such."""
    match value:
        case str():
            yield "text", value
        case list():
            for part in value:
                yield from _parts(part)
        case dict():
            kind = str(value.get("type", "text"))
            for name in (*_PIECED, "reasoning"):
                for _, text in _parts(value.get(name)):
                    yield kind, text


class _Stage(Enum):
    START = auto()
    REASONING = auto()
    BEHIND = auto()  # behind </think>: line ends are dropped
    TEXT = auto()


class ThinkTags:
    r"""Text in pieces -> deltas, with a `<think>` block at the very start told as reasoning.

    A tag anywhere else is text: an answer may talk about tags. Blanks before a block and line ends
    behind it are dropped. Linear: held back are a cut tag and blanks at the start.

    >>> tags = ThinkTags()
    >>> tags.feed("<th"), tags.feed("ink>2 + 2"), tags.feed("</think>\n"), tags.feed("\n4")
    ([], [ReasoningDelta(text='2 + 2')], [], [TextDelta(text='4')])
    """

    def __init__(self) -> None:
        self._stage = _Stage.START
        self._blanks: list[str] = []
        self._tag = ""  # what may be the beginning of a tag

    @property
    def is_over(self) -> bool:
        """Whether all that comes is text."""
        return self._stage is _Stage.TEXT

    def feed(self, piece: str) -> list[Delta]:
        """Return the deltas that are certain now."""
        match self._stage:
            case _Stage.START:
                return self._at_start(self._tag + piece)
            case _Stage.REASONING:
                return self._in_block(self._tag + piece)
            case _Stage.BEHIND:
                return self._behind_block(piece)
            case _:
                return _deltas(TextDelta, piece)

    def close(self) -> list[Delta]:
        """Return what was held back: a tag that was never finished is no tag."""
        held, self._tag = self._tag, ""
        if self._stage is _Stage.REASONING:
            return _deltas(ReasoningDelta, held)
        blanks, self._blanks = "".join(self._blanks), []
        return _deltas(TextDelta, blanks + held)

    def _at_start(self, text: str) -> list[Delta]:
        begun = text.lstrip()
        self._blanks.append(text[: len(text) - len(begun)])
        if begun.startswith(_OPEN):
            self._stage, self._tag = _Stage.REASONING, ""
            self._blanks.clear()
            return self._in_block(begun.removeprefix(_OPEN))
        if _OPEN.startswith(begun):
            self._tag = begun
            return []
        self._stage = _Stage.TEXT
        self._tag = begun
        return self.close()

    def _in_block(self, text: str) -> list[Delta]:
        thought, tag, behind = text.partition(_CLOSE)
        if tag:
            self._stage, self._tag = _Stage.BEHIND, ""
            return _deltas(ReasoningDelta, thought) + self._behind_block(behind)
        begun = (_CLOSE[:length] for length in range(len(_CLOSE) - 1, 0, -1))
        self._tag = next((tag for tag in begun if text.endswith(tag)), "")
        return _deltas(ReasoningDelta, text.removesuffix(self._tag))

    def _behind_block(self, text: str) -> list[Delta]:
        rest = text.lstrip("\r\n")
        if rest:
            self._stage = _Stage.TEXT
        return _deltas(TextDelta, rest)


def without_orphan(message: Message) -> Message:
    """Return `message` with what stands before a line `</think>` that nothing opens as reasoning.

    Templates of reasoning models open the block in the prompt, and some servers do not tell.
    """
    before, tag, behind = message.content.partition(f"\n{_CLOSE}")
    is_line = behind[:1] in ("", "\r", "\n")
    fences = sum(line.lstrip().startswith(("```", "~~~")) for line in before.split("\n"))
    if not tag or not is_line or _OPEN in before or fences % 2:
        return message
    reasoning = "\n".join(filter(None, (message.reasoning, before)))
    return replace(message, content=behind.lstrip("\r\n"), reasoning=reasoning)


def _deltas(kind: type[ReasoningDelta] | type[TextDelta], text: str) -> list[Delta]:
    return [kind(text)] if text else []


class ProviderState:
    """The members of an assistant message that its provider wants back, from deltas or whole."""

    def __init__(self) -> None:
        self.length = 0  # about the characters held so far
        self._values: dict[str, Any] = {}
        self._fragments: dict[str, list[Any]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Take the state in one delta: values replace, lists continue what came before."""
        for name in _STATE_VALUES:
            if delta.get(name) is not None:
                self._values[name] = delta[name]
        for name in _STATE_LISTS:
            if isinstance(delta.get(name), list):
                self._fragments.setdefault(name, []).extend(delta[name])
                self.length += len(str(delta[name]))

    def collected(self, *, streamed: bool) -> dict[str, Any]:
        """Return the members, lists in order; fragments are joined if they were `streamed`."""
        joined = {
            name: joined_fragments(fragments) if streamed else list(fragments)
            for name, fragments in self._fragments.items()
            if fragments
        }
        return self._values | joined


def joined_fragments(fragments: list[Any]) -> list[Any]:
    """Return the blocks whose fragments a stream delivered: the form of a whole answer.

    A signature covers its block's whole text, and comes with or behind the last piece; sent back
    in fragments it is refused. `index` cannot be relied on (OpenRouter streams 0 for every block),
    so neighbours of one type are one block unless index or id differ or the first is signed.

    >>> joined_fragments([{"type": "t", "text": "a"}, {"type": "t", "text": "b", "signature": "s"}])
    [{'type': 't', 'text': 'ab', 'signature': 's'}]
    """
    blocks: list[list[Any]] = []
    for fragment in fragments:
        if blocks and _continues(blocks[-1][-1], fragment):
            blocks[-1].append(fragment)
        else:
            blocks.append([fragment])
    return [block[0] if len(block) == 1 else _joined(block) for block in blocks]


def _continues(before: Any, fragment: Any) -> bool:
    if not isinstance(before, dict) or not isinstance(fragment, dict):
        return False
    if before.get("type") != fragment.get("type"):
        return False
    # An encrypted block comes whole.
    if not any(name in one for name in (*_PIECED, "signature") for one in (before, fragment)):
        return False
    if any(_differ(before.get(name), fragment.get(name)) for name in ("index", "id")):
        return False
    return not before.get("signature") or not any(fragment.get(name) for name in _PIECED)


def _differ(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one != other


def _joined(block: list[Mapping[str, Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for fragment in block:
        joined |= {k: v for k, v in fragment.items() if v is not None or k not in joined}
    for name in _PIECED:
        pieces = [f[name] for f in block if isinstance(f.get(name), str)]
        if pieces:
            joined[name] = "".join(pieces)
    return joined
