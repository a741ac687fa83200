"""The sandbox, with real processes: what a command in it cannot do, and what it can."""

import contextlib
import gc
import os
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest
from processes import eventually, killed, running, unique_seconds
from sandboxes import LONG_S, PYTHON, Site, ran, site_for

from bantam.agent.wiring import executor_for
from bantam.core.cancel import Cancel
from bantam.core.config import Config
from bantam.core.errors import ConfigError, Interrupted, OutsideWorkspace, ToolError
from bantam.tools.executors.bwrap import BwrapExecutor
from bantam.tools.executors.private import base_for
from bantam.tools.executors.protection import MOST_FOLDERS, PROTECTED, repositories_in
from bantam.tools.tool import Exit
from bantam.tools.workspace import way_to

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


def test_what_is_no_folder_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none is no folder; go to another one"):
        BwrapExecutor(tmp_path / "none", os.environ)


@pytest.mark.parametrize("folder", ["/", "/tmp", "/proc/self", "/sys/kernel", "/dev", "/var"])
def test_a_folder_that_the_sandbox_replaces_is_no_project(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be a project.*go to another folder"):
        BwrapExecutor(Path(folder), os.environ)


def test_what_is_mounted_on_tmp_never_lies_where_a_command_can_write(site: Site) -> None:
    victim = site.folder / "victim"
    victim.mkdir()
    (site.project / "t").mkdir()
    (site.folder / "link").symlink_to(site.project / "t")
    for named in (site.project / "t", site.folder / "link", site.project):
        where = site.executor({"TMPDIR": str(named)})
        for _ in range(2):
            ran(
                where,
                "for each in $(find . -name tmp -type d); do "
                f"mv $each $each.old; ln -s {victim} $each; done; echo x > /tmp/file",
            )
        assert tree(victim) == {}
        assert site.project not in where.spill_folder().parents


@pytest.mark.parametrize("folder", ["/proc", "/sys", "/dev", "/dev/shm", "/run", "/", "/var/tmp"])
def test_every_folder_for_temporary_files_will_do(folder: str, site: Site) -> None:
    where = site.executor({"TMPDIR": folder})
    text, end = ran(where, f"echo x > /tmp/file; cat /tmp/file; ls -d {where.spill_folder()}")
    assert (text, end) == (f"x\n{where.spill_folder()}\n", Exit(0))
    can_be_used = os.access(folder, os.W_OK) and folder not in {"/proc", "/sys"}
    assert where.spill_folder().parent.parent == Path(folder if can_be_used else "/tmp")


def test_a_folder_of_temporary_files_that_takes_no_folder_is_not_the_last(tmp_path: Path) -> None:
    assert base_for(tmp_path, {"TMPDIR": "/proc"}, ("/nowhere", "/var/tmp")) == Path("/var/tmp")


def test_without_a_folder_for_temporary_files_there_is_no_sandbox() -> None:
    with site_for("ordinary") as site:
        (site.folder / "file").touch()
        (site.folder / "read_only").mkdir(mode=0o500)
        unfit = {
            "TMPDIR": str(site.project),
            "TEMP": str(site.folder / "file"),
            "TMP": str(site.folder / "read_only"),
        }
        with pytest.raises(ConfigError, match=r"outside .*project, and none of .*read_only is"):
            base_for(site.project, unfit, ())
        assert base_for(site.project, unfit, ("/nowhere", str(site.folder))) == site.folder


def test_the_next_sandbox_removes_what_a_crash_has_left_and_nothing_else(site: Site) -> None:
    base = site.folder / "t"
    (base / "bantam-sandbox-linked").mkdir(mode=0o700, parents=True)
    (base / "bantam-sandbox-linked" / "tmp").symlink_to(site.home)
    for name in (
        "sandbox-left",
        "sandbox-open",
        "sandbox-other",
        "sandbox-theirs",
        "sessions-left",
    ):
        (base / f"bantam-{name}" / "tmp").mkdir(mode=0o700, parents=True)
        (base / f"bantam-{name}").chmod(0o700)
    (base / "bantam-sandbox-left" / "output").mkdir()
    (base / "bantam-sandbox-left" / "output" / "file").touch()
    (base / "bantam-sandbox-open").chmod(0o755)
    (base / "bantam-sandbox-other" / "more").touch()
    (base / "bantam-sandbox-new").mkdir(mode=0o700)
    (base / "bantam-sandbox-file").touch()
    (base / "bantam-sandbox-link").symlink_to(base / "bantam-sessions-left")
    (site.home / "file").touch()
    expected = {f"bantam-{name}" for name in ("sandbox-open", "sandbox-other", "sessions-left")}
    expected |= {f"bantam-sandbox-{name}" for name in ("new", "file", "link")}
    if os.geteuid() == 0:
        os.chown(base / "bantam-sandbox-theirs", 1, 1)
        expected.add("bantam-sandbox-theirs")
    environ = {"TMPDIR": str(base)}
    one, other = site.executor(environ), site.executor(environ)
    assert ran(one, "echo x > /tmp/file")[1] == Exit(0)
    assert ran(other, "cat /tmp/file")[1] == Exit(1)
    used = {where.spill_folder().parent.name for where in (one, other)}
    assert {path.name for path in base.iterdir()} == expected | used
    assert ran(one, "cat /tmp/file")[0] == "x\n"
    assert tree(site.home) == {"file": b""}
    del one, other
    gc.collect()
    assert {path.name for path in base.iterdir()} == expected


def test_what_a_command_has_left_in_tmp_goes_whatever_it_is(site: Site) -> None:
    base = site.folder / "t"
    (base / "bantam-sandbox-left" / "tmp" / "pkg" / "mod" / "x@1").mkdir(mode=0o700, parents=True)
    (base / "bantam-sandbox-left").chmod(0o700)
    deep = base / "bantam-sandbox-left" / "tmp" / "pkg"
    (deep / "mod" / "x@1" / "file").touch()
    (deep / "link").symlink_to(site.home)
    (site.home / "file").touch()
    site.home.chmod(0o500)
    for folder in (deep / "mod" / "x@1", deep / "mod", deep):  # as Go's cache of modules is
        folder.chmod(0o500 if folder != deep / "mod" else 0)
    where = site.executor({"TMPDIR": str(base)})
    text, end = ran(
        where,
        "mkdir -p /tmp/a/b && touch /tmp/a/b/c && chmod 500 /tmp/a/b && chmod 0 /tmp/a; cd /tmp; "
        f'{PYTHON} -c \'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range(1500)]\'',
    )
    assert end == Exit(0), text
    assert list(base.iterdir()) == [where.spill_folder().parent]
    del where
    gc.collect()
    assert tree(base) == {}
    assert tree(site.home) == {"file": b""}
    assert stat.S_IMODE(site.home.stat().st_mode) == 0o500


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
    project = tmp_path / "project"
    project.mkdir()
    arguments = [sys.executable, "-c", DRIVER, str(project), command]
    (tmp_path / "t").mkdir()
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path / "t")}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environ) as bantam:
        assert bantam.stdout
        assert bantam.stdout.readline() == b"started\n"
        bantam.kill()
    assert eventually(lambda: not running(seconds))
    assert tree(project) == dict.fromkeys(PROTECTED)
    (left,) = (tmp_path / "t").iterdir()
    ran(BwrapExecutor(project, environ), "true")
    assert tree(project) == {}
    assert not left.exists()


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
    found, are_all = repositories_in(tmp_path)
    near, *others = (str(path.relative_to(tmp_path)) for path in found)
    assert (near, others, are_all) == ("z/.git", ["a/b/.git", "a/b/c/.git"], True)
    assert repositories_in(tmp_path, 3) == ((tmp_path / "z" / ".git",), False)
    assert repositories_in(tmp_path, 1) == ((), False)
    assert repositories_in(tmp_path, most_mounts=2) == ((tmp_path / "z" / ".git",), False)
    assert repositories_in(tmp_path, most_mounts=5) == (found[:2], False)
    assert repositories_in(tmp_path, most_mounts=7) == (found, True)


