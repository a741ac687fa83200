"""The user's keys, taken out of what is said outside of a turn: wrong options, files, values.

There may be no configuration then. So each place in which a key may stand is read for keys alone.
"""

import os
import sys
from collections.abc import Iterator

from bantam.core.config import CONFIG_FILES
from bantam.core.errors import ConfigError
from bantam.core.redaction import Redaction
from bantam.core.settings import Setting, parse, parse_override
from bantam.terminal.prompts import read_config


def without_keys(text: str) -> str:
    """Return `text` with a placeholder for each key of the environment, `-o` and the files."""
    settings = [*_of_command_line(), *_of_files()]
    keys = [setting.text for setting in settings if setting.key == "api_key"]
    return Redaction([os.environ.get("OPENAI_API_KEY"), *keys]).text(text)


def _of_command_line() -> Iterator[Setting]:
    for argument in map(str, sys.argv[1:]):  # what reports a bug must not fail at it
        try:
            yield parse_override(argument.removeprefix("-o").lstrip("="))
        except ConfigError:
            continue


def _of_files() -> Iterator[Setting]:
    for name in CONFIG_FILES:
        try:
            lines = (read_config(name) or b"").splitlines()
        except ConfigError:
            continue
        for line in lines:
            try:
                yield from parse(line, name)
            except ConfigError:
                continue
