"""The line editor, by a person at a real pseudo-terminal: keys, the screen, what is submitted."""

import json
import os
import re
import shlex
import signal
import stat
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from editor_driver import KEY, words_after
from llmserver import LLMServer
from llmserver import text as answer
from processes import eventually, killed, unique_seconds
from program import BANTAM, at, run
from typist import DRIVER, Typist, typist

from bantam.core.cancel import Cancel
from bantam.terminal.editor import Editor
from bantam.terminal.history import History
from bantam.terminal.streams import OutputFailed

CASES: Final = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "repl.jsonl").read_text("utf-8").splitlines()
]
_ACTION: Final = re.compile(r"@(\w+):(\w+)@")
SIZES: Final = [(80, 24), (40, 12)]
UP, DOWN, LEFT = "\x1b[A", "\x1b[B", "\x1b[D"
HOME, END, DELETE = "\x1b[H", "\x1b[F", "\x1b[3~"
WORD_LEFT, WORD_RIGHT = "\x1b[1;5D", "\x1b[1;5C"
PASTE, END_PASTE = "\x1b[200~", "\x1b[201~"

both_sizes = pytest.mark.parametrize(("columns", "rows"), SIZES, ids=["80x24", "40x12"])
both_modes = pytest.mark.parametrize("mode", ["emacs", "vi"])


# -- cases from public reports ------------------------------------------------------------------


def play(one: Typist, keys: str) -> None:
    """Type `keys`, and do what stands between @ and @ in them."""
    text, *actions = _ACTION.split(keys)
    one.type(text)
    while actions:
        kind, value, text, *actions = actions
        if kind == "resize":
            one.shows("a" * 20)
            one.resize(*map(int, value.split("x")))
        else:
            one.child.kill(signal.Signals[f"SIG{value}"])
        one.type(text)


@pytest.mark.parametrize("case", [c for c in CASES if c["tty"]], ids=lambda c: c["id"])
def test_what_went_wrong_elsewhere_goes_well(case: dict[str, Any], tmp_path: Path) -> None:
    expect = case["expect"]
    prompts = expect.get("prompts", ["ok \ufffd" if "history_hex" in expect else "hi"])
    (tmp_path / "history").write_bytes(bytes.fromhex(expect.get("history_hex", "")))
    mode = "plain" if case["env"].get("TERM") == "dumb" else "emacs"
    size = {"columns": case["cols"], "rows": case["rows"]}
    with typist(tmp_path, mode, **size, env=case["env"]) as one:
        one.ready()
        play(one, case["keys"])
        if "signal" in case["keys"]:
            assert one.end() == 143
            return
        if "\x04" not in case["keys"]:
            assert one.submitted() == prompts[:1]
            one.leave()
        else:
            assert one.end() == 0
            assert one.prompts == prompts
        for text in expect.get("lacks", []):
            assert text.encode() not in one.raw
    if "then_keys" in expect:
        with typist(tmp_path, **size) as one:
            one.ready()
            one.type(expect["then_keys"])
            assert one.submitted() == prompts[1:]
            one.leave()


@pytest.mark.parametrize("case", [c for c in CASES if not c["tty"]], ids=lambda c: c["id"])
def test_piped_lines_are_prompts_without_an_escape_code(
    case: dict[str, Any], tmp_path: Path
) -> None:
    ended = run("plain", "", cwd=tmp_path, program=DRIVER, stdin=case["keys"].encode())
    assert ended.returncode == 0
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines == [*({"prompt": p} for p in case["keys"].splitlines()), {"end": True}]
    for text in case["expect"]["lacks"]:
        assert text.encode() not in ended.stdout + ended.stderr


# -- keys -------------------------------------------------------------------------------------