def test_more_repositories_than_can_be_protected_are_no_obstacle(site: Site) -> None:
    for number in range(3000):  # three arguments each, of nine thousand in all
        (site.project / "more" / str(number) / ".git").mkdir(parents=True)
    (site.project / "near" / ".git").mkdir(parents=True)
    text, end = site.run("mv near elsewhere || echo x")
    assert "or more git repositories than can be protected" in text
    assert (text.splitlines()[-1], end) == ("x", Exit(0))


def test_repositories_with_long_names_are_no_obstacle(site: Site) -> None:
    for number in range(300):  # two megabytes of arguments
        (site.project / "/".join("x" * 200 for _ in range(8)) / str(number) / ".git").mkdir(
            parents=True
        )
    text, end = site.run("echo x")
    assert "or more git repositories than can be protected" in text
    assert (text.splitlines()[1:], end) == (["x"], Exit(0))


def test_that_not_all_repositories_were_looked_for_is_told_once(tmp_path: Path) -> None:
    for number in range(MOST_FOLDERS):
        (tmp_path / str(number)).mkdir()
    where = BwrapExecutor(tmp_path, os.environ)
    where.check()
    text, _ = ran(where, "echo x")
    assert text.startswith(f"[sandbox: the project has more than {MOST_FOLDERS} folders, or ")
    assert text.endswith("are not]\nx\n")
    assert ran(where, "echo x")[0] == "x\n"


