"""What must be left of a run that was cut off (SPEC section 11), and how it goes on.

Each function yields, a line each, what is wrong.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from llmserver import validate
from stories import GO_ON, MOST_REQUESTS, RESUMED, Done, Message, Place, Story, messages_in

from bantam.core.messages import NOT_RUN_RESULT, UNKNOWN_RESULT

DAMAGED: Final = "{"
LATER: Final = "Later."
UNKNOWN: Final = {"role": "tool", "content": UNKNOWN_RESULT, "tool_call_id": "call_1"}
CUT_OFF: Final = (
    "the last run of this session was cut off in {}: check what that did, it may still run"
)


def after_crash(story: Story, place: Place, cut_off: Done) -> Iterator[str]:
    """Go on after `cut_off` was killed; yield what is wrong."""
    received = place.requests()
    known, begun, marks = _known(story, cut_off.stdout, received), _begun(place), place.marks()
    sent, resumed = resume(place)
    if b"Traceback" in cut_off.stderr or marks > 1:
        yield f"the turn: {marks} marks, {cut_off.stderr!r}"
    if place.has_new_note() and b'"write"' not in place.snapshot.with_suffix(".undo").read_bytes():
        yield "a file was written, and what puts it back is not stored"
    yield from clean(place, resumed, is_first=not story.before and not known, cut_off=begun)
    yield from lost_before(story, place)
    yield from _continued(story, place, known, begun=bool(begun))
    yield from _sent(sent, received)
    if place.marks() > max(marks, 1):
        yield "the command ran again"


def resume(place: Place) -> tuple[bytes, Done]:
    """Run the next turn, undisturbed; return its request too."""
    place.answers([RESUMED] * (MOST_REQUESTS - len(place.requests())))
    number = len(place.requests())
    done = place.turn(GO_ON, "--json", "-c")
    return (place.requests()[number:] or [b""])[0], done


def after_undo(story: Story, place: Place, done: Done) -> Iterator[str]:
    """Undo again and go on after an undo that did not end well; yield what is wrong."""
    if b"Traceback" in done.stderr:
        yield f"the undo: {done.stderr.decode()}"
    place.has_new_note()
    again = place.undo()
    if (again.returncode, again.stderr) != (0, b""):
        yield f"undo again: status {again.returncode}, {again.stderr.decode()}"
    if place.has_new_note():
        yield f"the file was not put back: {again.stdout.decode()}"
    went_on = place.turn(GO_ON, "--json", "-c")
    yield from clean(place, went_on)
    stored = place.stored()
    if stored[: len(story.messages)] != story.messages:
        yield f"lost: {stored}"
    if [message["content"] for message in stored[-2:]] != [GO_ON, "Resumed."]:
        yield f"it ends in {stored[-2:]}"
    if b"The user has undone your last changes of " not in place.requests()[-1]:
        yield "the model does not hear of the undo"


def after_recovery(story: Story, place: Place, cut_off: Done) -> Iterator[str]:
    """Go on after `cut_off`, which went on from a story cut off in its first call, was killed too.

    Yield what is wrong.
    """
    received = [body for body in place.requests() if GO_ON.encode() in body]
    is_stored = UNKNOWN_RESULT in place.snapshot.read_text()
    done = place.turn(LATER, "--json", "-c")
    if b"Traceback" in cut_off.stderr or place.marks() != 1:
        yield f"the turn: {place.marks()} marks, {cut_off.stderr!r}"
    yield from clean(place, done, cut_off="" if is_stored else "shell_exec")
    known = [*story.messages[: len(story.first) + 2], UNKNOWN]
    yield from _went_on(place, known, cut_off)
    yield from _sent(place.requests()[-1], received)


def after_lost_snapshot(story: Story, place: Place, cut_off: Done) -> Iterator[str]:
    """Go on as above, where the snapshot was damaged: what was in the journal is no new turn's."""
    done = place.turn(LATER, "--json", "-c")
    if (done.returncode, done.stderr) != (0, b"") or b"Traceback" in cut_off.stderr:
        yield f"status {done.returncode}, {done.stderr.decode()}, {cut_off.stderr.decode()}"
    if place.marks() != 1:
        yield f"the command ran {place.marks()} times"
    kept = [path.read_text() for path in place.snapshot.parent.glob("*.damaged*")]
    if DAMAGED not in kept or not any('"start"' in content for content in kept):
        yield f"kept are only {kept}"
    yield from _went_on(place, story.first[:1], cut_off)


def _went_on(place: Place, known: list[Message], cut_off: Done) -> Iterator[str]:
    """Yield it if behind `known` there is not what happened of `GO_ON`, and `LATER`."""
    stored = place.stored()
    contents = [message["content"] for message in stored[len(known) :]]
    more = [GO_ON, "Resumed."]
    shown = sum(event["type"] == "message" for event in _events(cut_off.stdout))
    sent = any(GO_ON.encode() in body for body in place.requests()[:-1])
    if stored[: len(known)] != known or contents not in [
        [*more[:number], LATER, "Resumed."] for number in range(max(shown * 2, int(sent)), 3)
    ]:
        yield f"stored is {stored}, shown was {cut_off.stdout.decode()}"


def clean(place: Place, done: Done, *, is_first: bool = False, cut_off: str = "") -> Iterator[str]:
    """Yield what a turn complained of, and files that it left.

    `is_first`: there may be no session before. `cut_off`: the tool that was running in that.
    """
    if (done.returncode, done.stderr) != (0, b""):
        yield f"going on: status {done.returncode}, {done.stderr.decode()}"
    notices = notices_of(done)
    if notices != ([CUT_OFF.format(cut_off)] if cut_off else []) and not (
        is_first and notices == ["this project has no session yet: it begins now"]
    ):
        yield f"going on: {notices}"
    yield from left_over(place)


def notices_of(done: Done) -> list[str]:
    """Return what a turn with --json told in passing."""
    return [event["text"] for event in _events(done.stdout) if event["type"] == "notice"]


def left_over(place: Place) -> Iterator[str]:
    """Yield the files of sessions that nobody needs any more."""
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


def _begun(place: Place) -> str:
    """Return the tool in whose start the journal ends, by SPEC section 12's words; "" if none."""
    journal = place.snapshot.with_suffix(".journal")
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    last = json.loads(lines[-1]) if lines else {}
    name: str = last.get("start", {}).get("name", "")
    return name


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
