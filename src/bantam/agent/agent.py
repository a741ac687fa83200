"""From a configuration to a wired agent: the library's face.

    agent = Agent(resolve(overrides=["endpoint=http://127.0.0.1:8080/v1"]), Surroundings.now())
    for event in agent.turn("What is in this folder?"):
        ...

A turn is a generator of events that ends with `Done`. `close()` on it stops everything at once;
so does `Cancel.set` from a signal handler or another thread.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Final

from bantam.agent.loop import Approve, run_turn
from bantam.agent.memory import ListLog, Memory
from bantam.agent.prompt import Facts, read_agents, system_prompt
from bantam.core.cancel import Cancel
from bantam.core.changes import Change
from bantam.core.config import Config, name_at, place_of
from bantam.core.endpoints import host_of
from bantam.core.errors import BantamError, ConfigError, ExitStatus, Interrupted
from bantam.core.events import Done, Event, Failure, Notice, Stop, TurnStart, UsageReport, UsageSum
from bantam.core.generators import through
from bantam.core.messages import Message, Role, ToolCall
from bantam.core.redaction import Redaction
from bantam.core.text import Profile
from bantam.model.catalogue import Catalogue
from bantam.model.client import Client, Settings
from bantam.model.dialects.native import Native
from bantam.model.origins import Key, check_trust, key_for, urls
from bantam.model.programs import RunTransport
from bantam.model.replay import ReplayTransport
from bantam.model.transports import HTTPTransport, Transport
from bantam.tools.executors.local import LocalExecutor
from bantam.tools.files import write_tool
from bantam.tools.shell import shell_tool
from bantam.tools.tool import Toolbox

_USER_AGENT: Final = "Mozilla/5.0 (compatible; Bantam/1.0)"
_STATUS_OF: Final = {
    Stop.FINAL: ExitStatus.DONE,
    Stop.STEP_LIMIT: ExitStatus.STEP_LIMIT,
    Stop.BUDGET: ExitStatus.BUDGET,
}
# Options whose other values need what is not built yet: refused, never ignored.
_NOT_YET: Final = {
    "dialect": ("auto", "native"),
    "sandbox": ("off",),
    "approve": ("auto",),
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an agent takes from the process around it."""

    working_directory: Path
    environ: Mapping[str, str]
    today: date

    @classmethod
    def now(cls) -> "Surroundings":
        """Return this process's. Raises ConfigError if its working directory is gone."""
        try:
            here = Path.cwd()
        except OSError as error:
            what = "the working directory cannot be used"
            raise ConfigError(f"{what}: {error.strerror}; go to another folder") from None
        return cls(here, dict(os.environ), date.today())  # noqa: DTZ011  the user's day


@dataclass(slots=True)
class _Account:
    """What one turn used."""

    usage: UsageSum = field(default_factory=UsageSum)


def _run_everything(_: ToolCall) -> str | None:
    return None


