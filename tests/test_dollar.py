"""The dollar dialect: which line of an answer runs, where it ends, and what the model sees."""

import json
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bpe_openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bantam.core.messages import Answer, Message, Role, ToolCall
from bantam.core.repair import repaired
from bantam.model.dialects.dollar import INSTRUCTIONS, Dollar
from bantam.model.dialects.heredocs import ShellCommand, State

CASES = json.loads((Path(__file__).parent / "cases" / "dollar.json").read_text("utf-8"))
PROMPT = Message(Role.USER, "do it")


def decoded(
    text: str,
    history: Sequence[Message] = (),
    *,
    reasoning: str = "",
    calls: tuple[ToolCall, ...] = (),
    finish_reason: str | None = "stop",
) -> Answer:
    message = Message(Role.ASSISTANT, text, reasoning, calls)
    return Dollar().decode(Answer(message, finish_reason), history, [])


def command_in(text: str) -> str | None:
    """Return the command of an answer, None if it has none; a correction fails."""
    answer = decoded(text)
    assert answer.correction is None
    return command_of(answer.message)


def command_of(message: Message) -> str | None:
    if not message.tool_calls:
        return None
    (call,) = message.tool_calls
    assert call.name == "shell_exec"
    arguments = json.loads(call.arguments)
    assert set(arguments) == {"command"}
    return str(arguments["command"])


def correction_of(text: str, finish_reason: str | None = "stop") -> str:
    """Return the correction of an answer, which then has no call and its whole text."""
    answer = decoded(text, finish_reason=finish_reason)
    assert answer.message == Message(Role.ASSISTANT, text)
    assert answer.correction is not None
    assert answer.correction.startswith("(Nothing was run: ")
    assert answer.correction.endswith(")")
    return answer.correction


# -- the public cases -------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_public_cases_of_the_dollar_dialect(case: dict[str, Any]) -> None:
    answer = decoded(case["text"])
    assert command_of(answer.message) == case["command"]
    assert answer.message.content == case["prose"]
    assert answer.correction is None


# -- which line -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("   $ ls", "ls"),
        ("    $ ls", None),
        ("\t$ ls", None),
        ("$  ls", None),
        ("$ ", None),
        ("$ \n$ ls", "ls"),
        ("$ \u00a0", None),
        ("$ ls \t \r\nmore", "ls"),
        ("a\r\n$ ls -a\r\nb", "ls -a"),
        ("$ echo ä 😀", "echo ä 😀"),
        ("$ `which ls`", "`which ls`"),
        ("$ <a cat", "<a cat"),
        ("> $ ls", None),
        ("- $ ls", None),
        ("1. $ ls", None),
        ("$ a \\\nb \\\n\nc", "a \\\nb \\\n"),
        ("$ a \\ \nb", "a \\\nb"),  # the blank behind the backslash was not meant
        ("$ a \\\r\nb\r\n", "a \\\nb"),
        ("$ a # to do \\\nrm b", "a # to do \\"),  # the shell ends a comment with its line
        ("$ a b#c \\\nd", "a b#c \\\nd"),
        ("$ cat <<E\r\n a \r\nE\r\n", "cat <<E\n a \nE"),
        ("$ cat <<E \nx\nE", "cat <<E\nx\nE"),
    ],
)
def test_a_line_is_a_command_or_it_is_text(text: str, command: str | None) -> None:
    assert command_in(text) == command
    if command is None:
        assert decoded(text).message.content == text


@pytest.mark.parametrize(
    "text",
    [
        "```\n$ rm x\n```",
        "```sh\n$ rm x",
        "~~~ `a`\n$ rm x\n~~~",
        "````\n```\n$ rm x\n````",
        "```\n~~~\n$ rm x\n```",
        "```\n```sh\n$ rm x\n```",
        "```\n    ```\n$ rm x\n```",  # four further in: the fence shows it
        "    ```\n  $ rm x\n    ```",
        "1. so:\n\n     ```sh\n   $ rm x\n     ```",
        "- ```sh\n  $ rm x\n  ```",
        "2) ~~~\n   $ rm x\n   ~~~",
        "- 1. ```\n$ rm x\n```",
        "``` \r\n$ rm x\r\n``` \r\n",
        "a `b\n```\n$ rm x\n```",
    ],
)
def test_nothing_in_a_fence_runs(text: str) -> None:
    assert command_in(text) is None
    assert decoded(text).message.content == text