def test_the_repository_of_a_worktree_is_protected_where_it_is_bare(site: Site) -> None:
    git(site.project, "init", "-q", "--bare", "-b", "main", "bare")
    blob = git(site.project / "bare", "hash-object", "-t", "tree", "-w", "/dev/null").strip()
    first = git(site.project / "bare", "commit-tree", "-m", "first", blob).strip()
    git(site.project / "bare", "update-ref", "refs/heads/main", first)
    git(site.project / "bare", "worktree", "add", "-q", "../work", "main")
    (site.project / "odd" / "dir").mkdir(parents=True)
    (site.project / "odd" / ".git").write_text("gitdir: dir")
    (site.project / "odd" / "dir" / "commondir").write_text("\0")
    before, where = tree(site.project), site.executor()
    for attack in ("echo x > bare/config", "echo x > bare/hooks/x", "mv bare b", "rm -f work/.git"):
        assert ran(where, attack)[1] == Exit(1)
        assert tree(site.project) == before
    assert ran(where, "git -C work status --short --branch")[0] == "## main\n"


# -- secrets ----------------------------------------------------------------------------------

SECRETS = [
    *(".ssh/id_ed25519", ".gnupg/key", ".aws/credentials", ".config/gcloud/x", ".kube/config"),
    *(".docker/config.json", ".netrc", ".bantam/sessions/x.json", ".bantam_history", ".npmrc"),
    *(".pypirc", ".git-credentials", ".password-store/x", ".local/share/keyrings/x", ".mozilla/x"),
    *(".config/google-chrome/x", ".config/gh/hosts.yml", ".pgpass", ".bash_history"),
]


MORE_SECRETS = [
    *(".python_history", ".node_repl_history", ".sqlite_history", ".local/share/atuin/history.db"),
    *(".config/pypoetry/auth.toml", ".local/share/uv/credentials/x", ".composer/auth.json"),
    *(".bundle/config", ".s3cfg", ".boto", ".oci/config", ".fly/config.yml", ".msmtprc"),
    *(".pulumi/credentials.json", ".config/op/config", ".config/Bitwarden/data.json", ".cursor/x"),
    *(".config/google-chrome-beta/x", ".librewolf/x", ".config/Signal/config.json", ".electrum/x"),
    *(".smbcredentials", ".dockercfg", ".zsh_sessions/x", "cargo/credentials", "hf/token"),
    *("cargo/credentials.toml", "zsh/.zsh_history", "gh/x", "azure/x", "hf_token", "auth.json"),
    *("age.txt", "codex/x", "claude/x", "pg_service.conf", "web_token"),
]
NAMING = {
    "CARGO_HOME": "cargo",
    "HF_HOME": "hf",
    "ZDOTDIR": "zsh",
    "GH_CONFIG_DIR": "gh",
    "AZURE_CONFIG_DIR": "azure",
    "HF_TOKEN_PATH": "hf_token",
    "REGISTRY_AUTH_FILE": "auth.json",
    "SOPS_AGE_KEY_FILE": "age.txt",
    "CODEX_HOME": "codex",
    "CLAUDE_CONFIG_DIR": "claude",
    "PGSERVICEFILE": "pg_service.conf",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "web_token",
}


def put_secrets(home: Path, names: Sequence[str] = SECRETS) -> None:
    for name in names:
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


