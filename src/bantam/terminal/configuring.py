"""`/cfg`: what is set and from where, one option, or a new value, live and in `.bantam.cfg`."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bantam.core.config import CONFIG_FILES, OPTIONS, Config, resolve, typed
from bantam.core.endpoints import origin
from bantam.core.errors import ConfigError
from bantam.core.kinds import as_text
from bantam.core.settings import Setting, meant_by, parse, with_setting
from bantam.sessions import files
from bantam.terminal.chat import Chat
from bantam.terminal.consent import remembered
from bantam.terminal.prompts import read_config

# The key, a `=` as in a file if there is one, the value; an empty one behind `=` unsets.
_SETTING: Final = re.compile(r"([^\s=]*)\s*(=?)\s*(.*)", re.DOTALL)
_SHOWN_OF_KEY: Final = 4
_SHORTEST_KEY: Final = 8  # of a shorter one the end would be too much
_QUOTES: Final = ('"', "'")
_GIT_PATIENCE_S: Final = 5
_NOT_IGNORED: Final = 1  # the status of `git check-ignore`; 128: this is no work tree


def configure(chat: Chat, argument: str) -> None:
    """Do what stands behind `/cfg`. Raises ConfigError and others, and then nothing has changed."""
    if not argument:
        chat.output.table(("key", "value", "source"), list(_rows(chat)))
        return
    key, mark, value = _SETTING.findall(argument)[0]
    if not key:
        raise ConfigError("write /cfg KEY VALUE")
    if mark or value:
        _set(chat, key, _unquoted(value))
    else:
        _show(chat, key)


def names(config: Config) -> list[str]:
    """Return the keys that there are."""
    return [*OPTIONS, *config.forwarded]


def _rows(chat: Chat) -> Iterator[tuple[str, str, str]]:
    config = chat.config
    for name in OPTIONS:
        yield name, _text(chat, name, getattr(config, name)), _source(chat, name)
    for name, value in config.forwarded.items():
        yield name, _text(chat, name, value), _source(chat, name)


def _show(chat: Chat, key: str) -> None:
    found = {name: f"{name}={value} ({source})" for name, value, source in _rows(chat)}
    if key not in found:
        meant = meant_by(key, found)
        fix = f"; did you mean {meant}?" if meant != key else f"; /cfg {key} VALUE sets it"
        raise ConfigError(f"{key} is not set{fix}")
    line = found[key]
    if key == "context_window":
        tokens, source = chat.agent.window
        line += f"; in use: {tokens} (from {source})"
    chat.output.text(line)


def _text(chat: Chat, name: str, value: Any) -> str:
    if name == "api_key":
        key = chat.agent.key.value or value
        if key is None:
            return ""
        return "..." + (key[-_SHOWN_OF_KEY:] if len(key) >= _SHORTEST_KEY else "")
    if name == "endpoint":
        address, mark, _ = str(value).partition("?")
        value = address + (f"{mark}..." if mark else "")  # what follows may be a key
    return chat.redaction.text(as_text(value))


def _source(chat: Chat, name: str) -> str:
    if name == "api_key" and chat.agent.key.value is not None:
        return chat.agent.key.source
    return chat.config.sources[name]


def _unquoted(value: str) -> str:
    r"""Return `value` without one pair of quotes around it: so an empty one can be written.

    >>> _unquoted('""'), _unquoted("'a b'"), _unquoted("it's")
    ('', 'a b', "it's")
    """
    if len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES:
        return value[1:-1]
    return value


# -- setting ----------------------------------------------------------------------------------


def _set(chat: Chat, key: str, value: str) -> None:
    setting = Setting(key, value, "/cfg")
    typed(setting)  # its error names this command, not a line of the file
    text = with_setting(_file(), key, value)
    # Without a value nothing is set here any more: what the command line says holds again.
    live = [*(each for each in chat.live if each.key != key), *([setting] if value else [])]
    name = CONFIG_FILES[0]
    path = _own_file(chat.surroundings.working_directory / name)
    # The file too, in which somebody may have written since; an error there changes nothing.
    kept = parse(text, name)
    if [each.text for each in kept if each.key == key][-1:] != [value]:
        raise ConfigError(f"{key} is not set: as a line of {name} that would say something else")
    config = resolve(kept, chat.options.overrides, os.environ, live)
    chat.reconfigure(config)
    chat.live = live
    chat.redaction.learn(config.secrets)
    try:
        files.replace(path, [text])
    except OSError as error:
        raise ConfigError(f"{key} is set for this run; {name}: {error.strerror}") from None
    if key == "endpoint" and value:
        chat.accepted = remembered(config, chat.surroundings, chat.accepted)
    if value or key in OPTIONS:
        _show(chat, key)
    else:
        chat.output.text(f"{key} is unset")
    sent = chat.agent.key
    if key == "endpoint" and sent.value is not None:
        chat.tell(f"{sent.place} goes to {origin(config.endpoint)} from now on")
    if not chat.warned and _git_would_take(chat.surroundings.working_directory, name):
        chat.warned = True
        chat.tell(f"git does not ignore {name}, which may hold a key: add it to .gitignore")


def _own_file(path: Path) -> Path:
    """Return the file that is written for `path`, which may be a link. Raises ConfigError.

    A link in a cloned folder does not get to choose which file of its user's is written.
    """
    target = path.resolve()
    if not target.is_relative_to(path.parent.resolve()):
        raise ConfigError(f"{path.name} links to {target}, outside of this folder: change it there")
    return target


def _file() -> bytes:
    """Return what the new file begins as: the one that is read, whatever its name."""
    for name in CONFIG_FILES:
        if (text := read_config(name)) is not None:
            return text
    return b""


def _git_would_take(folder: Path, name: str) -> bool:
    """Whether `folder` is in a git work tree whose ignore files do not name `name`."""
    # By the patterns alone; and nothing that the folder's own settings name is run.
    command = ["git", "-c", "core.fsmonitor=false", "check-ignore", "--quiet", "--no-index", name]
    with suppress(OSError, subprocess.TimeoutExpired):
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, check=False, timeout=_GIT_PATIENCE_S
        )
        return ended.returncode == _NOT_IGNORED
    return False
