r"""The dollar dialect: text with at most one command, a line `$ command`, in an answer.

For models without tool calling. An answer is read in `dollarview`, where a command ends in
`heredocs`; here are the codec and what the model is told.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from bantam.core.messages import Answer, Message, Role, ToolCall, parsed_arguments
from bantam.model.dialects.dialect import Tools
from bantam.model.dialects.dollarview import DollarView
from bantam.model.dialects.heredocs import State
from bantam.model.dialects.leaks import looks_like_call
from bantam.model.dialects.textual import Exchange, fenced, spoken

# Of seven forms tried on a model of half a billion parameters the one with most jobs done.
INSTRUCTIONS: Final = """\
Your one tool is a shell. Answer with a line that begins with `$ `, and nothing else: it is run at
once, and its output is the next message. Never tell the user what to run: run it. Never answer
from memory what a command can show.

A question, and your answers to it and to the output:
How many files are here?
$ ls | wc -l
(the output: 3, exit: 0)
There are 3 files here.

Another one:
Create greet.txt with the word hello.
$ echo hello > greet.txt
(no output, exit: 0)
greet.txt holds the word hello now.

One command an answer, and none twice. Text of several lines goes into a here-document:
`$ cat > FILE <<'EOF'`, the lines, `EOF` alone on a line. What stands in a code fence is not run."""

_SHELL: Final = "shell_exec"
_EXPLAIN_AFTER: Final = 10  # commands in a row without a word (DIALECTS)
_MOST_SILENT: Final = 20
_TITLE_LINES: Final = 10
_EXPLAIN: Final = (
    "(10 commands in a row without a word: say in a sentence what you are doing, then go on.)"
)
_STUCK: Final = (
    f"{_MOST_SILENT} commands in a row without a word of explanation: the model may be going in"
    " circles; look at what it did and say how to go on"
)

_FORM: Final = """\
A command is one line outside of code fences; text of several lines goes into a here-document:

$ cat > notes.txt <<'EOF'
first line
EOF"""
_WRONG_FORM: Final = """\
calls are not read in that form. Write the command as one line outside of code fences, then stop:

$ ls -la"""
_PROBLEMS: Final = {
    State.CONTINUED: "the command ends with a backslash and no line follows. Send it whole",
    State.OPEN: "a quote or bracket is open at the command's end. Send it whole",
    State.BROKEN: f"the command's line ends inside a quote or bracket. {_FORM}",
}
_CUT: Final = (
    "the answer was cut off inside its command. Send it again, shorter: a long file in several"
    " answers, the later parts with `cat >>`"
)
_CUTS: Final = ("length", "content_filter")


class Dollar:
    """Calls as `$ command`, results as the user's words."""

    name = "dollar"

    def encode(
        self,
        messages: Sequence[Message],
        tools: Tools,  # noqa: ARG002  # the shell is its one tool
        start: int = 0,
    ) -> dict[str, Any]:
        """Return the body's `messages` for a repaired conversation."""
        counts = list(zip(messages, _silent_commands(messages), strict=True))[start:]
        silent = iter([count for message, count in counts if message.tool_calls])

        def speak(message: Message, exchanges: Sequence[Exchange]) -> Iterator[Message]:
            return _told(message, exchanges, _EXPLAIN if next(silent) == _EXPLAIN_AFTER else "")

        return {"messages": spoken(messages[start:], "" if start else INSTRUCTIONS, speak)}

    def decode(
        self,
        answer: Answer,
        history: Sequence[Message],
        tools: Tools,  # noqa: ARG002  # the shell is its one tool
    ) -> Answer:
        """Return `answer` with its command as a call, or with what is wrong with it.

        `history`: the stored messages before it. The call is refused, with the turn, where the
        model has run too many commands without a word.
        """
        message = answer.message
        view = self.view()
        view.feed(message.content)
        view.close()
        problem = _problem(view, is_cut=answer.finish_reason in _CUTS)
        if message.tool_calls and view.command is None:
            return answer
        if problem is not None:
            bare = replace(message, tool_calls=())
            return replace(answer, message=bare, correction=f"(Nothing was run: {problem})")
        reasoning = "\n\n".join(text for text in (message.reasoning, view.thoughts) if text)
        message = replace(message, content=view.prose, reasoning=reasoning)
        if view.command is None:
            return replace(answer, message=message)
        arguments = json.dumps({"command": view.command.text}, ensure_ascii=False)
        call = ToolCall(f"call_{len(history)}_1", _SHELL, arguments)
        message = replace(message, tool_calls=(call,))
        is_stuck = _silent_commands([*history, message])[-1] >= _MOST_SILENT
        return replace(answer, message=message, fault=_STUCK if is_stuck else answer.fault)

    def view(self) -> DollarView:
        """Return what reads one answer as it comes."""
        return DollarView()

    def without_tools(self) -> str | None:
        """Return nothing: no words forbid what no request offers."""
        return None


