"""Rules of git: what is lost, sent, or run by one of its commands."""

import re
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from bantam.agent.commands.files import copies
from bantam.agent.commands.reading import Call, Risk
from bantam.agent.commands.rules import always, harmless, leading, subcommands, unless
from bantam.agent.commands.words import Unreadable

# Each of git's settings may name a program; these do not.
_SETTINGS: Final = re.compile(
    r"(?:color\.[\w.]+|core\.(?:quotepath|pager=cat|autocrlf|abbrev)|user\.(?:name|email)|"
    r"advice\.\w+|init\.defaultbranch|commit\.gpgsign|log\.\w+|diff\.(?:renames|algorithm))(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)
_SHOWS: Final = unless(
    Risk.OVERWRITES,
    "--output --ext-diff -O --open-files-in-pager --textconv",
    valued="-n -S -G -L -e --grep --author --since --until --max-count",
)


def _resets(call: Call) -> str | None:
    """Allow what takes files out of the index alone."""
    files = [word.text for word in call.args if word.text not in ("-q", "HEAD", "--")]
    is_plain = all(call.reading.is_there(file) and file[:1] != "-" for file in files)
    return None if files and is_plain else Risk.HISTORY


_GIT: Final = subcommands(
    Risk.UNKNOWN,
    {
        (
            "status diff log show blame shortlog describe rev-parse rev-list ls-files ls-tree "
            "cat-file grep merge-base for-each-ref show-ref cherry check-ignore"
        ): _SHOWS,
        "version": harmless,
        "clean": unless(
            Risk.DELETES, needs="-n --dry-run", only="-n --dry-run -d -f -x -X -q -e", valued="-e"
        ),
        "rm gc prune filter-branch": always(Risk.DELETES),
        "push": always(Risk.PUSHES),
        "pull fetch clone ls-remote": always(Risk.NETWORK),
        "reset": _resets,
        "rebase merge cherry-pick revert am update-ref bisect": always(Risk.HISTORY),
        "apply": unless(
            Risk.HISTORY,
            needs="--check --stat --numstat --summary",
            only="--check --stat --numstat --summary --cached --index --reverse --verbose -p -R -v",
            valued="-p",
        ),
        "add": harmless,
        "commit": unless(
            Risk.HISTORY,
            "--amend -e --edit -t --template",
            valued="-m -F -C --message --file --author --date --fixup --squash --trailer",
        ),
        "branch": unless(
            Risk.HISTORY,
            "-d -D -f -m -M -c -C --delete --force --move --copy --edit-description",
            valued="--contains --merged --no-merged --sort --format --points-at",
        ),
        "tag": unless(Risk.HISTORY, "-d -f --delete --force", valued="-m -F --message --file -n"),
        "reflog": unless(Risk.DELETES, words="|show.*"),
        "stash": subcommands(Risk.HISTORY, {"list show": _SHOWS}),
        "remote": unless(Risk.KEPT, only="-v --verbose", words="|get-url .*"),
        "config": unless(
            Risk.KEPT,
            only="--get --get-all --get-regexp --list -l --show-origin --global --local",
            words=r"|[\w-]+\.[\w.-]+",
        ),
        # Whether another name is a branch or a file, git alone knows.
        "checkout": unless(Risk.OVERWRITES, needs="-b", only="-b -q", words=r"\S+(?: \S+)?"),
        "switch": unless(
            Risk.OVERWRITES, "-f -C --force --discard-changes --force-create --orphan"
        ),
        "restore": unless(Risk.OVERWRITES, "--worktree -W", needs="--staged -S"),
        "mv": copies,
        "init": unless(Risk.OUTSIDE, only="-q -b", words="", valued="-b"),
        "worktree": subcommands(Risk.OUTSIDE, {"list": harmless}),
        "submodule": subcommands(Risk.NETWORK, {"status": harmless}),
    },
)


def git(call: Call) -> str | None:
    """Find what a command of git may lose, send or run."""
    options, words = leading(call, "--no-pager|-P|--no-optional-locks|--version", "-C -c")
    with ExitStack() as folders:
        for name, value in options:
            if (name == "-C" and not call.reading.is_inside(value)) or (
                name == "-c" and not (value.is_known and _SETTINGS.fullmatch(value.text))
            ):
                raise Unreadable(f"git's option {name} {value.raw}")
            if name == "-C":
                folders.enter_context(call.reading.within(value))
        return _GIT(replace(call, args=tuple(words))) if words else None
