"""The questions of trust: asked on the terminal once, ever, and before anything is sent or started.

They are the user's own: what was typed before does not answer them, they go around every output
that is a pipe, and without a terminal at both ends nobody is asked and nothing is accepted. What a
question shows comes from a stranger's file: it is one line, without anything hidden, and one that
cannot be seen whole on this screen is not put at all.
"""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bantam.agent.surroundings import Surroundings
from bantam.core.cancel import Cancel
from bantam.core.config import Config
from bantam.core.endpoints import host_of, origin
from bantam.core.errors import UntrustedEndpoint, why_of
from bantam.core.redaction import Redaction
from bantam.model.origins import (
    NOTHING,
    Accepted,
    Key,
    chosen_key,
    goes_open,
    is_harmless,
    is_trusted,
    is_unencrypted,
)
from bantam.sessions.store import home_of
from bantam.terminal.inputs import PlainLines
from bantam.terminal.screen import complain, one_line
from bantam.terminal.streams import size_of
from bantam.terminal.traces import blanks_told, height

if TYPE_CHECKING:
    from bantam.model.programs import Program
    from bantam.sessions.trust import TrustFile

_ROWS_LEFT: Final = 2  # of the screen, for the answer
_NO_ROOM: Final = (
    "the question about the endpoint in {file} does not fit on this screen, so it was not put; "
    "nothing was sent. Read the file; then enlarge the screen, or use -o endpoint=, or --trust"
)
_FOR_THIS_RUN: Final = "this answer holds for this run alone"


def consented(
    config: Config, surroundings: Surroundings, redaction: Redaction, *, trust: bool, cancel: Cancel
) -> Accepted:
    """Return what of `config` the user accepts: what is remembered, and what is answered now.

    `trust`: its endpoint, for this run. Raises UntrustedEndpoint if the answer is no, Interrupted.
    """
    accepted = Accepted(frozenset({origin(config.endpoint)})) if trust else NOTHING
    consent = _Consent(config, surroundings, accepted)
    if consent.is_needed():
        consent.recall()
        ask = _Asking(config, redaction, cancel)
        consent.ask_for_endpoint(ask)
        consent.ask_for_key(ask)
    return consent.accepted


def recalled(config: Config, surroundings: Surroundings, accepted: Accepted) -> Accepted:
    """Return `accepted` and what is remembered of `config`; nobody is asked."""
    consent = _Consent(config, surroundings, accepted)
    if consent.is_needed():
        consent.recall()
    return consent.accepted


def remembered(config: Config, surroundings: Surroundings, accepted: Accepted) -> Accepted:
    """Return `accepted` and the endpoint of `config`, which is the user's own word; it is kept."""
    consent = _Consent(config, surroundings, accepted)
    if not is_harmless(config.endpoint):
        if is_unencrypted(config.endpoint):
            complain(_warning(origin(config.endpoint)))
        consent.recall()
        consent.accept_endpoint()
    return consent.accepted


class _Asking:
    """Puts questions about the endpoint of `config` where somebody can answer them."""

    def __init__(self, config: Config, redaction: Redaction, cancel: Cancel) -> None:
        self._endpoint = config.endpoint
        self._redaction = redaction
        self._cancel = cancel

    def __call__(self, question: str) -> bool | None:
        """Return the answer; None where nobody is asked, or the terminal has ended."""
        if not _has_terminal() or self.lacks_room(question):
            return None
        answer = None
        try:
            shown = "\n".join(self._lines(question))
            answer = PlainLines(sys.stdin.fileno(), sys.stderr).ask(shown, self._cancel)
        finally:
            if answer is None:  # the line of the question is not ended
                sys.stderr.write("\n")
        return None if answer is None else answer.strip().lower() in ("y", "yes")

    def lacks_room(self, question: str) -> bool:
        """Whether there is a terminal, and its screen is too small for `question`."""
        if not _has_terminal():
            return False
        columns, rows = size_of(sys.stderr)
        needed = sum(height(line, columns) for line in self._lines(question))
        return needed > rows - _ROWS_LEFT

    def _lines(self, question: str) -> list[str]:
        """Return the lines that are shown: of a stranger's text each holds no other one."""
        warned = [_warning(origin(self._endpoint))] if is_unencrypted(self._endpoint) else []
        shown = (one_line(self._redaction.text(line)) for line in (*warned, question))
        return [blanks_told(line).replace("\t", " ") for line in shown]


