"""Whether a call runs: at once, never, or as a person says (SPEC section 11).

Three modes. `auto` runs everything, `ask` asks about each call, `risky` about those that may do
harm: commands as `commands.risks` reads them, files outside the project and those that are run
later. What is only read is never asked about there.

The person answers through a function, so nothing here knows a terminal; where nobody can answer, a
needed question is a refusal. What is allowed for the session is kept by a port, as keys that tell
nothing: a command may hold a secret.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from bantam.agent.commands.place import Place
from bantam.agent.commands.reading import Risk
from bantam.agent.commands.risks import risk_of
from bantam.core.errors import ToolError
from bantam.core.messages import ToolCall, parsed_arguments

_LINES: Final = 20  # of a call that are shown before details are asked for
_EVERYTHING: Final = "everything"
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


@dataclass(frozen=True, slots=True)
class Scene:
    """Where calls act: the project, and what a path means.

    `diff` says what a call would change in a file, "" if that cannot be shown. Both functions may
    raise ToolError, `diff` also OSError.
    """

    place: Place
    resolve: Callable[[str], Path]
    diff: Callable[[ToolCall], str]


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

    def __call__(self, call: ToolCall) -> str | None:
        """Return None if `call`, whose arguments are those that run, may; else why not."""
        if self._mode == "auto":
            return None
        arguments = parsed_arguments(call.arguments) or {}
        try:
            reason = self._risk(call.name, arguments) if self._mode == "risky" else ""
            key, remembers = self._key(call.name, arguments)
        except ToolError:  # about a path, which the tool will refuse
            return None
        if reason is None or any(map(self._allowances.allowed, (_EVERYTHING, key))):
            return None
        if self._ask is None:
            why = f" ({reason})" if reason else ""
            return (
                f"denied: nobody can be asked here; with approve={self._mode} this needs a yes"
                f"{why}: do it in another way, or say what the user should run"
            )
        lines = tuple(self._lines(call, arguments))
        question = Question(call, reason, lines[:_LINES], remembers)
        answer = self._ask(question)
        while answer.kind is Kind.DETAILS:
            answer = self._ask(replace(question, lines=lines, has_details=True))
        return self._answered(answer, key)

    def _answered(self, answer: Answer, key: str) -> str | None:
        if answer.kind is Kind.NO:
            return "denied by the user" + (f": {answer.reason}" if answer.reason else "")
        if answer.kind is Kind.SESSION:
            self._allowances.allow(key)
        elif answer.kind is Kind.ALL:
            self._allowances.allow(_EVERYTHING)
        return None

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
        what: tuple[Any, str] = (arguments, f"this very call of {name}")
        if name in _WRITERS:
            path = self._path(arguments)
            what = (path, f"{name} of {path}")
        elif name == "shell_exec":
            what = (arguments, "this very command")
        digest = sha256(json.dumps([name, what[0]], sort_keys=True).encode()).hexdigest()
        return digest, what[1]

    def _lines(self, call: ToolCall, arguments: Mapping[str, Any]) -> list[str]:
        text = ""
        if call.name == "shell_exec":
            text = arguments["command"]
        elif call.name in _WRITERS:
            try:
                text = self._scene.diff(call)
            except (ToolError, OSError) as error:  # the call will fail with it
                text = str(error)
        text = text or json.dumps(arguments, ensure_ascii=False, indent=2)
        return text.rstrip("\n").split("\n")
