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
    # passwords of registries and hosts of code
    ".docker",
    ".config/containers/auth.json",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pip",
    ".gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".config/composer/auth.json",
    ".cache/huggingface/token",
    # passwords of databases
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    # cookies and saved passwords
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
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
    ".config/github-copilot",
    ".local/share/opencode/auth.json",
    # what was typed or said: passwords among it
    ".bantam",
    ".bantam_history",
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".psql_history",
    ".mysql_history",
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
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/NetworkManager/system-connections",
    "/etc/kubernetes",
    "/etc/rancher",
    "/var/lib/docker",
    "/var/lib/kubelet",
)
# Variables that say where the same things lie if not in their usual places.
_NAMED_BY: Final = (
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "BANTAM_HOME",
    "CLOUDSDK_CONFIG",
    "DOCKER_CONFIG",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HISTFILE",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
    "PIP_CONFIG_FILE",
    "XAUTHORITY",
)
_XDG: Final = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME"}

_SECRET_NAME: Final = re.compile(
    # secrets, under the names that they have
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|COOKIE|PRIVATE|_AUTH$|AUTHORITY|AUTHTOK|(^|_)PAT$"
    # ways to sockets and to programs that hold keys
    r"|_SOCK(ET)?$|^DBUS_|^GPG_AGENT|^SSH_|^DOCKER_|^KUBE|^(WAYLAND_)?DISPLAY$|^XDG_RUNTIME_DIR$|^TMUX"
    r"|^STY$|^VSCODE_|^GIT_ASKPASS$|^CONTAINER_HOST$",
    re.IGNORECASE,
)
# A name and perhaps a password before a host, as in the address of a database or a proxy.
_WITH_PASSWORD: Final = re.compile(r"://[^/\s@]+@")
_SHORTEST: Final = 8  # characters; a known secret that is shorter is a word that stands anywhere


def hidden_paths(environ: Mapping[str, str]) -> list[Path]:
    """Return what is there of the folders and files with secrets, links followed."""
    real = {os.path.realpath(path) for path in _candidates(environ) if os.path.lexists(path)}
    # One inside another is hidden with it.
    shortest: list[Path] = []
    for path in sorted(map(Path, real)):
        is_there = path.is_dir() or path.is_file()
        if is_there and not any(path.is_relative_to(above) for above in shortest):
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
        if not _SECRET_NAME.search(name)
        and not _WITH_PASSWORD.search(value)
        and not any(secret in value for secret in known)
    }
