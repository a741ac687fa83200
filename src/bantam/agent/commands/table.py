"""The programs that are known, and what makes each of them risky; what is not in here is asked.

Of a program with options only those are named that write, run or send something.
"""

import re
from typing import Final

from bantam.agent.commands import files, git, runners
from bantam.agent.commands.reading import Call, Risk, Rule
from bantam.agent.commands.rules import (
    always,
    changes,
    each,
    expanded,
    harmless,
    own,
    subcommands,
    unless,
    wraps,
)
from bantam.agent.commands.runners import interpreter
from bantam.agent.commands.words import Unreadable, Word

# They read and print, whatever their arguments.
_HARMLESS: Final = """
    : arch base32 base64 basename bg break cal cat cksum clear cmp column comm continue cut df diff
    dirname du echo egrep exit expand expr false fg fgrep fold free fmt grep groups head hexdump id
    join jq ls lsblk lscpu md5sum more nl nproc numfmt od paste pgrep pr printenv ps pstree pwd
    readelf readlink realpath return rev seq set sha1sum sha256sum sha512sum shift size sleep stat
    strings sum tac tail times tokei tr true tty type ulimit uname unexpand uptime users wc objdump
    whereis which who whoami yes zcat zgrep
"""
_CHECKS: Final = each(changes, unless(Risk.OVERWRITES, "-i -w", outputs="-o"))
_FORMATS: Final = unless(Risk.OVERWRITES, needs="--check --diff")
# One dash and many letters: what else there is may run something.
_GO_OPTIONS: Final = re.compile(
    r"-(?:v|x|n|a|run|count|race|cover|short|json|timeout|bench|benchmem|tags|failfast|trimpath)(?:=.*)?|"
    r"(?:-(?:ld|gc)flags(?:=|$))?(?:all=)?(?: ?-(?:[swNlmBS]|X[ =][\w./=-]+))*"
)
_GO_OUTPUTS: Final = re.compile("--?(?:o|(?:cover|cpu|mem|block|mutex)profile|trace)")


def _go(call: Call) -> str | None:
    """Allow to build, test and run the project."""
    words = iter(call.args)
    for word in words:
        name, equals, value = word.text.partition("=")
        if _GO_OUTPUTS.fullmatch(name):
            file = Word(value, word.raw) if equals else next(words, Word(""))
            if risk := call.reading.writes(file, is_built=True):
                return risk
        elif word.may_hide or (name.startswith("-") and not _GO_OPTIONS.fullmatch(word.text)):
            raise Unreadable(f"go's option {word.raw}")
        elif "@" in name:  # a version, which is fetched
            return Risk.NETWORK
    return None


def _cargo_fmt(call: Call) -> str | None:
    """Allow to look, as cargo or rustfmt behind -- is told to."""
    is_plain = all(word.text in ("--", "--all", "--check") for word in call.args)
    return None if is_plain and call.args and call.args[-1].text == "--check" else Risk.TARGET


