"""The interactive prompt: read a line, do what it says, show it; and the same for piped lines.

What is piped in is nobody's conversation: no editor, no colour, no question, and a signal ends it.
Its exit status is that of the last turn or command that failed, 0 if none did; a person who leaves
leaves with 0. What a `!command` ends with is shown and counts for neither.
"""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bantam import __version__
from bantam.core.cancel import Cancel
from bantam.core.config import Config
from bantam.core.endpoints import host_of
from bantam.core.errors import BantamError, ExitStatus, Interrupted
from bantam.core.messages import Role
from bantam.sessions.store import home_of
from bantam.terminal.arguments import Options
from bantam.terminal.chat import Chat
from bantam.terminal.inputs import Lines, PlainLines
from bantam.terminal.interrupts import Interrupts
from bantam.terminal.start import load_meanwhile

if TYPE_CHECKING:
    from bantam.agent.memory import Memory
    from bantam.terminal.command import Listen
    from bantam.terminal.editor import Editor

_PROMPT: Final = "> "
# What the first turn needs and the first prompt does not: some tenths of a second.
_OF_A_TURN: Final = (
    *("bantam.terminal.commands", "bantam.agent.agent", "httpx", "httpcore", "markdown_it"),
    *("rich.cells", "bantam.terminal.live"),
)
_ANSWERS: Final = {"": True, "y": True, "yes": True, "n": False, "no": False}
# What other programs take for a command.
_MEANT: Final = {
    **dict.fromkeys(("exit", "quit", ":q"), "/quit leaves"),
    **dict.fromkeys(("help", "?"), "/help lists commands and keys"),
}
_SHOWN_CHARACTERS: Final = 80


def converse(options: Options, config: Config, interrupts: Interrupts, listen: "Listen") -> int:
    """Read inputs from standard input until it ends; return the exit status.

    `listen` lets a function hear this process's signals. Raises BantamError if it cannot begin,
    OutputFailed if it cannot go on.
    """
    is_terminal = sys.stdin.isatty()
    chat = Chat(options, config, color=is_terminal, cancel=interrupts.current)
    with closing(chat):
        return _Prompt(chat, interrupts, listen, is_terminal=is_terminal).run()


