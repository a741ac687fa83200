"""The blocks dialect: what is read in an answer, how the history is written, what is seen of it."""

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import bpe_openai
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bantam.agent.prompt import Facts, system_prompt
from bantam.core.messages import (
    INTERRUPTED_RESULT,
    NOT_RUN_RESULT,
    UNKNOWN_RESULT,
    Answer,
    Message,
    Role,
    ToolCall,
    parsed_arguments,
)
from bantam.core.repair import repaired
from bantam.model.dialects.blocks import INSTRUCTIONS, Blocks
from bantam.tools.edits import pairs_in

CASES = json.loads((Path(__file__).parent / "cases" / "blocks.json").read_text("utf-8"))
TOOLS = {"write": "write_file", "edit": "edit_file", "file": "read_file", "run": "shell_exec"}
HISTORY = [Message(Role.SYSTEM, "S"), Message(Role.USER, "go")]
REPLACES_ALL = 10**15
SHELL = {"type": "function", "function": {"name": "shell_exec", "parameters": {}}}


def answered(text: str, finish_reason: str | None = "stop") -> Answer:
    return Blocks().decode(Answer(Message(Role.ASSISTANT, text), finish_reason), HISTORY, [])


def calls_in(text: str, finish_reason: str | None = "stop") -> list[tuple[str, Any]]:
    """Return name and arguments of each call that may run."""
    answer = answered(text, finish_reason)
    return [named(call) for call in answer.message.tool_calls if call.id not in answer.refusals]


def named(call: ToolCall) -> tuple[str, Any]:
    arguments = parsed_arguments(call.arguments)
    return call.name, call.arguments if arguments is None else arguments


def only_call(text: str) -> tuple[str, Any]:
    (call,) = answered(text).message.tool_calls
    return named(call)


def refusal_in(text: str, finish_reason: str | None = "stop") -> str:
    (refusal,) = answered(text, finish_reason).refusals.values()
    return refusal


def write(path: str, content: str) -> ToolCall:
    return made("write_file", path=path, content=content, del_bytes=REPLACES_ALL)


def made(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, json.dumps(arguments))


# -- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_case_is_read_as_it_should_be(case: dict[str, Any]) -> None:
    answer = answered(case["text"])
    calls = answer.message.tool_calls
    assert len(calls) == len(case["actions"]), case["why"]
    for call, action in zip(calls, case["actions"], strict=True):
        assert call.name == TOOLS.get(action["type"]) or call.name == action["path"]
        check_action(action, parsed_arguments(call.arguments))
        cut = answer.refusals.get(call.id, "").startswith("not run: cut off: ")
        assert cut == action.get("cut", False), case["why"]


def check_action(action: dict[str, Any], arguments: dict[str, Any] | None) -> None:
    """Compare the arguments of a call with what a case says of it."""
    assert (arguments is None) == action.get("error", False)
    known = arguments or {}
    match action["type"]:
        case "write":
            assert known["del_bytes"] == REPLACES_ALL
            assert known["content"].endswith("\n")
            code = known["content"]
        case "run":
            code = known["command"]
        case "edit":
            assert pairs_in(known["edits"])[0] == [tuple(pair) for pair in action["edits"]]
            code = ""
        case "tool" | "skill":
            assert known == action["params"]
            return
        case _:
            code = ""
    assert known.get("path") == action.get("path")
    if "code" in action:
        assert code.rstrip("\n") == action["code"].rstrip("\n")


def test_the_cases_without_actions_are_final_or_corrected() -> None:
    corrected = {case["name"] for case in CASES if answered(case["text"]).correction}
    assert corrected == {
        "run_prose_between",
        "run_shell_session_transcript",
        "run_python_fence",
        "lower_case_marker",
        "name_without_backticks",
    }


