"""Token counts of every provider -> one shape; an estimate; and the proof that caching works.

A count that is not reported is unknown (None), never 0: a budget or a cache proof that takes one
for the other is wrong. Null, words, negative numbers and the like are not reports.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

# Each row is one provider's way to say it: the first name must be there, the others add to it.
_PROMPT: Final = (
    ("prompt_tokens",),
    # Anthropic counts what the cache read and wrote apart from the rest of the prompt.
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    ("promptTokenCount",),  # Gemini
    ("prompt_n", "cache_n"),  # llama.cpp's timings: evaluated now, taken from the cache
)
_COMPLETION: Final = (
    ("completion_tokens",),
    ("output_tokens",),  # Anthropic
    ("candidatesTokenCount", "thoughtsTokenCount"),  # Gemini
    ("predicted_n",),  # llama.cpp
)
_CACHED: Final = (
    "cached_tokens",  # OpenAI in its details; Moonshot, Together at the top
    "prompt_cache_hit_tokens",  # DeepSeek
    "cache_read_input_tokens",  # Anthropic
    "cachedContentTokenCount",  # Gemini
    "cache_n",  # llama.cpp
)
_LONGEST_COUNT: Final = 12  # digits
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")


class Usage(NamedTuple):
    """Tokens of one request; None where the provider does not say. `prompt` includes `cached`."""

    prompt: int | None
    completion: int | None
    cached: int | None

    def updated(self, later: "Usage") -> "Usage":
        """Return these counts with those that `later` knows in their place: totals, not shares."""
        return Usage(
            prompt=_known(later.prompt, self.prompt),
            completion=_known(later.completion, self.completion),
            cached=_known(later.cached, self.cached),
        )


def usage_in(payload: Mapping[str, Any]) -> Usage | None:
    """Return the counts in an answer, or in one event of a stream; None if it reports nothing.

    Of several reports in one payload the earlier one of `_reports` counts, member by member.

    >>> usage_in({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}})
    Usage(prompt=9, completion=None, cached=4)
    """
    found = Usage(None, None, None)
    for report in _reports(payload):
        found = _usage_of(report).updated(found)
    return None if found == Usage(None, None, None) else found


def _reports(payload: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    groq = payload.get("x_groq")
    choices = payload.get("choices")
    candidates = [
        payload.get("usage"),
        *([groq.get("usage")] if isinstance(groq, dict) else []),
        # Moonshot puts it there.
        *(c.get("usage") for c in _listed(choices) if isinstance(c, dict)),
        payload.get("usageMetadata"),
        payload.get("timings"),
    ]
    yield from (report for report in candidates if isinstance(report, dict))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _usage_of(report: Mapping[str, Any]) -> Usage:
    details = [report, *(d for n in _DETAILS if isinstance(d := report.get(n), dict))]
    counts = [_count(place.get(name)) for place in details for name in _CACHED]
    cached = max((count for count in counts if count is not None), default=None)
    prompt, completion = _first_sum(report, _PROMPT), _first_sum(report, _COMPLETION)
    if prompt == 0:  # no prompt has no tokens: this server does not count
        prompt, completion = None, completion or None
    elif prompt is not None and cached is not None and cached > prompt:
        prompt += cached  # it counted what was not in its cache
    return Usage(prompt, completion, cached)


def _first_sum(report: Mapping[str, Any], rows: tuple[tuple[str, ...], ...]) -> int | None:
    for name, *more in rows:
        count = _count(report.get(name))
        if count is not None:
            return count + sum(_count(report.get(other)) or 0 for other in more)
    return None


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) <= _LONGEST_COUNT:
        return int(value)  # some gateways quote their numbers
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    # Proxies turn 12 into 12.0; NaN, infinity and what no window holds are no counts.
    whole = isinstance(value, int) or value.is_integer()
    return int(value) if whole and value < 10**_LONGEST_COUNT else None


def _known(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def estimated_tokens(byte_count: int) -> int:
    """Return about how many tokens `byte_count` bytes of text are, at least 1.

    >>> estimated_tokens(0), estimated_tokens(4000)
    (1, 1000)
    """
    # Four bytes a token is the usual rule for English and code with current tokenizers.
    return max(1, byte_count // 4)


class CacheProof:
    """Whether the provider's cache held what an unchanged prefix promises (SPEC section 5).

    `minimum`: a prompt of fewer tokens proves nothing, providers do not cache it.
    """

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._requests = 0

    def check(self, prompt: int, cached: int | None, *, unbroken: bool) -> str | None:
        """Return what is wrong with this request's counts, in one line, or None.

        `unbroken`: its messages start with the exact bytes of the request before it. To be called
        for every request of the session, in order.
        """
        self._requests = self._requests + 1 if unbroken else 1
        if self._requests == 1 or cached or prompt < self._minimum:
            return None
        reported = "no cached tokens were reported" if cached is None else "0 tokens were cached"
        return f"cache miss: {reported} of a {prompt}-token prompt whose prefix had not changed"
