"""What must be left of a turn that was cut off (SPEC section 11), and how it goes on.

Each function yields, a line each, what is wrong.
"""

import json
from collections.abc import Iterator
from typing import Any

from llmserver import validate
from stories import GO_ON, MOST_REQUESTS, RESUMED, Done, Message, Place, Story, messages_in

from bantam.core.messages import NOT_RUN_RESULT, UNKNOWN_RESULT


def after_crash(story: Story, place: Place, cut_off: Done) -> Iterator[str]:
    """Go on after `cut_off` was killed; yield what is wrong."""
    received = place.requests()
    known, begun, marks = _known(story, cut_off.stdout, received), _has_begun(place), place.marks()
    sent, resumed = resume(place)
    if b"Traceback" in cut_off.stderr or marks > 1:
        yield f"the turn: {marks} marks, {cut_off.stderr!r}"
    if place.has_new_note() and b'"write"' not in place.snapshot.with_suffix(".undo").read_bytes():
        yield "a file was written, and what puts it back is not stored"
    yield from clean(place, resumed, is_first=not story.before and not known)
    yield from lost_before(story, place)
    yield from _continued(story, place, known, begun=begun)
    yield from _sent(sent, received)
    if place.marks() > max(marks, 1):
        yield "the command ran again"


def resume(place: Place) -> tuple[bytes, Done]:
    """Run the next turn, undisturbed; return its request too."""
    place.answers([RESUMED] * (MOST_REQUESTS - len(place.requests())))
    number = len(place.requests())
    done = place.turn(GO_ON, "--json", "-c")
    return (place.requests()[number:] or [b""])[0], done


def clean(place: Place, done: Done, *, is_first: bool = False) -> Iterator[str]:
    """Yield what a turn complained of, and files that it left; `is_first`: no session before."""
    if (done.returncode, done.stderr) != (0, b""):
        yield f"going on: status {done.returncode}, {done.stderr.decode()}"
    events = _events(done.stdout)
    notices = [event["text"] for event in events if event["type"] == "notice"]
    if notices and not (is_first and notices == ["this project has no session yet: it begins now"]):
        yield f"going on: {notices}"
    names = {path.name for path in place.snapshot.parent.iterdir()}
    other = {name for name in names if not name.endswith((".json", ".undo"))}
    if other or any(name.startswith(".") for name in names):
        yield f"left behind: {sorted(names)}"


def continued(story: Story, stored: list[Message]) -> tuple[int, list[Message]]:
    """Return how many messages of the story are stored, and what stands between them and `GO_ON`.

    `GO_ON` and its answer must stand at the end.
    """
    kept, end = stored[:-2], [message["content"] for message in stored[-2:]]
    assert end == [GO_ON, "Resumed."], f"it ends in {end}"
    if kept == (story.before or story.first):
        return len(story.first), []
    count = 0
    while count < min(len(kept), len(story.messages)) and kept[count] == story.messages[count]:
        count += 1
    return count, kept[count:]


def lost_before(story: Story, place: Place) -> Iterator[str]:
    """Yield it if no session begins with the conversation that was stored before the story."""
    length = len(story.before)
    snapshots = place.snapshot.parent.glob("*.json")
    if story.before not in [messages_in(path, place.folder)[:length] for path in snapshots]:
        yield "the conversation before is gone"


def _continued(story: Story, place: Place, known: int, *, begun: bool) -> Iterator[str]:
    count, results = continued(story, place.stored())
    if count < known:
        yield f"of {known} messages that were sent or shown, {count} are stored"
    step = (count - len(story.first)) / 2
    if step not in (1, 2):
        if results:
            yield f"made up: {results}"
        return
    wanted = UNKNOWN_RESULT if begun else NOT_RUN_RESULT
    call = f"call_{step:.0f}"
    if results != [{"role": "tool", "content": wanted, "tool_call_id": call}]:
        yield f"{call} has the results {results}, not {wanted!r}"
    if not begun and (place.marks() if step == 1 else place.has_new_note()):
        yield f"{call} was done, and its start is not stored"


def _known(story: Story, output: bytes, received: list[bytes]) -> int:
    """Return how many messages of the story had been shown or sent; 0 if it had not begun."""
    kinds = [event["type"] for event in _events(output)]
    if not kinds and not received:
        return 0
    shown = kinds.count("message") + kinds.count("tool_result")
    sent = len(json.loads(received[-1])["messages"]) if received else 0
    return max(len(story.first) + 1 + shown, sent)


def _events(output: bytes) -> list[dict[str, Any]]:
    """Return the events of a run that may have ended within a line."""
    return [json.loads(line) for line in output.split(b"\n")[:-1]]


def _has_begun(place: Place) -> bool:
    """Whether the journal ends in the start of a call, by SPEC section 12's words."""
    journal = place.snapshot.with_suffix(".journal")
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    return bool(lines) and "start" in json.loads(lines[-1])


def _sent(body: bytes, received: list[bytes]) -> Iterator[str]:
    if not body:
        yield "nothing was sent"
        return
    yield from validate(json.loads(body)["messages"])
    if not received:
        return
    before = _messages_text(received[-1]).removesuffix("]")
    if json.loads(received[-1])["messages"][-1]["role"] == "user":
        before = before.removesuffix('"}')  # the next prompt joins it
    if not _messages_text(body).startswith(before):
        yield "the request does not begin as the one before it"


def _messages_text(body: bytes) -> str:
    """Return the text of a request's messages as it was sent."""
    content = body.decode()
    start = content.index("[", content.index('"messages":'))
    _, end = json.JSONDecoder().raw_decode(content, start)
    return content[start:end]