UNCOVERINGS = [
    "mv .config c2; cat c2/gh/hosts.yml",
    "mv .local l2; cat l2/share/keyrings/x",
    "mv state s2; mkdir -p state/bantam; echo planted > state/bantam/trust.json; cat s2/bantam/*",
    "rm -rf state; mkdir -p state/bantam; echo planted > state/bantam/trust.json",
    "mkdir -p .bantam; echo planted > .bantam/trust.json",
    "ln -sfT sub .bantam; echo planted > .bantam/trust.json",
    "echo planted > .bantam_history",
    "mkdir x; mv -T x .bantam_history",
]


@pytest.mark.parametrize("there", [True, False], ids=["secrets there", "nothing there"])
@pytest.mark.parametrize("uncovering", UNCOVERINGS)
def test_what_is_hidden_in_the_project_stays_so(uncovering: str, there: bool, site: Site) -> None:
    bantam = site.home / "state" / "bantam"
    (site.home / "sub").mkdir()
    if there:
        put_secrets(site.home)
        bantam.mkdir(parents=True)
        (bantam / "trust.json").write_text("secret")
    before = tree(site.home)
    where = BwrapExecutor(site.home, {**site.environ, "BANTAM_HOME": str(bantam)})
    text, _ = ran(where, uncovering)
    assert "secret" not in text.replace("secrets", "")
    after = tree(site.home)
    assert {name: after.get(name) for name in before} == before
    own = [path for path in after if path.startswith((".bantam", "state/"))]
    assert own == [path for path in before if path.startswith((".bantam", "state/"))]


def test_the_places_of_bantam_s_own_files_are_empty_while_a_command_runs(site: Site) -> None:
    bantam = site.home / "state" / "bantam"
    where = BwrapExecutor(site.home, {**site.environ, "BANTAM_HOME": str(bantam)})
    text, _ = ran(where, "stat -c '%a %n' .bantam .bantam_history state; ls state/bantam")
    assert [line.split()[1] for line in text.splitlines()] == [
        ".bantam",
        ".bantam_history",
        "state",
    ]
    assert tree(site.home) == {}


def test_where_the_place_of_bantam_s_own_files_cannot_be_held_the_project_is_read_only() -> None:
    with site_for("ordinary") as site:
        (site.home / "state").mkdir(mode=0o500)
        where = BwrapExecutor(site.home, {**site.environ, "BANTAM_HOME": f"{site.home}/state/x/y"})
        assert "Read-only file system" in ran(where, "chmod 700 state; touch file")[0]
        assert tree(site.home) == {"state": None}


def test_a_home_folder_that_nobody_may_enter_is_no_obstacle() -> None:
    with site_for("ordinary") as site:
        (site.folder / "closed").mkdir(mode=0)
        assert site.run("echo x", {"HOME": f"{site.folder}/closed/me"}) == ("x\n", Exit(0))


def test_a_link_that_leads_to_bantam_s_own_files_is_refused_in_the_project(site: Site) -> None:
    (site.home / "sub").mkdir()
    (site.home / ".bantam").symlink_to("sub")
    with pytest.raises(ConfigError, match=r"\.bantam is a symbolic link in the project's folder"):
        BwrapExecutor(site.home, site.environ)
    (site.home / ".bantam").unlink()
    (site.home / "sub" / "link").symlink_to(site.folder)
    where = BwrapExecutor(site.home, {**site.environ, "BANTAM_HOME": f"{site.home}/sub/link/b"})
    assert ran(where, "ln -sfT / sub/link")[1] == Exit(1)
    assert (site.home / "sub" / "link").readlink() == site.folder


# -- the program that plays the model ---------------------------------------------------------


def put_program(site: Site) -> None:
    for name in ("model.py", "package/__main__.py", "record.sse", "bin/python", "other"):
        (site.project / name).parent.mkdir(exist_ok=True)
        (site.project / name).write_text("#!/bin/sh\n")
        (site.project / name).chmod(0o755)
    (site.project / "bin" / "link").symlink_to("/bin/sh")


