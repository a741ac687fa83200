"""A rejection with a known cure is cured once; a wrong cure is worse than none."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bantam.core.messages import Message, Role, ToolCall, to_api
from bantam.model.failures import Failure, Kind, rejection
from bantam.model.quirks import Quirks
from bantam.model.refusals import refused_members

USER = Message(Role.USER, "hi")
SAID = Message(Role.ASSISTANT, "yes", reasoning="Hm.")
CALL = Message(
    Role.ASSISTANT,
    reasoning="Hm.",
    tool_calls=(ToolCall("a", "f", "{}", {"extra_content": {"signature": "s"}}),),
    extra={"reasoning_details": [{"type": "t"}]},
)
RESULT = Message(Role.TOOL, "out", tool_call_id="a")
HISTORY = (USER, CALL, RESULT)


def refused(said: Any, status: int = 400, **members: Any) -> Failure:
    """Return the failure of a refusal in OpenAI's shape, or with the JSON body that `said` is."""
    body = said if isinstance(said, dict) else {"error": {"message": said, **members}}
    return rejection(status, "", {}, json.dumps(body).encode())


def body_of(quirks: Quirks, history: Sequence[Message] = HISTORY, **options: Any) -> dict[str, Any]:
    """Return a request as the client makes it."""
    messages = quirks.messages([to_api(message) for message in quirks.history(history)])
    body = {"model": "m", "messages": messages, "tools": [], "stream": True}
    body |= {"stream_options": {"include_usage": True}, "temperature": 0.7}
    return quirks.options(body | options)


def cured(
    failure: Failure, history: Sequence[Message] = HISTORY, **options: Any
) -> tuple[str | None, set[str]]:
    """Return the line of the cure, and which members of the request it took away."""
    quirks = Quirks()
    body = body_of(quirks, history, **options)
    line = quirks.cure(failure, body, history)
    return line, set(body) - set(body_of(quirks, history, **options))


# Forwarded by the user; words of everyday language among them.
OPTIONS: dict[str, Any] = {
    "reasoning_effort": "high",
    "top_p": 0.9,
    "user": "me",
    "stop": ["END"],
    "seed": 7,
    "n": 1,
}

REFUSED: list[tuple[str, set[str]]] = [
    ("Unsupported parameter: 'temperature' is not supported with this model.", {"temperature"}),
    (
        (
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the "
            "default (1) value is supported."
        ),
        {"temperature"},
    ),
    (
        "Unsupported value: temperature 0.7 for this model, only 1 is accepted",
        {"temperature"},
    ),
    ("Unrecognized request argument supplied: stream_options", {"stream_options"}),
    ("Unrecognized request arguments supplied: seed, stream_options", {"seed", "stream_options"}),
    ("Unrecognized request argument: reasoning_effort", {"reasoning_effort"}),
    ("Unknown parameter: 'seed'.", {"seed"}),
    ("Unknown parameter: 'stream_options.include_usage'.", {"stream_options"}),
    ("property 'stream_options' is unsupported", {"stream_options"}),
    ("body.stream_options: property 'body.stream_options' is unsupported", {"stream_options"}),
    (
        (
            "litellm.UnsupportedParamsError: openai does not support parameters: "
            "['reasoning_effort', 'top_p'], for model=gpt-4o. To drop these, set "
            "`litellm.drop_params=True` or for proxy: `litellm_settings:\n drop_params: true`"
        ),
        {"reasoning_effort", "top_p"},
    ),
    (
        (
            "litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0.7. Only "
            "temperature=1 is supported."
        ),
        {"temperature"},
    ),
    ("temperature: Extra inputs are not permitted", {"temperature"}),
    ("AnthropicException - stream_options: Extra inputs are not permitted", {"stream_options"}),
    ("stream_options.include_usage: Extra inputs are not permitted", {"stream_options"}),
    ("Extra inputs are not permitted, field: 'stream_options'", {"stream_options"}),
    (
        (
            "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs "
            "are not permitted', 'input': {'include_usage': True}}]"
        ),
        {"stream_options"},
    ),
    ("`temperature` is deprecated for this model.", {"temperature"}),
    ("temperature is not supported with this model", {"temperature"}),
    ("The temperature parameter is not supported by this model", {"temperature"}),
    ("The parameter temperature is not supported by this model", {"temperature"}),
    ("This model does not support temperature.", {"temperature"}),
    ("This model does not support `stop`", {"stop"}),
    ("This model does not support the stop parameter", {"stop"}),
    ("This model doesn\u2019t support the parameter \u2018seed\u2019", {"seed"}),
    ("deepseek-reasoner does not support this parameter: temperature", {"temperature"}),
    ("Model grok-3 does not support parameter reasoningEffort.", {"reasoning_effort"}),
    ("Argument not supported on this model: reasoning_effort", {"reasoning_effort"}),
    ("invalid temperature: only 1 is allowed for this model", {"temperature"}),
    ("`temperature` may only be set to 1 when thinking is enabled", {"temperature"}),
    (
        "`temperature` and `top_p` cannot both be specified for this model. Use only one.",
        {"temperature"},
    ),
    (
        'Invalid JSON payload received. Unknown name "stream_options": Cannot find field.',
        {"stream_options"},
    ),
    ('json: unknown field "stream_options"', {"stream_options"}),
    (
        "unknown field `seed`, expected one of `model`, `messages`, `temperature`, `top_p`, `user`",
        {"seed"},
    ),
    ("Unknown parameter: 'seed'. Did you mean 'stop'?", {"seed"}),
    ("unknown field: parameter 'stream_options' is not a valid field", {"stream_options"}),
    (
        "Malformed input request: extraneous key [stream_options] is not permitted",
        {"stream_options"},
    ),
    (
        "Additional properties are not allowed ('stream_options' was unexpected)",
        {"stream_options"},
    ),
    ("unknown stream_options", {"stream_options"}),
    ("Invalid field: stream_options", {"stream_options"}),
    ("Invalid parameter: temperature", {"temperature"}),
    ("temperature: this model only supports temperature = 1", {"temperature"}),
    ("temperature is not available for reasoning models", {"temperature"}),
    ("stream_options and temperature are not supported", {"stream_options", "temperature"}),
    ("create() got an unexpected keyword argument 'reasoning_effort'", {"reasoning_effort"}),
]


