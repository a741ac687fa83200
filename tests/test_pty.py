"""One-shot runs on a real pseudo-terminal: the bytes that arrive, and the screen they make."""

import codecs
import re
import shlex
import signal
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pexpect
import pyte
import pytest
from llmserver import LLMServer, Reply, calls, delta, error, raw, shell, text
from processes import eventually, running, unique_seconds
from program import BANTAM, at, environment
from scenarios import MODELS

from bantam.terminal.markdown import Markdown

_PATIENCE_S: Final = 60
# What Bantam itself writes: styles, and small movements in rows of its own.
_SEQUENCES: Final = re.compile(rb"\x1b\[[0-9;]*m|\r\x1b\[K|\x1b\[\d+A|\x1b\[\d+G\x1b\[J|\r?\x1b\[J")


class Terminal:
    """A terminal of `size`, columns and rows, with Bantam in it."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, env: dict[str, str], size: tuple[int, int]
    ) -> None:
        self._size = size
        self.child: Any = pexpect.spawn(
            arguments[0],
            list(arguments[1:]),
            cwd=str(folder),
            env=env,
            dimensions=size[::-1],
            timeout=_PATIENCE_S,
        )
        self.before = termios.tcgetattr(self.child.child_fd)
        self.raw = b""

    def wait_for(self, words: str) -> None:
        """Return once `words` have arrived."""
        self.child.expect_exact(words)
        self.raw += self.child.before + self.child.after

    def end(self) -> int:
        """Read to the end; return the exit status."""
        self.child.expect(pexpect.EOF)
        self.raw += self.child.before
        self.child.close()
        assert self.child.signalstatus is None
        status: int = self.child.exitstatus
        return status

    @property
    def lines(self) -> list[str]:
        """All that was shown, scrolled away or not, without blanks at the ends of rows.

        The cursor begins the row below it.
        """
        screen = self.screen()
        assert screen.cursor.x == 0, "the shell's prompt would not start at the left"
        rows = [row.rstrip() for row in screen.display]
        assert not any(rows[screen.cursor.y :])
        gone = ["".join(row[at].data for at in range(screen.columns)) for row in screen.history.top]
        return [row.rstrip() for row in gone] + rows[: screen.cursor.y]

    def screen(self) -> Any:
        """Return the screen that the bytes made."""
        screen = pyte.HistoryScreen(*self._size, history=100_000)
        pyte.Stream(screen).feed(codecs.decode(self.raw, "utf-8"))
        return screen


@contextmanager
def terminal(
    *arguments: str,
    folder: Path,
    program: Sequence[str] = BANTAM,
    size: tuple[int, int] = (80, 24),
    **env: str,
) -> Iterator[Terminal]:
    """Start Bantam on a terminal."""
    settings = environment(folder, **({"TERM": "xterm-256color"} | env))
    one = Terminal([*program, *arguments], folder, settings, size)
    try:
        yield one
    finally:
        one.child.close(force=True)


def shown(
    replies: Sequence[Reply],
    *options: str,
    folder: Path,
    size: tuple[int, int] = (80, 24),
    **env: str,
) -> Terminal:
    """Return the terminal after a run that ended well."""
    with (
        LLMServer(replies, models=MODELS) as server,
        terminal(*at(server.url), *options, "-p", "Go.", folder=folder, size=size, **env) as one,
    ):
        assert one.end() == 0
    return one


_TOKENS: Final = "[tokens: 12 prompt + 5 completion | context: 12/32768 (0.0%)]"


# -- what the screen shows --------------------------------------------------------------------


def test_a_text_is_shown_with_its_cost_and_the_request_line_is_gone(tmp_path: Path) -> None:
    one = shown([text("Hello, **world**!")], folder=tmp_path)
    assert one.lines == ["Hello, world!", _TOKENS]
    assert b"...requesting..." in one.raw


def test_reasoning_calls_and_results_are_shown_in_their_order(tmp_path: Path) -> None:
    thought = calls(("shell_exec", {"command": "echo hi"}), reasoning="Hm.", content="I look.")
    one = shown([thought, text("Done.")], folder=tmp_path)
    assert one.lines == [
        "--- reasoning start ---",
        "Hm.",
        "--- reasoning end ---",
        "I look.",
        '[tool call: shell_exec(command="echo hi")]',
        "[tool result: shell_exec]",
        "hi",
        "",
        "exit: 0",
        "",
        "Done.",
        "[tokens: 24 prompt + 10 completion | context: 12/32768 (0.0%)]",
    ]


def test_a_failed_attempt_is_shown_with_its_wait(tmp_path: Path) -> None:
    one = shown([error(503, "Loading model"), text("Hello.")], folder=tmp_path)
    assert one.lines == [
        "[the server says: Loading model]",
        "[retry 1/9 in 1 s: 503 Service Unavailable]",
        "Hello.",
        _TOKENS,
    ]


def test_an_answer_that_broke_off_is_said_to_start_again(tmp_path: Path) -> None:
    words = "Some words of an answer that breaks. " * 3
    one = shown([text(words, cut_after=900), text("Whole.")], folder=tmp_path)
    assert one.lines[0].startswith("Some words")
    assert one.lines[-3:] == ["[the answer broke off and starts again]", "Whole.", _TOKENS]


def test_an_error_is_the_last_line(tmp_path: Path) -> None:
    with (
        LLMServer([error(401, "API key is wrong")]) as server,
        terminal(*at(server.url), "-p", "Go.", folder=tmp_path) as one,
    ):
        assert one.end() == 77
    assert one.lines[0].startswith("error: 401 Unauthorized: API key is wrong; ")
    assert one.raw.count(b"\n") == 1


def test_an_answer_of_many_words_is_shown_as_they_come(tmp_path: Path) -> None:
    words = "Hello there, and so on, word after word. " * 10
    with (
        LLMServer([text(words, stall_after=1200)]) as server,
        terminal(*at(server.url), "-p", "Go.", folder=tmp_path) as one,
    ):
        server.wait_for_stall()
        # Not more: of the words that came last, the terminal waits for the next ones.
        one.wait_for("Hello")
        server.release()
        assert one.end() == 0
    assert " ".join(one.lines).count("word after word.") == 10


def test_the_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    with (
        LLMServer([shell("stty -echo < /dev/tty; tty; true"), text("Done.")]) as server,
        terminal(*at(server.url), "-p", "Go.", folder=tmp_path) as one,
    ):
        one.wait_for("Done.")
        assert termios.tcgetattr(one.child.child_fd) == one.before
        assert one.end() == 0
    assert not one.screen().mode & {pyte.modes.DECSCNM}
    assert not one.screen().cursor.hidden


# -- Markdown ---------------------------------------------------------------------------------

_ANSWER: Final = (
    """\