@pytest.mark.parametrize(
    "prose",
    [
        "```\nx\n```\n",
        "```\nx\n`````  \n",
        "~~~~\n~~~\n~~~~\n",
        "```a``` is code\n",
        "``\n",
        "> ```\n",
        "     ```\nx\n        ```\n",
        "- ```\n  x\n  ```\n",
        "```\r\nx\r\n```\r\n",
        "it`s\n",
    ],
)
def test_behind_a_closed_fence_a_command_runs(prose: str) -> None:
    answer = decoded(f"{prose}$ ls")
    assert (answer.message.content, command_of(answer.message)) == (prose, "ls")


@pytest.mark.parametrize(
    ("text", "prose", "command", "reasoning"),
    [
        ("a <think>b\n$ rm x\n</think>c\n$ ls", "a c\n", "ls", "b\n$ rm x\n"),
        ("<think>b</think>$ ls", "", "ls", "b"),
        ("a\n <think>b\n</think> $ ls", "a\n", "ls", "b\n"),
        ("a <think>b</think>$ ls", "a $ ls", None, "b"),
        ("a <think>b\n$ ls", "a ", None, "b\n$ ls"),
        ("a<think>b</think><think>c</thin</think>", "a", None, "b\n\nc</thin"),
        ("a `<think>` b </think>", "a `<think>` b </think>", None, ""),
        ("``<think>`</think>`` <think>b", "``<think>`</think>`` ", None, "b"),
        ("```\n<think>\n```\n$ ls", "```\n<think>\n```\n", "ls", ""),
        ("a <thin", "a <thin", None, ""),
        ("a <think>b</thin", "a ", None, "b</thin"),
        ("$ echo '<think>' </think>\n", "", "echo '<think>' </think>", ""),
        ("$ cat <<E\n<think>\nE\n", "", "cat <<E\n<think>\nE", ""),
        ("$ <thin", "", "<thin", ""),
    ],
)
def test_thoughts_in_the_text_are_neither_said_nor_run(
    text: str, prose: str, command: str | None, reasoning: str
) -> None:
    message = decoded(text).message
    assert (message.content, message.reasoning, command_of(message)) == (prose, reasoning, command)


def test_thoughts_in_the_text_follow_those_that_came_before() -> None:
    message = decoded("so <think>more</think>be it", reasoning="first").message
    assert (message.content, message.reasoning) == ("so be it", "first\n\nmore")


# -- what is sent back ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call", ['<invoke name="ls">', "<Tool_Call>", "[TOOL_CALL]", "[function_call]"]
)
def test_calls_of_another_form_are_corrected_where_they_are_no_quotation(call: str) -> None:
    assert "\n$ ls -la)" in correction_of(f"I look.\n{call}x")
    assert "\n$ ls -la)" in correction_of(f"I `look` {call}\n```\nx\n```\n")
    for quoted in (f"a `{call}` b", f"```\n{call}\n```\n", f"``` {call}"):
        answer = decoded(quoted)
        assert (answer.correction, answer.message.content) == (None, quoted)
    assert command_in(f"{call}\n$ ls") == "ls"


def test_brackets_and_tags_of_other_kinds_are_text() -> None:
    text = "[a](b) <b>c</b> <invoke> tool_call [call] x[function]<think><tool_call></think>"
    answer = decoded(text)
    assert (answer.correction, answer.message.content) == (None, text[: text.index("<think>")])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$ cat <<EOF\nx\n EOF\n", "`EOF`"),
        ("$ cat <<A <<'B C'\nx\nA\nB\n", "`B C`"),
        ("$ echo a \\", "backslash"),
        ("$ echo a \\\n", "backslash"),
        ("$ echo 'a\nb'\n", "\n$ cat > notes.txt <<'EOF'\n"),
        ('$ git commit -m "a\n\nb"\n', "inside a quote"),
        ("$ it's", "inside a quote"),
        ("$ x=$(ls\n)", "inside a quote or bracket"),
        ('$ a "$(cat <<E\nx\nE\n)\n', "is open at the command's end"),
    ],
)
def test_a_command_without_an_end_is_sent_back(text: str, said: str) -> None:
    assert said in correction_of(text)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_command_that_may_be_cut_does_not_run(reason: str) -> None:
    for text in ("$ rm -r build", "a\n$ cat > a <<E\nx", "$ cat <<E\nx\nE", "$ echo 'a"):
        assert "cut off" in correction_of(text, reason)
    for text in ("$ ls\n", "$ ls\nand so", "$ cat <<E\nx\nE\n"):
        answer = decoded(text, finish_reason=reason)
        assert command_of(answer.message)
        assert answer.correction is None
    assert decoded("all done", finish_reason=reason).correction is None


