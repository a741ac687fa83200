"""A whole agent against an endpoint, in process: what a user of it would see of one turn."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from bantam.agent.agent import Agent, Surroundings
from bantam.agent.memory import ListLog
from bantam.core.cancel import Cancel
from bantam.core.config import resolve
from bantam.core.events import Done, Event, Notice, Retry, as_json
from bantam.core.messages import Message

DAY = date(2026, 3, 1)


@contextmanager
def agent_at(
    endpoint: str,
    folder: Path,
    *overrides: str,
    history: Sequence[Message] = (),
    environ: Mapping[str, str] | None = None,
) -> Iterator[Agent]:
    """Yield an agent of `endpoint` that works in `folder`; it is closed at the end."""
    config = resolve(overrides=[f"endpoint={endpoint}", "model=m", *overrides])
    surroundings = Surroundings(folder, environ or {"PATH": "/usr/bin:/bin"}, DAY)
    agent = Agent(config, surroundings, log=ListLog(history))
    try:
        yield agent
    finally:
        agent.close()


def turn(agent: Agent, prompt: str = "Go on.", cancel: Cancel | None = None) -> list[Event]:
    """Return the events of one turn."""
    return list(agent.turn(prompt, cancel))


def done(events: Sequence[Event]) -> Done:
    """Return the event that ends a turn."""
    last = events[-1]
    assert isinstance(last, Done)
    return last


def error_of(events: Sequence[Event]) -> str:
    """Return what the error that ended a turn says."""
    failure = done(events).error
    assert failure is not None
    return failure.message


def notices(events: Sequence[Event]) -> list[str]:
    """Return what was told in passing."""
    return [event.text for event in events if isinstance(event, Notice)]


def retries(events: Sequence[Event]) -> list[Retry]:
    """Return the waits that were announced."""
    return [event for event in events if isinstance(event, Retry)]


def shown(events: Sequence[Event]) -> str:
    """Return all that any event tells."""
    return "\n".join(str(as_json(event)) for event in events)
