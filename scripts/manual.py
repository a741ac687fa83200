"""The manual page bantam(1), in man(7), from the help and the tables of options and of keys."""

import re
import textwrap
from argparse import Action
from collections.abc import Iterator
from typing import Final

from shells import options

from bantam.core.config import ENVIRONMENT, OPTIONS, Option
from bantam.core.kinds import as_text
from bantam.terminal.arguments import HELP

_PAGE: Final = """\
.TH BANTAM 1 "" Bantam
.SH NAME
bantam \\- a small AI agent for the terminal
.SH SYNOPSIS
.B bantam
.RI [ option " ...] [" FILE ]
.SH DESCRIPTION
Bantam gives a model of any OpenAI-compatible endpoint a shell and a file
writer, and loops until the work is done.
At its prompt,
.B /help
names every command and key.
{usages}
.SH OPTIONS
{options}
.SH CONFIGURATION
The first of
.I .bantam.cfg
and
.I model.cfg
in the current folder: a line
.I key=value
each, # begins a comment.
Any other key goes to the API under its own name.
{keys}
.SH ENVIRONMENT
{environment}
.SH FILES
.TP
.I \\(ti/.bantam
sessions, and what was accepted
.TP
.I \\(ti/.bantam_history
lines of the prompt
.SH EXIT STATUS
{status}
"""
_VARIABLES: Final = {
    "OPENAI_API_KEY": "the key, where api_key is not set",
    "BANTAM_HOME": "replaces ~/.bantam",
    **{variable: f"the key {key}" for key, variable in ENVIRONMENT.items()},
    "BANTAM_TRUST": "the endpoint to accept, as with --trust",
    "NO_COLOR, BANTAM_NO_COLOR": "no colour",
    "SOCKS_PROXY, HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY": "which proxy to use",
    "SSL_CERT_FILE, SSL_CERT_DIR": "the authorities to trust",
}


def page() -> str:
    """Return the page as roff."""
    return _PAGE.format(
        usages="\n".join(_entry(call, meaning) for call, meaning in _usages()),
        options="\n".join(map(_option, options())),
        keys="\n".join(map(_key, OPTIONS.values())),
        environment="\n".join(_entry(name, meaning) for name, meaning in _VARIABLES.items()),
        status="\n".join(_entry(number, meaning) for number, meaning in _statuses()),
    )


def _usages() -> Iterator[tuple[str, str]]:
    """Yield the ways to call Bantam and what each does, as the help shows them."""
    (listed,) = re.findall(r"^usage: (.+?)\n\n", HELP, re.MULTILINE | re.DOTALL)
    for usage in re.split(r"\n +(?=bantam )", listed):
        call, *meaning = re.split(r"\s{2,}", usage)
        yield call, " ".join(meaning)


def _statuses() -> Iterator[tuple[str, str]]:
    (listed,) = re.findall(r"^Exit status: ([^{}]+)", HELP, re.MULTILINE)
    for status in " ".join(listed.split()).split(", "):
        number, _, meaning = status.partition(" ")
        yield number, meaning


def _option(action: Action) -> str:
    names = ", ".join(action.option_strings)
    return _entry(f"{names} {action.metavar or ''}".strip(), action.help or "")


def _key(row: Option) -> str:
    default = "" if row.default is None else f"; default {as_text(row.default)}"
    return _entry(row.name, f"{row.meaning.replace('`', '')} ({row.kind.expected}{default})")


def _entry(name: str, meaning: str) -> str:
    lines = textwrap.wrap(meaning, 72, break_long_words=False, break_on_hyphens=False)
    return "\n".join([".TP", f".B {_roff(name)}", *map(_roff, lines)])


def _roff(text: str) -> str:
    """Return the line `text` as roff shows it: - would be a hyphen, a . at the start an order."""
    shown = text.replace("\\", r"\e").replace("-", r"\-").replace("~", r"\(ti")
    return rf"\&{shown}" if shown[:1] in (".", "'") else shown
