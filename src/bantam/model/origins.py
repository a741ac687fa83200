"""Which endpoint may be talked to, and with which key: a cloned folder redirects neither.

An endpoint that a file of the folder names is used without a question only where that is harmless
(the loopback, the default, a known public provider); `-o endpoint=` is the user's own word. The
key of the environment goes only where it belongs. For all else somebody must have said yes: who
asks and what is remembered is decided above; here are the rules alone.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from bantam.core.config import Config, place_of
from bantam.core.endpoints import host_of, is_loopback, origin
from bantam.core.errors import ConfigError, UntrustedEndpoint

_COMPLETIONS: Final = "/chat/completions"
# Exact hosts, each from the provider's API reference.
KNOWN_HOSTS: Final = frozenset(
    {
        "api.kilo.ai",  # kilo.ai/docs: the default endpoint
        "api.openai.com",  # platform.openai.com/docs/api-reference
        "openrouter.ai",  # openrouter.ai/docs/api-reference
        "api.deepseek.com",  # api-docs.deepseek.com
        "api.mistral.ai",  # docs.mistral.ai/api
        "api.groq.com",  # console.groq.com/docs/openai
        "generativelanguage.googleapis.com",  # ai.google.dev/gemini-api/docs/openai
    }
)
_OPENAI: Final = "https://api.openai.com"
_VARIABLE: Final = "OPENAI_API_KEY"
_USERS_WORD: Final = ("-o", "/cfg", "default")  # sources that no folder brings along
_ABSOLUTE: Final = r"\w+://[/~]"


class URLs(NamedTuple):
    """Where the requests of an http(s) endpoint go."""

    chat: str
    models: str


def urls(endpoint: str) -> URLs:
    """Return the addresses that `endpoint` means, however it is spelled.

    >>> urls("http://127.0.0.1:8080/v1/").chat
    'http://127.0.0.1:8080/v1/chat/completions'
    >>> urls("http://127.0.0.1:8080/v1/chat/completions").models
    'http://127.0.0.1:8080/v1/models'
    """
    parts = urlsplit(endpoint)
    base = parts.path.rstrip("/").removesuffix(_COMPLETIONS).rstrip("/")
    chat = parts._replace(path=base + _COMPLETIONS, fragment="")
    return URLs(urlunsplit(chat), urlunsplit(chat._replace(path=base + "/models")))


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the user has said yes to.

    `names`: endpoints, as `origin` has them. `keys`: origin -> whether OPENAI_API_KEY may go there.
    """

    names: frozenset[str] = frozenset()
    keys: Mapping[str, bool] = field(default_factory=dict)


NOTHING: Final = Accepted()


def is_harmless(endpoint: str) -> bool:
    """Whether a file may name `endpoint` without a question."""
    return is_loopback(host_of(endpoint)) or origin(endpoint) in {
        f"https://{known}" for known in KNOWN_HOSTS
    }


def is_trusted(config: Config, accepted: Accepted, environ: Mapping[str, str]) -> bool:
    """Whether the endpoint is the user's own word, harmless, or accepted.

    BANTAM_TRUST holds accepted origins, separated by commas.
    """
    name = origin(config.endpoint)
    return (
        config.sources.get("endpoint", "default") in _USERS_WORD
        or is_harmless(config.endpoint)
        or name in accepted.names
        or _is_accepted(name, environ)
    )


def check_trust(
    config: Config, *, trust: bool, environ: Mapping[str, str], accepted: Accepted = NOTHING
) -> None:
    """Raise UntrustedEndpoint if a file names an endpoint that nobody has accepted.

    `trust`: whatever it names is accepted.
    """
    if trust or is_trusted(config, accepted, environ):
        return
    name = origin(config.endpoint)
    does = "gets your prompts" if host_of(config.endpoint) else "plays the model"
    fix = "add --trust for one run"
    if _can_be_named(name):
        fix += f", or set BANTAM_TRUST={name}"
    place = place_of("endpoint", config.sources["endpoint"])
    raise UntrustedEndpoint(
        f"{place}={config.endpoint} {does}, and Bantam runs what it answers; nothing was sent. "
        f"If you want that, {fix}"
    )