def _problem(view: DollarView, *, is_cut: bool) -> str | None:
    """Return what the model is told about an answer that cannot be read, None for a good one."""
    command = view.command
    if command is None:
        return _WRONG_FORM if looks_like_call(view.prose) else None
    if is_cut and not view.ended:
        return _CUT
    if command.state is State.IN_BODY:
        return (
            "the here-document has no end: behind its last line stands"
            f" `{command.closing_line:.60}`, alone on a line. Send the command again, whole"
        )
    return _PROBLEMS.get(command.state)


# -- to a request -----------------------------------------------------------------------------


def _silent_commands(messages: Sequence[Message]) -> list[int]:
    """Return for each message how many commands in a row came without prose, up to there.

    Prompts and corrections begin anew.
    """

    def count(before: int, message: Message) -> int:
        if message.role is Role.TOOL:
            return before
        return before + 1 if message.tool_calls and not message.content.strip() else 0

    return list(accumulate(messages, count, initial=0))[1:]


def _told(message: Message, exchanges: Iterable[Exchange], remark: str) -> Iterator[Message]:
    """Yield a message with calls, and their results, as a dialogue that ends with `remark`."""
    said = message
    results: list[Message] = []
    for call, result in exchanges:
        yield from results
        text, title = _written(said.content, call)
        yield replace(said, content=text, tool_calls=())
        results = [Message(Role.USER, fenced(f"{title}\n{result.content}"))]
        said = Message(Role.ASSISTANT)
    for result in results:
        yield replace(result, content=f"{result.content}\n\n{remark}") if remark else result


def _written(prose: str, call: ToolCall) -> tuple[str, str]:
    """Return `prose` with `call` as text behind it, and the line that its result begins with."""
    begun = prose if not prose or prose.endswith("\n") else f"{prose}\n"
    command = _command_of(call)
    if command is not None:
        end = "\n" if command.endswith("\n") else ""  # an empty last line is none without it
        text = f"{begun}$ {command}{end}"
        if _is_read_as(text, begun, command):
            # Small models copy the title, so it is whole; but a long body stands right above, and
            # again it would cost its tokens twice.
            first, *others = command.split("\n")
            return text, f"$ {command if len(others) < _TITLE_LINES else f'{first} …'}"
    arguments = " ".join(call.arguments.split("\n"))  # a line of its own
    return f"{begun}(called {call.name} with {arguments})", call.name


def _command_of(call: ToolCall) -> str | None:
    """Return the command that `call` runs, None if it is no call of the shell."""
    arguments = parsed_arguments(call.arguments) or {}
    command = arguments.get("command")
    is_one = call.name == _SHELL and len(arguments) == 1 and isinstance(command, str)
    return command if is_one else None


def _is_read_as(text: str, prose: str, command: str) -> bool:
    """Whether `text` would be read as that command behind that prose: else it teaches a fault."""
    view = DollarView()
    view.feed(text)
    view.close()
    whole = view.command is not None and view.command.state is State.WHOLE
    return whole and (view.prose, view.command and view.command.text) == (prose, command)
