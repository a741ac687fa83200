"""Whether a call runs: at once, never, or as a person says (SPEC section 11).

Three modes. `auto` runs everything, `ask` asks about each call, `risky` about those that may do
harm: commands as `commands.risks` reads them, files outside the project and those that are run
later. What is only read is never asked about there.

The person answers through a function, so nothing here knows a terminal; where nobody can answer, a
needed question is a refusal. What was shown is what the answer is about: a file that has changed
when it comes is asked about again. What is allowed for the session is kept by a port, as keys that
tell nothing: a command may hold a secret.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from bantam.agent.commands.place import Place
from bantam.agent.commands.reading import Risk
from bantam.agent.commands.risks import risk_of
from bantam.core.errors import ToolError
from bantam.core.messages import ToolCall, parsed_arguments

_LINES: Final = 20  # of a call that are shown before details are asked for
_CHANGED: Final = "the file has changed since it was shown"
_MOST_ASKED: Final = 5  # questions about one call whose file changes under each
_WRITERS: Final = ("write_file", "edit_file")


class Kind(StrEnum):
    """What a person can answer."""

    YES = "y"
    NO = "n"
    SESSION = "s"  # this call, for the session
    ALL = "a"  # every call, for the session
    DETAILS = "d"  # show all of it, and ask again


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered; `reason` goes with a NO, for the model."""

    kind: Kind
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked.

    `reason`: what is risky, "" where every call is asked about. `lines`: the command, or the diff;
    its beginning until `has_details`. `remembers`: what SESSION would allow.
    """

    call: ToolCall
    reason: str
    lines: tuple[str, ...]
    remembers: str
    has_details: bool = False


Ask = Callable[[Question], Answer]


class Allowances(Protocol):
    """What was allowed for the session; it is kept in the user's home, never in the project."""

    def allowed(self, key: str) -> bool:
        """Whether `key` was allowed."""

    def allow(self, key: str) -> None:
        """Allow `key` for the session."""


