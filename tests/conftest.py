"""What every test can rely on, however the suite was started."""

import signal


def pytest_configure() -> None:
    """Undo what `nohup` and a script's `&` did: ignored signals stay ignored in every child."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
