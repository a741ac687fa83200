"""A turn of three steps in a real Bantam, cut off or on a failing disk, and what must be left of it.

    story = Story.told(folder, shim, "-c")          # the turn undisturbed: its calls, its messages
    place = story.copy(other)
    cut_off = place.turn(PROMPT, "-c", **shim.crash("before", 7, *place.watched))
    problems = list(after_crash(story, place, cut_off))

The model is a shell script: it keeps each request that it received and gives the next answer. What
the screen had shown are the events of `--json`. Every path within a place is relative or, in the
stored text, replaced, so that a finished turn can be copied to another folder and go on there.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from faults import Call, Shim, calls
from llmreplies import Reply, shell, text, write
from llmserver import LLMServer, validate
from program import at, environment, run

from bantam.core.messages import NOT_RUN_RESULT, UNKNOWN_RESULT
from bantam.sessions.store import project_id

PROMPT: Final = "Take three steps."
GO_ON: Final = "Go on."
ANSWER: Final = "All done."
STEPS: Final = (
    shell("echo ran >> marks.txt"),
    write("note.txt", "new\n", del_bytes=4, start=2),
    text(ANSWER),
)
_OLD_NOTE: Final = "old\n"
_MODEL: Final = """cd ..
number=$(($(ls requests | wc -l) + 1))
cat > requests/$number
cat answers/$number
"""
_MOST_REQUESTS: Final = 9
RESUMED: Final = text("Resumed.")

Done = subprocess.CompletedProcess[bytes]
Message = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """A project, the home of its sessions, and its model: the script, or `server`."""

    folder: Path
    server: LLMServer | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def session_id(self) -> str:
        return project_id(self.project)

    @property
    def snapshot(self) -> Path:
        return self.home / "sessions" / f"{self.session_id}.json"

    @property
    def watched(self) -> tuple[Path, Path]:
        return self.home, self.project

    def make(self) -> None:
        """Make the project and the model; nothing is stored yet."""
        for name in ("project", "requests", "answers"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "model.sh").write_text(_MODEL)
        (self.project / "note.txt").write_text(_OLD_NOTE)

    def answers(self, replies: Iterable[Reply]) -> None:
        """Let the next requests be answered so."""
        number = len(self.requests())
        for number, reply in enumerate(replies, start=number + 1):
            assert reply.whole is not None
            (self.folder / "answers" / str(number)).write_bytes(reply.whole)

    def requests(self) -> list[bytes]:
        """Return the bodies that the model received."""
        if self.server is not None:
            return [request.body for request in self.server.chat]
        folder = self.folder / "requests"
        names = sorted(folder.iterdir(), key=lambda path: int(path.name))
        return [path.read_bytes() for path in names]

    def turn(self, prompt: str, *options: str, **env: str) -> Done:
        """Run one turn; `env` comes on top of the environment."""
        return run(*self.arguments(prompt, *options), cwd=self.project, env=self.environment(**env))

    def arguments(self, prompt: str, *options: str) -> tuple[str, ...]:
        """Return those of a turn."""
        url = "run://sh ../model.sh" if self.server is None else self.server.url
        return (*at(url), *options, "-p", prompt)

    def environment(self, **more: str) -> dict[str, str]:
        """Return that of a turn here. Without coverage, which would take most of the time."""
        plain = environment(self.folder, **{"BANTAM_HOME": str(self.home), **more})
        return {name: value for name, value in plain.items() if not name.startswith("COVERAGE")}

    def stored(self) -> list[Message]:
        """Return the messages of the snapshot; [] without one. The folder's path is taken out."""
        return messages_in(self.snapshot, self.folder) if self.snapshot.exists() else []

    def marks(self) -> int:
        """Return how often the command of the first step ran."""
        path = self.project / "marks.txt"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def has_new_note(self) -> bool:
        """Whether the second step was done. The file is whole, old or new, at any time."""
        note = (self.project / "note.txt").read_text()
        assert note in (_OLD_NOTE, "new\n"), note
        return note != _OLD_NOTE


def messages_in(snapshot: Path, folder: Path) -> list[Message]:
    """Return the messages of a session's file, the path of `folder` taken out."""
    content = json.loads(snapshot.read_text().replace(str(folder), "PLACE"))
    found: list[Message] = content["messages"]
    return found