_SIXTY_LINES: Final = "\n".join(map(str, range(60)))
KEYS: Final = {
    "Enter sends": ("a b\r", "a b"),
    "Ctrl+J breaks the line": ("a\nb\r", "a\nb"),
    "Alt+Enter breaks the line": ("a\x1b\rb\r", "a\nb"),
    "a paste does not send": (f"{PASTE}a\rb\r\nc\n{END_PASTE}d\r", "a\nb\nc\nd"),
    "a paste may be a command": (f"{PASTE}/help{END_PASTE}\r", "/help"),
    "a paste loses what acts": (
        f"{PASTE}a\x1b[31mb\x1b]0;t\x07c\x03\x04\x00\u202ed\te{END_PASTE}\r",
        "abcd\te",
    ),
    "the end of no paste is nothing": (f"{PASTE}a{END_PASTE}b{END_PASTE}c\r", "abc"),
    "a key that is not known is nothing": ("a\x1b[13;2ub\x1b[I\x1b[25~c\r", "abc"),
    "arrows move": (f"ac{LEFT}b\r", "abc"),
    "Home and End move in the line": (f"x\nbc{HOME}a{END}d\r", "x\nabcd"),
    "Ctrl+A and Ctrl+E do so too": ("x\nbc\x01a\x05d\r", "x\nabcd"),
    "Ctrl+Left and Ctrl+Right move by words": (
        f"on two{WORD_LEFT}{LEFT}e{WORD_RIGHT}!\r",
        "one two!",
    ),
    "Alt+B and Alt+F do so too": ("on two\x1bb\x1bbz\x1bfe\r", "zone two"),
    "Delete takes what is behind": (f"abc{HOME}{DELETE}\r", "bc"),
    "Alt+D takes the word behind": ("one two\x01\x1bd\r", " two"),
    "Ctrl+W takes the word before": ("one two\x17!\r", "one !"),
    "Ctrl+U takes all before in the line": (f"x\none two{LEFT}\x15\r", "x\no"),
    "Ctrl+K takes all behind in the line": (f"one two\nx{UP}{HOME}\x0b\r", "\nx"),
    "Ctrl+Y puts back what was taken": ("one two\x17\x01\x19\r", "twoone "),
    "Ctrl+_ takes back a run of typing": ("one\x17two three\x1f\r", ""),
    "Ctrl+_ takes back one change after the other": ("one two\x17\x17\x1f\x1f\r", "one two"),
    "Ctrl+_ takes back a paste": (f"a{PASTE}bc\rd{END_PASTE}\x1f\r", "a"),
    "Ctrl+L keeps the line": ("ab\x0cc\r", "abc"),
    "Ctrl+S stops nothing": ("ab\x13\x07c\r", "abc"),
    "a mark is in the way of no key": ("ab\0c\0\x7fd\0\x01\0\x1b[3~\r", "bd"),
    "Up moves between lines": (f"a\nb{UP}c\r", "ac\nb"),
    "Backspace takes wide characters": ("漢字🦊é\x7f\x7fx\r", "漢字x"),
    "Ctrl+C clears the line": ("abc\x03d\r", "d"),
    "Ctrl+C clears all lines": ("a\nb\x03c\r", "c"),
    "Ctrl+D deletes in a line": (f"ab{LEFT}\x04c\r", "ac"),
    "bytes that are not UTF-8 are replaced": ("a\udce9b\r", "a\ufffdb"),
    "what looks like a mouse is nothing": ("a\x1b[31mb\x1b[0m\x1b[;M\x1b[<1;2Mc\x1b[M !!\r", "abc"),
    "blanks stay": ("  /x  \r", "  /x  "),
    "a line may be longer than the screen": ("word " * 300 + "\r", "word " * 300),
    "there may be more lines than on the screen": (f"{_SIXTY_LINES}\r", _SIXTY_LINES),
    "Tab completes a command": ("/he\t\r", "/help"),
    "Tab completes an argument": ("/load x\t\r", "/load xyz"),
    "Tab completes the second argument": ("/cfg model kilo/f\t\r", "/cfg model kilo/free"),
    "Tab completes what is common": ("/load a\t\r", "/load abc-"),
    "Tab again takes the first": ("/load a\t\t\r", "/load abc-1"),
    "Tab completes a path": ("see @RE\t now\r", "see @README.md now"),
    "Tab goes on in a folder": ("@su\tfi\t\r", "@sub/file"),
    "Tab completes a path from home": ("@~/RE\t\r", "@~/README.md"),
    "Tab quotes a name with a blank": ("@my\t\r", '@"my file.txt"'),
    "a line that begins with a blank is no command": (" /he\t\r", " /he"),
}


