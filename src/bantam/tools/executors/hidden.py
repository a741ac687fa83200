"""What a sandboxed command does not get to see: folders and files with secrets, and variables.

Both are lists of what is known, and no list is whole: a key in a file of another name can be read.
Without the network it cannot leave; `net` is for who knows what lies on his disk.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

# What Bantam remembers, below a home folder.
_OWN: Final = (".bantam", ".bantam_history")
# Below a home folder.
_IN_HOME: Final = (
    # private keys, and what unlocks or names them
    ".ssh",
    ".gnupg",
    ".pki",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".config/sops",
    ".config/age",
    ".config/op",
    ".config/Bitwarden",
    ".electrum",
    # the cloud's keys and tokens
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".config/doctl",
    ".config/rclone",
    ".config/hcloud",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    ".s3cfg",
    ".boto",
    ".oci",
    ".fly",
    ".pulumi/credentials.json",
    # passwords of registries and hosts of code
    ".docker",
    ".dockercfg",
    ".config/containers/auth.json",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pypoetry/auth.toml",
    ".local/share/uv/credentials",
    ".config/pip",
    ".gem/credentials",
    ".bundle/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".config/composer/auth.json",
    ".composer/auth.json",
    ".cache/huggingface/token",
    # passwords of databases
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    # of mail and file servers
    ".msmtprc",
    ".smbcredentials",
    # cookies and saved passwords
    ".mozilla",
    ".librewolf",
    ".thunderbird",
    ".config/google-chrome",
    ".config/google-chrome-beta",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    "snap/firefox",
    "snap/chromium",
    ".var/app",
    # tokens of other agents
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".cursor",
    ".config/github-copilot",
    ".local/share/opencode/auth.json",
    # what was typed or said: passwords among it
    *_OWN,
    ".config/Signal",
    ".bash_history",
    ".zsh_history",
    ".zsh_sessions",
    ".local/share/fish/fish_history",
    ".local/share/atuin",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".python_history",
    ".node_repl_history",
    # leave to draw on the screen, and to read its keys
    ".Xauthority",
    ".ICEauthority",
)
# Root may read these even without privileges, being their owner.
_IN_SYSTEM: Final = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/NetworkManager/system-connections",
    "/etc/kubernetes",
    "/etc/rancher",
    "/var/cache/debconf/passwords.dat",
    "/var/lib/docker",
    "/var/lib/kubelet",
)
# Variables that say where the same things lie if not in their usual places.
_NAMED_BY: Final = (
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CONFIG_DIR",
    "BANTAM_HOME",
    "CLAUDE_CONFIG_DIR",
    "CLOUDSDK_CONFIG",
    "CODEX_HOME",
    "DOCKER_CONFIG",
    "GH_CONFIG_DIR",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HF_TOKEN_PATH",
    "HISTFILE",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "PIP_CONFIG_FILE",
    "REGISTRY_AUTH_FILE",
    "SOPS_AGE_KEY_FILE",
    "XAUTHORITY",
)
# Likewise, but only what has these names in the folder that they say.
_FOLDER_OF: Final = {
    "CARGO_HOME": ("credentials", "credentials.toml"),
    "HF_HOME": ("token",),
    "ZDOTDIR": (".zsh_history", ".zsh_sessions"),
}
_XDG: Final = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME"}

_SECRET_NAME: Final = re.compile(
    # secrets, under the names that they have; not a number of tokens, a keyboard, a way around
    r"(?<!MON)(?<!HOT)KEY(?!BOARD|CODE|MAP|PAD|SYM|WORD)"
    r"|TOKEN(?!I[SZ]|S)|^(?!(.*_)?(MAX|MIN|NUM|N)_).*TOKENS"
    r"|(?<!BY)(?<!COM)PASS($|_|\d|CODE|FILE|PHRASE|WD|WORD)|SECRET|CREDENTIAL|COOKIE(?!CUTTER)"
    r"|AUTHORITY|AUTHORIZATION|AUTHTOK|BEARER|WEBHOOK|CONNECTION_STRING|(^|_)PRIVATE(_|$)"
    r"|(^|_)(AUTH(_HEADERS?)?|CREDS?|JWT|PAT|SAS|SK)$|_PWD$"
    # that of a password safe, not the desktop's or the terminal's
    r"|^(?!DESKTOP_|GNOME_|I?TERM_|KDE_|WT_|XDG_|ZELLIJ_).*_SESSION(_|$)"
    # git's configuration, a header with a token among it; all of it, as the parts are counted
    r"|^GIT_CONFIG_(COUNT|KEY_|PARAMETERS|VALUE_)"
    # ways to sockets and to programs that hold keys
    r"|_SOCK(ET)?$|^DBUS_|^GPG_AGENT|^SSH_|^DOCKER_(?!BUILDKIT$)|^KUBE|^(WAYLAND_)?DISPLAY$|^XDG_RUNTIME_DIR$|^TMUX"
    r"|^STY$|^VSCODE_|^GIT_ASKPASS$|^CONTAINER_HOST$",
    re.IGNORECASE,
)
# A name and perhaps a password before a host, as in the address of a database or a proxy.
_WITH_PASSWORD: Final = re.compile(r"://[^/\s@]+@")
# No key, whatever is a part of one: without them hardly anything runs.
_NEEDED: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})
_SHORTEST: Final = 8  # characters; a known secret that is shorter is a word that stands anywhere


def hidden_paths(environ: Mapping[str, str]) -> list[Path]:
    """Return what is there of the folders and files with secrets, links followed."""
    real = {os.path.realpath(path) for path in _candidates(environ) if os.path.lexists(path)}
    shortest: list[Path] = []
    for path in sorted(map(Path, real)):
        # One inside another, which it follows at once, is hidden with it.
        is_inside = bool(shortest) and path.is_relative_to(shortest[-1])
        if not is_inside and (path.is_dir() or path.is_file()):
            shortest.append(path)
    return shortest


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    for home in _homes(environ):
        yield from (os.path.join(home, name) for name in _IN_HOME)  # noqa: PTH118  # text
    for folder, variable in _XDG.items():
        if base := environ.get(variable):
            inside = (name for name in _IN_HOME if name.startswith(f"{folder}/"))
            yield from (base + name.removeprefix(folder) for name in inside)
    yield from _IN_SYSTEM
    for variable in _NAMED_BY:
        yield from environ.get(variable, "").split(":")
    for variable, names in _FOLDER_OF.items():
        if base := environ.get(variable):
            yield from (os.path.join(base, name) for name in names)  # noqa: PTH118  # text


def own_places(environ: Mapping[str, str]) -> list[str]:
    """Return the absolute paths of what Bantam remembers, whether it is there or not."""
    named = environ.get("BANTAM_HOME")
    homes = [os.path.join(home, name) for home in _homes(environ) for name in _OWN]  # noqa: PTH118  # text
    return [*([os.path.abspath(named)] if named else []), *homes]  # noqa: PTH100  # text


def _homes(environ: Mapping[str, str]) -> set[str]:
    import pwd

    homes = {environ.get("HOME", "")}
    with suppress(KeyError):  # a user without a name, as in some containers
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    return {home for home in homes if Path(home).is_absolute()}


def cleaned(environ: Mapping[str, str], secrets: Iterable[str | None]) -> dict[str, str]:
    """Return `environ` without what is, holds or leads to a secret."""
    known = [secret.strip() for secret in secrets if secret]
    known = [secret for secret in known if len(secret) >= _SHORTEST]
    return {
        name: value
        for name, value in environ.items()
        if name in _NEEDED
        or not (
            _SECRET_NAME.search(name)
            or _WITH_PASSWORD.search(value)
            or any(secret in value for secret in known)
        )
    }
