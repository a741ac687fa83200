"""The commands of the prompt: one table, name -> (argument, help, function).

A function gets the chat, what stands behind the name, and the cancel of this input; it says what it
did, and raises BantamError where that came to nothing.
"""

import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from bantam.core.cancel import Cancel
from bantam.core.errors import BantamError, ConfigError, Interrupted, why_of
from bantam.core.events import UsageReport, UsageSum
from bantam.core.messages import Role
from bantam.core.text import screen_text
from bantam.sessions.files import opened
from bantam.sessions.session import Session
from bantam.sessions.snapshot import SUMMARY_CHARACTERS, first_line
from bantam.sessions.store import checked_name
from bantam.sessions.summary import Summary
from bantam.terminal.chat import Chat
from bantam.terminal.configuring import configure, names
from bantam.terminal.export import as_markdown
from bantam.terminal.screen import one_line

# What terminals take at least (xterm, kitty and foot take more); then base64 makes 4 of 3.
_MOST_COPIED_BYTES: Final = 74_994
_KEYS: Final = (
    ("Enter", "send; a pasted line break never sends"),
    ("Ctrl+J, Alt+Enter", "break the line"),
    ("Up, Down, Ctrl+R", "walk the history; search it"),
    ("Tab", "complete commands, ids, keys and, behind @, paths"),
    ("Ctrl+X Ctrl+E", "write in $VISUAL or $EDITOR"),
    ("Ctrl+C", "stop the turn; twice: leave; at the prompt: clear what is typed"),
    ("Ctrl+D", "leave, on an empty line"),
    ("!command", "run it at once; it has the terminal, the model does not see it"),
    ("a leading blank", "send the line as it is, even with / or ! in front"),
)

Run = Callable[[Chat, str, Cancel], None]


class Command(NamedTuple):
    """What follows a command's name (`[it]` may be left out, "" is nothing), its help, its work."""

    argument: str
    help: str
    run: Run


