"""The options: one table makes `Config`, `--help`, `model.cfg.example` and README's table.

The table is the body of `Config`: a row there is an option's name, type, default, values and
meaning, and nothing else lists them. A configuration is layered, the strongest last: defaults, the
project's file, the environment, `-o`, `/cfg`. Every setting keeps its place, so that an error names
file, line, key and what was expected; a wrong value is never replaced by a default in silence. A
key that is not an option goes to the API under its own name.

No file and no environment is read here: their contents are passed in.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, TypeVar

from bantam.core import kinds
from bantam.core.endpoints import hidden_in
from bantam.core.errors import ConfigError
from bantam.core.kinds import Kind, as_text, choice, forwarded_value, number, whole
from bantam.core.settings import Setting, meant_by, parse_override

# In the current directory, the first that exists; they are not merged (SPEC section 2).
CONFIG_FILES: Final = (".bantam.cfg", "model.cfg")
# Option -> the variable of the environment that is stronger than the file.
ENVIRONMENT: Final = {"bantam_tools_dir": "BANTAM_TOOLS_DIR", "sandbox": "BANTAM_SANDBOX"}
# Bantam writes these members of a request itself (`tools` is an option, so never forwarded).
RESERVED: Final = frozenset({"messages", "stream_options"})

_LOOSE_TO_STRICT: Final = ("off", "net", "on")  # values of `sandbox`
_ENDPOINT: Final = "https://api.kilo.ai/api/openrouter"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# A name before a host may be a key.
_HOST_AND_PORT: Final = re.compile(r"[a-z0-9.-]+:[0-9]{1,5}(?:/[a-z0-9./_-]*)?", re.IGNORECASE)
_NAME_BEFORE_HOST: Final = re.compile(
    r"\A((?:https?|run|replay):|)(/{0,2}).*@", re.DOTALL | re.IGNORECASE
)
_SHOWN_CHARACTERS: Final = 80

T = TypeVar("T")


# -- the table --------------------------------------------------------------------------------


def option(default: T, kind: Kind, meaning: str, *, example: str = "", secret: bool = False) -> T:
    """Make one row of the table.

    `example`: what an error says to write where there is no default. A secret is in no `repr` and
    no error.
    """
    row = {"kind": kind, "meaning": meaning, "example": example or as_text(default)}
    return field(default=default, repr=not secret, metadata=row | {"secret": secret})


@dataclass(frozen=True, slots=True)
class Config:
    """The options of a run, typed and checked by `resolve`; a default of None means unset.

    `forwarded`: every other key, for the API. `sources`: key -> `default`, `FILE:LINE`,
    `environment`, `-o` or `/cfg`, for every option and every forwarded key. `file_endpoint`: the
    endpoint that the file's `api_key` goes to, the default where the file names none.
    """

    # fmt: off
    endpoint: str = option(
        _ENDPOINT,
        kinds.ADDRESS,
        "base URL; `/chat/completions` and `/models` are appended")
    model: str = option("kilo-auto/free", kinds.TEXT, "model id")
    temperature: float = option(
        0.7, number("a number, 0 or more", lambda t: t >= 0), "sent with each request")
    api_key: str | None = option(
        None, kinds.KEY,
        "bearer token; in a file it goes only to that file's endpoint; falls back to "
        "`OPENAI_API_KEY` of the environment, which goes only to OpenAI, this machine, and where "
        "you have accepted it",
        example="KEY", secret=True)
    stream: bool = option(True, kinds.SWITCH, "stream the answer")
    color: str = option(
        "auto", choice("auto", "always", "never"),
        "`auto`: on a terminal, unless `NO_COLOR` or `BANTAM_NO_COLOR` is set")
    timeout: float = option(
        300.0, kinds.SECONDS, "longest wait for a connection, the first byte, and the next data")
    shell_timeout: float = option(120.0, kinds.SECONDS, "longest run of one `shell_exec`")
    max_al_iterations: int = option(1000, whole(1), "model calls in one turn")
    context_window: int = option(200000, whole(1), "tokens, used when `/models` does not tell")
    bantam_tools_dir: str | None = option(
        None, kinds.TEXT,
        "folder of your own shell tools; `BANTAM_TOOLS_DIR` of the environment wins",
        example="/path/to/tools")
    dialect: str = option(
        "auto", choice("auto", "native", "dollar", "blocks"),
        "how the model says what it wants run; `auto` starts with `native`")
    sandbox: str = option(
        "off", choice("off", "on", "net"),
        "run tools under bubblewrap; `net`: with the network; a file may only tighten what "
        "`BANTAM_SANDBOX` or `-o` say")
    approve: str = option("auto", choice("auto", "risky", "ask"), "which tool calls to ask about")
    sanitize: str = option(
        "text", choice("text", "strict"),
        "what is kept of the text that `write_file` writes")
    tool_output_limit: int = option(
        50000, whole(1), "characters of one tool result that reach the model")
    compact_at: float = option(
        0.6, number("a share above 0, at most 1", lambda share: 0 < share <= 1),
        "share of the window at which compaction is offered")
    budget_tokens: int | None = option(
        None, whole(1), "tokens that one run may use in all", example="1000000")
    cache_proof: str = option(
        "off", choice("off", "warn", "strict"),
        "what to do when the provider's prompt cache is missed")
    min_cacheable_tokens: int = option(
        0, whole(0), "below this prompt size a cache miss is no fault")
    tools: tuple[str, ...] = option(
        ("shell_exec", "write_file"),
        kinds.subset(*kinds.KNOWN_TOOLS),
        "the tools offered to the model")
    edit_mode: str = option("emacs", choice("emacs", "vi"), "keys of the line editor")
    # fmt: on
    forwarded: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # every api_key that was given
    file_endpoint: str = _ENDPOINT


class Option(NamedTuple):
    """One row of the table."""

    name: str
    default: Any
    kind: Kind
    meaning: str
    example: str
    secret: bool


OPTIONS: Final[Mapping[str, Option]] = {
    row.name: Option(row.name, row.default, **row.metadata)
    for row in fields(Config)
    if row.metadata
}


# -- from settings ----------------------------------------------------------------------------


def resolve(
    settings: Iterable[Setting] = (),
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    live: Sequence[Setting] = (),
) -> Config:
    """Return the configuration of a file's `settings`, the environment and the texts of `-o`.

    `live`: what was set since, by `/cfg`; it is the strongest. Raises ConfigError for the first
    wrong setting, even if a later one replaces it.
    """
    variables = [
        Setting(key, environ[variable], "environment")
        for key, variable in ENVIRONMENT.items()
        if environ and environ.get(variable)
    ]
    file, user = [*settings], [*variables, *map(parse_override, overrides), *live]
    of_file, of_user = _last(file), _last(user)
    chosen = of_file | of_user
    # A cloned folder may tighten the sandbox, never loosen what its user says (SPEC section 11).
    sandboxes = [layer["sandbox"] for layer in (of_user, of_file) if "sandbox" in layer]
    if sandboxes:
        chosen["sandbox"] = max(sandboxes, key=lambda s: _LOOSE_TO_STRICT.index(typed(s)))
    present = {key: setting for key, setting in chosen.items() if setting.text}
    values = {key: typed(setting) for key, setting in present.items()}
    return Config(
        **{key: value for key, value in values.items() if key in OPTIONS},
        forwarded={key: value for key, value in values.items() if key not in OPTIONS},
        sources=dict.fromkeys(OPTIONS, "default") | {k: s.source for k, s in present.items()},
        secrets=tuple(setting.text for setting in (*file, *user) if setting.key == "api_key"),
        file_endpoint=typed(of_file.get("endpoint", Setting("endpoint", "", "default"))),
    )


def _last(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Return the last setting of each key. Raises ConfigError for any that is wrong."""
    last: dict[str, Setting] = {}
    for setting in settings:
        typed(setting)
        last[setting.key] = setting
    return last