def test_ids_count_the_history_and_the_blocks() -> None:
    answer = answered("**FILE:`a`**\n**EOF:`a`**\n**FILE:`b`**\n**EOF:`b`**\n")
    assert [call.id for call in answer.message.tool_calls] == ["call_2_1", "call_2_2"]


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("**WRITE:`a`**\n**EOF:`a`**", ""),
        ("**WRITE:`a`**\n```\n```\n**EOF:`a`**", ""),
        ("**WRITE:`a`**\n```\n\n```\n**EOF:`a`**", "\n"),
        ("**WRITE:`a`**\n```\nx\n\n```\n**EOF:`a`**", "x\n\n"),
        ("**WRITE:`a`**\n\n x \n\n**EOF:`a`**", " x \n"),
        ("**WRITE:`a`**\n\n```\nx\n```\n**EOF:`b`**", "x\n"),  # the name does not matter there
        ("**WRITE:`a`**\n```\nx\n```\n\n**EOF:`b`**", "x\n"),
        ("**WRITE:`a`**\nx\n**EOF:`b`**\n**EOF:**", "x\n**EOF:`b`**\n"),
        ("**WRITE:`./d/a`**\nx\n**EOF:`d\\a`**", "x\n"),
        ("**WRITE:`a`**\nx\n**EOF:`b`** **FILE:`c`**\ny\n**EOF:`a`**", "x\n**EOF:`b`** \n"),
        ("**WRITE:`a`**\n```\n```x\n**EOF:`b`** **RUN:**\n```\n```\n**EOF:`a`**",
         "```x\n**EOF:`b`** **RUN:**\n```\n"),
        # A fence that never ends: the first EOF that can be meant.
        ("**WRITE:`d/a`**\n```py\nx\n**EOF:`a`**\n**EOF:**\n", "x\n"),
        ("**WRITE:`a`**\n```py\nx\n**EOF:**\n\nDone.\n", "x\n"),
        ("**WRITE:`a`**\n~~~\n```py\nx\n```\ny\n**EOF:**\n", "```py\nx\n```\ny\n"),
    ],
)  # fmt: skip
def test_a_write_has_exactly_the_lines_between(text: str, content: str) -> None:
    assert calls_in(text)[0][1]["content"] == content


def test_a_longer_fence_closes_what_is_open_inside() -> None:
    text = "**WRITE:`a`**\n````\n```py\nx\n````\nprose\n**FILE:`b`**\n**EOF:`b`**\n"
    assert [name for name, _ in calls_in(text)] == ["write_file", "read_file"]
    assert calls_in(text)[0][1]["content"] == "```py\nx\n"


@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        ("{“a”: “b”}", {"a": "b"}),
        ('"a": "b\\n"\nc = \'d\'\n\ne: "f" g', {"a": "b\n", "c": "d", "e": '"f" g'}),
        ("a: -3\nb: 1.5\nc: 1e5\nd: -0\ne: 007\nf: false",
         {"a": -3, "b": 1.5, "c": "1e5", "d": "-0", "e": "007", "f": False}),
        (f"a: {'9' * 5000}\nb: '", {"a": "9" * 5000, "b": "'"}),
        ('a: "b\\q"', {"a": "b\\q"}),
    ],
)  # fmt: skip
def test_parameters_are_read_as_json_or_as_lines(body: str, parameters: dict[str, Any]) -> None:
    assert only_call(f"**TOOL:`t`**\n{body}\n**EOF:`t`**") == ("t", parameters)


@pytest.mark.parametrize("body", ["{", "[1]", "5", '"a"', "null", "just words", "a: 1\nwords"])
def test_parameters_that_cannot_be_read_are_left_for_the_toolbox_to_refuse(body: str) -> None:
    call = answered(f"**TOOL:`t`**\n{body}\n**EOF:`t`**").message.tool_calls[0]
    assert call.arguments == body
    assert parsed_arguments(call.arguments) is None


# -- what must not run ------------------------------------------------------------------------

CUT = "not run: cut off: "


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("**WRITE:`a.py`**\n```\nx\n", "WRITE `a.py`"),
        ("**WRITE:`a.py`**\nx\n", "WRITE `a.py`"),
        ("**EDIT:`a.py`**\n```\n<<<<<<< SEARCH\n", "EDIT `a.py`"),
        ("**RUN:**\n```bash\nrm -r build\n", "RUN"),
        ("**RUN:**\n```bash\nls\n**EOF:**\n", "RUN"),
        ("**WRITE:`a.py`**\n```\nx\n```\ny\n```\nz\n", "WRITE `a.py`"),
        ("**WRITE:`a.py`**\n```\nx\n```\ny\n```\nz\n```\n**FILE:`b`**\n", "WRITE `a.py`"),
    ],
)
def test_a_block_that_may_have_lost_its_end_is_refused_by_name(text: str, named: str) -> None:
    answer = answered(text)
    refusal = answer.refusals[answer.message.tool_calls[0].id]
    assert refusal.startswith(CUT)
    assert named in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
