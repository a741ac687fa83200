"""The system prompt, from facts that are passed in: the same facts give the same bytes.

It is sent with every request, so each sentence earns its tokens. Nothing in it changes within a
session: the day is fixed when the session starts, and there is no clock time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from bantam.core.text import Profile, sanitized

AGENTS_FILE: Final = "AGENTS.md"
AGENTS_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Facts:
    """What the system prompt tells the model about where it is."""

    working_directory: str
    platform: str
    shell: str
    day: date
    agents: str = ""
    tools_folder: str | None = None


def system_prompt(facts: Facts) -> str:
    """Return the system prompt."""
    parts = [
        f"""\
You are Bantam, an agent in the user's terminal. You have two tools and do the work yourself.
- shell_exec runs a command: look around, search, build, test, and use any installed program.
- write_file creates a file or splices bytes into one: prefer it to shell redirection for text.
Look before you change things, make small changes, and check the result by running something.
Each command starts anew in the working directory; nobody can type into it. Do not start
interactive programs. Never guess what a command or file would say: run it, read it. If a call
fails, read the error and try another way. Ask before you destroy what cannot be restored.
When the task is done, answer in Markdown, briefly: what you did and what you found.

Working directory: {facts.working_directory}
Platform: {facts.platform}; shell: {facts.shell}; date: {facts.day.isoformat()}
Follow the instructions in AGENTS.md files, the nearest one first; read those of subfolders before \
you work there."""
    ]
    if facts.agents:
        parts.append(facts.agents)
    if facts.tools_folder:
        parts.append(f"Extra shell tools can be found at {facts.tools_folder}")
    return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class Agents:
    """The text of the AGENTS.md files for the prompt, and what there is to say about them."""

    text: str
    notices: tuple[str, ...]


def read_agents(working_directory: Path) -> Agents:
    """Read the AGENTS.md files from the git root down to `working_directory`.

    Each is sanitised; 32 KiB in all, the rest is cut with a notice. An unreadable one is told.
    """
    texts: list[str] = []
    notices: list[str] = []
    left = AGENTS_BYTES
    for path in _agents_files(working_directory):
        try:
            with path.open("rb") as file:
                raw = file.read(left + 1)
        except OSError as error:
            notices.append(f"{path} was not read: {error.strerror}")
            continue
        if len(raw) > left:
            notices.append(f"{path} was cut: AGENTS.md files may hold {AGENTS_BYTES} bytes in all")
            raw = raw[:left]
        left -= len(raw)
        text, _ = sanitized(raw.decode("utf-8", "ignore"), Profile.STRICT)
        if text.strip():
            texts.append(f"# {path}\n{text.strip()}")
    return Agents("\n\n".join(texts), tuple(notices))


def _agents_files(working_directory: Path) -> Iterator[Path]:
    """Yield the regular AGENTS.md files that count, the outermost first."""
    folders = [working_directory, *working_directory.parents]
    root = next((i for i, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    for folder in reversed(folders[: root + 1]):
        path = folder / AGENTS_FILE
        # A FIFO of that name would block for ever.
        if path.is_file():
            yield path
