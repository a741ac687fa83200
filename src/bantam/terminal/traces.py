"""What is shown of a call, its result and its cost: long texts cut, their styles, no terminal.

The texts still are a stranger's: `Screen` filters them as it writes.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from bantam.core.events import Retry, ToolFinished, UsageSum
from bantam.core.text import shortened

# SGR codes of SPEC section 9's looks.
PLAIN: Final = "0"
BOLD_DIM: Final = "1;2"
DIM: Final = "2"
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
CYAN: Final = "36"

# Of a result, 200 lines in all (SPEC section 6): the end tells how a build failed, or timed out.
_HEAD_LINES, _TAIL_LINES = 120, 79
_DIFF_LINES: Final = 40
_LINE_CHARACTERS: Final = 400  # of a line of a diff: five rows of a terminal
# Of the content of a file: enough to know it by, since the diff shows what changes.
_CONTENT_CHARACTERS: Final = 200
_RAW_CHARACTERS: Final = 2000  # of arguments that run nothing: enough to see what they are
# Line ends and Braille's blank letter too. More of them than most texts hold at a place would push
# the rest out of sight.
_BLANKS: Final = re.compile(r"(?<![\s\u2800])[\s\u2800]{60,}")
LONG_RUN_S: Final = 2.0
_GAP: Final = re.compile(r"\n\n\n(?=exit: \d+\Z)")
_DIFF_STYLES: Final = {"@": CYAN, "+": GREEN, "-": RED}


def shown_arguments(arguments: Any) -> str:
    """Return a call's arguments as `name="value", ...`, or the raw text of what will not run.

    Only these and the content of a file are cut: what runs, and where, is always seen whole, but
    for long blanks; what tells those stands outside the quotes, where no text of the model's does.

    >>> shown_arguments({"path": "a", "offset": 7})
    'path="a", offset=7'
    """
    if isinstance(arguments, str):
        return _cut(arguments, _RAW_CHARACTERS, str)
    return ", ".join(
        f"{name}={_cut(value, _CONTENT_CHARACTERS, _json) if name == 'content' else _json(value)}"
        for name, value in arguments.items()
    )


def shown_result(event: ToolFinished) -> str:
    """Return what the line above a result names: the tool, and how long it took if that was long.

    >>> from bantam.core.events import Status
    >>> shown_result(ToolFinished("1", "shell_exec", Status.OK, "", duration_s=12.42))
    'shell_exec, 12.4 s'
    """
    took = f", {event.duration_s:.1f} s" if event.duration_s >= LONG_RUN_S else ""
    return f"{event.name}{took}"


def body_lines(text: str, *, tight: bool = False) -> list[str]:
    """Return the lines of a body, the middle of a long one left out.

    `tight`: one blank line parts a command's output from its status, not two.
    """
    text = text.removesuffix("\n")
    lines = (_GAP.sub("\n\n", text) if tight else text).split("\n")
    more = len(lines) - _HEAD_LINES - _TAIL_LINES
    if more > 1:
        lines[_HEAD_LINES:-_TAIL_LINES] = [f"[{more} more lines]"]
    return lines


def diff_lines(diff: str) -> list[tuple[str, str]]:
    r"""Return the first lines of a diff, each with its style.

    >>> diff_lines("@@ -1,1 +0,0 @@\n-a\n")
    [('@@ -1,1 +0,0 @@', '36'), ('-a', '31')]
    """
    lines = diff.split("\n")[:-1]
    more = len(lines) - _DIFF_LINES + 1
    if more > 1:
        lines[-more:] = [f"[{more} more lines]"]
    return [(shortened(blanks_told(line), _LINE_CHARACTERS), diff_style(line)) for line in lines]


def diff_style(line: str) -> str:
    """Return the style of a line of a diff."""
    return _DIFF_STYLES.get(line[:1], DIM)


def shown_line(line: str, most: int = _LINE_CHARACTERS) -> str:
    """Return a line of at most about `most` characters: the middle of a longer one is counted.

    >>> shown_line("b=2" + " " * 90 + ";evil()"), shown_line("abcdefghijk", 5)
    ('b=2 … 90 blanks … ;evil()', 'abc … 6 more characters … jk')
    """
    return _cut(blanks_told(line), most, str)


def blanks_told(text: str, form: Callable[[str], str] = str) -> str:
    r"""Return `text` in the form `form`; of many blanks on end their number stands there.

    >>> blanks_told("rm" + " " * 90 + "\n\nls", json.dumps)
    '"rm" … 92 blanks (line ends: 2) … "ls"'
    """
    parts, start = [], 0
    for blanks in _BLANKS.finditer(text):
        ends = blanks[0].count("\n")
        parts += [form(text[start : blanks.start()])] if blanks.start() > start else []
        parts += [f"… {len(blanks[0])} blanks{f' (line ends: {ends})' if ends else ''} …"]
        start = blanks.end()
    rest = [form(text[start:])] if text[start:] or not parts else []
    return " ".join(parts + rest)


def height(text: str, columns: int) -> int:
    """Return how many rows of a terminal a line takes at most, one at least; no TAB is in it."""
    # Here: a run that asks nothing does without.
    from bantam.terminal.spans import cut

    return len(cut(text, columns))


def retry_line(event: Retry, wait_s: float) -> str:
    """Return the line of a wait of which `wait_s` is left."""
    return f"[retry {event.attempt}/{event.of} in {wait_s:.0f} s: {event.reason}]"


def usage_line(usage: UsageSum) -> str:
    """Return the line behind a turn; `~` marks what was estimated.

    >>> usage_line(UsageSum(1420, 85, estimated=True, context=1420, window=200000))
    '[tokens: ~1420 prompt + ~85 completion | context: ~1420/200000 (0.7%)]'
    """
    about = "~" if usage.estimated else ""
    cache = ""
    if usage.cached is not None:
        cache = f" ({usage.cached} cached, {max(0, usage.prompt - usage.cached)} uncached)"
    share = 100 * usage.context / usage.window
    tokens = f"{about}{usage.prompt} prompt{cache} + {about}{usage.completion} completion"
    return f"[tokens: {tokens} | context: {about}{usage.context}/{usage.window} ({share:.1f}%)]"


def _cut(value: Any, most: int, form: Callable[[Any], str]) -> str:
    """Return `value` in the form `form`; of a text longer than `most`, the head and the end."""
    more = len(value) - most if isinstance(value, str) else 0
    if more <= 0:
        return form(value)
    head = most * 3 // 5
    start, end = form(value[:head]), form(value[head + more :])
    return f"{start} … {more} more characters … {end}"


def _json(value: Any) -> str:
    return blanks_told(value, _dumped) if isinstance(value, str) else blanks_told(_dumped(value))


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