def typed(setting: Setting) -> Any:
    """Return the value of `setting`, the default if its text is empty. Raises ConfigError."""
    place = place_of(setting.key, setting.source)
    if _SURROGATE.search(setting.text):
        raise ConfigError(f"{place} is not UTF-8; write it in UTF-8")
    meant = meant_by(setting.key, {*OPTIONS, *RESERVED})
    if meant in RESERVED:
        raise ConfigError(f"{place} is written by Bantam itself; remove this setting")
    if meant != setting.key:
        raise ConfigError(f"{place} is not a key; write {meant}={OPTIONS[meant].example}")
    row = OPTIONS.get(setting.key)
    if row is None:
        return forwarded_value(setting.text)
    if not setting.text:
        return row.default
    try:
        return row.kind.read(setting.text)
    except ValueError as error:
        shown = _shown(setting)
        # A long address is not cut: the beginning of a key would not be known as one.
        is_hidden = row.secret or (row.name == "endpoint" and len(shown) > _SHOWN_CHARACTERS)
        given = "" if is_hidden else f"={shown:.{_SHOWN_CHARACTERS}}"
        why = f": {error}" if error.args else ""
        is_bare = row.name == "endpoint" and _HOST_AND_PORT.fullmatch(setting.text)
        example = f"http://{setting.text}" if is_bare else row.example
        fix = f"write {name_at(row.name, setting.source)}={example}"
        raise ConfigError(f"{place}{given} is not {row.kind.expected}{why}; {fix}") from None