@pytest.mark.parametrize(
    "text",
    [
        "**WRITE:`a`**\n```\nx\n```\n",
        "**WRITE:`a`**\n```\nx\n```\n**EOF:`a`**",  # perhaps the beginning of a sentence
        "**RUN:**\n```\ncat <<X\n```",  # perhaps ```py
        "**TOOL:`t`**\n{}\n",
        "**FILE:`a`**\n",
        "**WRITE:`a`**\n```md\nThe end is\n**EOF:**\n",
        "**WRITE:`a`**\n```\nx\n```\n**FILE:`b`**",
    ],
)
def test_of_a_cut_answer_no_block_runs_that_might_go_on(text: str, finish_reason: str) -> None:
    assert calls_in(text, finish_reason) == []
    assert all(why.startswith(CUT) for why in answered(text, finish_reason).refusals.values())


def test_of_a_cut_answer_whole_blocks_run() -> None:
    text = "**WRITE:`a`**\nx\n**EOF:`a`**\n**RUN:**\n```\nls\n```\n**WRITE:`b`**\n```\ny\n```\n"
    assert [name for name, _ in calls_in(text, "length")] == ["write_file", "shell_exec"]
    assert refusal_in(text, "length").startswith(f"{CUT}WRITE `b`")


# Lines that mean something, and lines that nearly do.
LINES = st.sampled_from(
    [
        "", " ", "text", "    indented", "> quoted", "- item", "a **RUN:** b", "`**RUN:**`",
        "```", "````", "```py", "````md", "~~~", "~~~~", "~~~sh", "  ```", "``` a `b`", "```bash",
        "**WRITE:`a`**", "**WRITE:`d/b`**", "**EDIT:`a`**", "**FILE:`a`**", "**TOOL:`t`**",
        "**RUN:**", "**RUN:** ", "**EOF:**", "**EOF:`a`**", "**EOF:`b`**", "**EOF:`c`**",
        "**EOF:`a`** **RUN:**", "**EOF:** b **WRITE:`a`**", "{}", "k: v", "cat <<'END'", "END",
        "<think>", "</think>", "<think>x</think>", "a <think>b", "c</think> d", "`<think>`",
        "<think>x</think>**RUN:**", "x\r", "\r", "\u2028", "**write:`a`**", "**RUN:** ls",
        "**", "***", "**WRITE", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "\t", "``", "<",
    ]
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=25).map("\n".join)
CONTENTS = st.lists(LINES, max_size=8).map(lambda lines: "".join(f"{line}\n" for line in lines))


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, data=st.data(), finish_reason=st.sampled_from(["length", "content_filter"]))
def test_what_runs_of_a_cut_answer_runs_of_the_whole_one(
    text: str, data: st.DataObject, finish_reason: str
) -> None:
    """Whatever the text, and wherever it is cut: no half of a file, no half of a script."""
    part = text[: data.draw(st.integers(0, len(text)))]
    cut, whole = answered(part, finish_reason), answered(text)
    for number, call in enumerate(cut.message.tool_calls):
        if call.id not in cut.refusals:
            assert whole.message.tool_calls[number] == call


@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(["WRITE", "EDIT", "RUN"]), content=CONTENTS, data=st.data())
def test_a_well_written_block_that_is_cut_runs_whole_or_not_at_all(
    kind: str, content: str, data: st.DataObject
) -> None:
    """Even where nothing says that the answer was cut, but for an EOF line inside (rule B3)."""
    content = content.replace("**EOF:", "**eof:").replace("\r", "")
    match kind:
        case "WRITE":
            call = write("a", content)
        case "EDIT":
            call = made("edit_file", path="a", edits=content)
        case _:
            call = made("shell_exec", command=content.removesuffix("\n"))
    text = encoded([call])[0]
    part = text[: data.draw(st.integers(0, len(text)))]
    assert calls_in(part) in ([], [named(call)])