def test_calls_that_came_as_such_stay_unless_the_text_has_a_command() -> None:
    calls = (ToolCall("x", "write_file", "{}"),)
    for text in ("I write.", "<tool_call>", ""):
        answer = Answer(Message(Role.ASSISTANT, text, "", calls), "stop")
        assert Dollar().decode(answer, [PROMPT], []) == answer
    assert command_of(decoded("$ ls", calls=calls).message) == "ls"
    assert correction_of("$ 'a") == decoded("$ 'a", calls=calls).correction
    assert decoded("$ 'a", calls=calls).message.tool_calls == ()


def test_the_id_of_a_call_tells_where_it_stands() -> None:
    (call,) = decoded("$ echo 'ä'", [PROMPT] * 7).message.tool_calls
    assert call == ToolCall("call_7_1", "shell_exec", '{"command": "echo \'ä\'"}')


# -- as it comes ------------------------------------------------------------------------------


Outcome = tuple[str, str | None, State | None, str, bool]


def read(parts: Sequence[str]) -> Outcome:
    """Return what a view of an answer in `parts` comes to."""
    view = Dollar().view()
    shown = [piece for part in parts for piece in view.feed(part)]
    ended = view.ended
    shown += view.close()
    assert "".join(shown) == view.prose
    command = view.command
    text, state = (command.text, command.state) if command else (None, None)
    return view.prose, text, state, view.thoughts, ended


PIECES = st.sampled_from(
    [
        *("\n", "\n", " ", "   ", "\t", "$", "$ ", "\n$ ", "a", "ls", "\r\n", "\\\n", "\\", "#"),
        *("`", "``", "```", "\n```\n", "~~~", "\n~~~\n", "- ", "1. ", "<think>", "</think>", "<th"),
        *("<", "</", "<tool_call>", "[tool_call]", "<<E", "<<-'E'", "\nE\n", "E", '"', "'"),
        *("$(", "))", "((", ")", "${", "}", "<<<"),
    ]
)
TEXTS = st.lists(PIECES, max_size=25).map("".join)


@given(TEXTS, st.lists(st.integers(0, 60)))
def test_the_outcome_does_not_depend_on_the_cuts(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(text)]
    parts = [text[a:b] for a, b in pairwise(places)]
    assert read(parts) == read([text]) == read(list(text))


@given(TEXTS, TEXTS)
def test_text_behind_a_command_never_matters(text: str, behind: str) -> None:
    if (outcome := read([text]))[-1]:
        assert read([text + behind]) == read([text, behind]) == outcome


@given(TEXTS)
def test_what_is_shown_is_the_prose_before_the_command(text: str) -> None:
    answer = decoded(text)
    prose = read([text])[0]
    if answer.correction is None:
        assert answer.message.content == prose
    if (command := command_of(answer.message)) is not None:
        assert len(prose) + len(command) <= len(text)
    if "<think>" not in text:
        assert text.startswith(prose)


@given(
    st.lists(st.sampled_from(["$ ls", " $ ls", "``", "~~", "<think>", "a", "", "$ cat <<E"])),
    st.sampled_from(["```\n{}\n```", "~~~~\n{}\n~~~~", "- ~~~\n{}", "{:quoted}", "{:indented}"]),
)
def test_what_is_quoted_never_runs(lines: list[str], frame: str) -> None:
    if frame == "{:quoted}":
        text = "\n".join(f"> {line}" for line in lines)
    elif frame == "{:indented}":
        text = "\n".join(f"    {line}" for line in lines)
    else:
        text = frame.format("\n".join(lines))
    assert read([text])[1] is None


def test_prose_is_shown_at_once_and_a_line_that_may_be_a_command_is_not() -> None:
    view = Dollar().view()
    assert view.feed("So") == ["So"]
    assert view.feed(" be it.\n\n  ") == [" be it.", "\n", "\n"]
    assert view.feed("$") == []
    assert view.feed("HOME `a") == ["  $HOME ", "`", "a"]
    assert view.feed("<th") == ["<", "th"]  # in code no tag is looked for
    assert view.feed("` <th") == ["`", " "]
    assert view.feed("e\n$ ") == ["<", "the", "\n"]
    assert view.close() == ["$ "]


