"""Which failures are worth another attempt, after how long, and what is said when they are not.

Pure: the clock and the dice are passed in. The waits are Fibonacci's (SPEC section 4): quick at
first, since most faults are short, and 88 s in all.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from bantam.core.errors import KeyRefused, ModelError, Unavailable
from bantam.model.failures import Failure, Kind

WAITS_S: Final = (1, 1, 2, 3, 5, 8, 13, 21, 34)
LONGEST_WAIT_S: Final = 60.0
_FAR_S: Final = 1e9  # some thirty years: later than that no calendar has to name
# SPEC section 4's, and 520 to 524: Cloudflare's words for an origin that is away.
RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 529, *range(520, 525)})
_MAY_BE_OVERFLOW: Final = frozenset({400, 413, 422, 500})
_WORTH_REPEATING: Final = frozenset({Kind.CONNECTION, Kind.SILENCE, Kind.BROKEN})

# Two clients that failed together should not come back together. The second wait's share is the
# larger one, so that waits grow on the clock too and are not mistaken for a fixed interval.
_JITTER_S: Final = 0.05
_SECOND_WAIT_MORE_S: Final = 0.2

# A 429 says either "the money is gone" or "not so fast", often with words of both: Gemini's rate
# limit speaks of quota and billing, OpenAI's of adding a payment method. The first row is never
# said of a rate, the second is only where no rate is spoken of. (Texts, as `re` compiles them when
# one is first searched for: most runs see no failure.)
_SURELY_SPENT: Final = (
    r"(?i)insufficient.?(quota|balance|credit|fund)|credit balance"
    r"|(out of|no|used up).{0,9} credits?\b|(billing|spend(ing)?|usage).?(hard.?)?limit"
)
_SPENT: Final = r"(?i)quota|credit|billing|payment|balance|recharge"
_RATE: Final = (
    r"(?i)per.?(second|minute|min|hour)(?![a-z])|rate.?limit|too many|throttl|check quota"
    r"|\b[RT]PM\b|(retry|try again) (in|after|later|shortly)"
)
# An allowance of a day comes back, but not within the waits here.
_DAILY: Final = r"(?i)(per|every|each).?(day|week|month)(?![a-z])|daily|monthly"
_SOON: Final = r"(?i)(retry|try again) (in|after)\b"
_RETRY_AFTER: Final = ("retry-after", "llm_provider-retry-after")
_RETRY_AFTER_MS: Final = "retry-after-ms"
_OVERFLOW: Final = (
    r"(?i)context.?(length|window|size)|maximum (context|prompt)|too many (input )?tokens"
    r"|(prompt|input) is too (long|large)|token count.{0,40}exceeds|maximum model length"
    r"|exceeds the (available context|maximum number of (input )?tokens|model's (context|input))"
    r"|reduce the length|request too large"
)


class PromptTooLong(ModelError):
    """The endpoint says that the prompt does not fit the model's window."""


_NO_TOOLS: Final = (
    r"(?i)(not|n't) (currently )?(support|allow)\w* (\w+ )?(tool|function)|tools? (is|are) not"
)


def wait_s(failure: Failure, attempt: int, dice: float, now: datetime) -> float | None:
    """Return the seconds to wait before repeat number `attempt` (from 1), None if there is none.

    `dice` in [0, 1). A wait that the server asks for is a lower bound; over 60 s there is none.
    """
    if attempt > repeats(failure):
        return None
    wait = WAITS_S[attempt - 1] + dice * _JITTER_S + (_SECOND_WAIT_MORE_S if attempt == 2 else 0)
    asked = retry_after_s(failure.headers, now)
    if asked is None:
        return wait
    return max(wait, asked) if asked <= LONGEST_WAIT_S else None


def repeats(failure: Failure) -> int:
    """Return how often a request that failed so may be repeated."""
    status = failure.status
    if status is None and _is_spent(failure):
        return 0
    if failure.kind in _WORTH_REPEATING:
        return len(WAITS_S)
    if failure.kind is not Kind.STATUS or status is None or status not in RETRYABLE:
        return 0
    if is_overflow(failure) or _is_spent(failure) or _is_for_the_day(failure):
        return 0
    if status >= 500 and failure.will_recur:
        return 1
    return len(WAITS_S)


def _is_spent(failure: Failure) -> bool:
    """Whether quota or credit is gone, and it is not only that requests come too fast."""
    if failure.status == 402:
        return True
    if failure.status not in (429, None):  # in a stream words stand for the number
        return False
    words = failure.words
    if re.search(_SURELY_SPENT, words):
        return True
    if _is_told_when(failure) or re.search(_DAILY, words):
        return False
    return bool(re.search(_SPENT, words)) and not re.search(_RATE, words)