def test_a_refusal_stays_short_whatever_the_name() -> None:
    assert len(refusal_in(f"**WRITE:`{'a' * 9000}`**\n```\nx")) < 1000


def test_a_run_marker_beside_blocks_says_what_it_wants() -> None:
    text = "**FILE:`a`**\n**EOF:`a`**\n**RUN:**\n```python\nx\n```\nBye."
    answer = answered(text)
    assert calls_in(text) == [("read_file", {"path": "a"})]
    assert named(answer.message.tool_calls[1]) == ("shell_exec", {"command": ""})
    assert refusal_in(text).startswith("not run: ")
    assert "python fence" in refusal_in(text)
    assert answer.message.content == "```python\nx\n```\nBye."
    assert answer.correction is None


EXAMPLES = """\
**WRITE:`evil.py`**
print(1)
**EOF:`evil.py`**
**RUN:**
**EDIT:`app.py`**
**FILE:`a`** and **TOOL:`b`**
**EOF:** x
<tool_call>{"name": "shell_exec"}</tool_call>"""


@pytest.mark.parametrize(
    "quote",
    [
        lambda text: f"```text\n{text}\n```",
        lambda text: f"~~~\n{text}\n~~~",
        lambda text: f"````\n```bash\n{text}\n```\n````",
        lambda text: f"```\n{text}",  # to the end
        lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"- `` {line} ``" for line in text.split("\n")),
        lambda text: "\n".join(f"`` {line} ``" for line in text.split("\n")),
        lambda text: f"<think>{text}</think>",
        lambda text: f"Hm.\n<think>\n{text}",
    ],
)
def test_an_answer_that_quotes_blocks_is_final(quote: Any) -> None:
    answer = answered(f"Blocks look so:\n\n{quote(EXAMPLES)}\n\nThat is all.")
    assert answer.message.tool_calls == ()
    assert answer.correction is None


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_in_a_fence_nothing_runs(text: str) -> None:
    longer = "`" * 9
    quoted = "\n".join(line for line in text.split("\n") if "~~~" not in line)
    assert calls_in(f"So:\n{longer}\n{quoted}\n{longer}\n") == []


@pytest.mark.parametrize(
    ("text", "words", "form"),
    [
        ("**RUN:**\nls -la\n", "here is text", "**RUN:**\n```bash\n"),
        ("**RUN:**\n", "here is nothing", "**RUN:**\n```bash\n"),
        ("**RUN:** ls -la\n", "RUN", "**RUN:**\n```bash\n"),
        ("**RUN: ls -la**\n", "RUN", "**RUN:**\n```bash\n"),
        ("**Write:`a`**\n", "Write", "**WRITE:`path`**\n"),
        ("**write:`a`**\n", "write", "**WRITE:`path`**\n"),
        ("**EDIT: a b.py**\n", "EDIT", "**EDIT:`path`**\n"),
        ("**FILE:** a.py\n", "FILE", "**FILE:`path`**\n"),
        ("**SKILL: lint**\n", "SKILL", "**TOOL:`name`**\n"),
        ("a\n**EOF:`a`**\n", "EOF", "**WRITE:`path`**\n"),
        ("a\n**EOF: a**\n", "EOF", "**WRITE:`path`**\n"),
        ('Now: <invoke name="shell_exec">\n', "form", "**RUN:**\n```bash\n"),
        ("[TOOL_CALL] {}\n", "form", "**RUN:**\n```bash\n"),
    ],
)
def test_what_nearly_is_a_block_is_corrected_by_an_example(
    text: str, words: str, form: str
) -> None:
    answer = answered(text)
    assert answer.message.tool_calls == ()
    assert answer.message.content == text.strip()
    assert answer.correction is not None
    assert answer.correction.startswith("(Nothing was run: ")
    assert words in answer.correction
    assert form in answer.correction