@pytest.mark.parametrize(
    ("before", "last"),
    [
        ("a\n$ ls", "\n"),
        ("$ a \\\nb", "\n"),
        ("$ cat <<E\nx\nE", "\n"),
        ("$ cat <<E\nx\nE\r", "\n"),
        ('$ a "$(cat <<E\nx\nE\n)"', "\n"),
        ("$ echo 'open", "\n"),
    ],
)
def test_the_stream_can_be_closed_as_soon_as_the_command_is_complete(
    before: str, last: str
) -> None:
    view = Dollar().view()
    view.feed(before)
    assert not view.ended
    assert view.feed(last) == []
    assert view.ended
    assert view.feed("more") == view.close() == []


# -- where bash ends a command ----------------------------------------------------------------


def lines_read(lines: Sequence[str]) -> int | None:
    """Return how many of `lines` are the command, None if it has no end."""
    command = ShellCommand()
    for number, line in enumerate(lines, 1):
        state = command.add(line)
        if state is State.WHOLE:
            return number
        if state is State.BROKEN:
            return None
    return None


def bash(lines: Sequence[str], folder: Path) -> tuple[bool, str]:
    """Whether bash runs a command that stands behind `lines`, and what it complains of."""
    script = "\n".join([*lines, "printf 'MARK%s' HERE"])
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return "MARKHERE" in ran.stdout, ran.stderr


def lines_bash_reads(lines: Sequence[str], folder: Path) -> int | None:
    numbers = range(1, len(lines) + 1)
    return next((number for number in numbers if bash(lines[:number], folder)[0]), None)


