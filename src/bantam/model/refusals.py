"""Which members of a request a server does not take, read from its words.

No two servers use the same sentence, and a wrong reading is worse than none: it would silently
take away what the user set. So a name counts only where the grammar makes it the thing that is
refused: named in a field made for that (`param`, `loc`), in quotes or behind a noun such as
"parameter", or with "is not supported" right behind it. A text that merely holds the word `user`,
or offers `temperature` among what it knows, refuses nothing.
"""

import re
from collections.abc import Iterator
from typing import Final

from bantam.model.failures import Failure

_NOUN = (
    r"(?:param(?:eter)?|arg(?:ument)?|field|propert(?:y|ie)|option|key|name|setting|attribute)s?"
)
_QUOTE = r"['\"`\u2018\u2019\u201c\u201d\[\]()]"
# `stream_options`, 'body.stream_options', "messages[2].reasoning_content".
_PATH = r"\b[A-Za-z_]\w*(?:\[\d+\]|\.\w+)*"
_QUOTED = rf"{_QUOTE}+\s*{_PATH}{_QUOTE}+"
# One name, or several of them: ['top_k', 'seed']; stream_options, seed.
_NAMES = rf"(?P<names>{_QUOTE}*{_PATH}{_QUOTE}*(?:,\s*{_QUOTE}*{_PATH}{_QUOTE}*)*)"
# A bare name that no sentence uses as a word.
_SNAKE = r"\b(?:[A-Za-z]+_\w+|temperature)\b"
_NOT = (
    r"(?:not\s+(?:currently\s+)?(?:supported|permitted|allowed|accepted|available|recogni[sz]ed"
    rf"|valid|an?\s+(?:valid|supported|known)\s+{_NOUN})|unsupported|deprecated|unexpected|unknown"
    r"|no\s+longer\s+(?:supported|accepted|available))"
)
_DOES_NOT = (
    r"(?:do(?:es)?\s*(?:not|n['\u2019]t)|cannot)\s+(?:support|accept|allow|take|recogni[sz]e)"
)
_IS_NOT = rf"(?:is|are|was|were)\s+{_NOT}"
_FILL = (
    r"(?:\s+(?:the|this|these|following|request|body|keyword|query|json|input|object|top-level"
    r"|supplied|provided|given|found|received|in))*"
)
_EXTRA = r"extra\s+(?:inputs?|fields?)"
_UNWANTED: Final = (
    rf"(?i){_NOT}|{_DOES_NOT}|unrecogni[sz]ed|extraneous|{_EXTRA}|extra_forbidden|value_error\.extra"
    r"|forbidden|only\s+the\s+default"
)
_SENTENCES: Final = (
    # Unsupported parameter: 'x' ...; Unknown name "x": ...; unexpected keyword argument 'x'
    (
        r"\b(?:unsupported|unknown|unrecogni[sz]ed|unexpected|extraneous|extra|additional)"
        rf"{_FILL}\s+(?:{_NOUN}|value){_FILL}\s*:?\s*{_NAMES}"
    ),
    # does not support parameters: ['x', 'y']
    rf"{_DOES_NOT}{_FILL}\s+{_NOUN}\s*:?\s*{_NAMES}",
    # does not support `x`; does not support x with this model
    rf"{_DOES_NOT}{_FILL}\s+(?P<names>{_QUOTED})",
    (
        rf"{_DOES_NOT}{_FILL}\s+(?P<names>{_PATH})"
        rf"(?=\s*(?:[=.,;:]|$)|\s+(?:with|for|on|in|when|{_NOUN})\b)"
    ),
    # `x` is deprecated; property 'x' is unsupported; but not: role 'x' is not supported
    rf"(?<!\brole\s)(?<!\brole:\s)(?P<names>{_QUOTED})(?:\s+{_NOUN})?\s+{_IS_NOT}",
    # parameter x is not supported; the x parameter is not supported
    rf"\b{_NOUN}\s+(?P<names>{_PATH})\s+{_IS_NOT}",
    rf"(?P<names>{_PATH})\s+{_NOUN}\s+{_IS_NOT}",
    # x is not supported with this model: bare, so at the start of a sentence alone
    (
        rf"(?:^|[.:;]\s+)(?:setting\s+)?(?P<names>{_PATH})\s+(?:is|are)\s+"
        r"(?:not\s+(?:supported|permitted|available)|unsupported|deprecated"
        r"|no\s+longer\s+supported)"
    ),
    # x: Extra inputs are not permitted
    rf"(?<![\w.])(?P<names>{_PATH}):\s+(?:{_EXTRA}|(?:unsupported|unknown)\s+{_NOUN})",
    # Extra inputs are not permitted, field: 'x'; Argument not supported on this model: x
    rf"(?:{_EXTRA}|{_NOUN})\s+(?:(?:is|are)\s+)?{_NOT}[^:.]{{0,40}}:\s*{_NAMES}",
    # invalid x: only 1 is allowed; `x` may only be set to 1
    rf"\binvalid\s+(?P<names>{_PATH}):\s+only\b",
    rf"(?P<names>{_QUOTED}|^{_PATH})\s+(?:may|can|must)\s+only\s+be\b",
    # unknown x_y; invalid field: x_y; this model only supports temperature = 1
    rf"\b(?:unknown|unsupported|unrecogni[sz]ed|unexpected)\s+(?P<names>{_SNAKE})(?=\s*(?:$|[.,;]))",
    rf"\binvalid\s+{_NOUN}\s*:?\s*(?P<names>{_QUOTE}*{_SNAKE}{_QUOTE}*)(?=\s*(?:$|[.;]))",
    rf"\bonly\s+supports?\s+(?P<names>{_SNAKE})\s*=",
    # x_y and temperature are not supported
    rf"(?P<names>{_SNAKE}(?:(?:,\s*|\s+and\s+){_SNAKE})+)\s+are\s+{_NOT}",
    # `x` and `y` cannot both be specified: the first goes
    rf"(?P<names>{_QUOTED})\s+and\s+{_QUOTED}\s+(?:cannot|may\s+not|must\s+not)\s+both\b",
)
# Pydantic's errors as Python shows them: {'type': 'extra_forbidden', 'loc': ('body', 'x'), ...}
_SHOWN_PLACE: Final = r"extra_forbidden['\"],\s*['\"]loc['\"]:\s*[(\[]([^)\]]*)[)\]]"


