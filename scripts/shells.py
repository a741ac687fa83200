"""What Tab offers behind `bantam` in bash, zsh and fish, from the tables of options and of keys.

A file each, that the shell loads when it is first needed: no start of Bantam, which would take a
tenth of a second at each Tab. Of an option its metavar says what may stand behind it.
"""

import re
from argparse import Action
from collections.abc import Iterator
from typing import Final

from bantam.core.config import OPTIONS, Option
from bantam.terminal.arguments import parser

_HEAD: Final = "# Written by scripts/generate.py.\n"
_SESSION: Final = "ID"
_KEY: Final = "KEY=VALUE"
_LISTED: Final = re.compile(r"(?:one|a list) of (\w+(?:, \w+)*?)(?:, parted by commas)?")


def options() -> list[Action]:
    """Return the options of the command line, without the file."""
    return [action for action in parser()._actions if action.option_strings]  # noqa: SLF001  argparse shows them to nobody


def _values(key: Option) -> list[str]:
    """Return the values that `key` takes, nothing where they are without number."""
    if key.kind.expected == "true or false":
        return ["true", "false"]
    found = _LISTED.fullmatch(key.kind.expected)
    return found[1].split(", ") if found else []


def _is_list(key: Option) -> bool:
    return isinstance(key.default, tuple)


def _is_folder(key: Option) -> bool:
    return key.name.endswith("_dir")


def _spelled(metavar: str) -> list[str]:
    """Return the spellings of the options that `metavar` stands behind."""
    return [n for action in options() if action.metavar == metavar for n in action.option_strings]


# -- bash -------------------------------------------------------------------------------------

# bash parts words at = too: one that is typed is up to three of its words, `$2` the last.
_BASH: Final = """\
_bantam() {{
    local before=${{COMP_WORDS[COMP_CWORD - 1]}} id IFS=$' \\t\\n'
    if [[ ${{COMP_WORDS[COMP_CWORD]}} == = ]]; then
        before=$before=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}=
    fi
    compopt +o default 2>/dev/null
    case $before in
    {sessions})
        for id in "${{BANTAM_HOME:-$HOME/.bantam}}"/sessions/*.json; do
            id=${{id##*/}}
            printf -v id %q "${{id%.json}}"
            [[ $id == '\\*' || $id != "$2"* ]] || COMPREPLY+=("$id")
        done ;;
    {keys})
        compopt -o nospace 2>/dev/null
        COMPREPLY=($(compgen -S = -W '{names}' -- "$2")) ;;
{cases}
    *)
        if [[ $2 == -* ]]; then
            COMPREPLY=($(compgen -W '{options}' -- "$2"))
        else
            compopt -o default 2>/dev/null
        fi ;;
    esac
}}
complete -o default -F _bantam bantam
"""


def bash() -> str:
    """Return the file for bash."""
    sessions = _spelled(_SESSION)
    long = [f"{name}=" for name in sessions if name.startswith("--")]
    return _HEAD + _BASH.format(
        sessions="|".join([*sessions, *long]),
        keys="|".join(_spelled(_KEY)),
        names=" ".join(OPTIONS),
        cases="\n".join(_bash_cases()),
        options=" ".join(name for action in options() for name in action.option_strings),
    )


def _bash_cases() -> Iterator[str]:
    for key in OPTIONS.values():
        words = f"-W '{' '.join(_values(key))}'"
        if _is_list(key):
            reply = f"""compgen -P "${{2%"${{2##*,}}"}}" {words} -- "${{2##*,}}\""""
            yield f"    {key.name}=) COMPREPLY=($({reply})) ;;"
        elif _values(key):
            yield f"""    {key.name}=) COMPREPLY=($(compgen {words} -- "$2")) ;;"""
        elif _is_folder(key):
            yield f"    {key.name}=) compopt -o dirnames 2>/dev/null ;;"
    yield "    *=) ;;"


# -- zsh --------------------------------------------------------------------------------------

_ZSH: Final = """\
#compdef bantam
{head}
_bantam_sessions() {{
    local -a ids=("${{BANTAM_HOME:-$HOME/.bantam}}"/sessions/*.json(N:t:r))
    compadd -a ids
}}

_bantam_keys() {{
    if ! compset -P 1 '*='; then
        compadd -S = -- {names}
        return
    fi
    case ${{IPREFIX%=}} in
{cases}
    esac
}}

_arguments \\
{options} \\
    '1:file:_files'
"""


def zsh() -> str:
    """Return the file for zsh."""
    return _ZSH.format(
        head=_HEAD,
        names=" ".join(OPTIONS),
        cases="\n".join(_zsh_cases()),
        options=" \\\n".join(map(_zsh_option, options())),
    )


def _zsh_cases() -> Iterator[str]:
    for key in OPTIONS.values():
        if found := _values(key):
            behind_comma = "compset -P '*,'; " if _is_list(key) else ""
            yield f"    ({key.name}) {behind_comma}compadd -- {' '.join(found)} ;;"
        elif _is_folder(key):
            yield f"    ({key.name}) _files -/ ;;"


def _zsh_option(action: Action) -> str:
    names = action.option_strings
    behind = {_SESSION: ":session:_bantam_sessions", _KEY: ":key:_bantam_keys"}
    offered = behind.get(str(action.metavar), ":text: ") if action.metavar else ""
    said = f"[{action.help}]".replace("'", r"'\''") + offered
    if action.metavar == _KEY:
        return f"    '*{names[0]}{said}'"
    # Its value may also stand behind a =.
    written = [f"{name}=" if action.metavar and name[:2] == "--" else name for name in names]
    if len(names) == 1:
        return f"    '{written[0]}{said}'"
    return f"    '({' '.join(names)})'{{{','.join(written)}}}'{said}'"


# -- fish -------------------------------------------------------------------------------------

_FISH: Final = """\
function __bantam_sessions
    set -l home $BANTAM_HOME
    test -n "$home"; or set home ~/.bantam
    for id in $home/sessions/*.json
        string replace -r '.*/(.*)\\.json$' '$1' -- $id
    end
end
"""


def fish() -> str:
    """Return the file for fish."""
    return _HEAD + _FISH + "".join(map(_fish_option, options()))


def _fish_option(action: Action) -> str:
    words = "".join(
        f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
        for name in action.option_strings
    )
    behind = {_SESSION: "ka '(__bantam_sessions)'", _KEY: f"ka '{' '.join(_pairs())}'"}
    offered = f" -x{behind.get(str(action.metavar), '')}" if action.metavar else ""
    meaning = (action.help or "").replace("'", r"\'")
    return f"complete -c bantam{words}{offered} -d '{meaning}'\n"


def _pairs() -> Iterator[str]:
    for key in OPTIONS.values():
        for value in _values(key) or [""]:
            yield f"{key.name}={value}"
