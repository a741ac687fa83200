"""Which endpoint may be talked to, and with which key: a cloned folder redirects neither.

An endpoint that a file of the folder names is used without a question only where that is harmless
(the loopback, the default, a known public provider); `-o endpoint=` is the user's own word. The
key of the environment goes only where it belongs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
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
_USERS_WORD: Final = ("-o", "/cfg", "default")  # sources that no folder brings along
_ABSOLUTE: Final = re.compile(r"\w+://[/~]")


@dataclass(frozen=True, slots=True)
class URLs:
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


def check_trust(config: Config, *, trust: bool, environ: Mapping[str, str]) -> None:
    """Raise UntrustedEndpoint if a file names an endpoint that nobody has accepted.

    `trust`: `--trust` was given. BANTAM_TRUST holds accepted origins, separated by commas.
    """
    source = config.sources.get("endpoint", "default")
    name, host = origin(config.endpoint), host_of(config.endpoint)
    if source in _USERS_WORD or trust or is_loopback(host):
        return
    if name in {f"https://{known}" for known in KNOWN_HOSTS} or _is_accepted(name, environ):
        return
    does = "gets your prompts" if host else "plays the model"
    fix = "add --trust for one run"
    if _can_be_named(name):
        fix += f", or set BANTAM_TRUST={name}"
    raise UntrustedEndpoint(
        f"{place_of('endpoint', source)}={config.endpoint} {does}, and Bantam runs what it "
        f"answers; nothing was sent. If you want that, {fix}"
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
    return name.startswith("http") or _ABSOLUTE.match(name) is not None


@dataclass(frozen=True, slots=True)
class Key:
    """The bearer key of a run, where it comes from, and what there is to say about it."""

    value: str | None
    source: str
    notice: str | None = None


def key_for(config: Config, *, trust: bool, environ: Mapping[str, str]) -> Key:
    """Return the key that goes to the endpoint: the configured one, else the environment's.

    The `api_key` of a file goes to that file's endpoint alone, OPENAI_API_KEY to api.openai.com
    and the loopback; a key that is left out is told. Raises ConfigError for a key that no header
    can hold, and for any key that would go over plain http to another machine that nobody has
    accepted.
    """
    name, host = origin(config.endpoint), host_of(config.endpoint)
    if not host:
        return Key(None, "none")
    value, source, notice = config.api_key, config.sources.get("api_key", "default"), None
    place, home = place_of("api_key", source), origin(config.file_endpoint)
    if value is not None and source not in _USERS_WORD and home != name:
        notice = (
            f"{place} is not sent to {name}: a file's key goes only to its own endpoint, {home}; "
            "to use a key here, add -o api_key=KEY, or write this endpoint into the file"
        )
        value = None
    if value is None and (variable := environ.get("OPENAI_API_KEY", "").strip()):
        if is_loopback(host) or name == _OPENAI:
            value, source, place = variable, "OPENAI_API_KEY", "OPENAI_API_KEY"
        elif notice is None:
            notice = f"OPENAI_API_KEY is not sent to {name}; to use a key there, set api_key"
    if value is None:
        return Key(None, "none", notice)
    accepted = trust or is_loopback(host) or _is_accepted(name, environ)
    _check_key(value, place, name, accepted=accepted)
    return Key(value, source, notice)


def _check_key(value: str, place: str, name: str, *, accepted: bool) -> None:
    """Raise ConfigError if a key cannot go to the origin `name`, or must not."""
    if not value.isascii() or not value.isprintable():
        raise ConfigError(f"{place} holds characters that no HTTP header can; copy it anew")
    if name.startswith("http:") and not accepted:
        raise ConfigError(
            f"{place} would go unencrypted to {name}; use https://, or add --trust, "
            f"or set BANTAM_TRUST={name}"
        )