# Lines of a command, and how many of them are read; None: it has no end.
AS_BASH = [
    ("cat <<EOF⏎x⏎EOF", 3),
    ("cat << EOF⏎x⏎EOF", 3),
    ("cat <<'EOF'⏎x⏎EOF", 3),
    ('cat <<"A B"⏎x⏎A⏎A B', 4),
    ("cat <<A' B'\"C\"\\D⏎A BC⏎A BCD", 3),
    ('cat <<"a\\"b"⏎x⏎a"b', 3),
    ("cat <<\\EOF⏎$x⏎EOF", 3),
    ("cat <<$'EOF'⏎x⏎EOF", 3),
    ("cat <<''⏎x⏎⏎y", 3),
    ("cat <<-EOF⏎\tx⏎\t\tEOF", 3),
    ("cat <<- EOF⏎\tx⏎ \tEOF⏎EOF", 4),
    ("cat <<EOF⏎\tEOF⏎EOF", 3),
    ("cat <<EOF⏎ EOF⏎EOF ⏎EOF", 4),
    ("cat <<EOF⏎EOFEOF⏎EOF", 3),
    ("cat <<-EOF⏎EOF", 2),
    ("cat <<A <<B⏎1⏎A⏎2⏎B", 5),
    ("cat <<A - <<-'B'⏎B⏎A⏎A⏎\tB", 5),
    ("cat <<A; cat <<B⏎1⏎A⏎2⏎B", 5),
    ("cat <<A⏎B⏎A⏎B", 3),
    ("cat <<EOF >/dev/null; echo x⏎x⏎EOF", 3),
    ("cat <<EOF| cat⏎x⏎EOF", 3),
    ("cat <<EOF 2>&1 && echo 'done'⏎x⏎EOF", 3),
    ("cat<<EOF⏎x⏎EOF", 3),
    ("cat 0<<EOF⏎x⏎EOF", 3),
    ("cat <<EOF;echo x⏎1⏎EOF", 3),
    ("cat <<E#F⏎x⏎E#F", 3),
    ("cat <<<EOF", 1),
    ("cat <<< EOF", 1),
    ("cat <<<'<<EOF'", 1),
    ("echo $((1 << 2))", 1),
    ("echo $((1<<2)) <<EOF⏎x⏎EOF", 3),
    ("echo $(( (1 << 2) << (3) ))", 1),
    ("echo $(( 16#ff << 2 )) # <<EOF", 1),
    ("(( x = 1 << 2 ))", 1),
    ("((cat <<EOF); echo a)⏎x⏎EOF", 3),
    ("echo $((cat <<EOF) | cat)", 1),
    ("echo # <<EOF", 1),
    ("echo a;# <<EOF", 1),
    ("echo a# <<EOF⏎x⏎EOF", 3),
    ("echo \\# <<EOF⏎x⏎EOF", 3),
    ("echo \\ # <<EOF⏎x⏎EOF", 3),
    ("echo $(echo a)# <<EOF⏎x⏎EOF", 3),
    ("(echo a)# <<EOF", 1),
    ("echo $# <<EOF⏎x⏎EOF", 3),
    ("echo ${#x} ${x#y} <<EOF⏎x⏎EOF", 3),
    ("echo \\# `# <<EOF`", 1),
    ("echo `# <<EOF` <<X⏎x⏎X", 3),
    ("echo `# it's` <<X⏎x⏎X", 3),
    ("echo `echo a # it's` <<X⏎x⏎X", 3),
    ("echo `echo a`# <<EOF⏎x⏎EOF", 3),
    ("echo `echo )` <<EOF⏎x⏎EOF", 3),
    ("cat <<X - $((echo a); cat <<Y⏎y⏎Y⏎)⏎x⏎X", 6),
    ("echo '<<EOF' \"<<EOF\" $'<<\\'EOF'", 1),
    ("echo \\<<EOF", 1),
    ("echo \\<<<EOF⏎x⏎EOF", 3),
    ('echo "a\'b" \'a"b\' "a\\"b" <<EOF⏎x⏎EOF', 3),
    ("echo \"${x:-'a b'}\" ${x:-\"a}b\"} ${x:-$'\\''} <<EOF⏎x⏎EOF", 3),
    ("echo ${x:-<<EOF}", 1),
    ('echo "$(echo "a b" \'`\' )"', 1),
    ("echo $(cat <<EOF⏎x⏎EOF⏎)", 4),
    ('echo "$(cat <<EOF⏎"x⏎EOF⏎) y"', 4),
    ("echo \"$(cat <<'EOF'⏎it's `a⏎EOF⏎)\" && cat <<B⏎2⏎B", 6),
    ("echo `cat <<EOF⏎x⏎EOF⏎`", 4),
    ('echo "`cat <<EOF⏎x⏎EOF⏎`"', 4),
    ("(cat <<EOF⏎x⏎EOF⏎)", 4),
    ("cat <(cat <<EOF⏎x⏎EOF⏎)", 4),
    ('echo "$(cat <<A⏎1⏎A⏎cat <<B⏎2⏎B⏎echo 3)"', 7),
    ('cat <<X - "$(cat <<Y⏎x⏎Y⏎)"⏎x⏎X', 6),
    ("cat <<X - `cat <<Y⏎X⏎Y⏎`⏎x⏎X", 6),
    ("cat <<X - <(cat <<Y⏎X⏎Y⏎)⏎x⏎X", 6),
    ("cat <<X | (cat <<Y⏎x⏎X⏎y⏎Y⏎)", 6),
    ("(cat <<X; echo $(cat <<Y⏎y⏎Y⏎)⏎x⏎X⏎)", 7),
    ('cat <<X "$(cat <<Y⏎y⏎Y⏎) a⏎ b"⏎x⏎X', 7),
    ("cat \\⏎<<EOF⏎x⏎EOF", 4),
    ("cat << \\⏎EOF⏎x⏎EOF", 4),
    ("cat <<EO\\⏎F⏎x⏎EOF", 4),
    ("cat <<EOF \\⏎-⏎x⏎EOF", 4),
    ("echo a\\⏎# <<EOF⏎x⏎EOF", 4),
    ("echo a \\⏎# <<EOF", 2),
    ("echo a # \\⏎x", 1),
    ("echo 'a\\⏎b' \"c\\⏎d\" \\⏎e", 4),
    ("echo $'a\\⏎b\\'' <<EOF⏎x⏎EOF", 4),
    ("cat <<EOF⏎x \\⏎EOF⏎y⏎EOF", 5),
    ("cat <<EOF⏎x \\\\⏎EOF", 3),
    ("cat <<EOF⏎EO\\⏎F", 3),
    ("cat <<'EOF'⏎x \\⏎EOF", 3),
    ("cat <<-EOF⏎x⏎\tE\\⏎OF", 4),
    ("cat <<EOF⏎<<X⏎'⏎$(⏎EOF", 5),
    ("cat <<EOF⏎x", None),
    ("echo a\\\\", 1),
    ("echo ) <<EOF", None),
]


@pytest.mark.parametrize(("snippet", "number"), AS_BASH, ids=[row[0] for row in AS_BASH])
def test_a_command_ends_where_bash_ends_it(
    snippet: str, number: int | None, tmp_path: Path
) -> None:
    lines = snippet.split("⏎")
    assert lines_read(lines) == number
    assert lines_bash_reads([*lines, "y"], tmp_path) == number


