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
RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_WORTH_REPEATING: Final = frozenset({Kind.CONNECTION, Kind.SILENCE, Kind.BROKEN})

# Two clients that failed together should not come back together. The second wait's share is the
# larger one, so that waits grow on the clock too and are not mistaken for a fixed interval.
_JITTER_S: Final = 0.05
_SECOND_WAIT_MORE_S: Final = 0.2

_SPENT: Final = re.compile(
    r"insufficient_quota|quota|credit|billing|payment|balance|spend(ing)? limit", re.IGNORECASE
)
_RATE: Final = re.compile(r"per (second|minute|hour|day)|rate.?limit|too many", re.IGNORECASE)
_OVERFLOW: Final = re.compile(
    r"context.?length|context.?window|context size|maximum context|too many tokens"
    r"|prompt is too long|exceeds? the (available|model)",
    re.IGNORECASE,
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
    if failure.kind in _WORTH_REPEATING:
        return len(WAITS_S)
    if failure.kind is not Kind.STATUS or failure.status not in RETRYABLE:
        return 0
    if failure.status == 429 and _is_spent(failure):
        return 0
    if failure.is_page:
        return 1
    return len(WAITS_S)


def _is_spent(failure: Failure) -> bool:
    """Whether a 429 means that money or quota is gone, and not that requests come too fast."""
    if "insufficient_quota" in failure.code:
        return True
    return bool(_SPENT.search(failure.message)) and not _RATE.search(failure.message)


def is_overflow(failure: Failure) -> bool:
    """Whether the server says that the prompt does not fit the model's window."""
    if failure.status not in (400, 413, 422, 500):
        return False
    return bool(_OVERFLOW.search(f"{failure.code} {failure.message}"))


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that the server asks to wait (RFC 9110 10.2.3 and two habits).

    >>> retry_after_s({"retry-after": "7"}, datetime(2026, 1, 1, tzinfo=timezone.utc))
    7.0
    """
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    for name in ("retry-after", "llm_provider-retry-after"):
        value = headers.get(name, "").strip()
        if not value:
            continue
        if (seconds := _number(value)) is not None:
            return seconds
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            continue
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0.0, (date - now).total_seconds())
    return None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*\d{1,9}(\.\d{0,9})?\s*", text) else None


def error_for(failure: Failure, url: str, tried: int, now: datetime) -> ModelError:
    """Return the error that ends the turn after `tried` attempts: what happened, what to do."""
    status, after = failure.status, retry_after_s(failure.headers, now)
    if status in (401, 403):
        return KeyRefused(
            f"{failure}; the endpoint refused the key: set api_key in .bantam.cfg, "
            "or OPENAI_API_KEY where the endpoint may have it",
            status,
        )
    if status == 404:
        hint = "does the endpoint end as its documentation says, often in /v1, and only once?"
        return ModelError(f"{failure}; tried {url}: {hint}", status)
    if is_overflow(failure):
        hint = "the conversation is longer than the model's context window: start a new one"
        return ModelError(f"{failure}; {hint}, or use a model with a larger context", status)
    if status is not None and 300 <= status < 400:
        where = failure.headers.get("location", "nowhere")
        return ModelError(f"{failure}; redirects are not followed: it points to {where}", status)
    if status == 429 and not repeats(failure):
        return ModelError(f"{failure}; the quota or credit of this key is used up", status)
    if after is not None and after > LONGEST_WAIT_S and repeats(failure):
        when = datetime.fromtimestamp(now.timestamp() + after).astimezone()
        wait = f"the server asks to wait {after:.0f} s, until {when:%Y-%m-%d %H:%M:%S %Z}"
        return Unavailable(f"{failure}; {wait}: try again then", status)
    if failure.kind in (Kind.SILENCE, Kind.STALL) or repeats(failure):
        attempts = f" (after {tried} attempts)" if tried > 1 else ""
        return Unavailable(f"{failure}{attempts}; {url}", status)
    return ModelError(str(failure), status)
