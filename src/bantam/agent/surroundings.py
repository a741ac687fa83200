"""What an agent takes from the process around it, and the keys in it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bantam.core.config import Config
from bantam.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an agent takes from the process around it."""

    working_directory: Path
    environ: Mapping[str, str]
    today: date

    @classmethod
    def now(cls) -> "Surroundings":
        """Return this process's. Raises ConfigError if its working directory is gone."""
        try:
            here = Path.cwd()
        except OSError as error:
            what = "the working directory cannot be used"
            raise ConfigError(f"{what}: {error.strerror}; go to another folder") from None
        return cls(here, dict(os.environ), date.today())  # noqa: DTZ011  # the user's day


def secrets_of(config: Config, environ: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return every key that the user has, even those that are not sent: tools may show them."""
    return (*config.secrets, config.api_key, environ.get("OPENAI_API_KEY"))