def run_command_line(chat: Chat, line: str, cancel: Cancel) -> None:
    """Run the command that `line` names. Raises BantamError, and ConfigError if it names none."""
    name, *rest = line.split(maxsplit=1)
    argument = rest[0].strip() if rest else ""
    command = COMMANDS.get(name)
    if command is None:
        near = [] if "/" in name[1:] else get_close_matches(name, COMMANDS, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else "/help lists them."
        raise ConfigError(f"there is no command {name}: {hint} A leading blank sends it as text")
    if argument and not command.argument:
        raise ConfigError(f"{name} takes nothing behind it; nothing was done")
    if not argument and command.argument.startswith("<"):
        raise ConfigError(f"write {name} {command.argument}")
    command.run(chat, argument, cancel)


def words_after(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Return what may stand behind `words` of a command line."""
    match words:
        case []:
            return COMMANDS
        case ["/load"]:
            return chat.store.ids()
        case ["/cfg"]:
            return names(chat.config)
        case ["/cfg", "model"]:
            return chat.models
        case _:
            return ()


# -- sessions ---------------------------------------------------------------------------------


def _save(chat: Chat, argument: str, cancel: Cancel) -> None:
    session = chat.log
    if not isinstance(session, Session):
        raise BantamError("nothing is stored in this run: --no-session was given")
    name = checked_name(argument or chat.project)
    if not chat.has_prompt:
        raise BantamError("there is nothing to save yet")
    _store(chat, session, name)  # safe before anybody is asked anything
    summary = _summary(chat, cancel)
    session.describe(summary=summary)
    _store(chat, session, name)
    chat.output.text(f"saved as {name}: {summary}")


def _store(chat: Chat, session: Session, name: str) -> None:
    session.finish()
    if session.id == name and session.is_unsaved:
        raise BantamError("the session could not be stored")
    try:
        if session.id != name:
            chat.store.save_as(session, name)
    except OSError as error:
        raise BantamError(f"the session could not be saved: {why_of(error)}") from None


def _summary(chat: Chat, cancel: Cancel) -> str:
    """Return a line about the conversation: the model's, or else the first prompt's first."""
    said = ""
    try:
        said = chat.drawn(chat.agent.summary(cancel))
    except Interrupted:
        chat.tell("interrupted; the first prompt stands for a summary")
    except BantamError as error:
        chat.tell(f"no summary: {error}")
    return said[:SUMMARY_CHARACTERS] or first_line(chat.log.messages)


def _continue(chat: Chat, _: str, __: Cancel) -> None:
    if chat.project not in chat.store.ids():
        raise BantamError("this project has no session yet")
    _loaded(chat, chat.project)


def _load(chat: Chat, argument: str, _: Cancel) -> None:
    _loaded(chat, chat.store.find(argument))


def _loaded(chat: Chat, name: str) -> None:
    chat.load(name)
    chat.output.text(f"loaded {chat.log.id or 'a copy'}: {len(chat.log.messages)} messages")


def _list(chat: Chat, _: str, __: Cancel) -> None:
    rows = [_row(chat, summary) for summary in chat.store.summaries()]
    if rows or not chat.output.is_terminal:
        chat.output.table(("id", "changed", "messages", "summary"), rows)
    else:
        chat.output.text("there are no sessions yet")


def _row(chat: Chat, summary: Summary) -> tuple[str, ...]:
    """Return a line of the list; for programs a field is the mark, and the time UTC (ISO 8601)."""
    mark = "*" if summary.id == chat.project else ""
    count = str("?" if summary.count is None else summary.count)
    told = f"[{summary.fault}]" if summary.fault else summary.about.summary
    if not chat.output.is_terminal:
        return mark, summary.id, summary.when.isoformat(timespec="seconds"), count, told
    when = summary.when.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"{mark} {summary.id}".strip(), when, count, told


def _clear(chat: Chat, _: str, __: Cancel) -> None:
    is_kept = chat.has_prompt and not chat.options.no_session
    chat.clear()
    kept = " The one before is stored; /list names it." if is_kept else ""
    chat.output.text(f"a new conversation.{kept}")


# -- the conversation -------------------------------------------------------------------------


def _compact(chat: Chat, _: str, cancel: Cancel) -> None:
    if not chat.drawn(chat.agent.compact(cancel)):
        raise BantamError("nothing has changed")


def _retry(chat: Chat, _: str, cancel: Cancel) -> None:
    chat.retry(cancel)


def _undo(chat: Chat, _: str, cancel: Cancel) -> None:
    session = chat.log
    if not isinstance(session, Session):
        raise BantamError("nothing that could be undone is kept: --no-session was given")
    from bantam.agent.undo import undo_last

    report = undo_last(session, cancel)
    lines = report.lines(chat.surroundings.working_directory)
    chat.output.text("\n".join(map(chat.redaction.text, lines)))
    if report.refused or report.damage:
        raise BantamError("not everything was put back")


def _usage(chat: Chat, _: str, __: Cancel) -> None:
    calls = chat.log.calls
    if not calls and chat.output.is_terminal:
        chat.output.text("nothing was sent yet")
        return
    total = UsageSum.of(calls)
    rows = [_counts(str(number), call) for number, call in enumerate(calls, start=1)]
    head = ("call", "prompt", "cached", "completion")
    chat.output.table(head, [*rows, _counts("sum", total)])


def _counts(name: str, of: UsageReport | UsageSum) -> tuple[str, ...]:
    """Return a line of the usage; `~` marks what was estimated, `-` what was not reported."""
    about = "~" if of.estimated else ""
    cached = "-"
    if of.cached is not None:
        cached = f"{of.cached} ({100 * of.cached / max(1, of.prompt):.0f}%)"
    return name, f"{about}{of.prompt}", cached, f"{about}{of.completion}"


def _export(chat: Chat, argument: str, _: Cancel) -> None:
    if not chat.has_prompt:
        raise BantamError("there is nothing to export yet")
    text = as_markdown(chat.log.messages)
    if not argument:
        chat.output.text(text)
        return
    file = Path(argument).expanduser()
    try:
        fd = opened(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(fd, "wb") as out:
                out.write(text.encode())
        except OSError:
            file.unlink()  # half of it would be in the way of the next try
            raise
    except FileExistsError:
        raise BantamError(f"{argument} is there already; name another file") from None
    except (OSError, ValueError) as error:  # a NUL in the name
        why = getattr(error, "strerror", None) or error
        raise BantamError(f"{argument} cannot be written: {why}") from None
    chat.output.text(f"exported to {argument}")


def _copy(chat: Chat, _: str, __: Cancel) -> None:
    messages = reversed(chat.log.messages)
    spoken = (m.content for m in messages if m.role is Role.ASSISTANT and m.content.strip())
    text = next(spoken, None)
    if text is None:
        raise BantamError("there is no answer to copy yet")
    if not chat.output.is_terminal:
        raise BantamError("there is no terminal, which would have the clipboard")
    text = screen_text(text)  # where it is pasted, it may act
    raw = text.encode("utf-8", "replace")
    if len(raw) > _MOST_COPIED_BYTES:
        raise BantamError("the answer is too long for a terminal to copy; use /export FILE")
    chat.output.raw(f"\x1b]52;c;{b64encode(raw).decode()}\x07")
    chat.output.text(f"copied {len(text)} characters, if the terminal lets programs (OSC 52)")


# -- the rest ---------------------------------------------------------------------------------


def _models(chat: Chat, _: str, cancel: Cancel) -> None:
    chat.models = chat.agent.models(cancel)
    mine = chat.config.model
    lines = (f"{'* ' if each == mine else '  '}{one_line(each)}" for each in chat.models)
    chat.output.text("\n".join(lines))


def _cfg(chat: Chat, argument: str, _: Cancel) -> None:
    configure(chat, argument)


def _help(chat: Chat, _: str, __: Cancel) -> None:
    chat.output.table(("command or key", "does"), [*_help_rows(), *_KEYS])


def _help_rows() -> Iterator[tuple[str, str]]:
    for name, command in COMMANDS.items():
        yield f"{name} {command.argument}".rstrip(), command.help


def _quit(chat: Chat, _: str, __: Cancel) -> None:
    chat.has_left = True


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "/save": Command("[name]", "save, as this project's session or under a name", _save),
        "/continue": Command("", "load this project's session", _continue),
        "/cont": Command("", "the same", _continue),
        "/list": Command("", "saved sessions, the newest first", _list),
        "/load": Command("<id>", "load a session; the start of its id will do", _load),
        "/compact": Command("", "put a summary in the conversation's place", _compact),
        "/cfg": Command("[key [value]]", "show what is set; set it, here and in .bantam.cfg", _cfg),
        "/models": Command("", "the endpoint's models", _models),
        "/retry": Command("", "send the last prompt again, in place of its answer", _retry),
        "/undo": Command("", "put back the files that the last turn wrote", _undo),
        "/usage": Command("", "tokens of this session", _usage),
        "/export": Command("[file]", "the conversation as Markdown", _export),
        "/copy": Command("", "the last answer to the clipboard", _copy),
        "/clear": Command("", "begin a new conversation", _clear),
        "/help": Command("", "every command and key", _help),
        "/quit": Command("", "leave", _quit),
        "/exit": Command("", "the same", _quit),
    }
)