@pytest.mark.parametrize(
    ("endpoint", "kept"),
    [
        ("run://./model.py", ["model.py"]),
        ("run://python3 model.py --log other", ["model.py", "other"]),
        ("run://python3 package x\0y", ["package/__main__.py", "package"]),
        ("run://bin/link ./model.py", ["bin/link", "bin", "model.py"]),
        ("replay://record.sse", ["record.sse"]),
        ("run://./missing", []),
        ("https://example.com", []),
    ],
)
def test_a_program_that_plays_the_model_cannot_be_replaced(
    endpoint: str, kept: list[str], site: Site
) -> None:
    put_program(site)
    before = {name: data for name, data in tree(site.project).items() if name in kept}
    with contextlib.chdir(site.project):
        config = Config(endpoint=endpoint, sandbox="on")
        where = executor_for(config, site.project, site.environ, ())
    assert isinstance(where, BwrapExecutor)
    for name in kept:
        for attack in ("echo x > {0}", "mv {0} old", "ln -sfT /bin/true {0}", "rm -rf {0}"):
            assert ran(where, attack.format(name))[1] == Exit(1)
        path = where.resolve("bin/new" if name.startswith("bin") else name)
        with pytest.raises(OutsideWorkspace), way_to(path, where.workspace) as (folder, _):
            folder.state(path.name)
    assert {name: data for name, data in tree(site.project).items() if name in kept} == before
    assert ran(where, "echo x > free && rm free")[1] == Exit(0)


def test_a_link_in_the_project_is_no_program_that_plays_the_model(site: Site) -> None:
    put_program(site)
    (site.project / "link").symlink_to("model.py")
    config = Config(endpoint="run://./link", sandbox="on")
    with (
        contextlib.chdir(site.project),
        pytest.raises(ConfigError, match=r"sandbox=on: sandbox: .*link is a symbolic link in"),
    ):
        executor_for(config, site.project, site.environ, ())


# -- two Bantams ------------------------------------------------------------------------------


def swapping(site: Site, swap: str) -> BwrapExecutor:
    """Return a sandbox in which another one's command does `swap` just before the mounts."""
    swaps = f"cd {site.project}; {swap}"
    program_at(site.folder / "bin" / "bwrap", f'({swaps})\nexec {shutil.which("bwrap")} "$@"')
    return site.executor({"PATH": f"{site.folder}/bin:{os.environ['PATH']}"})


OTHERS = {
    "a folder beside the project": "mv b b2; ln -s ../victim b",
    "a folder of the project": "mv b b2; ln -s other b",
    "further down": "mv b/d b/d2; ln -s ../../victim/d b/d",
    "what has secrets": "mv b/d/.git git; ln -s ../../../home/.ssh b/d/.git",
    "what is hidden": "mv h h2; ln -s other h",
    "a file that is hidden": "mv h/key key; ln -s ../other/key h/key",
}


@pytest.mark.parametrize("swap", OTHERS.values(), ids=OTHERS)
def test_what_another_command_swaps_during_the_mounts_has_nothing_run(
    swap: str, site: Site
) -> None:
    for top in (site.project / "b", site.project / "other", site.folder / "victim"):
        (top / "d" / ".git").mkdir(parents=True)
        (top / ".git").mkdir()
        (top / "key").touch()
    (site.home / ".ssh").mkdir()
    (site.project / "h" / "hidden").mkdir(parents=True)
    (site.project / "h" / "key").touch()
    site.environ["GNUPGHOME"] = str(site.project / "h" / "hidden")
    site.environ["NETRC"] = str(site.project / "h" / "key")
    where = swapping(site, swap)
    victim = tree(site.folder / "victim")
    with pytest.raises(ToolError, match="replaced while the sandbox was made; nothing was run"):
        ran(where, "echo x > ran; echo x > ../victim/x; echo x > ../victim/d/x; echo x > /tmp/x")
    assert tree(site.folder / "victim") == victim
    assert not (site.project / "ran").exists()


SWAPPED_BETWEEN = {
    "a link": "mv x old; ln -s ../../victim x",
    "a link further up": "mv ../packages ../old; ln -s ../victim/packages ../packages",
    "another folder": "mv x old; mkdir x",
}


