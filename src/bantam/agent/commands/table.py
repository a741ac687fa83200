"""The programs that are known, and what makes each of them risky; what is not in here is asked.

Of a program with options only those are named that write, run or send something.
"""

import re
from typing import Final

from bantam.agent.commands import files, runners
from bantam.agent.commands.reading import Call, Risk, Rule
from bantam.agent.commands.rules import (
    always,
    expanded,
    harmless,
    leading,
    subcommands,
    unless,
    wraps,
)
from bantam.agent.commands.runners import interpreter
from bantam.agent.commands.words import Unreadable

# -- git --------------------------------------------------------------------------------------

# Each of git's settings may name a program; these do not.
_SETTINGS: Final = re.compile(
    r"(?:color\.[\w.]+|core\.(?:quotepath|pager=cat|autocrlf|abbrev)|user\.(?:name|email)|"
    r"advice\.\w+|init\.defaultbranch|commit\.gpgsign|log\.\w+|diff\.(?:renames|algorithm))(?:=.*)?",
    re.IGNORECASE | re.DOTALL,
)
_GIT: Final = subcommands(
    Risk.UNKNOWN,
    {
        (
            "status diff log show blame shortlog describe rev-parse rev-list ls-files ls-tree "
            "cat-file grep merge-base for-each-ref show-ref cherry check-ignore"
        ): unless(
            Risk.OVERWRITES,
            "--output --ext-diff -O --open-files-in-pager --textconv",
            valued="-n -S -G -L -e --grep --author --since --until --max-count",
        ),
        "rm clean gc prune filter-branch": always(Risk.DELETES),
        "push": always(Risk.PUSHES),
        "pull fetch clone ls-remote": always(Risk.NETWORK),
        "reset rebase merge cherry-pick revert am apply update-ref bisect": always(Risk.HISTORY),
        "add": unless(Risk.OVERWRITES, "-e --edit -i --interactive -p --patch"),
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
        "stash": subcommands(Risk.HISTORY, {"list show": harmless}),
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
        "mv": unless(Risk.OVERWRITES, "-f --force"),
        "init": unless(Risk.OUTSIDE, only="-q -b", words="", valued="-b"),
        "worktree": subcommands(Risk.OUTSIDE, {"list": harmless}),
        "submodule": subcommands(Risk.NETWORK, {"status": harmless}),
    },
)


def git(call: Call) -> str | None:
    """Find what a command of git may lose, send or run."""
    options, words = leading(call, "--no-pager|-P|--no-optional-locks|--version", "-C -c")
    for name, value in options:
        if (name == "-C" and not call.reading.is_inside(value)) or (
            name == "-c" and not (value.is_known and _SETTINGS.fullmatch(value.text))
        ):
            raise Unreadable(f"git's option {name} {value.raw}")
    return _GIT(Call(call.name, tuple(words), call.reading)) if words else None


# -- all --------------------------------------------------------------------------------------

# They read and print, whatever their arguments.
_HARMLESS: Final = """
    : arch base32 base64 basename bg break cal cat cksum clear cmp column comm continue cut df diff
    dirname du echo egrep exit expand expr false fg fgrep fold free fmt grep groups head hexdump id
    join jq ls lsblk lscpu md5sum more nl nproc numfmt od paste pgrep pr printenv ps pstree pwd
    readelf readlink realpath return rev seq set sha1sum sha256sum sha512sum shift size sleep stat
    strings sum tac tail times tokei tr true tty type ulimit uname unexpand uptime users wait wc
    whereis which who whoami yes zcat zgrep
"""
_CHECKS: Final = unless(
    Risk.OVERWRITES,
    "-i -w -o -u --fix --write --in-place --fix-only --unsafe-fixes --add-noqa --install-types "
    "--output --output-file --report-file --outFile --outDir --init --update --updateSnapshot",
)
_FORMATS: Final = unless(Risk.OVERWRITES, needs="--check --diff --check-only")
# One dash and many letters: what else there is may run something.
_GO_OPTIONS: Final = re.compile(
    r"-(?:v|x|n|a|run|count|race|cover|short|json|timeout|bench|benchmem|tags|failfast|u)(?:=.*)?"
)


def _go(call: Call) -> str | None:
    """Allow to build, test and run the project."""
    for word in call.args:
        if word.may_hide or (word.text.startswith("-") and not _GO_OPTIONS.fullmatch(word.text)):
            raise Unreadable(f"go's option {word.raw}")
    return None


_RUNS: Final = wraps()

