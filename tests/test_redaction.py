"""Keys that tools show: each is replaced, whole and however the output was cut."""

import os
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmserver import LLMServer, shell, text, write
from turns import agent_at, turn

from bantam.core.events import ToolFinished, as_json
from bantam.core.messages import to_api
from bantam.core.redaction import PLACEHOLDER, Redaction, RedactionFilter

KEY = "sk-0123456789"


def filtered(secrets: Sequence[str], parts: Sequence[str]) -> str:
    redaction = RedactionFilter(Redaction(secrets))
    return "".join(redaction.feed(part) for part in parts) + redaction.close()


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        ([KEY], f"KEY={KEY}\n{KEY}{KEY}.", "KEY=[key]\n[key][key]."),
        ([KEY], KEY[:-1], KEY[:-1]),
        (
            [KEY, KEY + "-more", KEY[:8]],
            f"{KEY}-more {KEY}-mor {KEY[:9]}",
            "[key] [key]-mor [key]5",
        ),
        ([f" {KEY}\n"], f"a{KEY}b", "a[key]b"),
        (
            ["a.c*(e)[", "\\d\\d\\d\\d"],
            "a.c*(e)[ abc*(e)[ 1234 \\d\\d\\d\\d",
            "[key] abc*(e)[ 1234 [key]",
        ),
        (["1234567", "", "        "], "1234567 and blanks:          ", None),
        ([], KEY, None),
        ([None], KEY, None),
    ],
    ids=range(8),
)
def test_exact_values_of_eight_characters_and_more_are_replaced_the_longest_first(
    secrets: list[str], text: str, shown: str | None
) -> None:
    expected = text if shown is None else shown
    assert Redaction(secrets).text(text) == expected
    assert filtered(secrets, [text]) == filtered(secrets, text) == expected


LETTERS = st.text("ab", min_size=8, max_size=12)


@given(st.data(), st.lists(LETTERS, max_size=3))
def test_what_is_shown_does_not_depend_on_the_cuts(data: st.DataObject, secrets: list[str]) -> None:
    pieces = st.text("abc", max_size=12) | st.sampled_from([*secrets, "-"])
    text = "".join(data.draw(st.lists(pieces, max_size=9)))
    cuts = data.draw(st.lists(st.integers(0, len(text))).map(sorted))
    parts = [text[low:high] for low, high in pairwise([0, *cuts, len(text)])]
    whole = Redaction(secrets).text(text)
    assert filtered(secrets, parts) == filtered(secrets, text) == whole
    assert not any(secret in whole for secret in secrets)


def test_only_what_may_be_the_beginning_of_a_secret_is_held_back() -> None:
    redaction = RedactionFilter(Redaction([KEY]))
    assert redaction.feed("a line\n") == "a line\n"
    assert redaction.feed("ask") == "a"
    assert redaction.feed("-0") == ""
    assert redaction.feed("9") == "sk-09"
    assert redaction.feed(KEY[:-1]) == ""
    assert redaction.feed(KEY[-1] + "s") == PLACEHOLDER
    assert redaction.close() == "s"
    assert redaction.close() == ""


@pytest.mark.parametrize("text", [KEY * 50_000, "s" * 600_000, KEY[:-1] * 50_000])
def test_many_keys_and_many_beginnings_cost_linear_time(text: str) -> None:
    started = time.monotonic()
    filtered([KEY, "s" * 1000], [text[at : at + 65_536] for at in range(0, len(text), 65_536)])
    assert time.monotonic() - started < 10  # about half a second


def test_neither_key_stands_in_an_event_the_history_or_a_later_request(tmp_path: Path) -> None:
    configured, inherited = "bk-0123456789", "sk-9876543210"
    (tmp_path / ".bantam.cfg").write_text(f"api_key={configured}\n")
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": inherited}
    replies = [
        shell("env | grep KEY; cat .bantam.cfg; echo $OPENAI_API_KEY"),
        shell("tr '\\0' '\\n' </proc/$$/environ | grep KEY; sed 's/-/-\\x00\\x1b[0m/' .bantam.cfg"),
        shell('yes "$(cat .bantam.cfg)" | head -c 100000'),
        write("$OPENAI_API_KEY/../.bantam.cfg/x", "x"),
        text("done"),
    ]
    with (
        LLMServer(replies) as server,
        agent_at(server.url, tmp_path, f"api_key={configured}", environ=environ) as agent,
    ):
        events = turn(agent)
        results = [event.text for event in events if isinstance(event, ToolFinished)]
        assert [result.count(PLACEHOLDER) for result in results[:2]] == [3, 2]
        told = [
            str([as_json(event) for event in events]),
            str(list(map(to_api, agent.log.messages))),
        ]
        told += [request.body.decode() for request in server.chat]
        assert len(told) == 7
    for each in told:
        assert configured not in each
        assert inherited not in each