@pytest.mark.parametrize(("said", "dropped"), REFUSED)
def test_a_member_that_is_refused_is_dropped_and_nothing_else(said: str, dropped: set[str]) -> None:
    line, gone = cured(refused(said), **OPTIONS)
    assert gone == dropped
    assert line is not None
    assert all(name in line for name in dropped)


STRUCTURED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "param": (
        {"error": {"message": "Not here.", "param": "seed", "code": "unsupported_parameter"}},
        {"seed"},
    ),
    "FastAPI": (
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "extra field"}]},
        {"seed"},
    ),
    "pydantic 1": (
        {"detail": [{"type": "value_error.extra", "loc": ["body", "seed"], "msg": "extra"}]},
        {"seed"},
    ),
    "Mistral": (
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options", "include_usage"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
        },
        {"stream_options"},
    ),
    "Google": (
        {
            "error": {
                "message": "Bad.",
                "details": [
                    {"fieldViolations": [{"field": "seed", "description": "Unknown name: no."}]}
                ],
            }
        },
        {"seed"},
    ),
    "OpenRouter": (
        {
            "error": {
                "message": "Provider returned error",
                "metadata": {
                    "raw": '{"error": {"message": "Not here.", "param": "temperature", '
                    '"code": "unsupported_value"}}'
                },
            }
        },
        {"temperature"},
    ),
    "two, one of them only wrong": (
        {
            "detail": [
                {"type": "less_than_equal", "loc": ["body", "top_p"], "msg": "at most 1"},
                {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "extra"},
            ]
        },
        {"seed"},
    ),
}


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("body", "dropped"), STRUCTURED.values(), ids=STRUCTURED)
def test_a_member_that_is_named_in_a_field_is_dropped(
    body: dict[str, Any], dropped: set[str], status: int
) -> None:
    assert cured(refused(body, status), **OPTIONS)[1] == dropped


NOT_REFUSED: list[Any] = [
    "Conversation roles must alternate user/assistant; this is not supported",
    "Invalid role: only system, user and assistant are supported",
    "role 'user' is not supported after 'tool'",
    "Unsupported content type for the user message",
    "This user is not allowed to use this model",
    "This endpoint does not support user messages of this length",
    "The stream was stopped: unsupported encoding",
    "Please stop. The n-th message is unsupported",
    "model 'm' does not support tools",
    "stream is not supported",
    "Unsupported parameter: 'stream'",
    "Unsupported parameter: 'model'",
    "Unknown parameter: 'messages[1].user'.",
    "Unknown parameter: 'tools[0].function.strict'.",
    "unknown user",
    "Invalid parameter: temperature must be between 0 and 1",
    "unknown field `foo`, expected one of `seed`, `temperature`, `user`",
    "Unknown parameter: 'foo'. Did you mean 'seed'?",
    "Invalid value for temperature: must be between 0 and 1",
    "top_p must be at most 1",
    "reasoning_effort must be one of low, medium, high",
    "maximum context length is 8192 tokens. Please reduce the length of the messages or stop",
    "Jinja Exception: roles must alternate between user and assistant",
    {"error": {"message": "Invalid 'user': string too long.", "param": "user", "code": "too_long"}},
    {"error": {"message": "Invalid 'temperature': above maximum value.", "param": "temperature"}},
    {"detail": [{"type": "less_than_equal", "loc": ["body", "temperature"], "msg": "at most 2"}]},
    {"detail": [{"type": "extra_forbidden", "loc": ["body", "messages", 0, "seed"], "msg": "no"}]},
    {"error": "the user seed is extra"},
    "message 2.temperature: Extra inputs are not permitted",
]


