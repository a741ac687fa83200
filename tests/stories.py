"""A turn of three steps in a real Bantam, to be cut off or to happen on a failing disk.

    story = Story.told(folder, shim, "-c", finished_turn=True)  # undisturbed: calls and messages
    place = story.copy(other)
    cut_off = place.turn(PROMPT, "-c", **shim.crash("before", 7, *place.watched))

The model is a shell script: it keeps each request that it received and gives the next answer. What
the screen had shown are the events of `--json`. Every path within a place is relative or, in the
stored text, replaced, so that a finished turn can be copied to another folder and go on there.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

from faults import Call, Shim, calls
from llmreplies import Reply, shell, text, write
from llmserver import LLMServer
from program import BANTAM, at, environment, run

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
number=1; while test -e requests/$number; do number=$((number + 1)); done
cat > requests/$number
cat answers/$number
"""
MOST_REQUESTS: Final = 9
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
        for number, reply in enumerate(replies, start=len(self.requests()) + 1):
            assert reply.whole is not None
            (self.folder / "answers" / str(number)).write_bytes(reply.whole)

    def kill_at_last_request(self) -> None:
        """Let the model kill Bantam when it is asked for the last step."""
        kill = f"test $number != {len(STEPS)} || kill -KILL $PPID\n"
        (self.folder / "model.sh").write_text(_MODEL + kill)

    def requests(self) -> list[bytes]:
        """Return the bodies that the model received."""
        if self.server is not None:
            return [request.body for request in self.server.chat]
        folder = self.folder / "requests"
        names = sorted(folder.iterdir(), key=lambda path: int(path.name))
        return [path.read_bytes() for path in names]

    def turn(self, prompt: str, *options: str, program: Sequence[str] = BANTAM, **env: str) -> Done:
        """Run one turn; `env` comes on top of the environment."""
        arguments = self.arguments(prompt, *options)
        return run(*arguments, cwd=self.project, env=self.environment(**env), program=program)

    def undo(self, **env: str) -> Done:
        """Put the files of the last turn back."""
        return run("--undo", cwd=self.project, env=self.environment(**env))

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
    def told(
        cls,
        folder: Path,
        shim: Shim,
        *options: str,
        finished_turn: bool,
        watched: Iterable[str] = ("home", "project"),
    ) -> "Story":
        """Tell it below `folder`, after a finished turn or not; count the calls in `watched`."""
        template = Place(folder / "template")
        template.make()
        if finished_turn:
            template.answers([text("At your service.")])
            assert template.turn("Hello.", "--json").returncode == 0
            shutil.rmtree(template.folder / "requests")
            (template.folder / "requests").mkdir()
        before = template.stored()
        place = copied(template.folder, folder / "undisturbed")
        place.answers(STEPS)
        env = shim.recording(folder / "log", *(folder / "undisturbed" / name for name in watched))
        done = place.turn(PROMPT, "--json", *options, **env)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr
        messages = place.stored()
        first = messages[: messages.index({"role": "user", "content": PROMPT})]
        return cls(template.folder, options, first, before, messages, calls(folder / "log"))

    def copy(self, folder: Path) -> Place:
        """Return a place where the turn can begin."""
        place = copied(self.template, folder)
        place.answers(STEPS)
        return place

    def happened(self, folder: Path) -> Place:
        """Return a place where the turn was done and others can follow."""
        place = copied(self.template.with_name("undisturbed"), folder)
        place.answers([RESUMED] * (MOST_REQUESTS - len(STEPS)))
        return place

    def beginning(self) -> list[Call]:
        """Return the calls until the first step runs."""
        return list(takewhile(lambda call: not call.path.endswith(".undo"), self.calls))


def copied(template: Path, folder: Path) -> Place:
    """Return a copy of a place, as if everything had happened there."""
    shutil.copytree(template, folder)
    old, new = Place(template), Place(folder)
    for path in list(new.home.glob("sessions/*")):
        content = path.read_text().replace(str(template), str(folder))
        content = content.replace(old.session_id, new.session_id)
        path.write_text(_summed(content) if path.suffix == ".undo" else content)
        path.rename(path.with_name(path.name.replace(old.session_id, new.session_id)))
    return new


def _summed(log: str) -> str:
    """Return the text of an undo log with the sum of each line set right."""
    lines = log.splitlines(keepends=True)
    bodies = [line[len('{"sum": "01234567", ') :] for line in lines]
    sums = [crc32(body.rstrip("\n").encode()) for body in bodies]
    return "".join(f'{{"sum": "{s:08x}", {body}' for s, body in zip(sums, bodies, strict=True))


def check_all(job: Callable[[T], Iterable[str]], cases: Iterable[T]) -> None:
    """Raise AssertionError with what is wrong in any of `cases`; several run at a time."""

    def told(case: T) -> list[str]:
        lines: list[str] = []
        try:
            lines.extend(f"{case}: {problem}" for problem in job(case))
        except (AssertionError, ValueError) as error:  # or a file that is not JSON
            lines.append(f"{case}: {error!r}")
        return lines

    with ThreadPoolExecutor(4) as pool:
        problems = [line for lines in pool.map(told, cases) for line in lines]
    assert not problems, "\n".join([f"{len(problems)} problems:", *problems])