@pytest.mark.parametrize("swap", SWAPPED_BETWEEN.values(), ids=SWAPPED_BETWEEN)
def test_a_project_in_another_one_that_is_swapped_has_nothing_run(swap: str, site: Site) -> None:
    mono, victim = site.project, site.folder / "victim"
    inner = mono / "packages" / "x"
    for folder in (inner, victim / "packages" / "x"):
        folder.mkdir(parents=True)
    inside = BwrapExecutor(inner, site.environ)
    assert ran(inside, "echo x > file; cat file") == ("x\n", Exit(0))
    path = inside.resolve("file")
    assert ran(BwrapExecutor(mono, site.environ), f"cd packages; {swap}")[1] == Exit(0)
    before = tree(site.folder)
    for _ in range(2):
        with pytest.raises(ToolError, match="project's folder was replaced meanwhile; nothing was"):
            ran(inside, "echo x > file")
    for writing in (True, False):
        with (
            pytest.raises(OutsideWorkspace, match="the project's folder was replaced meanwhile"),
            way_to(path, inside.workspace, writing=writing),
        ):
            pass
    assert tree(site.folder) == before


@pytest.mark.parametrize("swap", [*SWAPPED_BETWEEN.values()][:2], ids=[*SWAPPED_BETWEEN][:2])
def test_a_project_that_is_swapped_during_the_mounts_has_nothing_run(swap: str, site: Site) -> None:
    victim, inner = site.folder / "victim", site.project / "packages" / "x"
    inner.mkdir(parents=True)
    for folder in (victim, victim / "packages" / "x"):
        for name in PROTECTED:  # else bubblewrap does not find what it is to mount
            (folder / name).mkdir(parents=True)
    before = tree(victim)
    swapping(site, f"cd packages; {swap}")
    environ = {**site.environ, "PATH": f"{site.folder}/bin:{os.environ['PATH']}"}
    where = BwrapExecutor(inner, environ)
    with pytest.raises(ToolError, match="replaced while the sandbox was made; nothing was run"):
        ran(where, "touch ran; touch ../../../victim/ran")
    assert tree(victim) == before


@pytest.mark.parametrize("name", ["tmp", "output", "."])
@pytest.mark.parametrize("when", ["between", "during the mounts"])
def test_a_folder_for_tmp_in_another_one_s_project_that_is_swapped_has_nothing_run(
    when: str, name: str, site: Site
) -> None:
    victim, other = site.folder / "victim", site.folder / "other"
    for folder in (victim / "tmp", victim / "output", other / "t"):
        folder.mkdir(parents=True)
    swapping(site, f"sh {site.folder}/swap")
    (site.folder / "swap").touch()
    where = site.executor(
        {"PATH": f"{site.folder}/bin:{os.environ['PATH']}", "TMPDIR": str(other / "t")}
    )
    assert ran(where, "echo x > /tmp/file; cat /tmp/file") == ("x\n", Exit(0))
    private = where.spill_folder().parent
    target = victim if name == "." else victim / name
    old = private / name
    swap = f"mv {old.absolute()} {other}/old; ln -sr {target} {old.absolute()}"
    before = tree(victim)
    if when == "between":
        assert ran(BwrapExecutor(other, site.environ), swap)[1] == Exit(0)
        with pytest.raises(ToolError, match="replaced meanwhile; nothing was run"):
            ran(where, "echo x > /tmp/file")
        with pytest.raises(ToolError, match="replaced meanwhile; nothing was run"):
            where.spill_folder()
    else:
        (site.folder / "swap").write_text(swap)
        with pytest.raises(ToolError, match="replaced while the sandbox was made; nothing was run"):
            ran(where, "echo x > /tmp/file")
    shutil.rmtree(other / "t")
    with pytest.raises(ToolError, match="removed or replaced meanwhile"):
        where.spill_folder()
    del where
    gc.collect()
    assert tree(victim) == before