def test_the_forms_that_corrections_show_are_blocks() -> None:
    for text in ("**RUN: x**", "**WRITE: x**", "**EDIT: x**", "**FILE: x**", "**TOOL: x**"):
        correction = answered(text).correction
        assert correction is not None
        assert len(calls_in(correction)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "**File: `main.py`**\n\n```python\nprint(1)\n```",
        "**Note:** WRITE: is a marker.",
        "**RUN:** marks commands that are run.",
        "**FILE:** names a file.",
        "See `<tool_call>` and **RUN:** for that.",
        "    <tool_call>",
    ],
)
def test_headings_and_sentences_are_no_markers(text: str) -> None:
    assert answered(text).correction is None


# -- prose and thoughts -----------------------------------------------------------------------


def test_prose_is_what_stands_around_blocks() -> None:
    text = (
        "\n\nFirst.\n\n\n**FILE:`a`**\n**EOF:`a`**\n\n\n\nThen:\n\n\nmore.\n\n**RUN:**\n```\nls\n```"
        "\n**EOF:**\n\n  Last. \n\n"
    )
    assert answered(text).message.content == "First.\n\nThen:\n\n\nmore.\n\n  Last. "


def test_in_prose_a_quoted_line_stays_one_line() -> None:
    text = "```\n**EOF:`a`** **RUN:**\n```"
    assert answered(text).message.content == text


@pytest.mark.parametrize(
    ("text", "content", "thoughts"),
    [
        ("a <think>b</think> c", "a  c", "b"),
        ("a\n<think>\n**RUN:**\n```\nls\n```\n</think>\nc", "a\n\nc", "**RUN:**\n```\nls\n```"),
        ("a\n<think>b\n**RUN:**\n```\nls\n```\n", "a", "b\n**RUN:**\n```\nls\n```"),
        ("`<think>` and ``<think>`` <think>`x</think>`y`", "`<think>` and ``<think>`` `y`", "`x"),
        ("```\n<think>\n```\n<think>x", "```\n<think>\n```", "x"),
        ("``` <think>\nx</think>\n```", "``` <think>\nx</think>\n```", ""),
        ("<think>a</think><think>b</think>c</think>", "c</think>", "a\nb"),
    ],
)  # fmt: skip
def test_thoughts_are_taken_out_of_prose(text: str, content: str, thoughts: str) -> None:
    message = answered(text).message
    assert (message.content, message.reasoning) == (content, thoughts)
    assert message.tool_calls == ()


def test_thoughts_follow_the_reasoning_that_was_told() -> None:
    answer = Answer(Message(Role.ASSISTANT, "<think>b</think>c", "a"), "stop")
    assert Blocks().decode(answer, HISTORY, []).message.reasoning == "a\nb"


def test_a_marker_behind_a_thought_counts_and_one_behind_words_does_not() -> None:
    run = "**RUN:**\n```\nls\n```\n"
    assert calls_in(f"<think>x\n</think>{run}") == [("shell_exec", {"command": "ls"})]
    assert calls_in(f"Now <think>x</think>{run}") == []
    assert calls_in(f"**<think>x</think>{run.removeprefix('**')}") == []


def test_in_a_block_a_thought_is_content() -> None:
    text = "**WRITE:`a`**\n```\n<think>x</think>\n```\n**EOF:`a`**\n"
    assert calls_in(text)[0][1]["content"] == "<think>x</think>\n"


def test_behind_a_block_without_end_a_thought_hides_markers() -> None:
    text = "**WRITE:`a`**\n```\nx\n```\n<think>or\n**RUN:**\n```\nls\n```\n</think>\n"
    assert [name for name, _ in calls_in(text)] == ["write_file"]
    assert answered(text).message.content == ""


# -- native calls in the same answer ----------------------------------------------------------


def test_native_calls_are_left_as_they_are_where_the_text_has_no_block() -> None:
    message = Message(Role.ASSISTANT, "**RUN:**\n<think>x</think>", tool_calls=(write("a", "x\n"),))
    answer = Answer(message, "tool_calls")
    assert Blocks().decode(answer, HISTORY, []) == answer


def test_blocks_count_before_native_calls_and_that_is_told() -> None:
    text = "**FILE:`a`**\n**EOF:`a`**"
    answer = Answer(Message(Role.ASSISTANT, text, tool_calls=(write("a", "x\n"),)), "stop")
    read = Blocks().decode(answer, HISTORY, [])
    assert [call.name for call in read.message.tool_calls] == ["read_file"]
    assert len(read.notices) == 1