def _feels_the_size(keys: str) -> bool:
    """Whether a small screen may matter: it is filled, or there is a menu on it."""
    return len(keys) > 80 or "\t" in keys


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        pytest.param(name, *size, id=f"{name}-{size[0]}x{size[1]}")
        for name, (keys, _) in KEYS.items()
        for size in (SIZES if _feels_the_size(keys) else SIZES[:1])
    ],
)
def test_keys(name: str, columns: int, rows: int, tmp_path: Path) -> None:
    for file in ("README.md", "my file.txt", "sub/file"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    keys, expected = KEYS[name]
    with typist(tmp_path, columns=columns, rows=rows) as one:
        one.ready()
        one.type(keys)
        assert one.submitted() == [expected]
        one.leave()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("abc\x1b0ix\r", "xabc"),
        ("a\x1b\rb\r", "a\nb"),
        ("a\nb\r", "a\nb"),
        ("abc\x1b\x03d\r", "d"),
        ("abc\x1bdd\x1bix\r", "x"),
        (f"{PASTE}a\rb{END_PASTE}\r", "a\nb"),
        (f"ab\x1b0{PASTE}x\r{END_PASTE}\r", "x\nab"),
        ("one two\x1b0dwix\r", "xtwo"),
        ("abc\x1buA\x1bix\r", "x"),
        (f"one\x1bA tw.{LEFT}{DELETE}x\x7fo\r", "one two"),
    ],
)
def test_keys_of_vi(keys: str, expected: str, tmp_path: Path) -> None:
    with typist(tmp_path, "vi") as one:
        one.ready()
        one.type(keys)
        assert one.submitted() == [expected]
        one.leave()