_RUNS: Final = wraps()
# No comma: what is behind one is for another program.
_COMPILER_OPTIONS: Final = (
    r"-(?:[OgIDULlx][^,]*|W[\w+=-]*|Wl(?:,--[a-z-]+)+|std=[\w+]+|m[\w=+-]+|f(?!plugin)[\w-]+|fsanitize=[\w,-]+|"
    r"Wl(?:,-{1,2}(?:soname|rpath(?:-link)?|z)[,=][\w./$][\w./$:-]*)+|"
    r"[cESsvw]|pthread|pedantic(?:-errors)?|pipe|shared|static(?:-lib[\w+]+)?|rdynamic|dump(?:version|machine)|M{1,2}D?|M[PTQ]|isystem|include|framework)"
    "|--version|--help"
)
_ROWS: Final[dict[str, Rule]] = {
    _HARMLESS: harmless,
    "rm rmdir unlink shred": always(Risk.DELETES),
    ("truncate install split vi vim nano emacs"): always(Risk.OVERWRITES),
    "patch": unless(Risk.OVERWRITES, "-o -r -g --get", needs="--dry-run", valued="-p -i -d -F"),
    "shuf": unless(Risk.OVERWRITES, valued="-n -i", outputs="-o --output"),
    "dd": unless(Risk.OVERWRITES, words=r"(?:(?:if|ibs|bs|count|skip|status|iflag)=\S* ?)*"),
    "rsync": unless(
        Risk.OVERWRITES,
        needs="-n --dry-run",
        only="-n --dry-run -a -r -v -i -z -c -u -h -P --delete --stats --progress --exclude",
        words="[^:]*",
        valued="--exclude",
    ),
    "unzip": unless(Risk.OVERWRITES, needs="-l -t -v -Z -p -c", valued="-d -P"),
    "gzip gunzip bzip2 xz": unless(
        Risk.OVERWRITES, needs="-c -l -t --stdout --list --test", valued="-S -T -F -C -M -b"
    ),
    "chmod chown chgrp setfacl chattr umask": always(Risk.PERMISSIONS),
    "sudo doas su pkexec": always(Risk.SUDO),
    (
        "curl wget nc ncat telnet ssh scp sftp ftp ping dig nslookup gh glab aws gcloud az "
        "kubectl helm http apt apt-get yum dnf pacman apk snap brew gem pipx conda terraform "
        "ansible rclone"
    ): always(Risk.NETWORK),
    "pkill killall fuser": always(Risk.STOPS),
    "kill": subcommands(Risk.STOPS, {"-0 -l -L": harmless}),
    "crontab": unless(Risk.SYSTEM, needs="-l", only="-l", words=""),
    "hostname": unless(Risk.SYSTEM, only="-f -s -i -I -d --fqdn --short", words=""),
    (
        "shutdown reboot halt poweroff systemctl service launchctl at mount umount "
        "mkfs mkfs.ext4 fdisk parted iptables nft ifconfig ip sysctl useradd userdel usermod "
        "passwd"
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
    "sort": unless(
        Risk.OVERWRITES, "--compress-program", valued="-k -t -S -T --key", outputs="-o --output"
    ),
    "uniq": unless(Risk.OVERWRITES, words="[^ ]*", valued="-f -s -w"),
    "xxd": unless(Risk.OVERWRITES, words="[^ ]*", valued="-l -c -g -s"),
    "tree": unless(Risk.OVERWRITES, "-R", valued="-L -I -P", outputs="-o"),
    "nm": unless(Risk.UNKNOWN, "--plugin", words="[^@]*"),
    "ldd": own(_RUNS),  # as it may
    "file": unless(Risk.OVERWRITES, "-C --compile"),
    "less": unless(Risk.OVERWRITES, "-o -O -k --log-file --LOG-FILE --lesskey-file"),
    "date": unless(Risk.SYSTEM, "-s --set", words=r"|\+.*", valued="-d -r --date -I?"),
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
    "jobs": unless(Risk.UNKNOWN, only="-l -p -r -s -n"),
    "sh bash dash zsh": runners.shell,
    "eval watch": runners.evaluates,
    "trap": runners.traps,
    "source .": runners.sources,
    "cd pushd popd": runners.enters,
    "export declare typeset local readonly read mapfile readarray": runners.sets,
    "test [ [[ let unset wait": runners.tests,
    "printf": runners.prints,
    # version control, interpreters, builders
    "git": git.git,
    "python python3": interpreter(r"-[uBOEsSIvqxb]+|-[WX]\S+|-m"),
    "node": interpreter(
        r"--(?:test|check|watch|no-warnings|enable-source-maps|experimental-strip-types)",
        "--version -v --help --test",
    ),
    "ruby perl php": interpreter("--|-[clwW]"),
    "java": subcommands(Risk.UNKNOWN, {"-version --version": harmless}),
    "npx": runners.npx,
    "npm pnpm yarn bun": subcommands(
        Risk.NETWORK,
        {
            "run run-script test t start lint build typecheck check dev": own(runners.builds()),
            "ls list why help": harmless,
            "-r --recursive": lambda call: call.reading.run([Word(call.name), *call.args]),
        },
    ),
    "uv poetry pipenv pdm hatch rye bundle": subcommands(Risk.NETWORK, {"run exec": runners.uv}),
    "pip pip3": subcommands(
        Risk.NETWORK,
        {
            "show freeze check": harmless,
            "list": unless(Risk.NETWORK, "-o -u --outdated --uptodate --index-url"),
        },
    ),
    "make gmake cmake ninja gradle gradlew mvn mvnw just task rake": own(runners.builds()),
    "tox nox": own(runners.builds("-x --override -P --install-only")),
    "ctest": own(
        unless(
            Risk.TARGET,
            only="-j -R -E -L -N -V -Q --output-on-failure --test-dir --verbose --timeout",
            valued="-j -R -E -L --test-dir --timeout",
        )
    ),
    "cargo": subcommands(
        Risk.TARGET,
        {
            "check c build b test t clippy run r bench doc tree metadata": own(
                unless(Risk.TARGET, "--config --fix --target-dir", valued="-p -j --package --test")
            ),
            "fmt": _cargo_fmt,
        },
    ),
    "go": subcommands(
        Risk.TARGET,
        {
            "build test vet list version doc run": own(_go),
            "env": unless(Risk.TARGET, only="", words=""),
        },
    ),
    "gcc g++ cc c++ clang clang++": files.compiles(_COMPILER_OPTIONS, "-o --output -MF"),
    "rustc": files.compiles(
        r"-[OgVv]|--(?:edition|crate-type|crate-name|cap-lints|test|version)(?:=\S+)?",
        "-o --out-dir",
    ),
    "javac": files.compiles(
        r"-(?:g|cp|classpath|sourcepath|source|target|encoding|nowarn|verbose|version)|"
        r"--release|-Xlint\S*",
        "-d",
    ),
    "docker podman": subcommands(
        Risk.SYSTEM, {"ps images logs inspect version info top": harmless}
    ),
    # tests and checks
    "pytest": own(runners.pytest),
    "unittest doctest": own(harmless),
    "json.tool": unless(Risk.OVERWRITES, words="[^ ]*", valued="--indent"),
    "coverage": subcommands(
        Risk.DELETES,
        {
            "run": interpreter(r"--branch|-[ap]|-m"),
            "report html xml json": unless(Risk.OVERWRITES, outputs="-o -d --directory"),
        },
    ),
    "ruff": subcommands(Risk.OVERWRITES, {"check": _CHECKS, "rule": harmless, "format": _FORMATS}),
    "black rustfmt": _FORMATS,
    "isort": unless(
        Risk.OVERWRITES,
        needs="-c --check --check-only --diff",
        valued="-a -b -f -i -l -m -o -p -s -t -w",
    ),
    ("mypy pyright flake8 bandit vulture tsc biome golangci-lint gofmt shfmt shellcheck"): _CHECKS,
    # Their settings are code.
    "jest vitest mocha rspec phpunit eslint stylelint prettier pylint": own(_CHECKS),
    "rubocop": each(changes, unless(Risk.OVERWRITES, "-a -A -x", outputs="-o")),
}
TABLE: Final = expanded(_ROWS)
