"""A conversation led to another folder, so that a replay never acts on the project it came from.

What names the project is replaced: its absolute path, and the path from the home folder. Out of
reach are other ways there (a symbolic link, `..`, a path that a command puts together) and other
places (`/etc`, the network).
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from bantam.core.messages import Message, Role, each_text, parsed_arguments


def relocated(
    messages: Sequence[Message], project: str, folder: str, home: str = ""
) -> list[Message]:
    """Return `messages` with each mention of the folder `project` led to `folder`.

    In contents, reasoning and the strings of call arguments; also as `~/...` and `$HOME/...` where
    it is inside `home`. Nothing for "" and "/". Arguments that do not parse, and their results,
    stay: such a call never runs, and its result names columns. A `folder` whose path is as long as
    `project`'s keeps true what the results say of lengths: bytes written, columns, cuts.
    """
    project = project.rstrip("/")
    if not project:
        return list(messages)
    pattern = _mentions(project, home.rstrip("/"))

    def moved(text: str) -> str:
        return pattern.sub(lambda _: folder, text)

    broken: set[str] = set()
    relocated: list[Message] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            calls = message.tool_calls
            broken = {call.id for call in calls if parsed_arguments(call.arguments) is None}
        if message.role is Role.TOOL and message.tool_call_id in broken:
            relocated.append(message)
        else:
            relocated.append(_moved_message(message, moved))
    return relocated


def _mentions(project: str, home: str) -> re.Pattern[str]:
    r"""Return what matches `project` where it stands for itself or begins a longer path.

    Before it: no part of another path or address, but perhaps an option (`-C/home/u`) or an escape
    (`\n`). Behind it: nothing that makes its name longer. In doubt it matches: a command that
    misses its file is told, and does not reach the project.
    """
    names = [project]
    if home and project.startswith(f"{home}/"):
        names += [f"{mark}{project[len(home) :]}" for mark in ("~", "$HOME", "${HOME}")]
    named = "|".join(map(re.escape, names))
    before = r"(?:(?<![\w.~-])(?<!:/)|(?<![\w-]-[A-Za-z])(?<=-[A-Za-z])|(?<=\\[a-z]))"
    return re.compile(rf"{before}(?:{named})(?![\w-]|\.+[\w-])")


def _moved_message(message: Message, moved: Callable[[str], str]) -> Message:
    calls = tuple(replace(c, arguments=_moved_json(c.arguments, moved)) for c in message.tool_calls)
    return replace(
        message,
        content=moved(message.content),
        reasoning=moved(message.reasoning),
        tool_calls=calls,
    )


def _moved_json(text: str, moved: Callable[[str], str]) -> str:
    r"""Return `text` with the strings in its JSON object moved; as it is where none changes.

    Parsed, since escapes hide a path (`\/home\/u`), and what stands behind it.
    """
    value = parsed_arguments(text)
    if not value:
        return text
    changed = each_text(value, moved)
    return text if changed == value else json.dumps(changed, ensure_ascii=False)
