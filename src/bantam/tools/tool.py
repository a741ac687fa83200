"""Tools as the model sees them: schemas, the check of arguments, sanitising, and the run.

A call goes through three gates, in this order, and what passes is what is traced and run: its
arguments parse as a JSON object, they fit the tool's schema, and their strings are sanitised
after parsing (escapes hide from a filter over the JSON text). A call that fails a gate runs
nothing; the error names the expected form so that the model can correct itself.
"""

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from bantam.core.cancel import Cancel
from bantam.core.errors import ToolError
from bantam.core.events import FileChange, Status
from bantam.core.generators import if_any, through
from bantam.core.messages import MAX_DEPTH, ToolCall, parsed_arguments
from bantam.core.redaction import Redaction, RedactionFilter
from bantam.core.repair import quoted_arguments
from bantam.core.text import (
    Profile,
    ScreenFilter,
    removed_note,
    sanitized,
    sanitized_output,
    shortened,
)
from bantam.tools.workspace import Workspace

# What an error quotes of the model's own words: enough to know them again.
_NAME_CHARACTERS: Final = 100
_PATH_CHARACTERS: Final = 300


class Exit(NamedTuple):
    """How a command ended: 128+n for signal n, 124 when it was killed at its time-out."""

    code: int
    timed_out: bool = False


class Executor(Protocol):
    """Where tools act."""

    @property
    def workspace(self) -> Workspace | None:
        """Beneath which files are read and written; None: anywhere."""

    def run(self, command: str, timeout: float, cancel: Cancel) -> Generator[str, None, Exit]:
        """Run `command` in a shell; yield its output as it comes, standard error merged.

        Raises Interrupted when cancelled. However it ends, `close()` included, no process of the
        command is left but what outlived a shell that exited by itself.
        """

    def resolve(self, path: str) -> Path:
        """Return the file that `path` means, `~` expanded. Raises OutsideWorkspace."""


class Result(NamedTuple):
    """What a tool did. `text` goes to the model, sanitised by the toolbox."""

    text: str
    status: Status = Status.OK
    exit_code: int | None = None
    files: tuple[FileChange, ...] = ()


