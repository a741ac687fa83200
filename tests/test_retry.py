"""Which failures are repeated, how often and after how long; what the last error says."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bantam.core.errors import KeyRefused, ModelError, Unavailable
from bantam.model.failures import Failure, Kind, rejection
from bantam.model.retry import (
    RETRYABLE,
    WAITS_S,
    PromptTooLong,
    error_for,
    is_overflow,
    repeats,
    wait_s,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
URL = "https://example.com/v1/chat/completions"


def failed(
    status: int, said: Any = "", headers: dict[str, str] | None = None, **members: Any
) -> Failure:
    raw = said if isinstance(said, bytes) else json.dumps({"error": {"message": said, **members}})
    body = raw if isinstance(raw, bytes) else raw.encode()
    return rejection(status, "", headers or {}, body)


def last(failure: Failure, tried: int = 1) -> ModelError:
    return error_for(failure, URL, tried, NOW)


# -- how often --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", sorted(RETRYABLE))
def test_what_may_pass_is_repeated_nine_times(status: int) -> None:
    assert repeats(failed(status, "busy")) == 9


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
def test_the_statuses_of_the_specification_may_pass(status: int) -> None:
    assert status in RETRYABLE


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 409, 413, 418, 422, 501, 505])
def test_what_will_not_pass_is_not_repeated(status: int) -> None:
    assert repeats(failed(status, "no")) == 0


@pytest.mark.parametrize("kind", [Kind.CONNECTION, Kind.SILENCE, Kind.BROKEN])
def test_connections_time_outs_and_broken_answers_are_repeated(kind: Kind) -> None:
    assert repeats(Failure(kind, "r")) == 9


@pytest.mark.parametrize("kind", [Kind.STALL, Kind.FINAL])
def test_silence_in_mid_stream_and_the_impossible_are_not_repeated(kind: Kind) -> None:
    assert repeats(Failure(kind, "r")) == 0


@pytest.mark.parametrize("status", [500, 502, 503, 504, 520])
def test_an_error_page_behind_5xx_is_repeated_once(status: int) -> None:
    assert repeats(failed(status, b"<!DOCTYPE html><title>Bad gateway</title>")) == 1


def test_a_template_error_behind_500_is_repeated_once() -> None:
    assert repeats(failed(500, "Jinja Exception in the chat template")) == 1


def test_a_page_behind_429_is_about_the_rate() -> None:
    assert repeats(failed(429, b"<html><title>429 Too Many Requests</title></html>")) == 9


GEMINI = (
    "You exceeded your current quota, please check your plan and billing details. For more "
    "information on this error, head to: https://ai.google.dev/gemini-api/docs.\n"
    "* Quota exceeded for metric: generate_content_free_tier_requests, limit: 10\n"
    "Please retry in 7.1s."
)
RATES = [
    "",
    "Rate limit reached",
    "Too many requests",
    GEMINI,
    "Quota exceeded for quota metric 'Generate Content API requests per minute'",
    "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project",
    "Resource has been exhausted (e.g. check quota).",
    "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5900.",
    (
        "Rate limit reached for gpt-4 on requests per min. Please add a payment method to your "
        "account to increase your rate limit: https://platform.openai.com/account/billing."
    ),
    (
        "Requests have exceeded token rate limit of your tier. Please retry after 7 seconds. "
        "See quotaincrease if you would like to increase the default rate limit."
    ),
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
    "Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 2.5s.",
    "Throttling.AllocationQuota",
    "Concurrency limit reached",
]


@pytest.mark.parametrize("said", RATES)
def test_a_429_about_the_rate_is_repeated(said: str) -> None:
    assert repeats(failed(429, said)) == 9


SPENT = [
    "You exceeded your current quota, please check your plan and billing details.",
    "quota of this account is used up",
    "Your credit balance is too low to access the API.",
    "Insufficient balance or no resource package. Please recharge.",
    "Insufficient credits. Add more at the settings page",
    "This key has used up its credits",
    "You have reached your monthly spend limit",
]


@pytest.mark.parametrize("said", SPENT)
def test_a_429_that_says_the_money_is_gone_is_final(said: str) -> None:
    assert repeats(failed(429, said)) == 0
    error = last(failed(429, said))
    assert "quota or credit" in str(error)
    assert said in str(error)
    assert not isinstance(error, Unavailable)


def test_a_code_that_says_the_quota_is_gone_is_enough() -> None:
    assert repeats(failed(429, "Rate limit reached", code="insufficient_quota")) == 0
    assert repeats(failed(429, "Rate limit reached", type="insufficient_quota")) == 0


def test_a_code_that_says_it_is_the_rate_is_enough() -> None:
    assert repeats(failed(429, "quota exceeded", code="rate_limit_exceeded")) == 9


@pytest.mark.parametrize(
    "said",
    [
        (
            "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model "
            "requests per day"
        ),
        "Daily limit reached",
        "Your allowance of requests per month is used up",
    ],
)
def test_a_days_allowance_is_not_waited_for(said: str) -> None:
    assert repeats(failed(429, said)) == 0
    error = last(failed(429, said))
    assert isinstance(error, Unavailable)
    assert "try again later" in str(error)


def test_a_server_that_says_when_is_believed() -> None:
    for said in ("You exceeded your current quota", "Rate limit exceeded: free-models-per-day"):
        assert repeats(failed(429, said, {"retry-after": "5"})) == 9


def test_402_says_that_the_credit_is_used_up() -> None:
    error = last(failed(402, "Payment Required"))
    assert "quota or credit" in str(error)
    assert error.status == 402


# -- how long ---------------------------------------------------------------------------------


@given(st.integers(1, 9), st.floats(0, 1, exclude_max=True))
def test_the_waits_are_fibonaccis_and_at_most_a_quarter_second_more(
    attempt: int, dice: float
) -> None:
    wait = wait_s(failed(503), attempt, dice, NOW)
    assert wait is not None
    assert 0 <= wait - (1, 1, 2, 3, 5, 8, 13, 21, 34)[attempt - 1] <= 0.25


def test_there_is_no_tenth_repeat() -> None:
    assert wait_s(failed(503), 10, 0.0, NOW) is None
    assert len(WAITS_S) == 9


def test_the_waits_grow_from_the_first_to_the_last() -> None:
    waits = [wait_s(failed(503), attempt, 0.5, NOW) or 0 for attempt in range(1, 10)]
    assert waits == sorted(set(waits))


def date(**ahead: float) -> str:
    return format_datetime(NOW + timedelta(**ahead), usegmt=True)


ASKED: list[tuple[dict[str, str], float | None]] = [
    ({"retry-after": "7"}, 7),
    ({"retry-after": " 7 "}, 7),
    ({"retry-after": "7.5"}, 7.5),
    ({"retry-after": "0"}, 1),
    ({"retry-after": "60"}, 60),
    ({"retry-after": "60.1"}, None),
    ({"retry-after": "86400"}, None),
    ({"retry-after": "9" * 30}, None),
    ({"retry-after": "9" * 400}, None),
    ({"retry-after": "-5"}, 1),
    ({"retry-after": "soon"}, 1),
    ({"retry-after": "4, 9"}, 9),
    ({"retry-after": "3s"}, 3),
    ({"retry-after": ""}, 1),
    ({"retry-after": "nan"}, 1),
    ({"retry-after": "1e3"}, 1),
    ({"retry-after": date(seconds=6)}, 6),
    ({"retry-after": date(seconds=61)}, None),
    ({"retry-after": date(seconds=-600)}, 1),
    ({"retry-after": date(days=3000)}, None),
    ({"retry-after": "Sun, 01 Mar 2026 12:00:08"}, 8),
    ({"retry-after": "Sun, 01 Mar 2026 13:00:08 +0100"}, 8),
    ({"retry-after": "Sun, 99 Foo 2026 13:00:08 GMT"}, 1),
    ({"retry-after": "Sun, 01 Mar 99999 13:00:08 GMT"}, 1),
    ({"retry-after": "Sun, 01 Mar 2026 13:00:08 +999999999"}, 1),
    ({"retry-after-ms": "1500"}, 1.5),
    ({"retry-after-ms": "100"}, 1),
    ({"retry-after-ms": "60001"}, None),
    ({"retry-after-ms": "x", "retry-after": "4"}, 4),
    ({"retry-after-ms": "1500", "retry-after": "2"}, 2),
    ({"llm_provider-retry-after": "9"}, 9),
    ({"llm_provider-retry-after": date(seconds=9)}, 9),
    ({"retry-after": "soon", "llm_provider-retry-after": "9"}, 9),
]


@pytest.mark.parametrize(("headers", "wait"), ASKED)
def test_what_the_server_asks_for_is_a_lower_bound(
    headers: dict[str, str], wait: float | None
) -> None:
    assert wait_s(failed(429, "slow down", headers), 1, 0.0, NOW) == wait


def test_a_longer_wait_of_our_own_stays() -> None:
    assert wait_s(failed(429, "", {"retry-after": "7"}), 9, 0.0, NOW) == 34


@settings(max_examples=100)
@given(st.text(max_size=40))
def test_any_retry_after_is_read(text: str) -> None:
    wait = wait_s(failed(503, "", {"retry-after": text, "retry-after-ms": text}), 1, 0.0, NOW)
    assert wait is None or 1 <= wait <= 60


# -- what is said at the end ------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{"retry-after": "86400"}, {"retry-after": date(days=1)}])
def test_a_long_wait_is_an_end_that_says_when(headers: dict[str, str]) -> None:
    error = last(failed(429, "slow down", headers))
    assert isinstance(error, Unavailable)
    when = (NOW + timedelta(days=1)).astimezone()
    assert f"86400 s, until {when:%Y-%m-%d %H:%M:%S}" in str(error)


def test_a_wait_of_ages_is_told_too() -> None:
    assert "until 2057" in str(last(failed(503, "", {"retry-after": "9" * 400})))


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_setting(status: int) -> None:
    error = last(failed(status, "API key is wrong"))
    assert isinstance(error, KeyRefused)
    assert (error.status, int(error.exit_status)) == (status, 77)
    assert "api_key" in str(error)
    assert "API key is wrong" in str(error)


def test_404_shows_the_url_and_the_hint() -> None:
    error = last(failed(404, b"not found"))
    assert URL in str(error)
    assert "/v1" in str(error)


@pytest.mark.parametrize(
    "said",
    ["You exceeded your current quota, please check your plan", "Insufficient balance"],
)
def test_a_stream_that_says_that_the_money_is_gone_is_final(said: str) -> None:
    failure = Failure(Kind.BROKEN, f"the endpoint reported an error: {said}", said=said)
    assert repeats(failure) == 0
    assert type(last(failure)) is ModelError
    assert "used up" in str(last(failure))
    assert repeats(Failure(Kind.BROKEN, "the answer was cut off")) == 9


def test_no_error_shows_the_query_of_an_address_which_may_hold_a_key() -> None:
    error = error_for(failed(404), f"{URL}?key=sk-1", 1, NOW)
    assert f"tried {URL}: " in str(error)
    assert "sk-1" not in str(error)


def test_a_model_that_is_not_there_or_cannot_call_tools_is_told() -> None:
    missing = failed(404, "model 'x' not found", code="model_not_found")
    assert "does it have the model that is set?" in str(last(missing))
    assert "/v1" in str(last(missing))
    for said in (
        "This model does not support tools",
        "No endpoints found that don't support tool use",
        "registry.ollama.ai/library/gemma does not support tools",
        "tools are not supported by this model",
    ):
        assert "a model that can call tools" in str(last(failed(400, said)))


def test_a_redirect_says_where_it_points() -> None:
    error = last(failed(308, b"", {"location": "https://elsewhere.example/"}))
    assert "not followed: it points to https://elsewhere.example/" in str(error)
    assert str(last(failed(302, b""))) == "302 Found; redirects are not followed"


@pytest.mark.parametrize(
    ("failure", "tried", "text"),
    [
        (failed(503, "busy"), 10, f"503 Service Unavailable: busy (after 10 attempts); {URL}"),
        (Failure(Kind.CONNECTION, "refused"), 10, f"refused (after 10 attempts); {URL}"),
        (Failure(Kind.SILENCE, "silent"), 1, f"silent; {URL}"),
        (Failure(Kind.STALL, "stalled"), 1, f"stalled; {URL}"),
    ],
)
def test_what_may_pass_later_ends_so_and_says_how_often_it_was_tried(
    failure: Failure, tried: int, text: str
) -> None:
    error = last(failure, tried)
    assert isinstance(error, Unavailable)
    assert (str(error), int(error.exit_status)) == (text, 75)


def test_what_will_not_pass_ends_in_the_servers_words() -> None:
    error = last(failed(400, "no such model"))
    assert (type(error), str(error)) == (ModelError, "400 Bad Request: no such model")
    assert str(last(Failure(Kind.FINAL, "the recording ends"))) == "the recording ends"


OVERFLOWS = [
    (400, "This model's maximum context length is 8192 tokens. However, you requested 9001."),
    (400, "prompt is too long: 213000 tokens > 200000 maximum"),
    (400, "the request exceeds the available context size, try increasing it"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)"),
    (400, "Please reduce the length of the messages or completion."),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "This model's maximum prompt length is 131072 but the request contains 150000 tokens."),
    (400, "Input is too long for requested model."),
    (400, "prompt token count of 70000 exceeds the limit of 64000"),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    (413, "Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 9000"),
    (422, "litellm.ContextWindowExceededError: too many tokens"),
    (500, "the request exceeds the available context size"),
]


@pytest.mark.parametrize(("status", "said"), OVERFLOWS)
def test_a_prompt_over_the_window_is_final_and_says_so(status: int, said: str) -> None:
    failure = failed(status, said)
    assert is_overflow(failure)
    assert repeats(failure) == 0
    assert isinstance(last(failure), PromptTooLong)
    assert "context window" in str(last(failure))


def test_a_code_is_enough_to_know_an_overflow() -> None:
    assert is_overflow(failed(400, "too long", code="context_length_exceeded"))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "max_tokens is too large: 100000. This model supports at most 16384 tokens"),
        (400, "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens"),
        (400, "Unsupported value: temperature 0.7 for this model, only 1 is accepted"),
        (429, "Too many tokens, please wait before trying again."),
        (404, "The context length is unknown"),
    ],
)
def test_other_limits_are_no_overflow(status: int, said: str) -> None:
    assert not is_overflow(failed(status, said))
    assert not isinstance(last(failed(status, said)), PromptTooLong)
