"""The parts of an agent, made as a configuration says."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bantam.agent.loop import Approve
from bantam.core.cancel import Cancel
from bantam.core.changes import Change
from bantam.core.config import Config, place_of
from bantam.core.endpoints import host_of
from bantam.core.errors import ConfigError
from bantam.core.messages import ToolCall, parsed_arguments
from bantam.core.redaction import Redaction
from bantam.core.text import Profile
from bantam.model.catalogue import Catalogue
from bantam.model.client import Client, Settings
from bantam.model.dialects.auto import dialect_named
from bantam.model.dialects.dialect import Dialect
from bantam.model.dialects.native import Native
from bantam.model.origins import Key, urls
from bantam.model.transports import HTTPTransport, Transport
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.files import diff_of, planned, write_tool
from bantam.tools.shell import shell_tool
from bantam.tools.tool import Tool, Toolbox

if TYPE_CHECKING:
    from bantam.agent.approval import Allowances, Ask
    from bantam.tools.executors.bwrap import BwrapExecutor

_USER_AGENT: Final = "Mozilla/5.0 (compatible; Bantam/1.0)"

# Whoever may do the one may do the other: blocks has words for both.
_IMPLIED: Final = {"shell_exec": ("read_file",), "write_file": ("edit_file",)}


def executor_for(
    config: Config, cwd: Path, environ: Mapping[str, str], secrets: Iterable[str | None]
) -> "LocalExecutor | BwrapExecutor":
    """Return where tools act. Raises ConfigError for a sandbox that cannot be had."""
    if config.sandbox == "off":
        return LocalExecutor(cwd, environ, secrets)
    from bantam.tools.executors.bwrap import BwrapExecutor

    try:
        kept = _program_files(config.endpoint, cwd)
        executor = BwrapExecutor(cwd, environ, secrets, network=config.sandbox == "net", kept=kept)
        executor.check()
    except ConfigError as error:
        place = place_of("sandbox", config.sources.get("sandbox", "default"))
        raise ConfigError(f"{place}={config.sandbox}: {error}") from None
    return executor


def _program_files(endpoint: str, cwd: Path) -> list[str]:
    """Return the files that a local program consists of, which no command may replace."""
    if host_of(endpoint):
        return []
    from itertools import compress
    from shlex import split

    from bantam.model.programs import program_of

    program = program_of(endpoint, str(cwd.absolute()))
    words = split(program.command) if program else []
    paths = [os.path.join(cwd.absolute(), word) for word in words]  # noqa: PTH118  # text
    # Python runs a folder, too, if there is such a file in it. No Path: a word may be too long.
    runs = [os.path.isfile(path) or os.path.isfile(f"{path}/__main__.py") for path in paths]  # noqa: PTH113  # text
    return [*compress(paths, runs)]


def approval_for(
    config: Config,
    executor: "LocalExecutor | BwrapExecutor",
    environ: Mapping[str, str],
    ask: "Ask | None",
    allowances: "Allowances | None",
    secrets: Iterable[str | None] = (),
) -> Approve:
    """Return what says whether a call runs, as `config` wants it; `ask` puts it to a person.

    No value of `secrets` stands in what a person is shown.
    """
    if config.approve == "auto":
        return _run_everything
    # Here: what reads commands is much, and most runs do without.
    from bantam.agent.approval import AllowancesInMemory, Approval, Preview, Scene
    from bantam.agent.commands.place import Place
    from bantam.tools.editing import planned_edit

    def preview(call: ToolCall) -> Preview:
        arguments = parsed_arguments(call.arguments) or {}
        path, workspace = executor.resolve(arguments["path"]), executor.workspace
        if call.name == "write_file":
            splice = planned(path, arguments, workspace)
        else:
            given, edits = arguments["path"], arguments["edits"]
            splice = planned_edit(path, given, edits, Cancel(), workspace).splice
        before = splice.before
        state = () if before is None else (before.st_ino, before.st_size, before.st_mtime_ns)
        return Preview(diff_of(splice), state)

    place = Place(str(executor.cwd), environ.get("HOME", ""), executor.shell)
    scene = Scene(place, executor.resolve, preview, Redaction(secrets).text)
    return Approval(config.approve, ask, scene, allowances or AllowancesInMemory())


def _run_everything(_: ToolCall) -> str | None:
    return None


def client_for(
    config: Config,
    transport: Transport,
    dialect: Dialect,
    catalogue: Catalogue,
    secrets: Iterable[str | None],
) -> Client:
    """Return the model behind `transport`, as `config` wants it asked."""
    settings = Settings(
        model=config.model,
        stream=config.stream,
        timeout_s=config.timeout,
        options={"temperature": config.temperature, **config.forwarded},
        budget_tokens=config.budget_tokens,
        cache_proof=config.cache_proof,
        min_cacheable_tokens=config.min_cacheable_tokens,
        secrets=Redaction(secrets),
    )
    return Client(settings, transport, dialect, catalogue)


def dialect_for(config: Config, last: str) -> Dialect:
    """Return the dialect that `config` wants; `auto` goes on with the `last` one.

    A recording holds calls where there were any: its texts are none, whatever they look like.
    """
    if config.endpoint.partition("://")[0].lower() == "replay":
        return Native(reads_text=False)
    return dialect_named(config.dialect, last)


def transports_for(
    config: Config, key: Key, environ: Mapping[str, str]
) -> tuple[Transport, HTTPTransport | None]:
    """Return the way to the model, and the way to its /models where there is one."""
    if not host_of(config.endpoint):
        return _local_transport(config), None
    addresses = urls(config.endpoint)
    headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
    if key.value is not None:
        headers["Authorization"] = f"Bearer {key.value}"
    chat = headers | {"Content-Type": "application/json"}
    return (
        HTTPTransport(addresses.chat, chat, environ),
        HTTPTransport(addresses.models, headers | {"Connection": "close"}, environ),
    )


def _local_transport(config: Config) -> Transport:
    from bantam.model.programs import RunTransport
    from bantam.model.replay import ReplayTransport

    kinds: dict[str, Callable[[str], Transport]] = {"run": RunTransport, "replay": ReplayTransport}
    try:
        return kinds[config.endpoint.partition("://")[0].lower()](config.endpoint)
    except ConfigError as error:
        # It begins with `endpoint=` and does not know the place.
        place = place_of("endpoint", config.sources.get("endpoint", "default"))
        raise ConfigError(f"{place}{str(error).removeprefix('endpoint')}") from None


def toolbox_for(
    config: Config,
    executor: "LocalExecutor | BwrapExecutor",
    secrets: Iterable[str | None],
    keep: Callable[[Change], None] | None,
) -> Toolbox:
    """Return the tools that `config` offers; `keep` is told of each change of a file."""

    def edit_file() -> Tool:
        from bantam.tools.editing import edit_tool

        return edit_tool(executor, keep)

    def read_file() -> Tool:
        from bantam.tools.reading import read_tool

        return read_tool(executor, output_limit=config.tool_output_limit)

    # Each time: in the sandbox it is looked at before it is used.
    spill_folder = None if isinstance(executor, LocalExecutor) else executor.spill_folder
    makers: dict[str, Callable[[], Tool]] = {
        "shell_exec": lambda: shell_tool(
            executor,
            timeout_s=config.shell_timeout,
            output_limit=config.tool_output_limit,
            spill_folder=spill_folder,
        ),
        "write_file": lambda: write_tool(executor, keep),
        "edit_file": edit_file,
        "read_file": read_file,
    }
    tools = [makers[name]() for name in config.tools]
    implied = {name for tool in config.tools for name in _IMPLIED.get(tool, ())} - {*config.tools}
    unoffered = {name: makers[name] for name in implied}
    return Toolbox(tools, Profile(config.sanitize), secrets, unoffered)