@pytest.mark.parametrize("said", NOT_REFUSED)
def test_a_message_that_merely_mentions_a_member_drops_nothing(said: Any) -> None:
    assert cured(refused(said), **OPTIONS) == (None, set())


@pytest.mark.parametrize("status", [401, 403, 404, 413, 429, 500, 503])
def test_only_400_and_422_refuse_a_member(status: int) -> None:
    assert cured(refused("Unsupported parameter: 'seed'", status), **OPTIONS) == (None, set())


def test_a_failure_without_a_status_has_no_cure() -> None:
    assert cured(Failure(Kind.BROKEN, "Unsupported parameter: 'seed'"), seed=7) == (None, set())


def test_a_member_that_was_not_sent_is_not_dropped() -> None:
    assert cured(refused("Unsupported parameter: 'seed'")) == (None, set())


def test_an_error_inside_a_200_is_read_as_well() -> None:
    failure = Failure(
        Kind.STATUS, "400 in the answer", "the endpoint reported an error: Unknown field: seed", 400
    )
    assert cured(failure, seed=7)[1] == {"seed"}


@pytest.mark.parametrize("word", ["unknown ", "extra inputs ", "'x' ", "does not support "])
def test_a_hostile_message_costs_no_time(word: str) -> None:
    assert isinstance(refused_members(refused(word * 20000)), list)


def test_cures_are_told_once_and_combined() -> None:
    quirks = Quirks()
    options: dict[str, Any] = {"max_tokens": 9}
    lines = []
    for said in (
        "Unsupported value: 'temperature' does not support 0.7",
        "Unrecognized request argument supplied: stream_options",
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    ):
        lines.append(quirks.cure(refused(said), body_of(quirks, **options), HISTORY))
        assert quirks.cure(refused(said), body_of(quirks, **options), HISTORY) is None
    assert len(set(lines)) == 3
    assert None not in lines
    body = body_of(quirks, **options)
    assert body["max_completion_tokens"] == 9
    assert not {"temperature", "stream_options", "max_tokens"} & body.keys()


@pytest.mark.parametrize(
    "pair", [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")]
)
@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: '{old}' is not supported with this model. Use '{new}' instead.",
        "Unsupported parameter: {old}; this model wants {new}",
        "Unrecognized request argument supplied: {old}",
        "{old} is deprecated, use {new}",
    ],
)
def test_the_limit_of_tokens_takes_its_other_name(pair: tuple[str, str], said: str) -> None:
    old, new = pair
    quirks = Quirks()
    options: dict[str, Any] = {old: 9}
    line = quirks.cure(refused(said.format(old=old, new=new)), body_of(quirks, **options), HISTORY)
    assert line == f"the endpoint wants {new} instead of {old}: renamed for this run"
    body = body_of(quirks, **options)
    assert body[new] == 9
    assert old not in body


def test_a_limit_that_is_refused_under_both_names_is_dropped() -> None:
    quirks = Quirks()
    for name in ("max_tokens", "max_completion_tokens"):
        body = body_of(quirks, max_tokens=9)
        assert quirks.cure(refused(f"Unknown parameter: '{name}'."), body, HISTORY)
    assert not {"max_tokens", "max_completion_tokens"} & body_of(quirks, max_tokens=9).keys()


def test_of_two_limits_the_refused_one_goes() -> None:
    quirks = Quirks()
    both: dict[str, Any] = {"max_completion_tokens": 8, "max_tokens": 9}
    assert quirks.cure(refused("Unknown parameter: 'max_tokens'."), body_of(quirks, **both), [])
    body = body_of(quirks, **both)
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 8


def test_a_limit_that_is_too_large_keeps_its_name() -> None:
    assert cured(refused("max_tokens is too large: 9", param="max_tokens"), max_tokens=9)[0] is None


# -- reasoning and other members of messages --------------------------------------------------


WANTED_BACK = [
    "thinking mode: reasoning_content has to be passed back",
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "Missing `reasoning_content` field in the assistant message at message index 1.",
    "thinking is enabled but reasoning_content is missing in assistant tool call message at 2",
    "assistant message without reasoning_content",
    "Assistant messages must include the thinking blocks",
]


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("said", WANTED_BACK)
def test_reasoning_that_is_wanted_back_is_sent_from_then_on(said: str, status: int) -> None:
    quirks = Quirks()
    assert "reasoning_content" not in json.dumps(body_of(quirks))
    assert quirks.cure(refused(said, status), body_of(quirks), HISTORY)
    assert body_of(quirks)["messages"][1]["reasoning_content"] == "Hm."