class Agent:
    """A conversation with a model that can run tools."""

    def __init__(
        self,
        config: Config,
        surroundings: Surroundings,
        *,
        log: Memory | None = None,
        approve: Approve = _run_everything,
        trust: bool = False,
    ) -> None:
        """Wire everything; nothing is sent, and httpx is not imported yet.

        Raises ConfigError, UntrustedEndpoint.
        """
        _check_supported(config)
        self.config = config
        self.log: Memory = log if log is not None else ListLog()
        self._approve = approve
        check_trust(config, trust=trust, environ=surroundings.environ)
        self.key = key_for(config, trust=trust, environ=surroundings.environ)
        self._notices = [self.key.notice] if self.key.notice else []
        secrets = secrets_of(config, surroundings.environ)
        self._model = _client(config, self.key, surroundings.environ, secrets)
        executor = LocalExecutor(surroundings.working_directory, surroundings.environ, secrets)
        self._tools = _toolbox(config, executor, secrets, self.log.keep)
        if not self.log.messages or self.log.messages[0].role is not Role.SYSTEM:
            self.log.begin(Message(Role.SYSTEM, self._prompt(executor, surroundings.today)))

    def turn(self, prompt: str, cancel: Cancel | None = None) -> Generator[Event, None, Stop]:
        """Run one turn; yield its events, `Done` last. Errors are in `Done`, none is raised."""
        cancel = cancel or Cancel()
        self.log.append(Message(Role.USER, prompt))
        config, account = self.config, _Account()
        yield TurnStart(self.log.id, config.model, config.endpoint, Native.name)
        yield from self._news()
        stop, error = Stop.ERROR, None
        try:
            turn = run_turn(
                self.log,
                self._model,
                self._tools,
                self._approve,
                cancel,
                config.max_al_iterations,
            )
            stop = yield from through(turn, lambda event: self._noted(event, account))
        except BantamError as raised:
            error = raised
        text = self.log.messages[-1].content if stop is Stop.FINAL else ""
        self.log.finish()
        yield from self._news()
        done = _done(stop, error, account.usage, cancel, text)
        yield replace(done, session=self.log.id)
        return stop

    def close(self) -> None:
        """Close the connection and the session."""
        self._model.close()
        self.log.close()

    def _noted(self, event: Event, account: _Account) -> Iterator[Event]:
        """Count what `event` cost; yield it and what its storing has brought up."""
        if isinstance(event, UsageReport):
            account.usage = account.usage.plus(event)
            self.log.count(event)
        yield event
        yield from self._news()

    def _news(self) -> Iterator[Notice]:
        for notices in (self._notices, self.log.notices):
            while notices:
                yield Notice(notices.pop(0))

    def _prompt(self, executor: LocalExecutor, today: date) -> str:
        agents = read_agents(executor.cwd)
        self._notices.extend(agents.notices)
        return system_prompt(
            Facts(
                working_directory=str(executor.cwd),
                platform=sys.platform,
                shell=Path(executor.shell).name,
                day=today,
                tools=self.config.tools,
                agents=agents.text,
                tools_folder=self.config.bantam_tools_dir,
            )
        )


def secrets_of(config: Config, environ: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return every key that the user has, even those that are not sent: tools may show them."""
    return (*config.secrets, config.api_key, environ.get("OPENAI_API_KEY"))


def failed(error: BantamError, cancel: Cancel) -> Done:
    """Return the event that ends a run which ended before its turn began."""
    return _done(Stop.ERROR, error, UsageSum(), cancel)


def _done(
    stop: Stop, error: BantamError | None, usage: UsageSum, cancel: Cancel, text: str = ""
) -> Done:
    if stop is Stop.INTERRUPTED or isinstance(error, Interrupted):
        status = cancel.why or ExitStatus.INTERRUPTED
        return Done(Stop.INTERRUPTED, int(status), None, "", usage)
    if error is None:
        return Done(stop, int(_STATUS_OF[stop]), None, text, usage)
    failure = Failure(type(error).__name__, getattr(error, "status", None), str(error))
    return Done(stop, int(error.exit_status), None, "", usage, failure)


def _check_supported(config: Config) -> None:
    for name, values in _NOT_YET.items():
        value = getattr(config, name)
        if value not in values:
            source = config.sources.get(name, "default")
            raise ConfigError(
                f"{place_of(name, source)}={value} is not in this version; "
                f"write {name_at(name, source)}={values[0]}"
            )


def _client(
    config: Config, key: Key, environ: Mapping[str, str], secrets: Iterable[str | None]
) -> Client:
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
    transport, models = _transports(config, key, environ)
    catalogue = Catalogue(models, config.model, config.context_window)
    return Client(settings, transport, Native(), catalogue)


def _transports(
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
    kinds: dict[str, Callable[[str], Transport]] = {"run": RunTransport, "replay": ReplayTransport}
    try:
        return kinds[config.endpoint.partition("://")[0].lower()](config.endpoint)
    except ConfigError as error:
        # It begins with `endpoint=` and does not know the place.
        place = place_of("endpoint", config.sources.get("endpoint", "default"))
        raise ConfigError(f"{place}{str(error).removeprefix('endpoint')}") from None


def _toolbox(
    config: Config,
    executor: LocalExecutor,
    secrets: Iterable[str | None],
    keep: Callable[[Change], None] | None,
) -> Toolbox:
    makers = {
        "shell_exec": lambda: shell_tool(
            executor, timeout_s=config.shell_timeout, output_limit=config.tool_output_limit
        ),
        "write_file": lambda: write_tool(executor, keep),
    }
    missing = [name for name in config.tools if name not in makers]
    if missing:
        place = place_of("tools", config.sources.get("tools", "default"))
        raise ConfigError(
            f"{place}={missing[0]} is not in this version; choose among {', '.join(makers)}"
        )
    tools = [makers[name]() for name in config.tools]
    return Toolbox(tools, Profile(config.sanitize), secrets)