Run = Callable[[Mapping[str, Any], Cancel], Generator[str, None, Result]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its schema for the model, and what runs (yielding output as it comes).

    `parameters`: name -> JSON schema of one parameter; those with a `default` may be left out.
    `verbatim`: parameters that hold file text and follow the configured profile, not `strict`.
    `paths`: parameters that name files, where a NUL is refused instead of dropped.
    """

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    run: Run
    verbatim: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    @property
    def spec(self) -> dict[str, Any]:
        """The API's form of this tool."""
        required = [name for name, schema in self.parameters.items() if "default" not in schema]
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": {name: dict(s) for name, s in self.parameters.items()},
                    "required": required,
                },
            },
        }

    @property
    def form(self) -> str:
        """The expected form, as an error shows it."""
        parts = (
            f'"{name}": <{schema["type"]}>' + (" (optional)" if "default" in schema else "")
            for name, schema in self.parameters.items()
        )
        return f"{self.name}({{{', '.join(parts)}}})"


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call that may run: what runs is `arguments`, and `removed` was taken out of them."""

    tool: Tool
    arguments: Mapping[str, Any]
    removed: Counter[str] = field(default_factory=Counter)


_TYPES: Final[dict[str, type]] = {"string": str, "integer": int}


class UnknownTool(ToolError):
    """The model called a tool that does not exist."""


class Toolbox:
    """The tools of a session."""

    def __init__(
        self,
        tools: Sequence[Tool],
        profile: Profile = Profile.TEXT,
        secrets: Iterable[str | None] = (),
        unoffered: Mapping[str, Callable[[], Tool]] = MappingProxyType({}),
    ) -> None:
        """Offer `tools`; no value of `secrets` stands in what they tell.

        `unoffered`: what makes tools that the API is not told of, and that can be called all the
        same. Most runs call none.
        """
        self._tools = {tool.name: tool for tool in tools}
        self._unoffered = unoffered
        self._profile = profile
        self._redaction = Redaction(secrets)
        self.specs: list[dict[str, Any]] = [tool.spec for tool in tools]

    def check(self, call: ToolCall) -> CheckedCall:
        """Return what would run for `call`, its strings sanitised.

        Raises UnknownTool or ToolError, whose texts show the model the right form, and end with
        the arguments where these did not parse.
        """
        quote = quoted_arguments(call.arguments)
        tool = self._named(call.name)
        if tool is None:
            known = ", ".join(self._tools[s["function"]["name"]].form for s in self.specs)
            what = f"there is no tool {_quoted(self._redaction.text(call.name))}"
            raise UnknownTool(f"{what}; nothing was run. The tools are: {known}{quote}")
        arguments = parsed_arguments(call.arguments)
        if arguments is None:
            what = f"the arguments are not a JSON object: {_fault(call.arguments)}"
            raise ToolError(f"{_misfit(tool, what)}{quote}")
        checked: dict[str, Any] = {}
        removed: Counter[str] = Counter()
        for name, value in _complete(tool, arguments).items():
            checked[name] = value
            if name in tool.paths and "\0" in value:
                what = f"{name} holds a NUL character, and no file has such a name"
                raise ToolError(_misfit(tool, what))
            if isinstance(value, str):
                profile = self._profile if name in tool.verbatim else Profile.STRICT
                checked[name], dropped = sanitized(value, profile)
                removed += dropped
        return CheckedCall(tool, checked, removed)

    def run(self, call: CheckedCall, cancel: Cancel) -> Generator[str, None, Result]:
        """Run a checked call; yield its output as it comes and return its result.

        The output is fit for a screen, the result sanitised, and no secret stands in either.
        Raises Interrupted; every other failure of a tool is a result with status `error`.
        """
        try:
            result = yield from self._live(call.tool.run(call.arguments, cancel))
        except ToolError as error:
            result = Result(str(error), Status.ERROR)
        except OSError as error:  # its text names a path
            result = Result(shown_path(str(error)), Status.ERROR)
        text, dropped = sanitized_output(result.text)
        notes = [removed_note(removed) for removed in (call.removed, dropped) if removed]
        # After the sanitising: a key is whole again once what was hidden in it is gone.
        redacted = self._redaction.text
        files = tuple(replace(file, diff=redacted(file.diff)) for file in result.files)
        return result._replace(text=_with_notes(redacted(text), notes), files=files)

    def _named(self, name: str) -> Tool | None:
        if name in self._unoffered and name not in self._tools:
            self._tools[name] = self._unoffered[name]()
        return self._tools.get(name)

    def _live(self, running: Generator[str, None, Result]) -> Generator[str, None, Result]:
        screen, redaction = ScreenFilter(), RedactionFilter(self._redaction)

        def shown(piece: str) -> list[str]:
            return if_any(redaction.feed(screen.feed(piece)))

        result = yield from through(running, shown)
        yield from if_any(redaction.feed(screen.close()) + redaction.close())
        return result


def shown_path(path: str) -> str:
    """Return `path` as a result names it."""
    return shortened(path, _PATH_CHARACTERS)


def _quoted(name: str) -> str:
    return repr(sanitized(shortened(name, _NAME_CHARACTERS), Profile.STRICT)[0])


def _misfit(tool: Tool, what: str) -> str:
    return f"{what}; nothing was run. Expected: {tool.form}"


def _fault(arguments: str) -> str:
    """Return why `arguments` are no JSON object that every server takes."""
    try:
        value = json.loads(arguments)
    except json.JSONDecodeError as error:
        is_raw = "control character" in error.msg
        hint = r" (in a string, write a line end as \n and a tab as \t)" if is_raw else ""
        return f"{error.msg}: line {error.lineno} column {error.colno}{hint}"
    except (ValueError, RecursionError):  # thousands of digits or levels
        value = {}
    match value:
        case dict():
            return f"a number is none of JSON's or too large, or there are over {MAX_DEPTH} levels"
        case list():
            return "it is a list"
        case str():
            return "it is a string"
        case _:
            return f"it is {shortened(json.dumps(value), _NAME_CHARACTERS)}"


def _complete(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return `arguments` in the schema's order with defaults filled in, or raise ToolError."""
    unknown = [name for name in arguments if name not in tool.parameters]
    if unknown:
        raise ToolError(_misfit(tool, f"unknown parameter {_quoted(unknown[0])}"))
    complete: dict[str, Any] = {}
    for name, schema in tool.parameters.items():
        if name not in arguments and "default" not in schema:
            raise ToolError(_misfit(tool, f"the parameter {name!r} is missing"))
        value = arguments.get(name, schema.get("default"))
        # bool is an int to Python; a model that sends true for a byte count is confused.
        if not isinstance(value, _TYPES[schema["type"]]) or isinstance(value, bool):
            shown = shortened(json.dumps(value), _NAME_CHARACTERS)  # escaped: it is not sanitised
            raise ToolError(_misfit(tool, f"{name}={shown} is no {schema['type']}"))
        complete[name] = value
    return complete


def _with_notes(text: str, notes: Sequence[str]) -> str:
    """Put `notes` in front: `exit: N` must stay the very last line of a shell's result."""
    return "\n".join([*notes, text])