class AllowancesInMemory:
    """`Allowances` that end with the program."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def allowed(self, key: str) -> bool:
        """Whether `key` was allowed."""
        return key in self._keys

    def allow(self, key: str) -> None:
        """Allow `key`."""
        self._keys.add(key)


class Preview(NamedTuple):
    """What a call would change in a file, and the `state` of that, which another one has not.

    `diff` is "" if it cannot be shown.
    """

    diff: str
    state: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """Where calls act: the project, and what a path means.

    `preview` looks at the file that a call would write. It and `resolve` may raise ToolError,
    `preview` also OSError. `hidden` takes the user's keys out of a text.
    """

    place: Place
    resolve: Callable[[str], Path]
    preview: Callable[[ToolCall], Preview]
    hidden: Callable[[str], str] = str


class _Sight(NamedTuple):
    """What a person is shown of a call; `key` and `remembers` are what SESSION would allow."""

    reason: str
    key: str
    remembers: str
    lines: tuple[str, ...]
    state: tuple[int, ...]


class Approval:
    """An `agent.loop.Approve` in one of the modes `auto`, `risky` and `ask`.

    `ask` puts a question to a person; None: nobody can be asked. It may raise Interrupted.
    """

    def __init__(
        self,
        mode: str,
        ask: Ask | None,
        scene: Scene,
        allowances: Allowances,
    ) -> None:
        self._mode = mode
        self._ask = ask
        self._scene = scene
        self._allowances = allowances
        # What was allowed where little was asked about says nothing where all is.
        self._everything = self._digest("everything", mode)

    def __call__(self, call: ToolCall) -> str | None:
        """Return None if `call`, whose arguments are those that run, may; else why not."""
        if self._mode == "auto":
            return None
        arguments = parsed_arguments(call.arguments) or {}
        shown: list[_Sight] = []
        while True:
            try:
                sight = self._sight(call, arguments)
            except ToolError:  # about a path, which the tool will refuse
                return None
            if sight is None or sight in shown[-1:]:
                return None
            if self._ask is None:
                return self._nobody_says_yes(sight.reason)
            if len(shown) == _MOST_ASKED:
                return "denied: the file changed each time that it was asked about"
            answer = self._answer(self._ask, call, sight, is_again=bool(shown))
            if answer.kind is Kind.NO:
                return "denied by the user" + (f": {answer.reason}" if answer.reason else "")
            if answer.kind is Kind.SESSION:
                self._allowances.allow(sight.key)
            elif answer.kind is Kind.ALL:
                self._allowances.allow(self._everything)
            shown.append(sight)

    def _nobody_says_yes(self, reason: str) -> str:
        why = f" ({reason})" if reason else ""
        return (
            f"denied: nobody can be asked here; with approve={self._mode} this needs a yes"
            f"{why}: do it in another way, or say what the user should run"
        )

    def _answer(self, ask: Ask, call: ToolCall, sight: _Sight, *, is_again: bool) -> Answer:
        """Return what the person answers, who may ask for details first."""
        reasons = [_CHANGED] if is_again else []
        reason = "; ".join([*reasons, *filter(None, [sight.reason])])
        remembers, lines = self._scene.hidden(sight.remembers), sight.lines
        question = Question(call, self._scene.hidden(reason), lines[:_LINES], remembers)
        answer = ask(question)
        while answer.kind is Kind.DETAILS:
            answer = ask(replace(question, lines=lines, has_details=True))
        return answer

    def _sight(self, call: ToolCall, arguments: Mapping[str, Any]) -> _Sight | None:
        """Return what is to be asked; None if it may just run. Raises ToolError."""
        reason = self._risk(call.name, arguments) if self._mode == "risky" else ""
        key, remembers = self._key(call.name, arguments)
        if reason is None or any(map(self._allowances.allowed, (self._everything, key))):
            return None
        lines, state = self._lines(call, arguments)
        return _Sight(reason, key, remembers, lines, state)

    def _risk(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Return what a person should know of the call; None if it may just run."""
        place = self._scene.place
        if name == "read_file":
            return None
        if name in _WRITERS:
            path = self._path(arguments)
            if not place.has(path):
                return f"{Risk.OUTSIDE}: {path}"
            return f"{Risk.KEPT}: {path}" if place.keeps(path) else None
        if name == "shell_exec":
            return risk_of(arguments["command"], place)
        return f"{Risk.UNKNOWN}: {name}"

    def _path(self, arguments: Mapping[str, Any]) -> str:
        return str(self._scene.resolve(arguments["path"]))

    def _key(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the key that stands for the call, and what it is, for a person."""
        if name in _WRITERS:
            path = self._path(arguments)
            # A link may lead elsewhere tomorrow.
            target = os.path.realpath(path)
            what = f"{name} of {path}" + (f", which is {target}" if target != path else "")
            return self._digest(name, [path, target]), what
        what = "this very command" if name == "shell_exec" else f"this very call of {name}"
        return self._digest(name, arguments), what

    def _digest(self, name: str, what: object) -> str:
        """Return what tells nothing of `what`; a session may go on in another project."""
        text = json.dumps([self._scene.place.project, name, what], sort_keys=True)
        return sha256(text.encode()).hexdigest()

    def _lines(
        self, call: ToolCall, arguments: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the lines that a person sees, and the state of the file that they are about."""
        text = ""
        state: tuple[int, ...] = ()
        if call.name == "shell_exec":
            text = arguments["command"]
        elif call.name in _WRITERS:
            try:
                text, state = self._scene.preview(call)
            except (ToolError, OSError) as error:  # the call will fail with it
                text = str(error)
        text = text or json.dumps(arguments, ensure_ascii=False, indent=2)
        return tuple(self._scene.hidden(text).rstrip("\n").split("\n")), state
