"""Every vector of `cases/text/terminal.json` through every place that shows a stranger's text.

One real Bantam goes through all of them, its output on a terminal or a pipe; what is typed comes
from a file, so that all that arrives is Bantam's own. `tests/test_screen.py` and
`tests/test_markdown.py` hold what of each text is kept; here it is that no place is left out.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pexpect
import pytest
from llmserver import LLMServer, Reply, raw
from program import BANTAM, at, environment, run

from bantam.terminal.history import History, encoded

_CASES: Final = json.loads((Path(__file__).parent / "cases/text/terminal.json").read_text("utf-8"))
_VECTORS: Final = [str(case["in"]) for case in _CASES["vectors"]]
_FORBIDDEN: Final = re.compile(
    "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _CASES["forbid_ranges"]) + "]"
)
# What Bantam itself writes: styles, and movements in rows of its own.
_OURS: Final = re.compile(r"\x1b\[[0-9;]*m|\r\x1b\[[KJ]|\x1b\[\d+A|\x1b\[\d+G\x1b\[J|\x1b\[J|\r\n")
_JSON: Final = "application/json"
# So wide that no mark is cut by the end of a row.
_SIZE: Final = (50, 1000)
_PATIENCE_S: Final = 120

# Each place puts its name and the vector's number before the vector: so it is seen to be reached.
_PLACES: Final = (
    *("model", "summary", "setting", "asked", "told", "thought", "said", "whole", "tool"),
    *("argument", "broken", "wrote", "read", "path", "refused"),
)


def _mark(place: str, number: int) -> str:
    return f"{place}{number}:"


def _one(message: dict[str, Any]) -> Reply:
    """Return an answer in one JSON text, which can hold half of a surrogate pair too."""
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return raw(json.dumps(body).encode(), content_type=_JSON, framing="length")


def _answer(body: dict[str, Any], _: int) -> Reply:
    """Answer a prompt `KIND NUMBER` by that vector, in the places of that kind."""
    last = body["messages"][-1]
    # What was undone, or failed before, may stand above the prompt.
    kind, *number = str(last["content"]).rpartition("\n")[2].split(" ")
    if last["role"] == "user" and kind in _ANSWERS:
        return _ANSWERS[kind](int(number[0]), _VECTORS[int(number[0])])
    return _one({"content": f"{_mark('whole', 0)}{_VECTORS[0]}"})


def _streamed(number: int, evil: str) -> Reply:
    parts = [("reasoning_content", _mark("thought", number)), ("reasoning_content", evil)]
    parts += [("content", part) for part in (_mark("said", number), *evil)]
    deltas = ({"choices": [{"index": 0, "delta": {name: part}}]} for name, part in parts)
    end = b"data: [DONE]\n\n"
    return raw(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in deltas) + end)


def _calling(number: int, evil: str) -> Reply:
    path = f"{_mark('path', number)}{_in_a_name(evil)}"
    wanted = [
        (f"{_mark('tool', number)}{evil}", "{}"),
        ("shell_exec", json.dumps({"command": f": '{_mark('argument', number)}{evil}'"})),
        ("shell_exec", f"{_mark('broken', number)}{evil}"),
        ("write_file", json.dumps({"path": path, "content": f"{_mark('wrote', number)}{evil}"})),
        ("shell_exec", json.dumps({"command": f"cat read{number}"})),
    ]
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(wanted)
    ]
    return _one({"content": f"{_mark('whole', number)}{evil}", "tool_calls": calls})


def _refusing(number: int, evil: str) -> Reply:
    error = {"error": {"message": f"{_mark('refused', number)}{evil}"}}
    # What httpx takes for no phrase would be asked for again nine times.
    phrase = re.sub("[\0\n\v\f\r]", "", evil).encode("latin-1", "ignore").decode("latin-1")
    body = json.dumps(error).encode()
    return raw(body, status=400, reason=phrase, content_type=_JSON, framing="length")


_ANSWERS: Final = {"say": _streamed, "call": _calling, "refuse": _refusing}


def _in_a_name(text: str) -> str:
    """Return what of `text` the name of a file can hold."""
    return re.sub("[/\0]", "", text.encode("utf-8", "ignore").decode())[:60]


def _made(folder: Path) -> list[str]:
    """Put the vectors into files; return what is typed so that all are shown."""
    sessions = folder / ".bantam" / "sessions"
    sessions.mkdir(parents=True)
    settings = []
    for number, evil in enumerate(_VECTORS):
        (folder / f"read{number}").write_bytes(
            f"{_mark('read', number)}{evil}".encode("utf-8", "surrogatepass")
        )
        stored = {
            **dict.fromkeys(("model", "endpoint", "updated", "created", "dialect"), evil),
            "summary": f"{_mark('summary', number)}{evil}",
            "messages": [
                {"role": "user", "content": f"{_mark('asked', number)}{evil}"},
                {"role": "assistant", "content": f"{_mark('told', number)}{evil}"},
            ],
        }
        (sessions / f"s{number}.json").write_text(json.dumps(stored))
        (sessions / f"x{number}{_in_a_name(evil)}.json").write_text("{")
        value = re.sub("[\r\n\x85\u2028\u2029]", "", evil)
        settings.append(f"note{number}={_mark('setting', number)}{value}")
    text = "".join(f"{line}\n" for line in settings)
    (folder / ".bantam.cfg").write_bytes(text.encode("utf-8", "replace"))
    return ["/models", "/list", "/cfg", *_typed(), "/usage", "/compact", "/save x", "/list"]


def _typed() -> Iterator[str]:
    for number, evil in enumerate(_VECTORS):
        typed = _in_a_name(evil).replace("\n", "")
        yield from (f"/load s{number}", "/export", f"say {number}", f"call {number}", "/undo")
        yield from (f"refuse {number}", f"/cfg note{number}", f"/load {typed}", f"/x{typed}")
        yield from (f"/cfg {typed}", f"/cfg timeout {typed}", f"/export no/{typed}")


def _with_vectors() -> LLMServer:
    listing = {"data": [{"id": f"{_mark('model', n)}{evil}"} for n, evil in enumerate(_VECTORS)]}
    return LLMServer(_answer, models=listing, check=False, strict=False)


def _arrived(folder: Path, url: str, term: str) -> str:
    """Return what a terminal gets that standard output and error lead to."""
    command = f"{shlex.join([*BANTAM, *at(url)])} < typed"
    child: Any = pexpect.spawn(
        "bash",
        ["-c", command],
        cwd=str(folder),
        env=environment(folder, TERM=term, COLORTERM="", TERM_PROGRAM="WezTerm"),
        dimensions=_SIZE,
        timeout=_PATIENCE_S,
    )
    arrived: bytes = child.read()
    child.close()
    return arrived.decode()


def _assert_harmless(shown: str) -> None:
    found = _FORBIDDEN.search(shown)
    assert not found, shown[max(0, found.start() - 200) : found.end() + 50]


def _missing(shown: str) -> list[str]:
    """Return the marks that were not shown."""
    marks = [_mark(place, number) for place in _PLACES for number in range(len(_VECTORS))]
    return [mark for mark in marks if mark not in shown]


@pytest.mark.timeout(_PATIENCE_S)
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_no_vector_acts_on_a_terminal_wherever_it_is_shown(term: str, tmp_path: Path) -> None:
    lines = _made(tmp_path)
    (tmp_path / "typed").write_text("".join(f"{line}\n" for line in lines))
    with _with_vectors() as server:
        shown = _OURS.sub("\n", _arrived(tmp_path, server.url, term))
    _assert_harmless(shown)
    assert _missing(shown) == []


def test_on_pipes_what_is_for_people_is_as_harmless_and_the_answers_are_whole(
    tmp_path: Path,
) -> None:
    lines = _made(tmp_path)
    with _with_vectors() as server:
        typed = "".join(f"{line}\n" for line in lines).encode()
        ended = run(*at(server.url), cwd=tmp_path, stdin=typed)
    told, given = ended.stderr.decode(), ended.stdout.decode()
    _assert_harmless(told)
    assert "Traceback" not in told
    assert _missing(told + given) == []
    listed, _, _ = given.partition("loaded s0")
    _assert_harmless(listed)


def test_what_others_put_into_the_history_is_recalled_harmless(tmp_path: Path) -> None:
    (tmp_path / "h").write_bytes(b"".join(map(encoded, _VECTORS)))
    entries = History(tmp_path / "h", str).entries
    assert len(entries) == len(_VECTORS)
    for entry in entries:
        _assert_harmless(entry)
