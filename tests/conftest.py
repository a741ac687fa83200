"""What every test can rely on, however the suite was started."""

import signal

import pytest

# Whose processes run lines that no test runs in its own.
_MEASURED = ("test_aside", "test_cli", "test_commands", "test_repl")


def pytest_configure() -> None:
    """Undo what `nohup` and a script's `&` did: ignored signals stay ignored in every child."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _unmeasured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes without coverage, which takes more time in most than what they do."""
    if request.node.path.stem not in _MEASURED:
        for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"):
            monkeypatch.delenv(name, raising=False)