# -- the history as text ----------------------------------------------------------------------


def conversation(
    calls: Sequence[ToolCall], prose: str = "", results: Sequence[Message] = ()
) -> list[Message]:
    named = [ToolCall(f"c{number}", call.name, call.arguments) for number, call in enumerate(calls)]
    given = list(results) or [Message(Role.TOOL, "done") for _ in calls]
    answers = [
        Message(Role.TOOL, result.content, tool_call_id=call.id, extra=result.extra)
        for call, result in zip(named, given, strict=True)
    ]
    return [*HISTORY, Message(Role.ASSISTANT, prose, tool_calls=tuple(named)), *answers]


def encoded(
    calls: Sequence[ToolCall], prose: str = "", results: Sequence[Message] = ()
) -> tuple[str, str]:
    """Return the texts of the model's message with `calls`, and of what came of them."""
    history = conversation(calls, prose, results)
    body = Blocks().encode(repaired(history), [SHELL])
    assert body.keys() == {"messages"}
    system, _, said, told = body["messages"]
    assert system["content"] == f"S\n\n{INSTRUCTIONS}"
    assert (said["role"], told["role"]) == ("assistant", "user")
    assert "tool_calls" not in said
    return said["content"], told["content"]


def test_tools_without_a_block_of_their_own_are_told_with_their_schema() -> None:
    grep = {"name": "grep", "description": "Finds é.", "parameters": {"type": "object"}}
    tools = [SHELL, {"type": "function", "function": grep}]
    system = Blocks().encode(HISTORY, tools)["messages"][0]["content"]
    told = '- grep: Finds é. Parameters: {"type": "object"}'
    assert system == f"S\n\n{INSTRUCTIONS}\nOther tools:\n{told}"


def test_calls_are_written_as_the_model_would() -> None:
    edits = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    calls = [
        write("a b.md", "```\nx\n"),
        made("edit_file", path="c", edits=edits),
        made("read_file", path="d"),
        made("shell_exec", command="ls\npwd"),
        made("grep", pattern="é"),
    ]
    text, _ = encoded(calls, "First.\n")
    assert text == (
        "First.\n\n"
        "**WRITE:`a b.md`**\n````\n```\nx\n````\n**EOF:`a b.md`**\n\n"
        f"**EDIT:`c`**\n```\n{edits}```\n**EOF:`c`**\n\n"
        "**FILE:`d`**\n**EOF:`d`**\n\n"
        "**RUN:**\n```bash\nls\npwd\n```\n\n"
        '**TOOL:`grep`**\n```json\n{"pattern": "é"}\n```\n**EOF:`grep`**'
    )


@pytest.mark.parametrize(
    "call",
    [
        made("write_file", path="a", content="x\n"),  # inserted at the start
        made("write_file", path="a", content="x\n", offset=3, del_bytes=REPLACES_ALL),
        made("write_file", path="a", content="x\n", del_bytes=7),
        write("a", "no last line end"),
        write("a", "x\r\ny\n"),
        write("a", "x\n**EOF:`a`**\n"),
        write("a`b", "x\n"),
        write(" a", "x\n"),
        write("a\nb", "x\n"),
        write("", "x\n"),
        made("write_file", path=3, content="x\n", del_bytes=REPLACES_ALL),
        made("shell_exec", command="ls\r\npwd"),
        made("shell_exec", command="ls", more=1),
        made("shell_exec", command="ls", path="a"),
        made("read_file", path="a", more=1),
        made("edit_file", path="a"),
    ],
)
def test_what_no_block_can_say_is_a_tool_with_json(call: ToolCall) -> None:
    text, told = encoded([call])
    assert text.startswith(f"**TOOL:`{call.name}`**\n```json\n{{")
    assert told.startswith(f"[1/1 TOOL {call.name} → ok]\n")
    assert calls_in(text) == [named(call)]


@pytest.mark.parametrize("command", ["ls\n", "", "\n", "~~~x\n```y", "```y\n~~~x", "a\n````\nb"])
def test_a_command_keeps_its_lines(command: str) -> None:
    text, _ = encoded([made("shell_exec", command=command)])
    assert text.startswith("**RUN:**\n")
    assert calls_in(text) == [("shell_exec", {"command": command})]


