"""The line editor: prompt_toolkit's, with the keys of SPEC section 9.

Import this module only where a prompt is about to be shown: prompt_toolkit costs as much as all
the rest. The terminal is never asked for the cursor's position, since one that does not answer
would be complained about, and one that answers late would answer into the next program.
"""

import asyncio
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

from bantam.core.cancel import Cancel
from bantam.core.errors import Interrupted
from bantam.core.messages import SURROGATES
from bantam.terminal.bindings import edits, key_bindings
from bantam.terminal.drawing import Excerpts, Margins, Rewrapped, wraps_anew
from bantam.terminal.history import History
from bantam.terminal.keyboard import Keyboard
from bantam.terminal.streams import OutputFailed, abandon
from bantam.terminal.typeahead import TypeAhead

if TYPE_CHECKING:
    from bantam.terminal.completion import WordsAfter

_SLICE_S: Final = 0.05  # how late a cancel is seen
# How long a lone Esc waits for the rest of a key's sequence; vi users wait for it with each Esc.
_ESCAPE_S: Final = 0.1
_MENU_ROWS: Final = 8  # of a screen that has them; more than it has would hide the line
# All else that goes wrong at the prompt is a fault, and costs no more than the key.
_ENDS: Final = (EOFError, Interrupted, OSError, termios.error)


class Editor:
    """Reads lines from a terminal; meets `Lines`.

    `edit_mode`, `emacs` or `vi`, may change between lines. `words_after` completes commands;
    `environ` names the user's editor and the kind of terminal. `on_ctrl_c` is called when that has
    cleared the line, `on_prompt` when the first one is on the screen.
    """

    def __init__(
        self,
        stdin: TextIO,
        stdout: TextIO,
        *,
        history: History,
        words_after: "WordsAfter",
        environ: Mapping[str, str],
        on_ctrl_c: Callable[[], None] = lambda: None,
        on_prompt: Callable[[], None] = lambda: None,
        edit_mode: str = "emacs",
        color: bool = True,
    ) -> None:
        self.edit_mode = edit_mode
        self._stdout = stdout
        self._environ = environ
        self._on_ctrl_c = on_ctrl_c
        self._words_after = words_after
        self._ahead = TypeAhead(stdin.fileno(), stdout)
        self._cancel = Cancel()  # of what is done now
        # What a terminal sends is UTF-8, whatever PYTHONIOENCODING says of pipes.
        keys = open(stdin.fileno(), encoding="utf-8", closefd=False)  # noqa: SIM115  # open as long as stdin
        self._input = Keyboard(keys)
        output = Vt100_Output.from_pty(stdout, term=environ.get("TERM"))
        output.enable_cpr = False
        self._lines: PromptSession[str] = PromptSession(
            multiline=True,
            enable_suspend=True,
            complete_while_typing=False,
            completer=DummyCompleter(),  # without one a menu gets no room
            history=_Recall(history),
            input_processors=[
                Excerpts(),
                TabsProcessor(char1=" ", char2=" "),
                Margins(lambda: self._indent),
            ],
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            input=self._input,
            output=output,
        )
        self._indent = 0  # of the lines, in columns: what the prompt fills
        self._prompt_style = "bold" if color else ""
        self._lines.app.after_render += _once(on_prompt)

    def read(self, prompt: str, cancel: Cancel) -> str | None:
        """Return the next input, None to leave.

        Raises Interrupted at once when cancelled, OutputFailed when the terminal is gone.
        """
        self._cancel = cancel
        cancel.check()  # before the next line is taken
        bindings = key_bindings(self._words_after, self._environ, cancel)
        bindings.add("c-c", filter=has_focus(DEFAULT_BUFFER))(self._clear)
        self._lines.key_bindings = bindings
        self._lines.reserve_space_for_menu = min(_MENU_ROWS, self._lines.output.get_size().rows - 1)
        self._lines.editing_mode = EditingMode(self.edit_mode.upper())
        self._indent = get_cwidth(prompt)
        typed = self._input.keys_of(self._ahead.take())
        store_typeahead(self._input, [*edits(typed, self._lines.editing_mode)])
        return self._read(self._lines, [(self._prompt_style, prompt)], cancel)

    def ask(self, question: str, cancel: Cancel) -> str | None:
        """Return the answer, None for Ctrl+C and Ctrl+D; what was typed before is none.

        Raises as `read` does.
        """
        with self._ahead.kept():
            pass  # what the terminal holds is now kept
        answers: PromptSession[str] = PromptSession(
            interrupt_exception=EOFError,
            enable_suspend=True,
            color_depth=self._lines.color_depth,
            input=self._input,
            output=self._lines.output,
        )
        return self._read(answers, [("", question)], cancel)

    @contextmanager
    def typing_ahead(self) -> Iterator[None]:
        """Keep what is typed meanwhile for the next `read`s, unseen.

        It is read at each tick of the `Cancel` of the last `read`.
        """
        with self._ahead.kept():
            ticks = self._cancel.ticks
            ticks.append(self._ahead.drain)
            try:
                yield
            finally:
                ticks.remove(self._ahead.drain)

    def _read(
        self, session: "PromptSession[str]", prompt: StyleAndTextTuples, cancel: Cancel
    ) -> str | None:
        cancel.check()
        app = session.app
        app.ttimeoutlen = _ESCAPE_S
        if wraps_anew(self._environ):
            app.renderer = Rewrapped(app.renderer.style, app.renderer.output)
        try:
            text = session.prompt(
                prompt,
                pre_run=lambda: _watch(app, cancel),
                set_exception_handler=False,
                handle_sigint=False,  # the program has its own handler, which cancels
            )
        except EOFError:
            cancel.check()  # the terminal may be gone
            return None
        except (OSError, termios.error) as error:
            abandon(self._stdout)
            cancel.check()
            raise OutputFailed from error
        finally:
            # Of several lines pasted into a terminal that does not mark pastes, one is sent.
            self._ahead.keep(self._input.unused())
        return SURROGATES.sub("\ufffd", text)

    def _clear(self, event: KeyPressEvent) -> None:
        event.current_buffer.reset()
        event.app.vi_state.reset()
        self._ahead.forget()  # as a terminal drops what nobody has read yet
        self._on_ctrl_c()


def _once(call: Callable[[], None]) -> "Callable[[Application[str]], None]":
    """Return what calls `call` the first time."""
    calls = [call]

    def fire(_: "Application[str]") -> None:
        if calls:
            calls.pop()()

    return fire


def _watch(app: "Application[str]", cancel: Cancel) -> None:
    """Let `app` end when `cancel` is set or the terminal fails; any other fault rings the bell."""

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, _ENDS):
            if not app.is_done:
                app.exit(exception=error)
        elif error is not None:
            app.output.bell()

    async def wait() -> None:
        while not cancel.is_set:  # noqa: ASYNC110  # what a signal handler sets is no asyncio.Event
            await asyncio.sleep(_SLICE_S)
        cancel.check()

    asyncio.get_running_loop().set_exception_handler(fail)
    app.create_background_task(wait())


class _Recall(InMemoryHistory):
    """The entries of `history`, and what is sent, as far as that keeps it."""

    def __init__(self, history: History) -> None:
        super().__init__(history.entries)
        self._history = history

    def append_string(self, string: str) -> None:
        if self._history.add(string):
            super().append_string(string)
