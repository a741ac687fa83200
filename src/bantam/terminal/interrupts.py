"""What Ctrl+C and the signals that end a run mean: the `Cancel` of what is done now is set.

One `Interrupts` a process. A run of one turn has one `Cancel`; the prompt takes a fresh one for
each input, and the handler reaches the current one.
"""

import signal
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Final

from bantam.core.cancel import Cancel
from bantam.core.errors import ExitStatus

# After a signal all is over within 0.2 s (SPEC section 8), unless something hangs.
_PATIENCE_S: Final = 0.5
# So soon again it is one press: the terminal's signal, and a parent that passes it on.
_ONE_PRESS_S: Final = 0.05
_TWICE_S: Final = 1.0  # SPEC section 8: a second Ctrl+C within a second leaves the program


class Interrupts:
    """Hears signals; `leaving` is the exit status once the program is to end.

    `clock`: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self.current = Cancel()
        self.leaving: ExitStatus | None = None
        self._last = -inf  # when a signal came

    @property
    def is_set(self) -> bool:
        """Whether what is done now was cancelled."""
        return self.current.is_set

    def fresh(self) -> Cancel:
        """Return the `Cancel` of what is done next; it is set already if all is to end."""
        self.current = Cancel()
        # Behind the assignment: a signal in between sets the new one, or is seen here.
        if self.leaving is not None:
            self.current.set(self.leaving)
        return self.current

    def hear(self, number: int, _: object = None) -> None:
        """Take a signal, as its handler: SIGINT is Ctrl+C, any other ends the program.

        A later one unwinds whatever hangs. One that follows at once is part of the one before:
        cleaning up is under way.
        """
        now = self._clock()
        since, self._last = now - self._last, now
        if number != signal.SIGINT:
            self.leaving = ExitStatus.TERMINATED
        elif _ONE_PRESS_S < since < _TWICE_S:
            self.leaving = self.leaving or ExitStatus.INTERRUPTED
        if not self.current.is_set:
            self.current.set(self.leaving or ExitStatus.INTERRUPTED)
        elif since > _PATIENCE_S:
            raise KeyboardInterrupt

    def press(self) -> None:
        """Take a Ctrl+C that came as a key: behind one that broke off a turn, it is the second."""
        if self._clock() - self._last < _TWICE_S:
            self.leaving = ExitStatus.INTERRUPTED
            self.current.set(self.leaving)

    def note(self, number: int) -> None:
        """Take a signal that something else deals with: all but Ctrl+C end the program later."""
        if signal.Signals(number).name not in ("SIGINT", "SIGQUIT"):
            self.leaving = ExitStatus.TERMINATED
            self.current.set(self.leaving)