_ROWS: Final[dict[str, Rule]] = {
    _HARMLESS: harmless,
    "rm rmdir unlink shred": always(Risk.DELETES),
    (
        "shuf dd truncate patch install rsync split vi vim nano emacs unzip gzip gunzip bzip2 xz"
    ): always(Risk.OVERWRITES),
    "chmod chown chgrp setfacl chattr umask": always(Risk.PERMISSIONS),
    "sudo doas su pkexec": always(Risk.SUDO),
    (
        "curl wget nc ncat telnet ssh scp sftp ftp ping dig nslookup gh glab aws gcloud az "
        "kubectl helm http apt apt-get yum dnf pacman apk snap brew gem pipx conda terraform "
        "ansible rclone"
    ): always(Risk.NETWORK),
    "kill pkill killall fuser": always(Risk.STOPS),
    (
        "shutdown reboot halt poweroff systemctl service launchctl crontab at mount umount "
        "mkfs mkfs.ext4 fdisk parted iptables nft ifconfig ip sysctl useradd userdel usermod "
        "passwd hostname"
    ): always(Risk.SYSTEM),
    "ln": always(Risk.LINKS),
    "svn hg": always(Risk.HISTORY),
    "mktemp": always(Risk.OUTSIDE),
    # files and texts
    "cp mv": files.copies,
    "mkdir touch tee": files.makes,
    "tar": files.tar,
    "sed": files.sed,
    "awk gawk mawk": files.awk,
    "sort": unless(Risk.OVERWRITES, "-o --output --compress-program", valued="-k -t -S -T --key"),
    "uniq": unless(Risk.OVERWRITES, words="[^ ]*", valued="-f -s -w"),
    "xxd": unless(Risk.OVERWRITES, words="[^ ]*", valued="-l -c -g -s"),
    "tree": unless(Risk.OVERWRITES, "-o -R", valued="-L -I -P"),
    "file": unless(Risk.OVERWRITES, "-C --compile"),
    "less": unless(Risk.OVERWRITES, "-o -O -k --log-file --LOG-FILE --lesskey-file"),
    "date": unless(Risk.SYSTEM, "-s --set", words=r"|\+.*", valued="-d -r --date"),
    "rg": unless(
        Risk.UNKNOWN, "--pre --hostname-bin", valued="-e -g -t -T -A -B -C -m -f -r -j -d -M -E"
    ),
    # what runs other programs
    "find": runners.find,
    "xargs": runners.xargs,
    "env": wraps("-i|-|-0|--ignore-environment|--null", "-u --unset"),
    "nohup setsid busybox builtin": _RUNS,
    "time": wraps("-[pv]"),
    "nice": wraps(valued="-n"),
    "timeout": wraps("--foreground|--preserve-status|-v", "-s -k", before=1),
    "stdbuf": wraps(valued="-o -e -i"),
    "command": wraps("-[pvV]", tells="-v -V"),
    "exec": wraps("-[cl]", "-a"),
    "sh bash dash zsh": runners.shell,
    "eval watch": runners.evaluates,
    "trap": runners.traps,
    "source .": runners.sources,
    "cd pushd popd": runners.enters,
    "export declare typeset local readonly read mapfile readarray": runners.sets,
    "test [ [[ let unset": runners.tests,
    "printf": runners.prints,
    # version control, interpreters, builders
    "git": git,
    "python python3": interpreter(r"-[uBOEsSIvqxb]+|-[WX]\S+|-m"),
    "node": interpreter(
        r"--(?:test|check|watch|no-warnings|enable-source-maps|experimental-strip-types)",
        "--version -v --help --test",
    ),
    "ruby perl php": interpreter(),
    "npx": runners.npx,
    "npm pnpm yarn bun": subcommands(
        Risk.NETWORK,
        {
            "run run-script test t start lint build typecheck check dev": runners.builds,
            "ls list why help": harmless,
        },
    ),
    "uv poetry pipenv pdm hatch rye bundle": subcommands(Risk.NETWORK, {"run exec": _RUNS}),
    "pip pip3": subcommands(Risk.NETWORK, {"list show freeze check": harmless}),
    "make gmake cmake ninja gradle gradlew mvn mvnw just task rake tox nox": runners.builds,
    "cargo": subcommands(
        Risk.TARGET,
        {
            "check c build b test t clippy run r bench doc tree metadata": unless(
                Risk.TARGET, "--config --fix --target-dir", valued="-p -j --package --test"
            )
        },
    ),
    "go": subcommands(
        Risk.TARGET,
        {
            "build test vet list version doc run": _go,
            "env": unless(Risk.TARGET, only="", words=""),
        },
    ),
    "gcc g++ cc c++ clang clang++ rustc javac": files.compiles,
    "docker podman": subcommands(
        Risk.SYSTEM, {"ps images logs inspect version info top": harmless}
    ),
    # tests and checks
    "pytest": unless(Risk.DELETES, "--basetemp -o --override-ini", valued="-k -m -n -p -W -c"),
    "coverage": subcommands(
        Risk.DELETES,
        {"run": interpreter(r"--branch|-[ap]|-m"), "report html xml json": harmless},
    ),
    "ruff": subcommands(Risk.OVERWRITES, {"check": _CHECKS, "rule": harmless, "format": _FORMATS}),
    "black isort rustfmt": _FORMATS,
    (
        "mypy pyright flake8 pylint bandit vulture tsc jest vitest mocha eslint stylelint biome "
        "prettier rspec rubocop phpunit golangci-lint gofmt shfmt shellcheck"
    ): _CHECKS,
}
TABLE: Final = expanded(_ROWS)