@dataclass(frozen=True, slots=True)
class Story:
    """The turn as it is when nothing disturbs it.

    `first`: what it begins with (system message, a finished turn); `before`: what is stored before
    it; `messages`: what is stored at its end. `options` are those of the turn.
    """

    template: Path
    options: tuple[str, ...]
    first: list[Message]
    before: list[Message]
    messages: list[Message]
    calls: list[Call]

    @classmethod
    def told(cls, folder: Path, shim: Shim, *options: str, finished_turn: bool) -> "Story":
        """Tell it below `folder`, after a finished turn if so told."""
        template = Place(folder / "template")
        template.make()
        if finished_turn:
            template.answers([text("At your service.")])
            assert template.turn("Hello.", "--json").returncode == 0
            shutil.rmtree(template.folder / "requests")
            (template.folder / "requests").mkdir()
        before = template.stored()
        place = _copied(template.folder, folder / "undisturbed")
        place.answers(STEPS)
        env = shim.recording(folder / "log", *place.watched)
        done = place.turn(PROMPT, "--json", *options, **env)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr
        messages = place.stored()
        first = messages[: messages.index({"role": "user", "content": PROMPT})]
        return cls(template.folder, options, first, before, messages, calls(folder / "log"))

    def copy(self, folder: Path) -> Place:
        """Return a place where the turn can begin."""
        place = _copied(self.template, folder)
        place.answers(STEPS)
        return place


def _copied(template: Path, folder: Path) -> Place:
    shutil.copytree(template, folder)
    old, new = Place(template), Place(folder)
    for path in [*(folder / "home").glob("sessions/*")]:
        # As if the turn had been here: a session knows its project.
        content = path.read_text().replace(str(template), str(folder))
        path.write_text(content.replace(old.session_id, new.session_id))
        path.rename(path.with_name(path.name.replace(old.session_id, new.session_id)))
    return new


def at_once(job: Callable[[T], Iterable[str]], cases: Iterable[T]) -> list[str]:
    """Return what is wrong in any of `cases`, each line with its case; several run at a time."""

    def told(case: T) -> list[str]:
        lines: list[str] = []
        try:
            lines.extend(f"{case}: {problem}" for problem in job(case))
        except AssertionError as error:
            lines.append(f"{case}: {error}")
        return lines

    with ThreadPoolExecutor(4) as pool:
        return [line for lines in pool.map(told, cases) for line in lines]


# -- after a crash ----------------------------------------------------------------------------


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
    yield from _continued(story, place, known, begun=begun)
    yield from _sent(sent, received)
    if place.marks() > max(marks, 1):
        yield "the command ran again"


def resume(place: Place) -> tuple[bytes, Done]:
    """Run the next turn, undisturbed; return its request too."""
    place.answers([RESUMED] * (_MOST_REQUESTS - len(place.requests())))
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
    count = 0
    while count < min(len(kept), len(story.messages)) and kept[count] == story.messages[count]:
        count += 1
    return count, kept[count:]


def _continued(story: Story, place: Place, known: int, *, begun: bool) -> Iterator[str]:
    stored = place.stored()
    if story.before and story.before not in _all_beginnings(place, len(story.before)):
        yield "the conversation before is gone"
    if not known and stored[:-2] == (story.before or story.first):
        return
    count, results = continued(story, stored)
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


def _all_beginnings(place: Place, length: int) -> list[list[Message]]:
    snapshots = place.snapshot.parent.glob("*.json")
    return [messages_in(path, place.folder)[:length] for path in snapshots]


def _known(story: Story, output: bytes, received: list[bytes]) -> int:
    """Return how many messages of the story had been shown or sent; 0 if it had not begun."""
    shown = [event["type"] for event in _events(output)]
    if not shown and not received:
        return 0
    stored_before_shown = len([kind for kind in shown if kind in ("message", "tool_result")])
    sent = len(json.loads(received[-1])["messages"]) if received else 0
    return max(len(story.first) + 1 + stored_before_shown, sent)


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
    start = content.index('"messages":') + len('"messages":')
    start += len(content[start:]) - len(content[start:].lstrip())
    _, end = json.JSONDecoder().raw_decode(content, start)
    return content[start:end]
