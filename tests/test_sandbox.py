"""The sandbox, with real processes: what a command in it cannot do, and what it can."""

import os
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from processes import eventually, killed, running, unique_seconds
from sandboxes import LONG_S, PYTHON, Site, ran, site_for

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ToolError
from bantam.tools.executors.bwrap import BwrapExecutor
from bantam.tools.executors.protection import PROTECTED, repositories_in
from bantam.tools.tool import Exit

ROOT = Path(__file__).parent.parent


@pytest.fixture(params=["this", "ordinary"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with site_for(request.param) as site:
        yield site


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return every file below `folder` with its content; None for a folder or another thing."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "safe.directory=*"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


# -- the disk ---------------------------------------------------------------------------------


def test_the_project_can_be_written(site: Site) -> None:
    (site.project / "old").write_text("old")
    text, end = site.run("mkdir sub && echo new > sub/file && mv sub/file moved && rm old && ls")
    assert (text.split(), end) == (["model.cfg", "moved", "sub"], Exit(0))
    assert tree(site.project) == {"moved": b"new\n", "sub": None}


@pytest.mark.parametrize(
    "command",
    [
        "echo x > ../outside",
        "echo x > $HOME/.bashrc",
        "mkdir ../other",
        "mv ../neighbour .",
        "echo x > ../neighbour",
        "chmod 777 ../neighbour",
        "ln ../neighbour name && echo x > name",
        "ln -s .. link && echo x > link/outside",
        "echo x > linked/outside",
        "echo x > linked_file",
        "mv ../project ../elsewhere",
        "rm -rf ../neighbour",
        f"{PYTHON} -c \"import os; os.chdir('..'); open('outside', 'w')\"",
    ],
)
def test_nothing_outside_the_project_can_be_written(command: str, site: Site) -> None:
    (site.folder / "neighbour").write_text("neighbour")
    (site.project / "linked").symlink_to("..")
    (site.project / "linked_file").symlink_to(site.folder / "neighbour")
    before = {
        name: content for name, content in tree(site.folder).items() if "project/" not in name
    }
    text, end = site.run(command)
    assert end.code != 0, text
    after = {name: content for name, content in tree(site.folder).items() if "project/" not in name}
    assert after == before


@pytest.mark.parametrize(
    "path",
    ["/etc/x", "/usr/x", "/x", "/proc/sys/kernel/core_pattern", "/sys/kernel/mm/ksm/run", "/run/x"],
)
def test_no_file_of_the_system_can_be_written(path: str, site: Site) -> None:
    # Root may, as their owner, even without a privilege. What is there is written again.
    text, _ = site.run(f"test -e {path} && {{ x=$(cat {path}); echo $x > {path}; }} || : > {path}")
    assert "Read-only file system" in text or "Permission denied" in text
    assert not Path(path).exists() or path.startswith(("/proc", "/sys"))


def test_tmp_is_its_own_and_lasts_from_command_to_command(site: Site) -> None:
    where = site.executor()
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        name = f"/tmp/bantam-test-{os.getpid()}"
        command = f"ls {file.name} || echo x > {name}; echo y > /tmp/other"
        assert ran(where, command)[0] == (
            f"ls: cannot access '{file.name}': No such file or directory\n"
        )
    assert not Path(name).exists()
    assert ran(where, f"cat {name} /tmp/other; echo $TMPDIR")[0] == "x\ny\n/tmp\n"
    assert ran(site.executor(), f"cat {name}")[1] == Exit(1)


@pytest.mark.parametrize("root", ["", "/oldroot", "/newroot"])  # the last two: bubblewrap's own
def test_a_link_in_tmp_or_the_project_leads_no_mount_outside(root: str, tmp_path: Path) -> None:
    project, victim = tmp_path / "project", tmp_path / "victim"
    for folder in (project, victim, project / "a" / ".git"):
        folder.mkdir(parents=True)
    with site_for("this") as site:
        victims = site.folder / "victim", victim
        for folder in victims:
            (folder / ".git").mkdir(parents=True)
        where = BwrapExecutor(project, {"PATH": os.environ["PATH"]})
        for target in victims:
            ran(
                where,
                "for each in $(find /tmp -mindepth 1 -depth -type d); do "
                "rm -rf $each || mv $each $each.old; "
                f"test -e $each || ln -s {root}{target} $each; done; echo x > file",
            )
            # As a command could whose Bantam has not found that repository.
            shutil.rmtree(project / "a")
            (project / "a").symlink_to(f"{root}{target}")
            text, _ = ran(where, f"ls {where.spill_folder()} && cat {project}/file")
            assert text == "x\n"
            (project / "a").unlink()
            (project / "a" / ".git").mkdir(parents=True)
        assert [tree(folder) for folder in victims] == [{".git": None}] * 2


def test_a_project_in_tmp_is_seen_and_what_is_beside_it_not(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "beside").touch()
    where = BwrapExecutor(project, {"PATH": os.environ["PATH"]})
    assert ran(where, f"echo x > file; ls {tmp_path}") == ("project\n", Exit(0))
    assert (project / "file").read_text() == "x\n"
    assert (tmp_path / "beside").exists()


def test_a_whole_output_can_be_read_under_its_name_but_not_written(site: Site) -> None:
    where = site.executor()
    file = where.spill_folder() / "output"
    file.write_text("whole\n")
    assert ran(where, f"cat {file}; echo x > {file} || echo no")[0].splitlines()[::2] == [
        "whole",
        "no",
    ]
    assert stat.S_IMODE(where.spill_folder().parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("folder", ["/", "/tmp", "/proc/self", "/sys/kernel", "/dev", "/var"])
def test_a_folder_that_the_sandbox_replaces_is_no_project(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be a project.*go to another folder"):
        BwrapExecutor(Path(folder), os.environ)


# -- .git and the configuration ---------------------------------------------------------------

ATTACKS = [
    "echo x > {0}/config",
    "echo x > {0}",
    "echo x >> {0}",
    "mkdir -p {0}/hooks && echo x > {0}/hooks/post-checkout",
    "mv {0} elsewhere && mkdir {0} && echo x > {0}/config",
    "rm -rf {0}; mkdir {0} && echo x > {0}/config",
    "rm -rf {0}; echo x > {0}",
    "rmdir {0}; echo x > {0}",
    "echo x > new; mv -fT new {0} || ln -fT new {0} || cp -fT new {0}",
    "mkdir new; mv -fT new {0} && echo x > {0}/config",
    "ln -sfn /tmp {0} && ls {0}/nothing-there",
    "ln {0} name && echo x > name",
    "ln {0}/config name && echo x > name",
    "umount {0} && rm -rf {0}",
    "chmod 777 {0}",
    "truncate -s 0 {0}",
    "mv ../project/{0} ../project/other",
    f"{PYTHON} -c \"import os; os.rename('{{0}}', 'other')\"",
    "git init -q . && git config core.fsmonitor ./x && test {0} = .git",
]


@pytest.mark.parametrize("name", PROTECTED)
@pytest.mark.parametrize("there", ["nothing", "a folder", "a file"])
def test_what_is_protected_stays_as_it_is(name: str, there: str, site: Site) -> None:
    if there == "a folder":
        git(site.project, "init", "-q", ".")
        (site.project / ".git").rename(site.project / name)
    if there == "a file":
        (site.project / name).write_text("gitdir: nowhere\n")

    def kept() -> dict[str, bytes | None]:
        return {key: data for key, data in tree(site.project).items() if key.startswith(name)}

    before, where = kept(), site.executor()
    for attack in ATTACKS:
        text, end = ran(where, attack.format(name))
        assert (attack, kept()) == (attack, before), text
        assert end.code != 0, (attack, text)


def test_no_placeholder_stays(site: Site) -> None:
    assert site.run("ls -A") == (".bantam.cfg\n.git\nmodel.cfg\n", Exit(0))
    assert tree(site.project) == {}
    with pytest.raises(ToolError):
        ran(site.executor(), "\0")
    assert tree(site.project) == {}


def test_what_the_user_makes_meanwhile_stays(site: Site) -> None:
    with closing(site.executor().run("echo started; sleep 60", LONG_S, Cancel())) as pieces:
        assert next(pieces) == "started\n"
        git(site.project, "init", "-q", ".")
        (site.project / "model.cfg").rmdir()
        (site.project / "model.cfg").write_text("model=x\n")
    assert (site.project / ".git" / "HEAD").exists()
    assert tree(site.project)["model.cfg"] == b"model=x\n"
    assert not (site.project / ".bantam.cfg").exists()


def test_one_command_s_end_leaves_the_places_to_another(site: Site) -> None:
    first = site.executor().run("echo started; read x < fifo; echo x > .git", LONG_S, Cancel())
    os.mkfifo(site.project / "fifo")
    with closing(first):
        assert next(first) == "started\n"
        site.run("true")
        assert (site.project / ".git").is_dir()
        (site.project / "fifo").write_text("go\n")
        assert "Is a directory" in next(first)
    assert not (site.project / ".git").exists()


DRIVER = """
import os, sys
from pathlib import Path
from bantam.core.cancel import Cancel
from bantam.tools.executors.bwrap import BwrapExecutor
for piece in BwrapExecutor(Path(sys.argv[1]), os.environ).run(sys.argv[2], 60, Cancel()):
    print(piece, end="", flush=True)
"""


def test_a_killed_bantam_leaves_no_process_and_its_places_go_with_the_next_command(
    tmp_path: Path,
) -> None:
    seconds = unique_seconds()
    command = f"echo started; setsid sleep {seconds}"
    arguments = [sys.executable, "-c", DRIVER, str(tmp_path), command]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environ) as bantam:
        assert bantam.stdout
        assert bantam.stdout.readline() == b"started\n"
        bantam.kill()
    assert eventually(lambda: not running(seconds))
    assert tree(tmp_path) == dict.fromkeys(PROTECTED)
    ran(BwrapExecutor(tmp_path, os.environ), "true")
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("name", PROTECTED)
def test_a_link_in_a_protected_place_is_refused(name: str, site: Site) -> None:
    (site.project / name).symlink_to("elsewhere")
    with pytest.raises(ToolError, match=f"{name} is a symbolic link.*nothing was run"):
        site.run("touch ran")
    assert not (site.project / "ran").exists()


def test_a_folder_that_another_program_has_locked_is_refused(site: Site) -> None:
    command = ["flock", str(site.project), "sh", "-c", "echo locked; read x"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:  # type: ignore[call-overload]
        other.stdout.readline()
        with pytest.raises(ToolError, match="another program has locked"):
            site.run("touch ran")
        with pytest.raises(ConfigError, match="another program has locked"):
            site.executor().check()
        other.stdin.close()
    assert tree(site.project) == {}


def test_where_no_place_can_be_held_the_project_is_read_only() -> None:
    with site_for("ordinary") as site:
        (site.project / "sub").mkdir()
        site.project.chmod(0o555)
        text, end = site.run("cat sub/none; chmod 755 .; touch sub/file")
        assert (text.count("Read-only file system"), end) == (2, Exit(1))


def test_repositories_in_the_project_are_protected_and_cannot_be_moved_away(site: Site) -> None:
    for folder in ("a/b", "c", "d", "e"):
        (site.project / folder).mkdir(parents=True)
        git(site.project / folder, "init", "-q", ".")
    (site.project / "c" / ".git").rename(site.project / "c" / "real")
    (site.project / "c" / ".git").write_text("gitdir: real\n")
    (site.project / "d" / ".git").rename(site.project / "d" / "real")
    (site.project / "d" / ".git").symlink_to("real")  # cannot be protected, and is no obstacle
    before = {name: data for name, data in tree(site.project).items() if name[0] in "ac"}
    attacks = [
        *("echo x > a/b/.git/config", "mv a/b/.git x", "mv a x", "mv a/b a/x", "rm -rf a"),
        *("echo x > c/.git", "mv c/.git x", "echo x > c/real/config", "mv c/real x", "mv c x"),
        "echo x > e/.git/config",
    ]
    where = site.executor()
    assert [ran(where, attack)[1].code for attack in attacks] == [1] * len(attacks)
    assert {name: data for name, data in tree(site.project).items() if name[0] in "ac"} == before


def test_a_git_file_that_nobody_can_read_or_that_leads_outside_is_protected_itself() -> None:
    with site_for("ordinary") as site:
        for name, text in {"a": "gitdir: ../..\n", "b": "secret"}.items():
            (site.project / name).mkdir()
            (site.project / name / ".git").write_text(text)
        (site.project / "b" / ".git").chmod(0)
        (site.project / "unreadable").mkdir(mode=0)
        where = site.executor()
        for name in "ab":
            assert ran(where, f"rm -f {name}/.git; chmod 600 {name}/.git")[1] == Exit(1)


def test_repositories_are_looked_for_near_first_and_not_for_ever(tmp_path: Path) -> None:
    for name in ("a/b/c/.git", "z/.git", "a/b/.git", ".git"):
        (tmp_path / name / "inside" / ".git").mkdir(parents=True)
    near, *others = (str(path.relative_to(tmp_path)) for path in repositories_in(tmp_path))
    assert (near, others) == ("z/.git", ["a/b/.git", "a/b/c/.git"])
    assert [path.parent.name for path in repositories_in(tmp_path, 3)] == ["z"]
    assert [*repositories_in(tmp_path, 1)] == []


# -- secrets ----------------------------------------------------------------------------------

SECRETS = [
    *(".ssh/id_ed25519", ".gnupg/key", ".aws/credentials", ".config/gcloud/x", ".kube/config"),
    *(".docker/config.json", ".netrc", ".bantam/sessions/x.json", ".bantam_history", ".npmrc"),
    *(".pypirc", ".git-credentials", ".password-store/x", ".local/share/keyrings/x", ".mozilla/x"),
    *(".config/google-chrome/x", ".config/gh/hosts.yml", ".pgpass", ".bash_history"),
]


def put_secrets(home: Path) -> None:
    for name in SECRETS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")


@pytest.mark.parametrize("at_home", [False, True], ids=["elsewhere", "the home is the project"])
def test_secrets_cannot_be_read(at_home: bool, site: Site) -> None:
    put_secrets(site.home)
    (site.home / "notes").write_text("notes")
    project = site.home if at_home else site.project
    where = BwrapExecutor(project, site.environ)
    text, _ = ran(where, f"cat {' '.join(f'~/{name}' for name in SECRETS)} ~/notes")
    assert text.count("No such file") + text.count("Permission denied") == len(SECRETS)
    assert "secret" not in text.replace("secrets", "")
    assert text.endswith("notes")
    attacks = [f"rm -rf ~/{name}; mkdir -p ~/.ssh; echo x > ~/{name}" for name in SECRETS]
    assert [ran(where, attack)[1].code for attack in attacks] == [1] * len(SECRETS)
    assert [(site.home / name).read_text() for name in SECRETS] == ["secret"] * len(SECRETS)


def test_a_project_inside_a_folder_of_secrets_is_seen_alone(site: Site) -> None:
    put_secrets(site.home)
    project = site.home / ".aws" / "project"
    project.mkdir()
    where = BwrapExecutor(project, site.environ)
    assert ran(where, "ls -A ..; echo x > ../y; touch file")[0].startswith("project\n")
    assert sorted(path.name for path in (site.home / ".aws").iterdir()) == [
        "credentials",
        "project",
    ]
    assert (project / "file").exists()
    with pytest.raises(ConfigError, match="is a folder of secrets"):
        BwrapExecutor(site.home / ".aws", site.environ)


def test_secrets_are_hidden_where_variables_and_links_lead(site: Site) -> None:
    for name in ("bantam", "gnupg", "real_ssh", "config/gh", "kube/a", "kube/b"):
        (site.folder / name).mkdir(parents=True)
        (site.folder / name / "key").write_text("secret")
    (site.home / ".ssh").symlink_to(site.folder / "real_ssh")
    (site.home / "not_there").symlink_to("nowhere")
    text, _ = site.run(
        "cat ../*/key ../*/*/key ~/.ssh/key",
        {
            "BANTAM_HOME": str(site.folder / "bantam"),
            "GNUPGHOME": str(site.folder / "gnupg"),
            "XDG_CONFIG_HOME": str(site.folder / "config"),
            "KUBECONFIG": f"{site.folder}/kube/a/key:{site.folder}/kube/b/key",
            "NETRC": str(site.home / "not_there"),
        },
    )
    assert "secret" not in text


def test_secrets_that_come_and_go_are_no_obstacle(site: Site) -> None:
    where = site.executor()
    put_secrets(site.home)
    assert "secret" not in ran(where, "cat ~/.netrc ~/.ssh/*")[0]
    (site.home / ".netrc").unlink()
    assert ran(where, "echo still") == ("still\n", Exit(0))


KEY = "sk-0123456789abcdef"
GONE = {
    "OPENAI_API_KEY": KEY,
    "GITHUB_TOKEN": "x",
    "aws_secret_access_key": "x",
    "DB_PASSWORD": "x",
    "SSHPASS": "x",
    "MY_CREDENTIALS": "x",
    "GITHUB_PAT": "x",
    "NPM_CONFIG__AUTH": "x",
    "SSH_AUTH_SOCK": "/run/agent",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
    "XDG_RUNTIME_DIR": "/run/user/1",
    "DISPLAY": ":0",
    "DATABASE_URL": "postgres://me:word@host/db",
    "HARMLESS": f"x{KEY}y",
}
KEPT = {
    "LANG": "C.UTF-8",
    "GIT_AUTHOR_NAME": "me",
    "HTTP_PROXY": "http://proxy:3128",
    "SOCKS_PROXY": "socks5://proxy:1080",
    "ADDRESS": "https://host/a@b",
    "SHORT": "short",
}


def test_the_environment_holds_no_key_and_no_way_to_one(site: Site) -> None:
    where = site.executor(GONE | KEPT, [KEY, "short"])
    text, _ = ran(where, r"env; cat /proc/*/environ | tr '\0' '\n'")
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert names.isdisjoint(GONE)
    assert names >= KEPT.keys()
    assert KEY not in text


def test_no_process_of_the_host_is_seen(site: Site) -> None:
    environ = {**os.environ, "OPENAI_API_KEY": KEY}
    arguments = ["sleep", unique_seconds()]
    with subprocess.Popen(arguments, env=environ) as bystander:
        text, end = site.run(
            f"cat /proc/{os.getpid()}/environ /proc/{bystander.pid}/environ; "
            "cat /proc/*/environ /proc/*/cmdline; echo; ls /proc | grep -c ^[0-9]"
        )
        bystander.kill()
    assert KEY not in text
    assert arguments[1] not in text
    assert "pytest" not in text
    assert int(text.split()[-1]) < 10
    assert end == Exit(0)


def test_the_host_s_processes_cannot_be_killed(site: Site) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        text, _ = site.run(f"kill -9 {bystander.pid}; kill -9 -1; kill -9 {os.getpid()} $PPID")
        assert "No such process" in text or not text
        assert bystander.poll() is None
        bystander.kill()


def test_no_descriptor_and_no_terminal_is_passed_on(site: Site) -> None:
    with (site.folder / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        text, _ = site.run("ls -l /proc/self/fd /proc/1/fd; echo x > /dev/tty")
    assert str(site.folder) not in text
    assert "/dev/tty: No such device" in text


def test_a_command_has_no_privilege_and_gets_none(site: Site) -> None:
    status = dict(line.split(":", 1) for line in site.run("cat /proc/self/status")[0].splitlines())
    assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")


# -- sockets and the network ------------------------------------------------------------------

CONNECT = """
import socket, sys
def attempt(name, connect):
    try:
        connect()
    except OSError as error:
        print(name, type(error).__name__, error.errno)
    else:
        print(name, "connected")
def stream():
    socket.socket(socket.AF_UNIX).connect(PATH)
def abstract():
    socket.socket(socket.AF_UNIX).connect("\\0" + NAME)
def pair():
    socket.socketpair()[0].connect(PATH)
def packets():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0].connect(PACKETS)
def datagrams():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", DATAGRAMS)
def raw():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", DATAGRAMS)
def again():
    one = socket.socketpair()[0]
    one.shutdown(socket.SHUT_RDWR)
    one.connect(PATH)
def tcp():
    socket.create_connection(("127.0.0.1", PORT), 10).close()
for each in (stream, abstract, pair, packets, datagrams, raw, again, tcp):
    attempt(each.__name__, each)
one, other = socket.socketpair()
one.sendall(b"x")
attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
print("talk", other.recv(1) == b"x")
"""


@pytest.mark.parametrize("network", [False, True])
def test_no_unix_socket_can_be_reached_and_the_network_only_if_allowed(
    network: bool, site: Site
) -> None:
    name = f"bantam-{os.getpid()}-{network}"
    path, datagrams, packets = (str(site.project / kind) for kind in ("stream", "dgram", "packet"))
    with (
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as by_name,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as by_datagram,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as by_packet,
        socket.socket() as by_tcp,
    ):
        by_path.bind(path)
        by_name.bind("\0" + name)
        by_datagram.bind(datagrams)
        by_packet.bind(packets)
        by_tcp.bind(("127.0.0.1", 0))
        for listener in (by_path, by_name, by_packet, by_tcp):
            listener.listen()
        port = by_tcp.getsockname()[1]
        values = {"PATH": path, "DATAGRAMS": datagrams, "PACKETS": packets, "NAME": name}
        given = "".join(f"{key} = {value!r}\n" for key, value in {**values, "PORT": port}.items())
        lines = site.python(given + CONNECT, network=network).splitlines()
    assert lines == [
        "stream OSError 97",  # EAFNOSUPPORT
        "abstract OSError 97",
        "pair OSError 106",  # EISCONN
        "packets OSError 106",
        "datagrams PermissionError 1",
        "raw PermissionError 1",
        "again OSError 106",
        "tcp connected" if network else "tcp ConnectionRefusedError 111",
        "vsock OSError 97",
        "packet OSError 97",
        "talk True",
    ]


def test_without_the_network_there_is_loopback_alone_and_the_host_s_name_is_not_told(
    site: Site,
) -> None:
    text, _ = site.run(r"ls /sys/class/net >/dev/null; cut -d: -f1 -s /proc/net/dev; uname -n")
    assert [line.strip() for line in text.splitlines() if "|" not in line] == ["lo", "localhost"]


# -- what starts it ---------------------------------------------------------------------------


def test_a_sandbox_that_works_passes_its_check(site: Site) -> None:
    site.executor().check()
    assert tree(site.project) == {}


def program_at(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_sandbox_that_does_not_start_is_an_error_that_says_why(site: Site) -> None:
    program_at(site.folder / "bin" / "bwrap", "echo bwrap: No permissions >&2; exit 1")
    environ = {"PATH": f"{site.folder}/bin:{os.environ['PATH']}"}
    with pytest.raises(
        ConfigError, match=r"bwrap: No permissions\. .*user namespaces.*sandbox=off"
    ):
        site.executor(environ).check()
    program_at(site.folder / "bin" / "bwrap", "exit 7")
    with pytest.raises(ConfigError, match="does not start: 7"):
        site.executor(environ).check()
    assert tree(site.project) == {}


def test_a_command_never_runs_where_its_sandbox_does_not_start(site: Site) -> None:
    program_at(site.folder / "bin" / "bwrap", "exit 1")
    assert site.run("touch ran", {"PATH": f"{site.folder}/bin:{os.environ['PATH']}"})[1] == Exit(1)
    assert tree(site.project) == {}


def test_a_bwrap_of_the_project_or_of_no_fixed_place_is_never_run(site: Site) -> None:
    program_at(site.project / "bin" / "bwrap", "touch ran")
    (site.folder / "bin").mkdir()
    (site.folder / "bin" / "bwrap").symlink_to(site.project / "bin" / "bwrap")
    where = f"{site.project}/bin:bin:.:{site.folder}/bin"
    with pytest.raises(ConfigError, match=r"not installed.*apt-get install bubblewrap"):
        site.executor({"PATH": where})
    site.run("true", {"PATH": f"{where}:{os.environ['PATH']}"})
    assert not (site.project / "ran").exists()


def test_what_a_variable_has_loaded_is_loaded_inside_alone(site: Site) -> None:
    environ = {"LD_LIBRARY_PATH": str(site.project), "LD_BIND_NOW": "1"}
    text, _ = site.run(
        r"echo $LD_LIBRARY_PATH $LD_BIND_NOW; tr '\0' '\n' </proc/1/environ", environ
    )
    first, *rest = text.splitlines()
    assert first == f"{site.project} 1"
    assert rest
    assert not [line for line in rest if line.startswith("LD_")]


# -- the end ----------------------------------------------------------------------------------

SURVIVORS: dict[str, str] = {
    "a session": "setsid sleep {} & wait",
    "a daemon": "(setsid nohup sleep {} </dev/null >/dev/null 2>&1 &); sleep {}",
    "one that ignores signals": "trap '' TERM HUP; setsid sleep {} & while :; do sleep {}; done",
    "one without environment": "env -i $(command -v setsid) -f sleep {}; sleep {}",
}


@pytest.mark.parametrize("survivor", SURVIVORS.values(), ids=SURVIVORS)
def test_nothing_survives_the_time_out(survivor: str, site: Site) -> None:
    seconds = unique_seconds()
    _, end = ran(site.executor(), survivor.replace("{}", seconds), timeout=0.5)
    assert end == Exit(124, timed_out=True)
    assert not running(seconds)
    killed(seconds)


# -- what works -------------------------------------------------------------------------------


def test_a_project_s_tests_run(site: Site) -> None:
    (site.project / "test_it.py").write_text(
        "import asyncio, multiprocessing, socket, subprocess, tempfile, threading, unittest\n"
        "class TestIt(unittest.TestCase):\n"
        "    def test_processes(self):\n"
        "        with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "            self.assertEqual(pool.map(abs, [-1, 2]), [1, 2])\n"
        "    def test_loopback(self):\n"
        "        with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "            socket.create_connection(server.getsockname()).close()\n"
        "    def test_async(self):\n"
        "        async def words():\n"
        "            run = asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n"
        "            return (await (await run).communicate())[0]\n"
        "        self.assertEqual(asyncio.run(words()), b'x\\n')\n"
        "    def test_files(self):\n"
        "        with tempfile.TemporaryFile() as file: file.write(b'x')\n"
        "        with open('/dev/null', 'w') as null: null.write('x')\n"
        "        self.assertEqual(len(open('/dev/urandom', 'rb').read(8)), 8)\n"
        "    def test_terminal(self):\n"
        "        import pty; self.assertEqual(pty.spawn(['true']), 0)\n"
    )
    text, end = site.run(f"{PYTHON} -m unittest")
    assert end == Exit(0), text
    assert "Ran 5 tests" in text


def test_a_venv_can_be_made_and_used(site: Site) -> None:
    text, end = site.run(
        f"{PYTHON} -m venv --without-pip .venv && . .venv/bin/activate && "
        "python -c 'import sys; print(sys.prefix)'"
    )
    assert (text, end) == (f"{site.project}/.venv\n", Exit(0))


def test_git_shows_and_does_not_commit(site: Site) -> None:
    git(site.project, "init", "-q", "-b", "main", ".")
    (site.project / "file").write_text("old\n")
    git(site.project, "add", "file")
    git(site.project, "commit", "-qm", "first")
    before = {name: data for name, data in tree(site.project).items() if name.startswith(".git")}
    text, end = site.run(
        "echo new > file && git status --short && git diff && git log --oneline | wc -l"
    )
    assert end == Exit(0), text
    assert text.startswith(" M file\n")
    assert "\n-old\n+new\n" in text
    assert text.endswith("\n1\n")
    text, end = site.run("git -c user.name=x -c user.email=x@x commit -qam second")
    assert "Read-only file system" in text
    assert end.code != 0
    after = {name: data for name, data in tree(site.project).items() if name.startswith(".git")}
    assert after == before


def test_a_worktree_s_git_file_is_followed_and_stays(site: Site) -> None:
    main = site.folder / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main", ".")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    site.project.rmdir()
    git(main, "worktree", "add", "-q", str(site.project))
    text, _ = site.run("git status --short --branch; echo x > .git; rm -f .git; mv .git x")
    assert text.startswith("## project\n")
    assert (site.project / ".git").read_text().startswith("gitdir: ")


def test_quoting_and_long_commands_come_through(site: Site) -> None:
    word = shlex.quote("a'b\"c$d\\ é")
    assert site.run(f"printf %s {word}")[0] == "a'b\"c$d\\ é"


def test_several_threads_have_their_own_sandboxes(site: Site) -> None:
    where, texts = site.executor(), list[str]()

    def work(number: int) -> None:
        texts.append(
            ran(where, f"echo {number} > {number}; cat {number}; ls /proc | grep -c ^[0-9]")[0]
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(text.split()[0] for text in texts) == ["0", "1", "2", "3"]
    assert not [name for name in PROTECTED if (site.project / name).exists()]