NOT_WANTED_BACK = [
    "reasoning_effort must be provided as one of low, medium, high",
    "budget_tokens is required when thinking is enabled",
    "max_tokens must be greater than thinking.budget_tokens",
    "Reasoning is mandatory for this endpoint and cannot be disabled.",
    "property 'reasoning_content' is unsupported; content is required",
    "reasoning_content: Extra inputs are not permitted",
]


@pytest.mark.parametrize("said", NOT_WANTED_BACK)
def test_a_message_that_merely_mentions_reasoning_sends_none(said: str) -> None:
    quirks = Quirks()
    quirks.cure(refused(said), body_of(quirks), HISTORY)
    assert "reasoning_content" not in json.dumps(body_of(quirks))


def test_without_reasoning_to_send_there_is_no_cure() -> None:
    assert cured(refused(WANTED_BACK[0]), [USER])[0] is None


def test_reasoning_that_is_sent_already_is_no_cure() -> None:
    quirks = Quirks()
    assert quirks.cure(refused(WANTED_BACK[0]), body_of(quirks), HISTORY)
    assert quirks.cure(refused(WANTED_BACK[1]), body_of(quirks), HISTORY) is None


@pytest.mark.parametrize(
    "said",
    [
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "messages", 1, "assistant", "reasoning_content"],
                    "msg": "extra field",
                }
            ]
        },
        "property 'reasoning_content' is unsupported",
        (
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : "
            "property 'reasoning_content' is unsupported)]"
        ),
        "messages.1.reasoning_content: Extra inputs are not permitted",
        "Unknown parameter: 'messages[1].reasoning_content'.",
        "Unknown name \"reasoning_content\" at 'messages[1]': Cannot find field.",
        "[{'type': 'extra_forbidden', 'loc': ('body', 'messages', 1, 'reasoning_content')}]",
    ],
)
def test_reasoning_that_is_refused_is_left_out_again(said: Any) -> None:
    quirks = Quirks()
    assert quirks.cure(refused(WANTED_BACK[0]), body_of(quirks), HISTORY)
    line = quirks.cure(refused(said), body_of(quirks), HISTORY)
    assert line == "the endpoint refuses reasoning_content in messages: left out from now on"
    assert "reasoning_content" not in json.dumps(body_of(quirks))
    assert len(body_of(quirks)["messages"]) == 3


def test_reasoning_wanted_and_refused_in_turn_ends() -> None:
    quirks = Quirks()
    wanted, unwanted = (refused(said) for said in (WANTED_BACK[0], NOT_WANTED_BACK[-1]))
    lines = [quirks.cure(f, body_of(quirks), HISTORY) for f in (wanted, unwanted) * 2]
    assert [line is not None for line in lines] == [True, True, False, False]


@pytest.mark.parametrize(
    ("said", "member"),
    [
        ("property 'reasoning_details' is unsupported", "reasoning_details"),
        ("Unknown parameter: 'messages[1].tool_calls[0].extra_content'.", "extra_content"),
        ("messages.1.tool_calls.0.extra_content: Extra inputs are not permitted", "extra_content"),
    ],
)
def test_members_of_another_provider_are_left_out_of_messages_and_calls(
    said: str, member: str
) -> None:
    quirks = Quirks()
    assert member in json.dumps(body_of(quirks))
    assert quirks.cure(refused(said), body_of(quirks), HISTORY)
    assert member not in json.dumps(body_of(quirks))


@pytest.mark.parametrize("member", ["content", "tool_calls", "role", "tool_calls.0.function"])
def test_what_a_message_must_have_is_never_left_out(member: str) -> None:
    quirks = Quirks()
    before = body_of(quirks)
    failure = refused(f"Unknown parameter: 'messages[1].{member}'.")
    assert quirks.cure(failure, before, HISTORY) is None
    assert body_of(quirks) == before


# -- the last assistant message ---------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "Invalid assistant message: content or tool_calls must be set",
        "Assistant message must have either content or tool_calls, but not none.",
        "either 'content' or 'tool_calls' is needed",
    ],
)
def test_an_assistant_message_that_is_refused_is_left_out_once(said: str) -> None:
    quirks = Quirks()
    history = [USER, SAID, USER, CALL, RESULT]
    assert quirks.cure(refused(said), body_of(quirks, history), history)
    assert quirks.history(history) == [USER, SAID, USER, RESULT]
    assert quirks.cure(refused(said), body_of(quirks, history), history) is None
    later = [*history, SAID, USER]
    assert quirks.history(later) == [USER, SAID, USER, RESULT, SAID, USER]


def test_without_an_assistant_message_nothing_is_left_out() -> None:
    failure = refused("Invalid assistant message: content or tool_calls must be set")
    assert cured(failure, [USER])[0] is None