class _Consent:
    """What the user has said about one configuration; `accepted` grows."""

    def __init__(self, config: Config, surroundings: Surroundings, accepted: Accepted) -> None:
        self.accepted = accepted
        self._config = config
        self._environ = surroundings.environ
        self._folder = str(surroundings.working_directory)
        self._name = origin(config.endpoint)
        self._program: Program | None = None

    def is_needed(self) -> bool:
        """Whether anything waits for an answer."""
        return not self._is_trusted() or self._key().withheld or self._goes_open()

    def recall(self) -> None:
        """Take what was answered in other runs."""
        answers = self._file().read(complain)
        names = self.accepted.names | answers.origins
        if not host_of(self._config.endpoint):
            from bantam.model.programs import program_of

            # Once: what is asked about is what is kept, whatever becomes of the file meanwhile.
            self._program = program_of(self._config.endpoint, self._folder)
            if self._program and self._program.digest in answers.programs:
                names |= {self._name}
        self.accepted = Accepted(names, {**answers.keys, **self.accepted.keys})

    def ask_for_endpoint(self, ask: _Asking) -> None:
        """Ask whether the endpoint may be used. Raises UntrustedEndpoint if it may not."""
        if self._is_trusted():
            return
        program = self._program
        if program is None and not host_of(self._config.endpoint):
            return  # what cannot be run is no question
        does = (
            _what_it_does(self._name, program)
            if program
            else f"sends your prompts to {self._name}, and runs what it answers"
        )
        file = self._config.sources["endpoint"].rpartition(":")[0]
        question = f"This folder's {file} {does}. Continue? [y/N] "
        answer = ask(question)
        if answer:
            self.accept_endpoint()
        elif answer is not None:
            what = program.path if program else self._name
            raise UntrustedEndpoint(f"{what} was not accepted; nothing was sent")
        elif ask.lacks_room(question):
            raise UntrustedEndpoint(_NO_ROOM.format(file=file))

    def ask_for_key(self, ask: _Asking) -> None:
        """Ask whether a key may be sent there, where nobody has said so."""
        if not self._is_trusted():
            return
        if self._key().withheld:
            answer = ask(f"Send your OPENAI_API_KEY to {self._name}? [y/N] ")
            if answer is not None:
                keys = {self._name: answer}
                self.accepted = replace(self.accepted, keys={**self.accepted.keys, **keys})
                self._keep(keys=keys)
        elif self._goes_open() and ask(f"Send your api_key to {self._name}? [y/N] "):
            self.accept_endpoint()

    def accept_endpoint(self) -> None:
        """Accept the endpoint, and keep that; what cannot be kept is told."""
        self.accepted = replace(self.accepted, names=self.accepted.names | {self._name})
        if host_of(self._config.endpoint):
            self._keep(origins=frozenset({self._name}))
        elif self._program and self._program.digest:
            self._keep(programs={self._program.digest: self._program.path})
        else:
            complain(f"{_FOR_THIS_RUN}: its files cannot be told from others")

    # -- parts --------------------------------------------------------------------------------

    def _is_trusted(self) -> bool:
        return is_trusted(self._config, self.accepted, self._environ)

    def _key(self) -> Key:
        return chosen_key(self._config, self._environ, self.accepted)

    def _goes_open(self) -> bool:
        return goes_open(self._config, self._key(), self._environ, self.accepted)

    def _file(self) -> "TrustFile":
        # Here: most endpoints wait for no answer.
        from bantam.sessions.trust import TrustFile

        return TrustFile(home_of(self._environ))

    def _keep(self, **answers: Any) -> None:
        from bantam.sessions.trust import Answers

        try:
            self._file().add(Answers(**answers))
        except OSError as error:
            complain(f"{_FOR_THIS_RUN}: {error.filename}: {why_of(error)}")


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _what_it_does(name: str, program: "Program") -> str:
    """Return what a program, or a recording, is used for, in words of a question."""
    what = program.command + (f" (a link to {program.target})" if program.target else "")
    if name.lower().startswith("run:"):
        return f"starts {what}, sends your prompts to it, and runs what it answers"
    return f"takes answers from {what}, and runs what they say"


def _warning(name: str) -> str:
    return f"{name} is unencrypted: whoever is on the way can read and change what is sent."