# Fixing the retry loop

The failure comes from `retry.py`: the wait is computed **before** the response is read, so a
`Retry-After` header never reaches it; see [the RFC](https://www.rfc-editor.org/rfc/rfc9110).

- Read first, then wait, *always*.
  1. Bound the wait at 60 seconds.

```python
def wait_of(response: Response) -> float:
    return max(WAITS[0], float(after))  # a lower bound
```

| status | before | after |
|---|---:|---:|
| 429 | 1 s | \u4e2d\u6587, as told, at most 60 s |

> Note: the date form of the header is not handled yet; that is the next step.

"""
    + "Then run the tests of the whole suite and push. " * 12
)


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
@pytest.mark.parametrize("piece", [1, 4, 1000])
def test_an_answer_that_came_in_pieces_is_on_the_screen_as_if_rendered_at_once(
    size: tuple[int, int], piece: int, tmp_path: Path
) -> None:
    parts = [_ANSWER[start : start + piece] for start in range(0, len(_ANSWER), piece)]
    body = b"".join(delta(content=part) for part in parts)
    one = shown([raw(body + delta("stop"))], folder=tmp_path, size=size)
    whole = Markdown(size[0], color=False)
    rows = "".join([*whole.feed(_ANSWER), *whole.close()]).splitlines()
    assert one.lines[: len(rows)] == [row.rstrip() for row in rows]
    assert "".join(one.lines[len(rows) :]).startswith("[tokens: ")
    assert len(one.raw) < 3 * len(_ANSWER.encode())


@pytest.mark.parametrize(
    ("env", "takes"),
    [
        ({"VTE_VERSION": "7600"}, True),
        ({"VTE_VERSION": "7600", "NO_COLOR": "1"}, False),
        ({"VTE_VERSION": "7600", "TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_link_can_be_clicked_where_the_terminal_is_known_to_take_it(
    env: dict[str, Any], takes: bool, tmp_path: Path
) -> None:
    one = shown([text("See [a](https://b.example/c).")], folder=tmp_path, **env)
    assert (b"\x1b]8;id=1;https://b.example/c\x1b\\" in one.raw) == takes
    assert (b"\x1b]" in one.raw) == takes
    if env.get("TERM") != "dumb":
        assert one.lines[0] == "See a (https://b.example/c)."


def test_a_written_file_is_shown_as_its_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n\x1b[2J\n")
    change = {"path": "a.txt", "content": "2", "offset": 4, "del_bytes": 3}
    one = shown([calls(("write_file", change)), text("Done.")], folder=tmp_path)
    assert one.lines[1:7] == [
        "[tool result: write_file]",
        "a.txt: bytes written: 1; offset: 4; bytes deleted: 3; size now: 11",
        *("@@ -1,3 +1,3 @@", " one", "-two", "+2"),
    ]
    assert b"\x1b[32m+2\x1b[0m" in one.raw
    assert b"\x1b[2J" not in one.raw


# -- colour -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "env", "colored"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": ""}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"BANTAM_NO_COLOR": "1"}, False),
        ((), {"TERM": "dumb"}, False),
        (("-o", "color=never"), {}, False),
        (("-o", "color=always"), {"NO_COLOR": "1"}, True),
        (("--json",), {}, False),
    ],
)
def test_a_terminal_has_colors_unless_they_are_refused(
    options: Sequence[str], env: dict[str, Any], colored: bool, tmp_path: Path
) -> None:
    one = shown([shell("true"), text("Done.")], *options, folder=tmp_path, **env)
    sequences = one.raw.replace(b"\r\x1b[K", b"")
    assert (b"\x1b[33m[tool call: " in sequences) == colored
    assert (b"\x1b" in sequences) == colored


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    one = shown([text("Done.")], folder=tmp_path, TERM="dumb")
    assert one.raw == f"...requesting...\r\nDone.\r\n{_TOKENS}\r\n".encode()


# -- what never arrives -----------------------------------------------------------------------


def test_nothing_of_a_stranger_acts_on_the_terminal(tmp_path: Path) -> None:
    evil = "L\x1b]52;c;ZXZpbA==\x07\x9b2J\x1b[2J\x0e\r\u202e\u2066\U000e0041R"
    escaped = delta(reasoning_content=evil) + delta(content=evil)
    by_pieces = b"".join(delta(content=character) for character in evil)
    last = raw(escaped + by_pieces + delta("stop"))
    first = calls(
        ("shell_exec", {"command": f"printf '%b' '\\033]0;evil\\007L\\033[2JR'; : {evil}"}),
        (f"fly{evil}", {evil: evil}),
        ("shell_exec", f'{{"command": "{evil}'),
        reasoning=evil,
        content=evil,
    )
    one = shown([first, last], folder=tmp_path, NO_COLOR="1")
    received = _SEQUENCES.sub(b"", one.raw).decode()
    assert not set("\x1b\x07\x9b\x0e\u202e\u2066\U000e0041") & set(received)
    assert "\r" not in received.replace("\r\n", "")
    assert "".join(one.lines).count("LR") >= 7


def test_an_evil_error_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    evil = "L\x1b]0;evil\x07\x1b[2J\x9b2J\u202eR"
    refusal = Reply(
        status=400, reason="Bad \x1b[2JRequest", body=evil.encode(), content_type="text/plain"
    )
    with (
        LLMServer([refusal], strict=False) as server,
        terminal(*at(server.url), "-p", "Go.", folder=tmp_path, NO_COLOR="1") as one,
    ):
        one.end()
    assert b"\x1b" not in one.raw.replace(b"\r\x1b[K", b"")
    assert not set("\x07\x9b\u202e") & set(one.raw.decode())


def test_events_on_a_terminal_are_ascii(tmp_path: Path) -> None:
    one = shown([text("caf\xe9 \x1b[2J\x9b\u202e")], "--json", folder=tmp_path)
    assert one.raw.isascii()
    assert b"\x1b" not in one.raw


# -- streams and keys -------------------------------------------------------------------------


def test_the_answer_goes_to_a_file_and_the_rest_to_the_terminal(tmp_path: Path) -> None:
    line = f'{" ".join(BANTAM)} "$@" > answer.md'
    with (
        LLMServer([shell("echo hi"), text("Done.")], models=MODELS) as server,
        terminal(
            *at(server.url),
            "-p",
            "Go.",
            folder=tmp_path,
            program=["bash", "-c", line, "-"],
        ) as one,
    ):
        assert one.end() == 0
    assert (tmp_path / "answer.md").read_bytes() == b"Done."
    assert one.lines[0] == '[tool call: shell_exec(command="echo hi")]'
    assert one.lines[-1].startswith("[tokens: 24 prompt")
    assert b"...requesting...\x1b[0m\r\x1b[K" in one.raw
    assert "Done." not in one.lines


def test_a_prompt_can_be_typed(tmp_path: Path) -> None:
    with (
        LLMServer([text("Done.")]) as server,
        terminal(*at(server.url), "-", folder=tmp_path) as one,
    ):
        one.child.sendline("Do it.")
        one.child.sendeof()
        assert one.end() == 0
        assert server.chat[0].json["messages"][-1]["content"] == "Do it.\n"


def test_ctrl_c_on_the_keyboard_ends_a_tool_that_ignores_it(tmp_path: Path) -> None:
    marker = unique_seconds()
    with (
        LLMServer([shell(f"trap '' INT TERM; sleep {marker}")], models=MODELS) as server,
        terminal(*at(server.url), "-p", "Go.", folder=tmp_path) as one,
    ):
        assert eventually(lambda: running(f"sleep {marker}"))
        one.child.sendintr()
        assert one.end() == 130
    assert running(marker) == []
    assert one.lines[-1] == "[interrupted]"
    assert "Traceback" not in one.raw.decode()


@pytest.mark.parametrize("part", [{"content": "- so **me"}, {"reasoning_content": "so"}])
def test_ctrl_c_in_mid_answer_leaves_the_cursor_at_a_line_start_and_no_style(
    part: dict[str, str], tmp_path: Path
) -> None:
    begun = delta(**part)
    with (
        LLMServer([raw(begun + delta("stop"), stall_after=len(begun))]) as server,
        terminal(*at(server.url), "-p", "Go.", folder=tmp_path) as one,
    ):
        one.wait_for("so")
        one.child.sendintr()
        assert one.end() == 130
        server.release()
    assert one.lines[-1] == "[interrupted]"
    assert one.raw.endswith(b"\x1b[0m\r\n")
    assert b"\x1b" not in _SEQUENCES.sub(b"", one.raw)
    style = one.screen().cursor.attrs
    assert (style.fg, style.bold, style.italics) == ("default", False, False)


def test_a_terminal_that_goes_away_ends_the_turn_and_its_tools(tmp_path: Path) -> None:
    marker = unique_seconds()
    with (
        LLMServer([shell(f"sleep {marker}")]) as server,
        terminal(*at(server.url), "-p", "Go.", folder=tmp_path) as one,
    ):
        assert eventually(lambda: running(f"sleep {marker}"))
        pid = one.child.pid
        one.child.close(force=False)
        assert eventually(lambda: not running(marker))
        assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_a_command_of_a_prompt_file_has_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("!test -t 0 && test -t 1 && test -t 2 && read a; echo got $a")
    with terminal("p.txt", folder=tmp_path, program=(sys.executable, "-m", "bantam.cli")) as one:
        one.child.sendline("it")
        assert one.end() == 0
    assert one.lines == ["it", "got it"]


def test_ctrl_c_on_the_keyboard_reaches_the_command_of_a_prompt_file_once(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(
        "!trap 'echo caught' INT; stty -echo < /dev/tty; echo ready; read a; echo got $a; exit 5"
    )
    with terminal("p.txt", folder=tmp_path) as one:
        one.wait_for("ready")
        one.child.sendintr()
        one.wait_for("caught")
        one.child.sendline("it")
        assert one.end() == 5
    assert one.raw.count(b"caught") == 1
    assert one.lines[-1] == "got it"


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["meek", "stubborn"])
def test_sigterm_ends_the_command_of_a_prompt_file_in_the_foreground(
    trap: str, tmp_path: Path
) -> None:
    marker = unique_seconds()
    (tmp_path / "p.txt").write_text(f"!{trap}(sleep {marker}; echo no) & sleep {marker}; echo no")
    with terminal("p.txt", folder=tmp_path) as one:
        assert eventually(lambda: len(running(f"sleep {marker}")) >= 2)
        one.child.kill(signal.SIGTERM)
        assert one.end() == 143
    assert one.raw == b""
    assert running(f"sleep {marker}") == []


def test_a_command_in_the_background_waits_for_the_keyboard_as_any_job_does(tmp_path: Path) -> None:
    """It does not take what is typed at the shell, nor miss a signal to Bantam alone."""
    (tmp_path / "read.txt").write_text("!echo up; read a; echo got $a")
    (tmp_path / "loop.txt").write_text("!trap 'exit 7' INT; echo up; while :; do sleep 0.05; done")
    bantam = " ".join(map(shlex.quote, BANTAM))
    script = (
        "set -m; "
        f"{bantam} loop.txt & read a; kill -INT $!; wait $!; echo status $?; "
        f"{bantam} read.txt & read b; echo shell $b; fg; echo end"
    )
    with terminal("-c", script, folder=tmp_path, program=("bash",)) as one:
        one.wait_for("up")
        one.child.sendline("")
        one.wait_for("status 7")
        one.wait_for("up")
        one.child.sendline("mine")
        one.wait_for("shell mine")
        one.child.sendline("its")
        one.wait_for("got its")
        one.wait_for("end")
        assert one.end() == 0