def test_esc_and_then_enter_breaks_the_line_too(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("a")
        one.shows("> a")
        one.type("\x1b")
        one.type("\r")
        one.type("b\r")
        assert one.submitted() == ["a\nb"]


def test_of_several_lines_in_one_piece_one_is_sent(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("one\rtwo\x1b[D\rthree\r")
        one.submitted()
        one.ready()
        one.shows("> two")
        assert one.prompts == ["one"]
        one.type("x\r")
        assert one.submitted(2)[1] == "twxo"
        one.ready()
        one.shows("> three")
        one.type("\x7f\r")
        assert one.submitted(3)[2] == "thre"
        one.leave()


# -- the screen -------------------------------------------------------------------------------


@both_sizes
def test_the_line_stays_on_the_screen_as_it_was_typed(
    columns: int, rows: int, tmp_path: Path
) -> None:
    with typist(tmp_path, columns=columns, rows=rows) as one:
        one.ready()
        one.type(f"{PASTE}a\t漢字\nb{END_PASTE}\r")
        one.submitted()
        assert one.lines[:2] == ["> a   漢字", "  b"]


def test_no_menu_shows_before_tab_is_pressed(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("/l")
        one.shows("> /l")
        assert one.lines == ["> /l"]
        one.type("\t")
        one.shows("/list")
        assert [line.split() for line in one.lines[1:]] == [["/load"], ["/list"]]


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["color", "no color"])
def test_a_menu_has_colors_unless_they_are_refused(env: dict[str, str], tmp_path: Path) -> None:
    with typist(tmp_path, env=env) as one:
        one.ready()
        one.type("/l\t\t")
        one.shows("> /load")
        one.shows("/list")
        colored = re.search(rb"\x1b\[[\d;]*[34]8;", one.raw)
        assert bool(colored) == (not env)


@pytest.mark.parametrize("text", ["a" * 60, "漢字" * 20, "🦊" * 25, "one\n" + "b" * 60])
def test_a_resize_leaves_one_clean_line(text: str, tmp_path: Path) -> None:
    with typist(tmp_path, columns=40, rows=24) as one:
        one.ready()
        one.type(text)
        one.shows(text[-3:])
        for columns in (30, 70, 25):
            one.resize(columns, 24)
            one.type("x\x7f")
            one.until(lambda columns=columns: drawn(one, text, columns))  # type: ignore[misc]  # a default binds the value
        one.type("\r")
        assert one.submitted() == [text]


TMUX: Final = {"TMUX": "/tmp/tmux-0/default,1,0", "TERM": "screen-256color"}


def test_a_resize_of_tmux_leaves_one_clean_line_too(tmp_path: Path) -> None:
    text = "a" * 130 + "b"
    with typist(tmp_path, columns=100, rows=40, env=TMUX) as one:
        one.ready()
        one.type("turn\r")
        (tmp_path / "go").touch()
        one.submitted()
        one.ready()
        one.type(text)
        one.shows("ab")
        before = one.lines[:-2]
        for columns in (40, 100, 30, 33, 60, 80):
            one.rewrap(columns, 40)
            rows = wrapped(text, columns - 2)
            one.looks(*before, f"> {rows[0]}", *(f"  {row}" for row in rows[1:]))


def drawn(one: Typist, text: str, columns: int) -> bool:
    """Whether the screen shows `text` behind the prompt, wrapped, and nothing else."""
    rows = [
        f"{lead}{row}"
        for lead, row in zip(["> ", *["  "] * 9], wrapped(text, columns - 2), strict=False)
    ]
    return one.lines == rows


def wrapped(text: str, cells: int) -> list[str]:
    """Return the rows that `text` fills."""
    rows = [""]
    for character in text:
        if character == "\n":
            rows.append("")
            continue
        if sum(2 if ord(each) > 0x2E80 else 1 for each in rows[-1] + character) > cells:
            rows.append("")
        rows[-1] += character
    return rows


@pytest.mark.parametrize("columns", [20, 21, 40, 80])
@pytest.mark.parametrize(
    "text", ["a" * 17, "a" * 18, "a" * 19, "漢" * 9, "a" + "漢" * 9, "漢" * 38]
)
def test_a_line_goes_on_below_at_the_right_margin(text: str, columns: int, tmp_path: Path) -> None:
    with typist(tmp_path, columns=columns, rows=5) as one:
        one.ready()
        one.type(text)
        one.until(lambda: drawn(one, text, columns))
        one.type("\x7f!\r")
        assert one.submitted() == [f"{text[:-1]}!"]


def test_a_small_screen_shows_the_end_of_a_long_line(tmp_path: Path) -> None:
    with typist(tmp_path, columns=20, rows=5) as one:
        one.ready()
        one.type("word " * 50 + "end")
        one.shows("end")
        one.type(f"{HOME}begin ")
        one.shows("> begin word word")
        one.type("\r")
        assert one.submitted() == ["begin " + "word " * 50 + "end"]


@pytest.mark.parametrize("text", ["漢" * 200, "漢 a" * 50, f"{'漢' * 20}\n" * 20], ids=len)
@pytest.mark.parametrize("columns", [20, 21, 22])
def test_the_end_of_wide_characters_is_on_the_screen(
    text: str, columns: int, tmp_path: Path
) -> None:
    with typist(tmp_path, columns=columns, rows=5) as one:
        one.ready()
        one.type(f"{PASTE}{text}{END_PASTE}en")
        one.shows("en")
        one.type(f"{LEFT}x")
        one.shows("exn")
        one.type("\r")
        assert one.submitted() == [f"{text}exn"]


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["color", "no color"])
def test_the_prompt_is_bold_unless_colors_are_refused(env: dict[str, str], tmp_path: Path) -> None:
    with typist(tmp_path, env=env) as one:
        one.ready()
        one.type("ab")
        one.shows("> ab")
        marks = [one.screen.buffer[0][column].bold for column in (0, 2, 3)]
        assert marks == [not env, False, False]


def test_a_menu_leaves_the_line_on_a_small_screen(tmp_path: Path) -> None:
    with typist(tmp_path, columns=20, rows=5) as one:
        one.ready()
        one.type("/l\t")
        one.shows("/list")
        assert [line.strip() for line in one.lines] == ["> /l", "/load", "/list"]


def test_a_terminal_that_does_not_know_its_size_takes_lines(tmp_path: Path) -> None:
    program = " ".join(shlex.quote(word) for word in (*DRIVER, "emacs", ""))
    script = f"stty rows 0 columns 0; {program}"
    with typist(tmp_path, program=("sh", "-c", script)) as one:
        one.ready()
        one.type(f"{PASTE}one\rtwo{END_PASTE}!")
        one.until(lambda: one.lines == ["> one", "  two!"])
        one.type("\r")
        assert one.submitted() == ["one\ntwo!"]
        one.leave()


# -- history ----------------------------------------------------------------------------------


def test_up_and_down_walk_the_history_and_keep_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("first\nsecond\\nof two\n")
    with typist(tmp_path) as one:
        one.ready()
        one.type(f"dr{UP}{UP}{UP}")
        one.shows("> first")
        one.type(DOWN)
        one.shows("  of two")
        one.type(f"{DOWN}{DOWN}x\r")
        assert one.submitted() == ["drx"]
        one.ready()
        one.type(f"{UP}{UP}\r")
        assert one.submitted(2)[1] == "second\nof two"
        one.leave()


def test_ctrl_r_searches_the_history(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("alpha beta\ngamma\n")
    with typist(tmp_path) as one:
        one.ready()
        one.type("\x12alp")
        one.shows("alpha beta")
        one.type("\r\r")
        assert one.submitted() == ["alpha beta"]
        one.leave()


def test_ctrl_r_goes_on_to_what_is_older_and_ctrl_s_comes_back(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("alpha 1\nbeta\nalpha 2\nalpha 3\n")
    with typist(tmp_path) as one:
        one.ready()
        one.type("\x12alp")
        one.shows("> alpha 3")
        one.type("\x12\x12")
        one.shows("> alpha 1")
        one.type("\x13")
        one.shows("> alpha 2")
        one.type("\r\r")
        assert one.submitted() == ["alpha 2"]


def test_an_entry_of_many_lines_is_shown_and_found_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("one\\n  two\\n\\nthree\nlast\n")
    with typist(tmp_path) as one:
        one.ready()
        one.type(f"{UP}{UP}")
        one.until(lambda: one.lines == ["> one", "    two", "", "  three"])
        one.type("\x03")
        one.until(lambda: one.lines == [">"])
        one.type("\x12two")
        one.until(lambda: one.lines[:4] == ["> one", "    two", "", "  three"])
        one.type("\r!\r")
        assert one.submitted() == ["one\n  !two\n\nthree"]


def test_ctrl_c_ends_a_search(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("alpha beta\n")
    with typist(tmp_path) as one:
        one.ready()
        one.type("x\x12alp\x03y\r")
        assert one.submitted() == ["xy"]


def test_no_key_is_kept(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        for prompt in ("hello", "/cfg api_key sk-new-one-xyz", f"use {KEY} for it"):
            one.ready()
            one.type(f"{prompt}\r")
            one.until(lambda prompt=prompt: prompt in one.prompts)  # type: ignore[misc]  # a default binds the value
        one.ready()
        one.type(f"{UP}\r")
        assert one.submitted(4)[-1] == "hello"
        one.leave()
    assert (tmp_path / "history").read_bytes() == b"hello\n"
    assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o600


# -- the user's editor --------------------------------------------------------------------------

_EDITOR: Final = """
import os, stat, sys
file = sys.argv[1]
text = open(file).read()
modes = [oct(stat.S_IMODE(os.stat(path).st_mode)) for path in (file, os.path.dirname(file))]
try:
    print("editing", *modes, flush=True)
    word = input()
except KeyboardInterrupt:
    word = "interrupted"
open(file, "w", newline="").write(f"{text}\\r\\n{word}\\x1b[31m!\\n")
"""


@pytest.fixture
def editor(tmp_path: Path) -> dict[str, str]:
    """The environment that names an editor, which appends a line typed to it."""
    (tmp_path / "my editor.py").write_text(_EDITOR)
    return {"VISUAL": f"'{sys.executable}' 'my editor.py'", "EDITOR": "false"}


@both_modes
@pytest.mark.parametrize(("keys", "word"), [("more\r", "more"), ("\x03", "interrupted")])
def test_what_the_users_editor_makes_of_it_is_in_the_line(
    mode: str, keys: str, word: str, editor: dict[str, str], tmp_path: Path
) -> None:
    with typist(tmp_path, mode, env=editor) as one:
        one.ready()
        one.type("text\x18\x05")
        one.shows("editing 0o600 0o700")
        one.type(keys)
        one.shows(f"  {word}!")
        assert one.prompts == []
        one.type("?\r")
        assert one.submitted() == [f"text\n{word}!?"]
        one.leave()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"EDITOR": "false"}, "[false ended with status 1; nothing is changed]"),
        ({"EDITOR": "no-such-editor"}, "[no-such-editor: No such file or directory; see $VISUAL"),
        ({"EDITOR": "'"}, "[$VISUAL or $EDITOR is "),
        ({"PATH": "/nowhere"}, "[there is no editor; name one in $EDITOR]"),
    ],
)
def test_an_editor_that_fails_changes_nothing(
    env: dict[str, str], message: str, tmp_path: Path
) -> None:
    with typist(tmp_path, env=env) as one:
        one.ready()
        one.type("text\x18\x05")
        one.shows(message)
        one.until(lambda: one.lines[-1] == "> text")
        one.type("?\r")
        assert one.submitted() == ["text?"]
        one.leave()


def test_without_a_name_an_editor_that_is_there_is_taken(tmp_path: Path) -> None:
    (tmp_path / "nano").write_text("#!/bin/sh\necho more >> $1\n")
    (tmp_path / "nano").chmod(0o755)
    with typist(tmp_path, env={"PATH": str(tmp_path)}) as one:
        one.ready()
        one.type("text\n\x18\x05")
        one.shows("  more")
        one.type("\r")
        assert one.submitted() == ["text\nmore"]


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["meek", "stubborn"])
def test_sigterm_ends_the_users_editor_too(trap: str, tmp_path: Path) -> None:
    marker = unique_seconds()
    script = f"{trap}stty -echo; echo editing; sleep {marker} & wait; wait"
    with typist(tmp_path, env={"EDITOR": f'sh -c "{script}"'}) as one:
        one.ready()
        one.type("text\x18\x05")
        one.shows("editing")
        one.child.kill(signal.SIGTERM)
        assert one.end() == 143
    killed(marker)