def test_a_word_that_is_joined_without_end_is_taken_as_it_is() -> None:
    """Bash joins it; here it would be read again with each line."""
    word = "a" * 1000
    assert lines_read([f"cat <<{word}\\", "b", f"{word}b"]) is None
    assert lines_read([f"cat <<{word}\\", "b", f"{word}b", word]) == 4


# What a line of a command may be made of, and lines that may stand behind it.
WORDS = st.sampled_from(
    [
        *("cat", "echo a", "<<A", "<< 'A'", "<<-A", '<<"B C"', "<<\\\\B", "<<<A", "; cat", "| cat"),
        *("$((1<<2))", "# <<A", "a#", '"$(cat <<A', '"$(echo a', ")", ')"', "`cat <<A", "`", "'x'"),
        *("'it\"s'", '"it\'s"', "\\\\", "\\#", "(cat <<B", "((cat <<A)", "${x:-'A'}", "\\"),
    ]
)
BEHIND = st.sampled_from(
    ["A", "\tA", " A", "B", "B C", "x", "x \\", "\\", "", ")", ')"', "`", "'", "cat <<A", "A\\"]
)


@settings(deadline=None, max_examples=150)
@given(st.lists(WORDS, min_size=1, max_size=5).map(" ".join), st.lists(BEHIND, max_size=5))
def test_no_command_is_taken_for_whole_before_or_behind_its_end(
    first: str, behind: list[str]
) -> None:
    """It may be taken for one without an end; what bash cannot read may end anywhere."""
    lines = [first.rstrip(), *behind]
    number = lines_read(lines)
    if number is None:
        return
    with TemporaryDirectory() as folder:
        ran, complaint = bash(lines[:number], Path(folder))
        if "syntax error" in complaint or "unexpected" in complaint:
            return
        assert ran
        for less in range(1, number):
            # The line that tells would be joined to the one before it, and may run all the same.
            if not lines[less - 1].endswith("\\"):
                assert not bash(lines[:less], Path(folder))[0]


@pytest.mark.parametrize(
    "snippet",
    [
        "echo 'a⏎b'",
        'echo "a⏎b"',
        "echo $(echo a⏎)",
        "echo `echo a⏎`",
        "(echo a⏎)",
        "echo ${x:-a⏎}",
        "echo $((1 +⏎2))",
        "echo $((cat <<EOF⏎x⏎EOF⏎) | cat)",
        "cat <<EOF 'a⏎b'⏎x⏎EOF",
        "a[1<<2]=3",
        "echo $[1<<2]",
        "cat <<E$(x)⏎a⏎E$(x)",
        "cat <<EOF⏎a⏎EOF)",
        "x=$(cat <<EOF⏎a⏎EOF)",
    ],
)
def test_what_is_rare_or_open_has_no_end_and_does_not_run(snippet: str) -> None:
    lines = snippet.split("⏎")
    assert lines_read(lines) is None
    assert correction_of("\n".join([f"$ {lines[0]}", *lines[1:], ""]))


# -- what the model sees ----------------------------------------------------------------------


def call(command: str, number: int = 1) -> ToolCall:
    return ToolCall(f"call_{number}", "shell_exec", json.dumps({"command": command}))


def step(prose: str, *exchanges: tuple[ToolCall, str]) -> list[Message]:
    """Return an assistant message with calls, and their results."""
    calls = tuple(each for each, _ in exchanges)
    results = [Message(Role.TOOL, text, tool_call_id=each.id) for each, text in exchanges]
    return [Message(Role.ASSISTANT, prose, tool_calls=calls), *results]


def encoded(*messages: Message) -> list[dict[str, Any]]:
    """Return what is sent behind the system prompt."""
    body = Dollar().encode(repaired([Message(Role.SYSTEM, "system"), *messages]), [{"a": 1}])
    assert set(body) == {"messages"}
    system, *rest = list[dict[str, Any]](body["messages"])
    assert system == {"role": "system", "content": f"system\n\n{INSTRUCTIONS}"}
    return rest


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_a_command_and_its_result_are_a_dialogue() -> None:
    assert encoded(
        PROMPT,
        *step("I look.\n\n", (call("ls"), "a b\n\n\nexit: 0")),
        *step("", (call("cat b"), "```\nx\n```\n\nexit: 1")),
        Message(Role.ASSISTANT, "Done."),
    ) == [
        said("user", "do it"),
        said("assistant", "I look.\n\n$ ls"),
        said("user", "```\n$ ls\na b\n\n\nexit: 0\n```"),
        said("assistant", "$ cat b"),
        said("user", "````\n$ cat b\n```\nx\n```\n\nexit: 1\n````"),
        said("assistant", "Done."),
    ]