ANY_TEXT = st.one_of(CONTENTS, TEXTS, st.text(max_size=20))
NAMES = st.one_of(st.sampled_from(["a", "d/b", "./a", "d\\a", "t"]), st.text(max_size=5))
CALLS = st.one_of(
    st.builds(write, NAMES, ANY_TEXT),
    st.builds(lambda path, edits: made("edit_file", path=path, edits=edits), NAMES, ANY_TEXT),
    st.builds(lambda command: made("shell_exec", command=command), ANY_TEXT),
    st.builds(lambda path: made("read_file", path=path), NAMES),
    st.builds(
        lambda content, more: made("write_file", path="a", content=content, **more),
        ANY_TEXT,
        st.dictionaries(st.sampled_from(["offset", "del_bytes"]), st.integers(0, 9)),
    ),
    st.builds(
        lambda name, more: ToolCall("c", name, json.dumps(more)),
        st.sampled_from(["grep", "read_file", "shell_exec"]),
        st.dictionaries(st.text(max_size=3), st.one_of(ANY_TEXT, st.integers(), st.none())),
    ),
)


@settings(max_examples=300, deadline=None)
@given(calls=st.lists(CALLS, min_size=1, max_size=4), prose=ANY_TEXT)
@example([write("a", "x\n")], "```")
@example([write("a", "x\n")], "    **RUN:**")
@example([write("a", "x\n")], "**FILE:`x`**\n```")
@example([write("a", "x\n")], "<think>")
def test_what_is_written_reads_back_as_the_same_calls(calls: list[ToolCall], prose: str) -> None:
    text, _ = encoded(calls, prose)
    read = answered(text)
    sent = repaired(conversation(calls, prose))[2]
    assert [named(call) for call in read.message.tool_calls] == [named(c) for c in sent.tool_calls]
    assert not read.refusals
    assert not read.message.reasoning


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_an_answer_that_was_read_is_written_so_that_it_reads_the_same(text: str) -> None:
    answer = answered(text)
    calls = answer.message.tool_calls
    if calls and all(parsed_arguments(call.arguments) is not None for call in calls):
        again = answered(encoded(calls, answer.message.content)[0]).message
        assert [named(call) for call in again.tool_calls] == [named(call) for call in calls]
        assert again.content == answer.message.content or again.content.startswith("> ")


def test_prose_that_would_be_read_with_the_blocks_is_quoted() -> None:
    text, _ = encoded([made("read_file", path="a")], "**RUN:**\n```\nrm x\n```\n<think>")
    assert text.startswith("> **RUN:**\n> ```\n> rm x\n> ```\n> <think >\n\n**FILE:`a`**")


def test_results_are_one_message_with_a_header_each_and_nothing_closes_their_fence() -> None:
    calls = [made("shell_exec", command="x"), made("read_file", path="a"), made("grep")]
    results = [Message(Role.TOOL, "```\nexit: 0"), Message(Role.TOOL, "b"), Message(Role.TOOL, "")]
    assert encoded(calls, results=results)[1] == (
        "[1/3 RUN → ok]\n````\n```\nexit: 0\n````\n\n"
        "[2/3 FILE a → ok]\n```\nb\n```\n\n"
        "[3/3 TOOL grep → ok]\n```\n\n```"
    )


@pytest.mark.parametrize(
    ("text", "status", "shown"),
    [
        ("x", None, "ok"),
        ("x", "error", "error"),
        ("x", "unknown", "error"),
        ("x", "denied", "denied"),
        ("x", "interrupted", "interrupted"),
        (INTERRUPTED_RESULT, None, "interrupted"),
        (UNKNOWN_RESULT, None, "interrupted"),
        (NOT_RUN_RESULT, "error", "interrupted"),
        (refusal_in("**RUN:**\n```\nls"), "denied", "cut"),
    ],
)
def test_a_header_says_what_became_of_the_call(text: str, status: str | None, shown: str) -> None:
    result = Message(Role.TOOL, text, extra={"status": status} if status else {})
    told = encoded([write("d/a", "x\n")], results=[result])[1]
    assert told.startswith(f"[1/1 WRITE d/a → {shown}]\n")