# -- ways out ---------------------------------------------------------------------------------


@both_modes
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)]
)
def test_a_signal_ends_the_editor_and_the_terminal_is_as_before(
    mode: str, number: signal.Signals, status: int, tmp_path: Path
) -> None:
    with typist(tmp_path, mode) as one:
        one.ready()
        one.type("a\nb")
        one.shows("  b")
        one.child.kill(number)
        assert one.end() == status
        assert one.prompts == []


def test_a_terminal_that_goes_away_ends_the_editor(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.child.ptyproc.fileobj.close()  # not pexpect's own: it sends signals of its own too
        assert eventually(lambda: not one.child.isalive())
        assert (one.child.exitstatus, one.child.signalstatus) == (143, None)


def test_a_fault_behind_a_key_rings_the_bell_and_costs_nothing(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("/noise \t\x03")
        one.type("/broken \t")
        one.until(lambda: one.raw.count(b"\x07") == len(("reported", "raised")))
        one.type("on\r")
        assert one.submitted() == ["/broken on"]
        one.leave()


def test_a_terminal_that_takes_no_more_is_told() -> None:
    keyboard, stdin = os.openpty()
    screen, stdout = os.openpty()
    with os.fdopen(stdin) as keys, os.fdopen(stdout, "w") as out:
        editor = Editor(
            keys,
            out,
            history=History(None, str),
            words_after=words_after,
            environ={"TERM": "xterm"},
        )
        os.close(screen)
        with pytest.raises(OutputFailed):
            editor.read("> ", Cancel())
    os.close(keyboard)


def test_ctrl_z_gives_the_terminal_to_the_shell_and_back(tmp_path: Path) -> None:
    program = " ".join(shlex.quote(word) for word in (*DRIVER, "emacs", ""))
    script = f"set -m; {program}; stty -a | grep -o ' echo '; read a; echo got $a; fg; echo end"
    with typist(tmp_path, program=("bash", "-c", script)) as one:
        one.ready()
        one.type("abc")
        one.shows("> abc")
        one.type("\x1a")
        one.shows(" echo")
        one.type("it\r")
        one.shows("got it")
        one.until(lambda: one.lines[-1] == "> abc")
        one.type("d\r")
        assert one.submitted() == ["abcd"]
        one.ready()
        one.type("\x04")
        assert one.end() == 0
        assert one.lines[-1] == "end"


# -- what is typed during a turn --------------------------------------------------------------


def ahead(one: Typist, keys: str, *, rest: str = "") -> None:
    """Type `keys` during a turn, and `rest` when the prompt after it takes keys."""
    one.ready()
    one.type("turn\r")
    one.shows('{"turn": "starts"}')
    one.type(keys)
    Path(one.folder, "go").touch()
    one.shows('{"turn": "ends"}')
    one.ready()
    one.type(rest)


def test_what_is_typed_during_a_turn_is_in_the_editor_after_it(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        ahead(one, "nexx\x7ft 漢字")
        one.shows("> next 漢字")
        assert one.raw.count("漢字".encode()) == 1
        assert one.prompts == ["turn"]
        one.type("!\r")
        assert one.submitted(2)[1] == "next 漢字!"
        one.leave()


def test_each_line_typed_during_a_turn_waits_for_a_prompt_of_its_own(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        ahead(one, "hi\r\r/cfg model x\rend")
        for number, line in enumerate(("hi", "/cfg model x", "end"), start=2):
            one.ready()
            one.until(lambda line=line: one.lines[-1] == f"> {line}")  # type: ignore[misc]  # a default binds the value
            one.type("\r")
            assert one.submitted(number)[-1] == line
        one.leave()


_AHEAD: Final = {
    "Ctrl+U": ("no\x15yes", "yes"),
    "Ctrl+W": ("one two\x17!", "one !"),
    "Ctrl+K and Ctrl+Y": ("ab\x01\x0b\x19\x19", "abab"),
    "Ctrl+_": ("ab\x17c\x1f\x1f", "ab"),
    "arrows": (f"ac{LEFT}b", "abc"),
    "Home, End and Delete": (f"bc{HOME}a{END}d{HOME}{DELETE}", "bcd"),
    "words": (f"on two{WORD_LEFT}{LEFT}e{WORD_RIGHT}!", "one two!"),
    "Alt and a letter": ("on two\x1bb\x1bbz\x1bfe", "zone two"),
    "line breaks": ("a\nb\x1b\rc", "a\nb\nc"),
    "a paste": (f"a{PASTE}b\rc\x1b[31m\r{END_PASTE}d", "ab\nc\nd"),
    "Tab": ("/l\toad", "/load"),
    "what leaves": ("a\x01\x04\x7f\x05b\x04", "ab"),
    "what sends": ("a\x0f\x1b#b", "ab"),
    "what runs an editor": ("a\x18\x05b", "ab"),
    "what searches or walks the history": (f"a\x12b{UP}c\x10d", "abcd"),
    "what is no key": ("a\x1b[25~b\x1b[31mc\x1b[13;2ud\x1bxe\x00", "abcde"),
    "more than a key for each": ("漢é" * 300 + "\x7f", "漢é" * 299 + "漢"),
}


@pytest.mark.parametrize("name", _AHEAD)
def test_keys_typed_during_a_turn_do_what_they_do_later_but_none_acts(
    name: str, tmp_path: Path
) -> None:
    keys, expected = _AHEAD[name]
    with typist(tmp_path, env={"EDITOR": "false"}) as one:
        ahead(one, keys, rest=f"{END}!\r")
        assert one.submitted(2)[1] == f"{expected}!"
        one.leave()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("abc\x1b0ix", "!xabc"), ("one two\x1b0dwix", "!xtwo"), ("a\x0e\x04b", "!ab")],
)
def test_keys_of_vi_typed_during_a_turn_do_what_they_do_later(
    keys: str, expected: str, tmp_path: Path
) -> None:
    with typist(tmp_path, "vi") as one:
        ahead(one, keys, rest="\x1b0i!\r")
        assert one.submitted(2)[1] == expected
        one.leave()


def test_pastes_are_marked_during_a_turn_too(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        ahead(one, "")
        _, on, during = one.raw.partition(b'{"prompt": "turn"}')[2].partition(b"\x1b[?2004h")
        assert on
        assert during.index(b'"starts"') < during.index(b'"ends"') < during.index(b"\x1b[?2004l")


def test_a_paste_that_a_turn_begins_or_ends_in_is_one(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type(f"turn\r{PASTE}a\r")
        one.shows('{"turn": "starts"}')
        one.type("b\r")
        (tmp_path / "go").touch()
        one.shows('{"turn": "ends"}')
        one.ready()
        one.type(f"c\r{END_PASTE}d\r")
        assert one.submitted(2)[1] == "a\nb\nc\nd"
        one.leave()


def test_what_waits_behind_a_line_comes_before_what_is_typed_later(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("turn\ron")
        one.shows('{"turn": "starts"}')
        one.type("e\rtwo")
        (tmp_path / "go").touch()
        one.shows("> one")
        one.type("\r")
        one.submitted(2)
        one.until(lambda: one.lines[-1] == "> two")
        one.type("\r")
        assert one.submitted(3) == ["turn", "one", "two"]


def test_ctrl_c_clears_what_waits_too(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        ahead(one, "one\rtwo\r")
        one.shows("> one")
        one.type("\x03end\r")
        assert one.submitted(2)[1] == "end"
        one.leave()


def test_ctrl_c_during_a_turn_is_a_signal_and_the_terminal_is_as_before(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("turn\r")
        one.shows('{"turn": "starts"}')
        one.type("abc\x03")
        assert one.end() == 130
        assert b"abc" not in one.raw


def test_ctrl_c_reaches_a_turn_behind_more_than_the_terminal_can_hold(tmp_path: Path) -> None:
    with (
        LLMServer([answer("A.", hold=True)]) as server,
        typist(tmp_path, program=(*BANTAM, *at(server.url))) as one,
    ):
        one.ready()
        one.type("a\r")
        server.wait_for_stall()
        one.type("kept" + "x\x7f" * 4096 + "\x03")
        one.shows("[interrupted]")
        one.shows("> kept")


def test_what_was_typed_before_a_question_is_no_answer_to_it(tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("ask\ry\r")
        one.shows("Go on? [y/N]")
        one.type("n\r")
        one.until(lambda: {"answer": "n"} in one.said)
        one.ready()
        one.until(lambda: one.lines[-1] == "> y")
        one.type(f"{UP}{UP}\r")
        assert one.submitted(2) == ["ask", "ask"]


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_a_question_may_get_no_answer(key: str, tmp_path: Path) -> None:
    with typist(tmp_path) as one:
        one.ready()
        one.type("ask\r")
        one.shows("Go on? [y/N]")
        one.type(key)
        one.until(lambda: {"answer": None} in one.said)
        one.leave()