def test_a_command_begins_a_line_and_its_result_names_it_or_the_first_line_of_a_long_one() -> None:
    document = "cat > a <<'E'\n$ b\n```\nE"
    rest = encoded(PROMPT, *step("I write.", (call(document), "\n\nexit: 0")))
    assert rest[1:] == [
        said("assistant", f"I write.\n$ {document}"),
        said("user", f"````\n$ {document}\n\n\nexit: 0\n````"),
    ]
    long = "cat > a <<'E'\n" + "b\n" * 20 + "E"
    rest = encoded(PROMPT, *step("", (call(long), "\n\nexit: 0")))
    assert rest[1:] == [
        said("assistant", f"$ {long}"),
        said("user", "```\n$ cat > a <<'E' …\n\n\nexit: 0\n```"),
    ]


def test_a_command_that_would_not_be_read_back_is_told_as_a_call() -> None:
    rest = encoded(PROMPT, *step("Two.", (call("a\n\nb"), "\n\nexit: 0")))
    assert rest[1]["content"] == 'Two.\n(called shell_exec with {"command": "a\\n\\nb"})'


def test_a_here_document_that_ends_with_an_empty_line_keeps_it() -> None:
    rest = encoded(PROMPT, *step("", (call("cat <<''\nx\n"), "x")))
    assert rest[1] == said("assistant", "$ cat <<''\nx\n\n")
    assert command_in(rest[1]["content"]) == "cat <<''\nx\n"


def test_calls_of_one_message_are_told_one_after_the_other() -> None:
    write = ToolCall("call_2", "write_file", '{"path": "a",\n "content": "b\\nc"}')
    message, *results = step("Both.", (call("ls"), "1"), (write, "2"), (call("pwd", 3), "3"))
    message = Message(Role.ASSISTANT, message.content, "why", message.tool_calls, extra={"x": 1})
    assert encoded(PROMPT, message, *results)[1:] == [
        said("assistant", "Both.\n$ ls") | {"reasoning_content": "why", "x": 1},
        said("user", "```\n$ ls\n1\n```"),
        said("assistant", '(called write_file with {"path": "a",  "content": "b\\nc"})'),
        said("user", "```\nwrite_file\n2\n```"),
        said("assistant", "$ pwd"),
        said("user", "```\n$ pwd\n3\n```"),
    ]


@pytest.mark.parametrize(
    ("prose", "arguments"),
    [
        ("", {"command": "cd a\nmake"}),
        ("", {"command": "make\n"}),
        ("", {"command": " make"}),
        ("", {"command": "make "}),
        ("", {"command": ""}),
        ("", {"command": "cat <<E\nx"}),
        ("", {"command": "echo 'a\nb'"}),
        ("", {"command": 1}),
        ("", {"command": "ls", "why": "a"}),
        ("", {}),
        ("```\n", {"command": "ls"}),
        ("$ make\n", {"command": "ls"}),
        ("<think>a", {"command": "ls"}),
    ],
)
def test_what_would_not_be_read_as_that_command_is_not_shown_as_one(
    prose: str, arguments: dict[str, Any]
) -> None:
    odd = ToolCall("call_1", "shell_exec", json.dumps(arguments))
    rest = encoded(PROMPT, *step(prose, (odd, "x")))
    assert rest[1]["content"].startswith(f"{prose}")
    assert f"(called shell_exec with {odd.arguments})" in rest[1]["content"]
    assert rest[2] == said("user", "```\nshell_exec\nx\n```")


def test_only_the_shell_s_command_is_shown_as_one() -> None:
    other = ToolCall("call_1", "other", '{"command": "ls"}')
    assert encoded(PROMPT, *step("", (other, "x")))[1:] == [
        said("assistant", '(called other with {"command": "ls"})'),
        said("user", "```\nother\nx\n```"),
    ]


def test_arguments_that_are_no_json_are_shown_as_such() -> None:
    broken = ToolCall("call_1", "shell_exec", '{"command": "l\ns')
    body = Dollar().encode([PROMPT, *step("", (broken, "x"))], [])
    assert body["messages"][0] == said("system", INSTRUCTIONS)
    assert body["messages"][2]["content"] == '(called shell_exec with {"command": "l s)'


