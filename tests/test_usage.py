"""Token counts in every provider's shape, the estimate, and the proof that caching works."""

import math
from typing import Any

import pytest

from bantam.model.usage import CacheProof, Usage, estimated_tokens, usage_in

OPENAI = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}


@pytest.mark.parametrize(
    ("payload", "usage"),
    [
        ({"usage": OPENAI}, Usage(100, 7, None)),
        (
            {"usage": {**OPENAI, "prompt_tokens_details": {"cached_tokens": 64}}},
            Usage(100, 7, 64),
        ),
        ({"usage": {**OPENAI, "prompt_tokens_details": {"cached_tokens": 0}}}, Usage(100, 7, 0)),
        ({"usage": {**OPENAI, "prompt_tokens_details": {}}}, Usage(100, 7, None)),
        ({"usage": {**OPENAI, "prompt_tokens_details": None}}, Usage(100, 7, None)),
        ({"usage": {**OPENAI, "prompt_tokens_details": "none"}}, Usage(100, 7, None)),
        ({"usage": {**OPENAI, "prompt_cache_hit_tokens": 20}}, Usage(100, 7, 20)),
        ({"usage": {**OPENAI, "cached_tokens": 20}}, Usage(100, 7, 20)),
        ({"choices": [{"usage": {**OPENAI, "cached_tokens": 20}}]}, Usage(100, 7, 20)),
        ({"choices": [None, {}], "usage": OPENAI}, Usage(100, 7, None)),
        ({"choices": {}, "usage": OPENAI}, Usage(100, 7, None)),
        (
            {
                "usage": {
                    **OPENAI,
                    "cached_tokens": 0,
                    "prompt_cache_hit_tokens": 20,
                    "prompt_tokens_details": {"cached_tokens": 30},
                }
            },
            Usage(100, 7, 30),
        ),
        (
            {
                "usage": {
                    "input_tokens": 10,
                    "output_tokens": 5,
                    "cache_read_input_tokens": 1000,
                    "cache_creation_input_tokens": 200,
                }
            },
            Usage(1210, 5, 1000),
        ),
        ({"usage": {"input_tokens": 10, "cache_read_input_tokens": None}}, Usage(10, None, None)),
        ({"usage": {**OPENAI, "cache_read_input_tokens": 90}}, Usage(100, 7, 90)),
        (
            {"usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}}},
            Usage(10, None, 4),
        ),
        ({"timings": {"prompt_n": 1, "predicted_n": 35, "cache_n": 236}}, Usage(237, 35, 236)),
        ({"timings": {"prompt_n": 9, "predicted_n": 35}}, Usage(9, 35, None)),
        ({"usage": OPENAI, "timings": {"prompt_n": 1, "cache_n": 99}}, Usage(100, 7, 99)),
        (
            {
                "usage": {**OPENAI, "prompt_tokens_details": {"cached_tokens": 0}},
                "timings": {"prompt_n": 1, "cache_n": 99},
            },
            Usage(100, 7, 0),
        ),
        ({"x_groq": {"id": "r", "usage": OPENAI}}, Usage(100, 7, None)),
        ({"x_groq": {"id": "r"}}, None),
        (
            {
                "usageMetadata": {
                    "promptTokenCount": 50,
                    "candidatesTokenCount": 6,
                    "thoughtsTokenCount": 30,
                    "cachedContentTokenCount": 40,
                }
            },
            Usage(50, 36, 40),
        ),
        ({"usage": {"prompt_tokens": 12.0, "completion_tokens": 2.5}}, Usage(12, None, None)),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, None),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 9}}, Usage(None, 9, None)),
        ({"usage": {"prompt_tokens": "12", "completion_tokens": "3"}}, Usage(12, 3, None)),
        ({"usage": {"prompt_tokens": 10, "cache_read_input_tokens": 990}}, Usage(1000, None, 990)),
        ({"usage": {"prompt_tokens": 10**300, "completion_tokens": 3}}, Usage(None, 3, None)),
        ({}, None),
        ({"usage": None}, None),
        ({"usage": {}}, None),
        ({"usage": [1]}, None),
        ({"usage": {"total_tokens": 5}}, None),
    ],
)
def test_every_shape_of_usage_is_one(payload: dict[str, Any], usage: Usage | None) -> None:
    assert usage_in(payload) == usage


@pytest.mark.parametrize("value", [None, "many", "9" * 13, -1, True, math.nan, math.inf, [], {}])
def test_what_is_no_count_is_unknown_and_not_zero(value: object) -> None:
    counts = {"prompt_tokens": value, "completion_tokens": 3, "cached_tokens": value}
    assert usage_in({"usage": counts}) == Usage(None, 3, None)


def test_later_counts_replace_earlier_ones_and_unknown_ones_do_not() -> None:
    first = Usage(10, 1, 5)
    assert first.updated(Usage(None, 2, None)) == Usage(10, 2, 5)
    assert first.updated(Usage(0, None, 0)) == Usage(0, 1, 0)


def test_an_estimate_is_four_bytes_a_token_and_at_least_one() -> None:
    assert [estimated_tokens(count) for count in (0, 3, 4, 4000)] == [1, 1, 1, 1000]


def test_only_a_repeated_prefix_without_cached_tokens_is_a_fault() -> None:
    proof = CacheProof(1000)
    assert proof.check(5000, None, unbroken=True) is None, "the first request fills the cache"
    assert proof.check(5000, 4000, unbroken=True) is None
    assert proof.check(999, 0, unbroken=True) is None, "too small to be cached"
    zero = proof.check(5000, 0, unbroken=True)
    assert zero
    assert "0 tokens were cached" in zero
    assert "5000" in zero
    assert proof.check(5000, 0, unbroken=False) is None, "a new prefix is not cached yet"
    silent = proof.check(1000, None, unbroken=True)
    assert silent
    assert "no cached tokens were reported" in silent
    assert "\n" not in silent
