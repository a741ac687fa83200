"""What the keys of the line editor do where that is not what prompt_toolkit makes of them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completion, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import (
    emacs_insert_mode,
    emacs_mode,
    emacs_selection_mode,
    has_focus,
    shift_selection_mode,
    vi_insert_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.keys import Keys

from bantam.core.cancel import Cancel
from bantam.core.errors import BantamError, Interrupted
from bantam.terminal.composing import composed, shown_text

if TYPE_CHECKING:
    from bantam.terminal.completion import WordsAfter

# Keys that change a character, and what they do.
_REPEATED: Final[tuple[tuple[Keys | str, str], ...]] = (
    (Keys.Any, "self-insert"),
    ("backspace", "backward-delete-char"),
    ("delete", "delete-char"),
)
# Keys that change a text or move in it, and do nothing else in any mode.
_EDITS: Final = frozenset(
    {
        *(Keys.Any, Keys.BracketedPaste, Keys.ControlH, Keys.Delete, Keys.ControlDelete),
        *(Keys.Left, Keys.Right, Keys.Up, Keys.Down, Keys.Home, Keys.End),
        *(Keys.ControlLeft, Keys.ControlRight, Keys.ControlHome, Keys.ControlEnd),
        *(Keys.ControlA, Keys.ControlB, Keys.ControlE, Keys.ControlF, Keys.ControlJ),
        *(Keys.ControlK, Keys.ControlT, Keys.ControlU, Keys.ControlW, Keys.ControlY),
        Keys.ControlUnderscore,
    }
)
_EDITS_WITH_ALT: Final = frozenset({*"bcdfluy", Keys.ControlH})


def edits(keys: Iterable[KeyPress], mode: EditingMode) -> Iterator[KeyPress]:
    """Yield those of `keys` that only edit: none of them sends, leaves, or opens anything.

    What Alt makes of other keys goes whole; in vi mode an Esc is one.
    """
    is_vi = mode == EditingMode.VI
    allowed = _EDITS | {Keys.Escape} if is_vi else _EDITS
    has_alt = False
    for press in keys:
        if has_alt and press.key in _EDITS_WITH_ALT:
            yield KeyPress(Keys.Escape, "\x1b")
            yield press
        elif press.key in allowed or (len(press.key) == 1 and not has_alt):
            yield press
        has_alt = press.key == Keys.Escape and not is_vi


def key_bindings(
    words_after: "WordsAfter", environ: Mapping[str, str], cancel: Cancel
) -> KeyBindings:
    """Return the keys of SPEC section 9, but Ctrl+C: Tab offers `words_after` and paths.

    `environ` names the user's editor, which `cancel` ends.
    """

    def complete(event: KeyPressEvent) -> None:
        _complete(event.current_buffer, words_after)

    async def compose(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        async with in_terminal():
            try:
                text = composed(buffer.text, environ, cancel)
            except Interrupted:
                raise
            except BantamError as error:
                event.app.output.write(f"[{shown_text(str(error))}]\n")
                return
            buffer.document = Document(text)

    typing = has_focus(DEFAULT_BUFFER)  # and not what is searched for
    inserting = emacs_insert_mode | vi_insert_mode
    bindings = KeyBindings()
    bindings.add("enter", filter=typing)(_send)
    bindings.add("c-j", filter=typing)(_break_line)
    bindings.add("escape", "enter", filter=typing & emacs_mode)(_break_line)
    bindings.add("tab", filter=typing)(complete)
    bindings.add("c-x", "c-e", filter=typing)(compose)
    bindings.add(Keys.BracketedPaste)(_paste)
    for key, command in _REPEATED:
        change = get_by_name(command).handler
        bindings.add(key, filter=inserting, save_before=_begins)(change)
        bindings.add(key, filter=emacs_selection_mode & ~shift_selection_mode)(_end_selection)
    return bindings


def _begins(event: KeyPressEvent) -> bool:
    """Whether to remember the text for undo: once for a run, not a megabyte for each key."""
    return not event.is_repeat


def _end_selection(event: KeyPressEvent) -> None:
    """Let a key mean what it does without a selection; prompt_toolkit would drop it."""
    event.current_buffer.exit_selection()
    event.key_processor.feed_multiple(event.key_sequence, first=True)


def _send(event: KeyPressEvent) -> None:
    event.current_buffer.validate_and_handle()


def _break_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def _complete(buffer: Buffer, words_after: "WordsAfter") -> None:
    """Put in what can stand there, or what all of that begins with, and show a menu of it.

    Not prompt_toolkit's own way, a task: keys that come at once would be taken before it is done.
    """
    if buffer.complete_state:
        buffer.complete_next()
        return
    found = _completions(buffer.document, words_after)
    if len(found) == 1:
        buffer.apply_completion(found[0])
        return
    common = get_common_complete_suffix(buffer.document, found)
    if common:
        buffer.insert_text(common)
        found = _completions(buffer.document, words_after)
    if found:
        buffer.complete_state = CompletionState(buffer.document, found)


def _completions(document: Document, words_after: "WordsAfter") -> list[Completion]:
    from bantam.terminal.completion import candidates  # here: the first prompt has no Tab yet

    found = candidates(document.text_before_cursor, words_after, ".")
    return [Completion(each.text, -each.replaced, display=each.shown) for each in found]


def _paste(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text(shown_text(event.data))