@given(TEXTS, TEXTS)
def test_what_is_shown_as_a_command_is_read_as_that_command(prose: str, command: str) -> None:
    text = encoded(PROMPT, *step(prose, (call(command), "x")))[1]["content"]
    if f"(called shell_exec with {call(command).arguments})" in text:
        return
    message = decoded(text).message
    assert command_of(message) == command
    assert message.content in (prose, f"{prose}\n")


@given(TEXTS)
def test_a_command_goes_back_as_the_command_that_it_was(text: str) -> None:
    message = decoded(text).message
    command = command_of(message)
    if command is None or "<think>" in text:  # a tag may remain, from pieces around another
        return
    shown = encoded(PROMPT, *step(message.content, (call(command), "x")))[1]["content"]
    end = "\n" if command.endswith("\n") else ""
    assert shown == f"{message.content}$ {command}{end}"


# -- commands without a word ------------------------------------------------------------------


def silence(count: int) -> list[Message]:
    steps = (step("", (call("ls", number), "x")) for number in range(count))
    return [message for messages in steps for message in messages]


def asked(*messages: Message) -> list[int]:
    """Return which messages ask for a word of explanation."""
    rest = encoded(*messages)
    return [at for at, message in enumerate(rest) if "without a word" in message["content"]]


def test_the_tenth_command_without_a_word_is_answered_with_a_question_for_one() -> None:
    assert asked(PROMPT, *silence(9)) == []
    assert asked(PROMPT, *silence(15)) == [20]
    rest = encoded(PROMPT, *silence(10))
    assert rest[20]["content"].startswith("```\n$ ls\nx\n```\n\n(10 commands in a row")
    assert encoded(PROMPT, *silence(15))[:21] == rest


def test_a_word_or_a_prompt_begins_the_count_anew() -> None:
    spoken = step("I look.", (call("ls"), "x"))
    assert asked(PROMPT, *silence(9), *spoken, *silence(9)) == []
    assert asked(PROMPT, *silence(9), *spoken, *silence(10)) == [40]
    assert asked(PROMPT, *silence(9), Message(Role.ASSISTANT, "Done."), PROMPT, *silence(9)) == []
    blank = step(" \n", (call("ls"), "x"))
    assert asked(PROMPT, *silence(9), *blank) == [20]


def test_one_question_stands_behind_the_last_of_several_calls() -> None:
    several = step("", (call("a", 1), "x"), (call("b", 2), "y"))
    rest = encoded(PROMPT, *silence(9), *several)
    assert rest[-3]["content"] == "```\n$ a\nx\n```"
    assert rest[-1]["content"].startswith("```\n$ b\ny\n```\n\n(10 commands in a row")


def test_the_twentieth_command_without_a_word_ends_the_turn() -> None:
    assert decoded("$ ls", [PROMPT, *silence(18)]).fault is None
    for count in (19, 20):
        answer = decoded("$ ls", [PROMPT, *silence(count)])
        assert answer.fault is not None
        assert answer.fault.startswith("20 commands in a row without a word of explanation: ")
        assert command_of(answer.message) == "ls"
    assert decoded("So:\n$ ls", [PROMPT, *silence(19)]).fault is None
    assert decoded("Done.", [PROMPT, *silence(19)]).fault is None
    assert decoded("$ ls", [PROMPT, *silence(19), PROMPT]).fault is None


# -- the instructions -------------------------------------------------------------------------


def test_the_instructions_are_short_and_their_examples_are_read_as_they_are_meant() -> None:
    assert len(bpe_openai.get_encoding("o200k_base").encode(INSTRUCTIONS)) <= 230
    first, second = INSTRUCTIONS.index("How many"), INSTRUCTIONS.index("Create greet.txt")
    assert command_in(INSTRUCTIONS[first:]) == "ls | wc -l"
    assert command_in(INSTRUCTIONS[second:]) == "echo hello > greet.txt"


def test_the_form_that_a_correction_shows_is_read() -> None:
    for text in ("$ 'a", "<tool_call>"):
        correction = correction_of(text)
        shown = correction[correction.index("$ ") :].removesuffix(")")
        assert command_in(shown)


def test_nothing_has_to_be_said_where_no_command_may_come() -> None:
    assert Dollar().without_tools() is None
