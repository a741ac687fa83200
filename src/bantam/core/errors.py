"""Every error that Bantam raises on purpose, and the exit status each one ends a run with.

BantamError              1   something went wrong; the message says what, where and what to do
+-- ConfigError          2   a wrong option, file or value
+-- UntrustedEndpoint    2   a folder's file names an endpoint that nobody has accepted
+-- ModelError           1   the endpoint answered, and repeating the request will not help
|   +-- KeyRefused      77   401 or 403
|   +-- Unavailable     75   network, 429 or 5xx after all retries: trying later may help
+-- BudgetSpent          4   `budget_tokens` is used up
+-- ToolError            1   a tool could not do what the model asked; the text is for the model
|   +-- OutsideWorkspace 1   the path is not one that the executor may touch
+-- Interrupted        130   Ctrl+C, SIGTERM, or a cancel from another thread
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """What a process of Bantam tells its parent (SPEC section 1)."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    STEP_LIMIT = 3
    BUDGET = 4
    TRY_LATER = 75
    KEY_REFUSED = 77
    INTERRUPTED = 130
    TERMINATED = 143


class BantamError(Exception):
    """The root: `str(error)` is one message for the user, without a traceback."""

    exit_status = ExitStatus.FAILED


def why_of(error: OSError) -> str:
    """Return what the system says of a failure, without the file's name."""
    return error.strerror or str(error)


class ConfigError(BantamError):
    """An option, a configuration file or a value is wrong; the message names place and fix."""

    exit_status = ExitStatus.USAGE


class UntrustedEndpoint(BantamError):
    """A file of the folder names an endpoint that was not accepted; nothing was sent."""

    exit_status = ExitStatus.USAGE


class ModelError(BantamError):
    """The endpoint refused, or its answer cannot be used. `status` is the HTTP status, if any."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class KeyRefused(ModelError):
    """The endpoint did not accept the key (401, 403)."""

    exit_status = ExitStatus.KEY_REFUSED


class Unavailable(ModelError):
    """Network trouble, 429 or 5xx that outlasted every retry."""

    exit_status = ExitStatus.TRY_LATER


class BudgetSpent(BantamError):
    """The run has used `budget_tokens`."""

    exit_status = ExitStatus.BUDGET


class ToolError(BantamError):
    """A tool could not do what was asked; nothing was changed. The text goes to the model."""


class OutsideWorkspace(ToolError):
    """The path is not one that the executor may touch."""


class Interrupted(BantamError):
    """The user, a signal or another thread cancelled the turn."""

    exit_status = ExitStatus.INTERRUPTED