class _Prompt:
    """The cycle over one chat."""

    def __init__(
        self, chat: Chat, interrupts: Interrupts, listen: "Listen", *, is_terminal: bool
    ) -> None:
        self._chat = chat
        self._interrupts = interrupts
        self._listen = listen
        self._is_terminal = is_terminal
        self._editor: Editor | None = None
        self._asked_at: tuple[int, int] | None = None  # the context when compaction was offered
        self._uncompacted: Memory | None = None  # the conversation for which it was declined
        self._lines = self._opened()
        self._keeping = ExitStack()  # what is typed ahead, during a turn
        chat.ask_line = self._ask_during_turn
        self._went_on = False  # a shell has stopped this job, and let it go on
        if is_terminal:
            signal.signal(signal.SIGCONT, self._hear_return)
            # Else it breaks off the very call in which this job was stopped.
            signal.siginterrupt(signal.SIGCONT, False)

    def run(self) -> int:
        """Read and do until the end; return the exit status."""
        if self._is_terminal:
            self._chat.output.aside("\n".join([_start_line(self._chat), *_resumed(self._chat)]))
        self._chat.tell_news()
        while not self._chat.has_left and self._interrupts.leaving is None:
            cancel = self._interrupts.fresh()
            cancel.ticks.append(self._chat.tick)
            if not self._step(cancel):
                break
        if self._interrupts.leaving is not None:
            return self._interrupts.leaving
        return ExitStatus.DONE if self._is_terminal else self._chat.status

    def _step(self, cancel: Cancel) -> bool:
        """Read one input and do what it says; False if there is none."""
        if self._editor is not None:
            self._editor.edit_mode = self._chat.config.edit_mode
        try:
            line = self._lines.read(_PROMPT if self._is_terminal else "", cancel)
            if line is None:
                return False
            self._do(line, cancel)
            self._offer_compaction(cancel)
        except Interrupted:  # while a line was read, or an answer
            if self._is_terminal:
                self._chat.output.aside("")
        if cancel.is_set and not self._is_terminal:
            self._interrupts.leaving = cancel.why
        return True

    def _do(self, line: str, cancel: Cancel) -> None:
        if not line.strip():
            return
        if self._is_terminal and (meant := _MEANT.get(line.rstrip())):
            self._chat.tell(f"{meant}; a leading blank sends the word")
            return
        # Each time: /cfg makes a new agent.
        self._chat.agent.may_compact = self._chat.log is not self._uncompacted
        try:
            if line.startswith("!"):
                self._aside(line[1:].strip(), cancel)
                return
            with self._keeping:
                self._keeping.enter_context(self._typing_ahead(cancel))
                if line.startswith("/"):
                    from bantam.terminal.commands import run_command_line

                    run_command_line(self._chat, line, cancel)
                else:
                    self._chat.turn(line, cancel)
        except BantamError as error:
            self._chat.fail(error)
        self._chat.tell_news()

    @contextmanager
    def _typing_ahead(self, cancel: Cancel) -> Iterator[None]:
        with self._lines.typing_ahead():
            self._went_on = False
            cancel.ticks.append(self._see_return)  # behind what stops this job
            try:
                yield
            finally:
                cancel.ticks.remove(self._see_return)

    def _ask_during_turn(self, question: str, cancel: Cancel) -> str | None:
        """Return the answer; a Ctrl+Z at the question finds the modes that are the shell's."""
        self._keeping.close()
        answer = None
        try:
            answer = self._lines.ask(question, cancel)
        finally:
            if answer is None and self._editor is None:  # the line of the question is not ended
                self._chat.output.aside("")
            self._keeping.enter_context(self._typing_ahead(cancel))
        if answer is None:  # it was a Ctrl+C, or Ctrl+D, and no signal
            self._interrupts.hear(signal.SIGINT)
        return answer

    def _see_return(self) -> None:
        """Go on below what a shell has written while this job was stopped."""
        if self._went_on:
            self._went_on = False
            self._chat.begin_anew()

    def _hear_return(self, *_: object) -> None:
        self._went_on = True
        # The signal may come a moment later than the process goes on, and the next words before
        # a tick would be due.
        self._interrupts.current.tick_soon()

    def _aside(self, command: str, cancel: Cancel) -> None:
        if not command:
            raise BantamError("write a shell command behind the !")
        from bantam.terminal.aside import run_aside

        out = sys.stdout if self._is_terminal and sys.stdout.isatty() else None
        status = run_aside(command, cancel, self._interrupts, self._listen, out)
        if status:
            self._chat.tell(f"exit: {status}")

    def _offer_compaction(self, cancel: Cancel) -> None:
        """Ask whether to compact, once each time that more of the window is in use."""
        context = self._chat.agent.context
        if context is None or context == self._asked_at or cancel.is_set or self._chat.has_left:
            return
        if not self._is_terminal:
            return
        self._asked_at = context
        used, window = context
        if used < self._chat.config.compact_at * window:
            return
        share = f"Context usage is at {100 * used / window:.1f}% ({used} / {window} tokens)."
        says_yes: bool | None = None
        while says_yes is None:
            answer = self._lines.ask(f"{share} Compact conversation? [Y/n]: ", cancel)
            says_yes = answer is not None and _ANSWERS.get(answer.strip().lower())
        self._uncompacted = None if says_yes else self._chat.log
        if says_yes:
            self._do("/compact", cancel)

    def _opened(self) -> Lines:
        """Return where the inputs come from."""
        keyboard = sys.stdin.fileno()
        if not self._is_terminal:
            return PlainLines(keyboard)
        if not sys.stdout.isatty():
            return PlainLines(keyboard, sys.stderr)
        if os.environ.get("TERM") == "dumb":
            return PlainLines(keyboard, sys.stdout)
        self._editor = self._with_editor()
        return self._editor

    def _with_editor(self) -> "Editor":
        from bantam.terminal.editor import Editor
        from bantam.terminal.history import History

        chat = self._chat
        path = None if chat.options.no_session else _history_path(chat.surroundings.environ)
        return Editor(
            sys.stdin,
            sys.stdout,
            history=History(path, chat.redaction.text),
            words_after=partial(_words_after, chat),
            environ=chat.surroundings.environ,
            on_ctrl_c=self._interrupts.press,
            on_prompt=partial(load_meanwhile, *_OF_A_TURN),
            color=chat.output.color,
        )


def _words_after(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    from bantam.terminal.commands import words_after

    return words_after(chat, words)


def _history_path(environ: Mapping[str, str]) -> Path | None:
    """Return the file of what was typed: `~/.bantam_history`, in BANTAM_HOME where that is set."""
    home = home_of(environ)
    if home is None or environ.get("BANTAM_HOME"):
        return home and home / "history"
    return home.with_name(".bantam_history")


def _start_line(chat: Chat) -> str:
    """Return what is said first: nothing of it is a secret."""
    place = host_of(chat.config.endpoint) or chat.config.endpoint.partition("://")[0]
    return f"bantam {__version__} | {chat.config.model} at {place} | key: {chat.key_source} | /help"


def _resumed(chat: Chat) -> list[str]:
    """Return what is said of a conversation that goes on."""
    prompts = [each.content for each in chat.log.messages if each.role is Role.USER]
    if not prompts or not (chat.options.continues or chat.options.resume is not None):
        return []
    loaded = f"loaded {chat.log.id or 'a copy'}: {len(chat.log.messages)} messages"
    first_line = prompts[-1].strip().partition("\n")[0]
    return [loaded, f"last prompt: {first_line[:_SHOWN_CHARACTERS]}"]