def place_of(key: str, source: str) -> str:
    """Return `key` with the place of its setting, as an error begins.

    >>> [place_of("sandbox", source) for source in ("-o", "environment", "model.cfg:3")]
    ['-o sandbox', 'BANTAM_SANDBOX', 'model.cfg:3: sandbox']
    """
    before = {"-o": "-o ", "/cfg": "/cfg ", "environment": ""}.get(source, f"{source}: ")
    return before + name_at(key, source)


def name_at(key: str, source: str) -> str:
    """Return what `key` is called where it is set: a variable of the environment has another."""
    return ENVIRONMENT[key] if source == "environment" else key


def _shown(setting: Setting) -> str:
    """Return the text of `setting`, without a name before a host and with nothing hidden."""
    text = _NAME_BEFORE_HOST.sub(r"\1\2...@", setting.text)
    if hidden_in(text):
        return ascii(text)
    # As it was typed on a command line; in quotes, which show blanks, out of a file.
    return text if setting.source in ("-o", "/cfg", "environment") else repr(text)


def use_color(choice: str, environ: Mapping[str, str], *, is_tty: bool) -> bool:
    """Whether to colour a stream: `choice` is the option `color`, `is_tty` tells of the stream."""
    if choice != "auto":
        return choice == "always"
    refused = environ.get("NO_COLOR") or environ.get("BANTAM_NO_COLOR")
    return is_tty and not refused and environ.get("TERM") != "dumb"


# -- generated texts --------------------------------------------------------------------------


def help_lines(width: int = 78) -> list[str]:
    """Return the names of all options, wrapped to `width` cells, for `--help`."""
    return textwrap.wrap(" ".join(OPTIONS), width)


_EXAMPLE_HEAD: Final = """\
# Every key of Bantam, with its default. Copy this file to .bantam.cfg in your project (or to
# model.cfg, which is read where there is no .bantam.cfg), and take away the # before a key.
# A # at the start of a line, or after a blank, opens a comment. An empty value unsets.
"""
_EXAMPLE_TAIL: Final = """
# Any other key goes to the API under its own name: a JSON number, true, false, null, list or
# object where it parses as one, else text.
#reasoning_effort=high
#top_p=0.9
#stop=["END"]
"""


def example_file() -> str:
    """Return `model.cfg.example`: every key, commented out, with default, values and meaning."""
    return _EXAMPLE_HEAD + "".join(map(_example, OPTIONS.values())) + _EXAMPLE_TAIL


def _example(row: Option) -> str:
    text = f"{row.meaning} ({row.kind.expected})"
    comment = textwrap.fill(text, 95, initial_indent="# ", subsequent_indent="# ")
    return f"\n{comment}\n#{row.name}={as_text(row.default)}\n"


def readme_table() -> str:
    """Return README's table of options, as Markdown."""
    head = "| key | default | values | meaning |\n|---|---|---|---|\n"
    return head + "".join(map(_table_row, OPTIONS.values()))


def _table_row(row: Option) -> str:
    default = "none" if row.default is None else f"`{as_text(row.default)}`"
    return f"| `{row.name}` | {default} | {row.kind.expected} | {row.meaning} |\n"