CHANGER = """
import os, sys
old, new, bwrap, *arguments = sys.argv[1:]
old, new = ("\\n".join(words.split()) for words in (old, new))
os.execv(bwrap, ["bwrap", *"\\n".join(arguments).replace(old, new).split("\\n")])
"""
CHANGES = {
    "from another folder": ("--bind {0}/b {0}/b", "--bind {0}/../victim {0}/b"),
    "in another place": ("--bind {0}/b {0}/b", "--bind {0}/b {0}/b --bind {0}/b {0}/../victim"),
    "not read-only": ("--ro-bind {0}/b/.git", "--bind {0}/b/.git"),
    "what is hidden": ("--tmpfs {0}/b/h", "--bind {0}/b/h {0}/b/h"),
    "a file that is hidden": ("--ro-bind /dev/null {0}/b/key", "--bind {0}/b/key {0}/b/key"),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_what_is_mounted_otherwise_than_wanted_has_nothing_run(
    old: str, new: str, site: Site
) -> None:
    for folder in (site.project / "b" / ".git", site.project / "b" / "h", site.folder / "victim"):
        folder.mkdir(parents=True)
    (site.project / "b" / "key").touch()
    site.environ["GNUPGHOME"] = str(site.project / "b" / "h")
    site.environ["NETRC"] = str(site.project / "b" / "key")
    where = swapping(site, "true")
    assert ran(where, "echo x") == ("x\n", Exit(0))
    (site.folder / "changer").write_text(CHANGER)
    bwrap = shutil.which("bwrap")
    old, new = old.format(site.project), new.format(site.project)
    program_at(
        site.folder / "bin" / "bwrap",
        f"exec {PYTHON} {site.folder}/changer '{old}' '{new}' {bwrap} \"$@\"",
    )
    with pytest.raises(ToolError, match="replaced while the sandbox was made; nothing was run"):
        ran(where, "touch ran")
    assert not (site.project / "ran").exists()


def test_what_is_swapped_while_a_sandbox_is_tried_is_told(site: Site) -> None:
    for folder in ("a", "b"):
        (site.project / folder / ".git").mkdir(parents=True)
    with pytest.raises(ConfigError, match="replaced while the sandbox was made; nothing was run"):
        swapping(site, "rm -rf a; ln -s b a").check()


def test_a_folder_that_is_a_link_now_and_then_is_never_mounted(site: Site) -> None:
    victim, done = site.folder / "victim", threading.Event()
    for top in (victim, site.project / "a"):
        (top / "b" / ".git").mkdir(parents=True)
    before = tree(victim)

    def swap() -> None:
        folder, spare = site.project / "a", site.project / "spare"
        while not done.is_set():
            folder.rename(spare)
            folder.symlink_to(victim)
            folder.unlink()
            spare.rename(folder)

    swapper, where, run = threading.Thread(target=swap), site.executor(), 0
    swapper.start()
    try:
        for _ in range(25):
            with suppress(ToolError):
                run += (
                    ran(where, f"touch {victim}/x {victim}/b/x {victim}/b/.git/x; true")[1].code
                    == 0
                )
    finally:
        done.set()
        swapper.join()
    assert run
    assert tree(victim) == before


def test_a_bwrap_that_ends_before_the_command_says_why(site: Site) -> None:
    (site.project / "a" / ".git").mkdir(parents=True)
    where = swapping(site, "true")
    program_at(site.folder / "bin" / "bwrap", "echo no; exit 7")
    assert ran(where, "true") == ("no\n", Exit(7))


def test_mounts_that_cannot_be_read_have_nothing_run(site: Site) -> None:
    (site.project / "a" / ".git").mkdir(parents=True)
    where = swapping(site, "true")
    (site.folder / "told").write_text('{"child-pid": 999999999}')
    program = (
        f"while [ $# -gt 0 ]; do case $1 in --info-fd) cat {site.folder}/told >/proc/self/fd/$2;; "
        "--file) cat </proc/self/fd/$2;; esac; shift; done"
    )
    program_at(site.folder / "bin" / "bwrap", program)
    with pytest.raises(ToolError, match="the sandbox cannot be checked: No such file"):
        ran(where, "touch ran")


def test_a_cancel_ends_a_sandbox_that_is_being_made(site: Site) -> None:
    (site.project / "a" / ".git").mkdir(parents=True)
    seconds, cancel = unique_seconds(), Cancel()
    where = swapping(site, "true")
    program_at(site.folder / "bin" / "bwrap", f"exec sleep {seconds}")

    def stop() -> None:
        eventually(lambda: running(seconds))
        cancel.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(Interrupted):
        next(where.run("true", LONG_S, cancel))
    stopper.join()
    assert not running(seconds)


# -- secrets, elsewhere -----------------------------------------------------------------------


def test_further_secrets_cannot_be_read(site: Site) -> None:
    put_secrets(site.home, MORE_SECRETS)
    for name in ("cargo/config.toml", "hf/hub"):
        (site.home / name).write_text("seen\n")
    environ = {variable: str(site.home / name) for variable, name in NAMING.items()}
    names = " ".join(f"~/{name}" for name in (*MORE_SECRETS, "cargo/config.toml", "hf/hub"))
    text, _ = site.run(f"for each in {names}; do cat $each 2>/dev/null; done", environ)
    assert text == "seen\n" * 2


@pytest.mark.parametrize("path", ["/etc/security/opasswd", "/var/cache/debconf/passwords.dat"])
def test_secrets_of_the_system_cannot_be_read(path: str, site: Site) -> None:
    assert site.run(f"test -s {path}")[1] == Exit(1)


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
    "MYSQL_PWD": "x",
    "AZURE_STORAGE_CONNECTION_STRING": "x",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "http.extraHeader",
    "GIT_CONFIG_VALUE_0": "x",
    "GIT_CONFIG_PARAMETERS": "x",
    "BW_SESSION": "x",
    "OP_SESSION_my": "x",
    "JWT": "x",
    "SOME_JWT": "x",
    "AUTH": "x",
    "AUTHORIZATION": "x",
    "BEARER": "x",
    "CREDS": "x",
    "SLACK_WEBHOOK_URL": "x",
    **dict.fromkeys(
        [
            *("STRIPE_SK", "API_SK", "AZURE_STORAGE_SAS", "CURL_AUTH_HEADER", "SSH_KEYPASS"),
            *("APIKEY", "AWS_ACCESS_KEY_ID", "KEYFILE", "PRIVATE_KEYS", "OPENAI_API_KEY2"),
            *("DBPASSWORD", "PGPASSFILE", "PASSPHRASE", "DB_PASS_1", "PASSWD", "PASSWORDS"),
            *("API_TOKENS", "TOKEN", "TOKEN_2", "APITOKEN", "SESSION_COOKIE", "MY_CRED"),
            *("DOCKER_HOST", "DOCKER_AUTH_CONFIG", "PRIVATE"),
        ],
        "x",
    ),
}
KEPT = {
    "LANG": "C.UTF-8",
    "GIT_AUTHOR_NAME": "me",
    "HTTP_PROXY": "http://proxy:3128",
    "SOCKS_PROXY": "socks5://proxy:1080",
    "ADDRESS": "https://host/a@b",
    "SHORT": "short",
    "OLDPWD": "/",
    "DESKTOP_SESSION": "x",
    "XDG_SESSION_TYPE": "x",
    "TERM_SESSION_ID": "x",
    "KDE_FULL_SESSION": "x",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "AUTHOR": "me",
    **dict.fromkeys(
        [
            *("TOKENIZERS_PARALLELISM", "MAX_TOKENS", "NUM_TOKENS", "OPENAI_MAX_OUTPUT_TOKENS"),
            *("KEYMAP", "KEYBOARD", "XKB_KEYMAP", "HOTKEY", "MONKEYPATCH", "COMPASS_HOME"),
            *("BYPASS", "PASSENGER_APP_ENV", "DOCKER_BUILDKIT", "GOPRIVATE", "COOKIECUTTER_CONFIG"),
        ],
        "x",
    ),
}


