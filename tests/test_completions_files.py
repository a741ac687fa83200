"""What is generated for shells and for `man`: it is what the code makes, and it works there."""

import subprocess
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from generate import shared
from program import environment
from shells import options
from typist import typist

from bantam.core.config import ENVIRONMENT, OPTIONS

SHARE = Path(__file__).parent.parent / "share"
BASH = SHARE / "bash-completion" / "completions" / "bantam"
ZSH = SHARE / "zsh" / "site-functions" / "_bantam"
FISH = SHARE / "fish" / "vendor_completions.d" / "bantam.fish"
PAGE = SHARE / "man" / "man1" / "bantam.1"

# `bantam` writes down the words that it is called with. Ctrl+T: put all that is offered there.
REMEMBER = "PS1='ready> '\nbantam() { printf '%s\\n' \"$@\" >asked; }\n"
BASHRC = f"""{REMEMBER}
source '{BASH}'
bind '"\\C-t": insert-completions'
"""
ZSHRC = f"""{REMEMBER}
fpath=('{ZSH.parent}' $fpath)
unsetopt auto_remove_slash
autoload -Uz compinit
compinit -u -D
all() {{ _main_complete; compstate[insert]=all; compstate[list]= }}
zle -C all complete-word all
bindkey '^t' all
"""
TAB, ALL = "\t", "\x14"


def where(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not which(program), reason=f"no {program} here")


BASH_AND_ZSH = (pytest.param("bash", marks=where("bash")), pytest.param("zsh", marks=where("zsh")))
every_shell = pytest.mark.parametrize(
    "name", [*BASH_AND_ZSH, pytest.param("fish", marks=where("fish"))]
)


def said_by(*command: str | Path, **how: Any) -> str:
    """Return what `command` prints: it succeeds and complains of nothing."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, **how)
    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(done.stdout, str)
    return done.stdout


def words_of(name: str, line: str, key: str, folder: Path, **env: str) -> list[str]:
    """Return the words that `bantam` gets when `key` is pressed behind `line` in a shell."""
    if name == "fish":
        ask = f"source '{FISH}'; complete -C 'bantam {line}'"
        fish = ["fish", "--no-config", "-c", ask]
        said = said_by(*fish, cwd=folder, env=environment(folder, **env))
        *before, begun = line.split(" ")
        offered = [each.partition("\t")[0] for each in said.splitlines()]
        return [*before, *(offered or [begun])]
    (folder / ".bashrc").write_text(BASHRC)
    (folder / ".zshrc").write_text(ZSHRC)
    # Without the machine's own settings.
    program = {
        "bash": ("bash", "--noprofile", "--rcfile", str(folder / ".bashrc"), "-i"),
        "zsh": ("zsh", "-d", "-i"),
    }[name]
    env["ZDOTDIR"] = str(folder)
    with typist(folder, program=program, columns=500, env=env) as terminal:
        terminal.until(lambda: terminal.raw.count(b"ready> ") >= 1)
        terminal.type(f"bantam {line}{key}\r")
        terminal.until(lambda: terminal.raw.count(b"ready> ") >= 2 and (folder / "asked").exists())
        terminal.type("exit\r")
        assert terminal.end() == 0
    return (folder / "asked").read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with two sessions, which holds a file and a folder too."""
    sessions = tmp_path / ".bantam" / "sessions"
    sessions.mkdir(parents=True)
    for name in ("0123abcd.json", "0123abcd.journal", "my work.v2.json"):
        (sessions / name).touch()
    (tmp_path / "prompt.txt").touch()
    (tmp_path / "mine.txt").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools.txt").touch()
    return tmp_path


@every_shell
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--un", ["--undo"]),
        ("-o endp", ["-o", "endpoint="]),
        ("-o color=al", ["-o", "color=always"]),
        ("-c pro", ["-c", "prompt.txt"]),
        ("-r 01", ["-r", "0123abcd"]),
        ("--resume=01", ["--resume=0123abcd"]),
        ("--replay my", ["--replay", "my work.v2"]),
        ("-r pro", ["-r", "pro"]),
        ("-o color=pro", ["-o", "color=pro"]),
        ("-o model=pro", ["-o", "model=pro"]),
    ],
)
def test_tab_completes(name: str, line: str, words: list[str], folder: Path) -> None:
    assert words_of(name, line, TAB, folder) == words


@pytest.mark.parametrize("name", BASH_AND_ZSH)
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-o tools=write_file,ed", ["-o", "tools=write_file,edit_file"]),
        ("-o bantam_tools_dir=to", ["-o", "bantam_tools_dir=tools/"]),
    ],
)
def test_tab_completes_lists_and_folders(
    name: str, line: str, words: list[str], folder: Path
) -> None:
    assert words_of(name, line, TAB, folder) == words


@every_shell
def test_all_options_are_offered(name: str, folder: Path) -> None:
    known = {option for action in options() for option in action.option_strings}
    long = {option for option in known if option.startswith("--")}
    offered = {word.rstrip("=") for word in words_of(name, "--", ALL, folder)}
    assert offered == long
    assert {"-p", "-o", "-c", "-r", "-h"} == known - long


@every_shell
def test_all_keys_are_offered(name: str, folder: Path) -> None:
    option, *offered = words_of(name, "-o ", ALL, folder)
    assert option == "-o"
    assert {word.partition("=")[0] for word in offered} == set(OPTIONS)


@every_shell
def test_sessions_are_those_of_the_home_that_is_named(name: str, folder: Path) -> None:
    named = folder / "another home"
    (named / "sessions").mkdir(parents=True)
    (named / "sessions" / "elsewhere.json").touch()
    words = words_of(name, "-r ", ALL, folder, BANTAM_HOME=str(named))
    assert words == ["-r", "elsewhere"]


@every_shell
def test_without_sessions_none_is_offered(name: str, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").touch()
    assert words_of(name, "-r pro", TAB, tmp_path) == ["-r", "pro"]


@every_shell
def test_a_completion_parses(name: str) -> None:
    file = {"bash": BASH, "zsh": ZSH, "fish": FISH}[name]
    said_by(name, "-n", file)


@pytest.mark.parametrize("name", shared())
def test_a_file_is_what_the_tables_make(name: str) -> None:
    committed = (SHARE.parent / name).read_text("utf-8")
    assert committed == shared()[name], "it is old: run `make generate`"


# -- the manual page --------------------------------------------------------------------------


@where("groff")
def test_the_manual_page_names_everything_and_groff_warns_of_nothing() -> None:
    page = said_by("groff", "-man", "-Tutf8", "-P-cbou", "-ww", PAGE)
    known = {option for action in options() for option in action.option_strings}
    for name in {*known, *OPTIONS, *ENVIRONMENT.values(), "BANTAM_HOME", "~/.bantam", "143"}:
        assert f" {name}" in page


@where("mandoc")
def test_mandoc_misses_a_date_alone() -> None:
    lint = ["mandoc", "-Tlint", str(PAGE)]
    found = subprocess.run(lint, capture_output=True, text=True, timeout=30, check=False).stdout
    # A date of the page would be one more thing to bring up to date.
    assert [line for line in found.splitlines() if "missing date" not in line] == []