def _is_for_the_day(failure: Failure) -> bool:
    """Whether a 429 is about a day's or month's allowance, and says of no sooner time."""
    if failure.status != 429 or _is_told_when(failure) or re.search(_SOON, failure.words):
        return False
    return bool(re.search(_DAILY, failure.words))


def _is_told_when(failure: Failure) -> bool:
    return any(name in failure.headers for name in (*_RETRY_AFTER, _RETRY_AFTER_MS))


def is_overflow(failure: Failure) -> bool:
    """Whether the server says that the prompt does not fit the model's window."""
    return failure.status in _MAY_BE_OVERFLOW and bool(re.search(_OVERFLOW, failure.words))


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that the server asks to wait (RFC 9110 10.2.3 and two habits).

    >>> retry_after_s({"retry-after": "7"}, datetime(2026, 1, 1, tzinfo=UTC))
    7.0
    """
    asked = [_seconds(headers.get(name, ""), now) for name in _RETRY_AFTER]
    if (milliseconds := _number(headers.get(_RETRY_AFTER_MS, ""))) is not None:
        asked.append(milliseconds / 1000)
    # Each is a lower bound.
    return max((seconds for seconds in asked if seconds is not None), default=None)


def _seconds(value: str, now: datetime) -> float | None:
    """Return the seconds until what a Retry-After says, None if it says nothing sensible.

    Of several fields, which HTTP joins by commas, the largest counts; some write `3s`.
    """
    numbers = [_number(part.strip().removesuffix("s")) for part in value.split(",")]
    if (seconds := max((n for n in numbers if n is not None), default=None)) is not None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, (_aware(date) - now).total_seconds())
    except (ValueError, OverflowError):
        return None


def _aware(date: datetime) -> datetime:
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _number(text: str) -> float | None:
    if not re.fullmatch(r"\s*[0-9]+(\.[0-9]*)?\s*", text):
        return None
    return min(float(text), _FAR_S)


def error_for(failure: Failure, url: str, tried: int, now: datetime) -> ModelError:
    """Return the error that ends the turn after `tried` attempts: what happened, what to do."""
    status, after = failure.status, retry_after_s(failure.headers, now)
    url = url.partition("?")[0]  # a query may hold a key
    if status in (401, 403):
        return KeyRefused(
            f"{failure}; the endpoint refused the key, or what it may do: set api_key in "
            ".bantam.cfg, or OPENAI_API_KEY where the endpoint may have it",
            status,
        )
    if hint := _hint(failure, url):
        kind = PromptTooLong if is_overflow(failure) else ModelError
        return kind(f"{failure}; {hint}", status)
    if _is_for_the_day(failure):
        return Unavailable(f"{failure}; this allowance is used up: try again later", status)
    if after is not None and after > LONGEST_WAIT_S and repeats(failure):
        when = datetime.fromtimestamp(now.timestamp() + after).astimezone()
        wait = f"the server asks to wait {after:.0f} s, until {when:%Y-%m-%d %H:%M:%S %Z}"
        return Unavailable(f"{failure}; {wait}: try again then", status)
    if failure.kind in (Kind.SILENCE, Kind.STALL) or repeats(failure):
        attempts = f" (after {tried} attempts)" if tried > 1 else ""
        return Unavailable(f"{failure}{attempts}; {url}", status)
    return ModelError(str(failure), status)


def _hint(failure: Failure, url: str) -> str:
    """Return what to do about a failure that no repeat can mend, "" where that is not known."""
    status = failure.status
    if status == 404:
        has_model = re.search(r"\bmodel\b", failure.words, re.IGNORECASE)
        model = "does it have the model that is set? And " if has_model else ""
        path = "does the endpoint end as its documentation says, often in /v1, and only once?"
        return f"tried {url}: {model}{path}"
    if re.search(_NO_TOOLS, failure.words):
        return "Bantam needs a model that can call tools (llama.cpp: --jinja)"
    if is_overflow(failure):
        hint = "the conversation is longer than the model's context window: start a new one"
        return f"{hint}, or use a model with a larger context"
    if status is not None and 300 <= status < 400:
        where = failure.headers.get("location")
        return "redirects are not followed" + (f": it points to {where}" if where else "")
    if _is_spent(failure):
        return "the quota or credit of this key is used up"
    return ""