def _is_accepted(name: str, environ: Mapping[str, str]) -> bool:
    """Whether BANTAM_TRUST names this origin."""
    words = environ.get("BANTAM_TRUST", "").split(",")
    return _can_be_named(name) and any(_is_origin(word.strip(), name) for word in words)


def _is_origin(word: str, name: str) -> bool:
    try:
        return origin(word) == name
    except ValueError:
        return False  # accepts nothing


def _can_be_named(name: str) -> bool:
    """Whether `name` means the same in every folder; `run://./model.sh` is another each time."""
    return name.startswith("http") or re.match(_ABSOLUTE, name) is not None


class Key(NamedTuple):
    """The bearer key of a run, where it comes from, and what there is to say about it.

    `withheld`: OPENAI_API_KEY is left out since nobody has said whether it may go there.
    """

    value: str | None
    source: str
    notice: str | None = None
    withheld: bool = False

    @property
    def place(self) -> str:
        """Where it is set, as an error begins."""
        return self.source if self.source == _VARIABLE else place_of("api_key", self.source)


def key_for(
    config: Config, *, trust: bool, environ: Mapping[str, str], accepted: Accepted = NOTHING
) -> Key:
    """Return the key that goes to the endpoint, as `chosen_key`.

    Raises ConfigError for a key that no header can hold, and for any key that would go over plain
    http to another machine that nobody has accepted.
    """
    key = chosen_key(config, environ, accepted)
    if key.value is None:
        return key
    if not key.value.isascii() or not key.value.isprintable():
        raise ConfigError(f"{key.place} holds characters that no HTTP header can; copy it anew")
    if not trust and goes_open(config, key, environ, accepted):
        name = origin(config.endpoint)
        raise ConfigError(
            f"{key.place} would go unencrypted to {name}; use https://, or add --trust, "
            f"or set BANTAM_TRUST={name}"
        )
    return key


def chosen_key(config: Config, environ: Mapping[str, str], accepted: Accepted) -> Key:
    """Return the configured key, else the environment's; it is not checked yet.

    The `api_key` of a file goes to that file's endpoint alone, OPENAI_API_KEY to api.openai.com,
    the loopback, and where it was accepted. A key that is left out is told, but for one that the
    user has refused.
    """
    name, host = origin(config.endpoint), host_of(config.endpoint)
    if not host:
        return Key(None, "none")
    source, notice = config.sources.get("api_key", "default"), None
    if config.api_key is not None:
        home = origin(config.file_endpoint)
        if source in _USERS_WORD or home == name:
            return Key(config.api_key, source)
        notice = (
            f"{place_of('api_key', source)} is not sent to {name}: a file's key goes only to its "
            f"own endpoint, {home}; to use a key here, add -o api_key=KEY, or write this endpoint "
            "into the file"
        )
    variable = environ.get(_VARIABLE, "").strip()
    if not variable:
        return Key(None, "none", notice)
    answer = accepted.keys.get(name)
    if answer or is_loopback(host) or name == _OPENAI:
        return Key(variable, _VARIABLE, notice)
    if answer is None:
        notice = notice or f"{_VARIABLE} is not sent to {name}; to use a key there, set api_key"
    return Key(None, "none", notice, withheld=answer is None)


def goes_open(config: Config, key: Key, environ: Mapping[str, str], accepted: Accepted) -> bool:
    """Whether `key` would go over plain http to another machine that was not accepted with it."""
    name = origin(config.endpoint)
    return not (
        key.value is None
        or not is_unencrypted(config.endpoint)
        or name in accepted.names
        or (key.source == _VARIABLE and accepted.keys.get(name))
        or _is_accepted(name, environ)
    )


def is_unencrypted(endpoint: str) -> bool:
    """Whether what is sent to `endpoint` can be read on the way to another machine."""
    return endpoint.lower().startswith("http:") and not is_loopback(host_of(endpoint))