def test_the_environment_holds_no_key_and_no_way_to_one(site: Site) -> None:
    where = site.executor(GONE | KEPT, [KEY, "short"])
    text, _ = ran(where, r"env; cat /proc/*/environ | tr '\0' '\n'")
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert names.isdisjoint(GONE)
    assert names >= {*KEPT, "PWD"}
    assert KEY not in text


def test_a_key_that_is_a_part_of_what_every_program_needs_leaves_it(site: Site) -> None:
    needed = {"LANG": "C.UTF-8.longer", "SHELL": "/bin/long-shell", "USER": "somebody-long"}
    environ = {**needed, "OTHER": f"{site.home}"}
    secrets = [str(site.home), os.environ["PATH"], str(site.project), *needed.values()]
    where = site.executor(environ, secrets)
    text, _ = ran(where, 'test "$PWD" -ef . && echo ${#HOME} ${#PATH} ${#LANG} ${#SHELL} ${#USER}')
    values = str(site.home), os.environ["PATH"], *needed.values()
    assert text.split() == [str(len(value)) for value in values]
    assert ran(where, "echo ${OTHER-gone}")[0] == "gone\n"


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
    for end, says in {"exit 7": "7", "echo Unknown option; exit 1": "Unknown option"}.items():
        program_at(site.folder / "bin" / "bwrap", end)
        with pytest.raises(
            ConfigError, match=rf"start: {says}\. To do without, write sandbox=off$"
        ):
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