def test_a_longer_history_begins_as_a_shorter_one() -> None:
    short = conversation([write("a", "x\n")], "One.")
    longer = [*short, Message(Role.ASSISTANT, "Two."), Message(Role.USER, "more")]
    before = Blocks().encode(repaired(short), [])["messages"]
    assert Blocks().encode(repaired(longer), [])["messages"][: len(before)] == before


# -- what is seen while it comes --------------------------------------------------------------


def seen(*parts: str) -> tuple[list[str], str]:
    """Return what is seen after each part, and at the end."""
    view = Blocks().view()
    return ["".join(view.feed(part)) for part in parts], "".join(view.close())


def trimmed(text: str) -> str:
    """Return `text` without the blank lines around it."""
    lines = text.split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return "\n".join(lines)


@settings(max_examples=300, deadline=None)
@given(text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_what_is_seen_is_what_is_kept_however_it_is_cut(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts})
    bounds = zip([0, *places], [*places, len(text)], strict=True)
    parts, rest = seen(*(text[start:end] for start, end in bounds))
    assert "".join(parts) + rest == answered(text).message.content
    each, rest = seen(*text)
    assert "".join(each) + rest == answered(text).message.content


def test_prose_is_seen_as_it_comes() -> None:
    assert seen("Now **bo", "ld** an", "d\nmore")[0] == ["Now **bo", "ld** an", "d\nmore"]
    assert seen("**bold** word")[0] == ["**bold** word"]
    assert seen("```\n**RUN:**\nls", " -la")[0] == ["```\n**RUN:**\nls", " -la"]
    assert seen("`<think>` is a tag\nthat")[0] == ["`<think>` is a tag\nthat"]


def test_what_may_be_a_marker_line_waits_for_its_end() -> None:
    assert seen("a\n**WRITE:", " is a", " word\nb") == (["a", "", "\n**WRITE: is a word\nb"], "")
    assert seen("a\n**RUN:**\n", "```\nls\n```\n", "b") == (["a", "", ""], "\n\nb")
    assert seen("a\n**EOF:** **RUN:**\n", "b") == (["a", ""], "\n**EOF:** \n**RUN:**\nb")


def test_a_view_reads_to_the_end() -> None:
    view = Blocks().view()
    view.feed("**RUN:**\n```\nls\n```\n")
    assert not view.ended


# -- size -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unit",
    [
        "**WRITE:`a{}`**\n```\nx\n```\n<think>\n~~~x\n</think>\n",
        "**WRITE:`a{}`**\n```py\nx\n**EOF:**\n",
    ],
)
def test_blocks_that_each_look_like_going_on_to_the_end_are_cut_in_the_end(unit: str) -> None:
    """Each would have to be held against the whole rest: thousands of them would never end."""
    answer = answered("".join(unit.format(number) for number in range(1500)))
    refused = [call.id in answer.refusals for call in answer.message.tool_calls]
    assert len(refused) == 1500
    assert not any(refused[:5])
    assert all(refused[-100:-1])


# -- the instructions -------------------------------------------------------------------------


def test_the_instructions_are_short() -> None:
    facts = Facts("/home/user/project", "linux", "bash", date(2026, 3, 9))
    count = bpe_openai.get_encoding("o200k_base").encode
    print(f"instructions: {len(count(INSTRUCTIONS))} tokens")  # noqa: T201
    assert len(count(INSTRUCTIONS)) < 500
    assert len(count(f"{system_prompt(facts)}\n\n{INSTRUCTIONS}")) < 900


def test_the_instructions_show_answers_that_can_be_read() -> None:
    shown = INSTRUCTIONS.partition("your answer to it:\n")[2].partition("\n\nTo read one")[0]
    calls = calls_in(shown)
    assert [name for name, _ in calls] == ["shell_exec", "write_file", "edit_file"]
    assert pairs_in(calls[2][1]["edits"]) == ([("port = 80", "port = 8080")], 0)


def test_the_dialect_needs_no_tools_of_the_api() -> None:
    assert Blocks().without_tools() is None
    assert Blocks().name == "blocks"