def refused_members(failure: Failure) -> list[str]:
    """Return the paths that `failure` refuses, in its order: `temperature`, `messages.2.name`."""
    found = [named.path for named in failure.named if re.search(_UNWANTED, named.words)]
    found += [
        _dotted(match[1].replace(",", ".")) for match in re.finditer(_SHOWN_PLACE, failure.words)
    ]
    return list(dict.fromkeys([*found, *_named_in_sentences(failure.words)]))


# Ollama; OpenRouter; vLLM and llama.cpp, started without what they need for it; others.
_TOOLLESS: Final = (
    rf"(?i)(?:{_DOES_NOT}|no\s+(?:endpoints?|providers?|models?)\b[^.]{{0,40}}\bsupport(?:s|ing)?"
    r"|without\s+support\s+for)"
    r"\s+(?:the\s+)?(?:use\s+of\s+)?['\"`]?(?:tools?|functions?)\b"
    r"|\b(?:tools?|functions?)[\s_-]+(?:use|calls?|calling|choice)['\"`]?(?:\s+\w+){0,3}?"
    rf"\s+(?:is|are)\s+(?:currently\s+)?(?:{_NOT}|not\s+enabled|disabled)"
    r"|\btools['\"`]?\s+(?:parameter|field|param)s?\s+(?:is\s+)?(?:unsupported|not\s+supported)"
    r"|['\"`]tools['\"`][^.]{0,20}\bfeature\s+(?:is\s+)?(?:unavailable|not\s+available)"
    r"|tool\s+choice\s+requires|\btools\b[^.]{0,20}\brequires?\s+(?:the\s+)?--jinja"
)


def refuses_tools(failure: Failure) -> bool:
    """Whether the endpoint, or its model, takes no tools whatever they are."""
    if failure.status is None or not 400 <= failure.status <= 501:
        return False
    whole = {"tools", "tool_choice", "functions"}
    return bool(re.search(_TOOLLESS, failure.words)) or not whole.isdisjoint(
        refused_members(failure)
    )


def _named_in_sentences(words: str) -> Iterator[str]:
    for sentence in _SENTENCES:
        for match in re.finditer(sentence, words, re.IGNORECASE):
            yield from map(_dotted, re.split(r",|\band\b", match["names"]))


def _dotted(text: str) -> str:
    """Return a path as the others are written: no quotes, numbers between dots, no `body`."""
    parts = re.findall(r"\w+", text)
    return ".".join(parts[1:] if parts[:1] == ["body"] else parts)
