"""The system prompt, from facts that are passed in: the same facts give the same bytes.

What can be called, and how, each dialect adds in its own form behind the first paragraph.

It is sent with every request, so each sentence earns its tokens. Nothing in it changes within a
session: the day is fixed when the session starts, and there is no clock time.
"""

import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

from bantam.core.text import Profile, removed_note, sanitized, sanitized_output

AGENTS_FILE: Final = "AGENTS.md"
AGENTS_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Facts:
    """What the system prompt tells the model about where it is."""

    working_directory: str
    platform: str
    shell: str
    day: date
    sandbox: str = "off"
    agents: str = ""
    tools_folder: str | None = None


def system_prompt(facts: Facts) -> str:
    """Return the system prompt."""
    parts = [
        f"""\
You are Bantam, an agent in the user's terminal. You do the work yourself.

Look before you change things, make small changes, and check the result by running something.
Each command starts anew in the working directory; nobody can type into it. Do not start
interactive programs. Never guess what a command or file would say: run it, read it. If a call
fails, read the error and try another way. Ask before you destroy what cannot be restored.
When the task is done, answer in Markdown, briefly: what you did and what you found.

Working directory: {_in_a_line(facts.working_directory)}
Platform: {facts.platform}; shell: {facts.shell}; date: {facts.day.isoformat()}
Follow the instructions in AGENTS.md files, the nearest one first; read those of subfolders before \
you work there."""
    ]
    if facts.sandbox != "off":
        network = "" if facts.sandbox == "net" else " There is no network."
        parts.append(
            "You are in a sandbox: files outside the working directory, .git and configuration "
            f"files cannot be written.{network} What a command leaves running ends with it. "
            "Do not try to get around it."
        )
    if facts.agents:
        parts.append(facts.agents)
    if facts.tools_folder:
        parts.append(f"Extra shell tools can be found at {_in_a_line(facts.tools_folder)}")
    return "\n\n".join(parts)


def _in_a_line(path: str) -> str:
    """Return `path` without what could pass for more of the prompt than a path."""
    return sanitized(path, Profile.STRICT)[0].replace("\n", " ")


class Agents(NamedTuple):
    """The text of the AGENTS.md files for the prompt, and what there is to say about them."""

    text: str
    notices: tuple[str, ...]


def read_agents(working_directory: Path) -> Agents:
    """Read the AGENTS.md files from the git root down to `working_directory`.

    Each is sanitised; 32 KiB in all, given out from the nearest one up, the rest is cut. What was
    cut, dropped or not read is told.
    """
    texts: list[str] = []
    notices: list[str] = []
    left = AGENTS_BYTES
    root, paths = _agents_files(working_directory)
    for path in reversed(paths):
        if reason := _unfit_link(path, root):
            notices.append(f"{path} was not read: {reason}")
            continue
        try:
            with path.open("rb") as file:
                raw = file.read(left + 1)
        except OSError as error:
            notices.append(f"{path} was not read: {error.strerror}")
            continue
        text, removed = sanitized_output(raw[:left].decode("utf-8-sig", "replace"))
        if removed:
            notices.append(f"{path}: {removed_note(removed)}")
        if len(raw) > left:
            notices.append(f"{path} was cut: AGENTS.md files may hold {AGENTS_BYTES} bytes in all")
            # A character that the cut went through is none.
            text = text.rstrip("\ufffd") + "\n[cut here: read the rest in the file]"
        left -= min(left, len(raw))
        if text.strip():
            texts.append(f"# {_in_a_line(str(path))}\n{text.strip()}")
    return Agents("\n\n".join(reversed(texts)), tuple(notices))


def _unfit_link(path: Path, root: Path) -> str | None:
    """Return why what `path` links to is not read, None if it may be.

    A cloned folder could send any file with the prompt, its user's configuration with the key too.
    """
    target = path.resolve()
    if not target.is_relative_to(root.resolve()):
        return f"it links to a file outside {root}"
    if target.suffix.lower() != ".md":
        return f"it links to {target.name}, which is no .md file"
    return None


def _agents_files(working_directory: Path) -> tuple[Path, list[Path]]:
    """Return the git root, or the folder itself, and the AGENTS.md files down from there."""
    folders = [working_directory, *working_directory.parents]
    # os.path, not Path, which raises where it has no right to look.
    has_git = [os.path.exists(folder / ".git") for folder in folders]  # noqa: PTH110  # Path raises at no access
    depth = has_git.index(True) if True in has_git else 0
    paths = [folder / AGENTS_FILE for folder in reversed(folders[: depth + 1])]
    # Regular files alone: a FIFO of that name would block for ever.
    return folders[depth], [path for path in paths if os.path.isfile(path)]  # noqa: PTH113  # Path raises at no access
