"""The fault injector itself, held against small real processes."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from faults import Call, Shim, When, calls, make_shim
from program import environment, run

# What crashes are tried on: five counted calls.
STORY = """
import os
file = os.open("file", os.O_WRONLY | os.O_CREAT)
os.write(file, b"0123456789")
os.fsync(file)
os.rename("file", "name")
os.ftruncate(file, 4)
"""
ABSENT, EMPTY = None, b""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return make_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The watched folder, and the working directory of what runs."""
    watched = tmp_path / "watched"
    watched.mkdir()
    return watched


def python(code: str, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    program = (sys.executable, "-S", "-c", code)
    return run(program=program, cwd=folder, env={"PATH": os.environ["PATH"], **env})


def recorded(code: str, shim: Shim, folder: Path, *watched: Path) -> list[Call]:
    """Run `code`, which must succeed; return what was counted."""
    log = folder.parent / "log"
    done = python(code, folder, shim.recording(log, *(watched or (folder,))))
    assert done.returncode == 0, done.stderr
    return calls(log)


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else ABSENT


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- counting ---------------------------------------------------------------------------------


def test_a_recording_changes_nothing_and_lists_the_calls(shim: Shim, folder: Path) -> None:
    assert recorded(STORY, shim, folder) == [
        Call(1, "open", "file", 0),
        Call(2, "write", "file", 10),
        Call(3, "fsync", "file", 0),
        Call(4, "rename", "name", 0),
        Call(5, "ftruncate", "name", 4),
    ]
    assert content(folder / "name") == b"0123"


@pytest.mark.parametrize(
    ("code", "name", "path", "size"),
    [
        ("os.write(file, b'12')", "write", "file", 2),
        ("os.pwrite(file, b'12', 7)", "pwrite", "file", 2),
        ("os.writev(file, [b'12', b'', b'345'])", "writev", "file", 5),
        ("io.FileIO(file, 'w').write(b'12')", "write", "file", 2),
        ("os.fsync(file)", "fsync", "file", 0),
        ("os.fsync(root)", "fsync", ".", 0),
        ("os.fdatasync(file)", "fdatasync", "file", 0),
        ("os.ftruncate(file, 3)", "ftruncate", "file", 3),
        ("os.truncate('file', 3)", "truncate", "file", 3),
        ("os.rename('file', 'b')", "rename", "b", 0),
        ("os.replace('file', 'sub/b')", "rename", "sub/b", 0),
        ("os.rename('file', '../b')", "rename", "file", 0),
        ("os.rename('../outside', 'b')", "rename", "b", 0),
        ("os.rename('file', 'b', src_dir_fd=root, dst_dir_fd=sub)", "renameat", "sub/b", 0),
        ("c.renameat2(root, b'file', sub, b'b', 0)", "renameat2", "sub/b", 0),
        ("os.link('file', 'b')", "link", "b", 0),
        ("os.link('file', 'b', dst_dir_fd=sub)", "linkat", "sub/b", 0),
        ("os.unlink('file')", "unlink", "file", 0),
        ("os.unlink('file', dir_fd=root)", "unlinkat", "file", 0),
        ("os.rmdir('sub/')", "rmdir", "sub", 0),
        ("os.mkdir('d')", "mkdir", "d", 0),
        ("os.mkdir('d', dir_fd=sub)", "mkdirat", "sub/d", 0),
        ("os.chmod('file', 0o600)", "chmod", "file", 0),
        ("os.chmod(file, 0o600)", "fchmod", "file", 0),
        ("os.open('b', os.O_CREAT)", "open", "b", 0),
        ("os.open('file', os.O_TRUNC | os.O_WRONLY)", "open", "file", 0),
        ("os.open('b', os.O_CREAT, dir_fd=sub)", "openat", "sub/b", 0),
        ("os.open('sub/../b', os.O_CREAT)", "open", "b", 0),
        ("os.open('link/b', os.O_CREAT)", "open", "sub/b", 0),
        ("os.open(os.path.abspath('sub') + '//b', os.O_CREAT)", "open", "sub/b", 0),
        ("os.chdir('sub'); os.open('b', os.O_CREAT)", "open", "sub/b", 0),
        ("os.unlink('link')", "unlink", "link", 0),
        ("c.open(b'b', os.O_CREAT, 0o600)", "open", "b", 0),
        ("c.openat(sub, b'b', os.O_CREAT, 0o600)", "openat", "sub/b", 0),
        ("c.pwrite(file, b'12', ctypes.c_size_t(2), ctypes.c_long(1))", "pwrite", "file", 2),
        ("c.ftruncate(file, ctypes.c_long(3))", "ftruncate", "file", 3),
        ("c.truncate(b'file', ctypes.c_long(3))", "truncate", "file", 3),
    ],
)
def test_a_call_is_counted_with_its_name_path_and_size(
    shim: Shim, folder: Path, code: str, name: str, path: str, size: int
) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub")
    (folder / "file").write_bytes(b"old")
    (folder.parent / "outside").write_bytes(b"old")
    opened = (
        "import ctypes, io, os\n"
        "c = ctypes.CDLL(None)\n"
        "file, root, sub = os.open('file', os.O_RDWR), os.open('.', 0), os.open('sub', 0)\n"
    )
    assert recorded(opened + code, shim, folder) == [Call(1, name, path, size)]


@pytest.mark.parametrize(
    "code",
    [
        "os.open('file', os.O_RDONLY)",
        "os.read(os.open('file', os.O_RDWR), 3)",
        "fcntl.flock(os.open('file', os.O_RDWR), fcntl.LOCK_EX)",
        "os.mkdir('../watched2')",
        "os.close(os.open('../outside', os.O_CREAT))",
        "os.write(1, b'to a pipe')",
        "os.path.exists('none') or os.listdir('.')",
    ],
)
def test_reading_locking_and_other_folders_are_not_counted(
    shim: Shim, folder: Path, code: str
) -> None:
    (folder / "file").write_bytes(b"old")
    assert recorded(f"import fcntl, os\n{code}", shim, folder) == []


def test_several_folders_are_watched_even_before_they_exist(shim: Shim, folder: Path) -> None:
    one, two = folder / "one", folder / "two"
    code = "import os\nfor n in ('one', 'one/a', 'two', 'two/b', 'three'): os.mkdir(n)"
    found = [call.path for call in recorded(code, shim, folder, one, two)]
    assert found == [".", "a", ".", "b"]


def test_threads_count_in_one_sequence(shim: Shim, folder: Path) -> None:
    code = (
        "import os, threading\n"
        "def make(n): [os.mkdir(f'{n}-{m}') for m in range(50)]\n"
        "threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()"
    )
    found = recorded(code, shim, folder)
    assert [call.number for call in found] == list(range(1, 401))
    assert len({call.path for call in found}) == 400


def test_children_are_neither_counted_nor_told(shim: Shim, folder: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "os.mkdir('ours')\n"
        "told = 'env | grep -E \"LD_PRELOAD|FAULTS_\"; mkdir shell; echo x > shell/file'\n"
        "assert subprocess.check_output(['sh', '-c', told]) == b''\n"
        "subprocess.check_call([sys.executable, '-S', '-c', 'import os; os.mkdir(\"python\")'])\n"
        "pid = os.fork()\n"
        "if pid == 0: os.mkdir('fork'); os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "assert not [name for name in os.environ if name.startswith(('LD_PRE', 'FAULTS_'))]\n"
        "os.rmdir('ours')\n"
    )
    assert [call.name for call in recorded(code, shim, folder)] == ["mkdir", "rmdir"]
    assert names(folder) == ["fork", "python", "shell"]


def test_a_plain_shell_is_watched_too(shim: Shim, folder: Path) -> None:
    program = ("sh", "-c", "echo one > a; echo two >> a; cat a > b; rm a")
    env = shim.recording(folder.parent / "log", folder) | shim.crash("after", 4, folder)
    done = run(program=program, cwd=folder, env=env | {"PATH": os.environ["PATH"]})
    assert done.returncode == -signal.SIGKILL
    found = [(call.name, call.path) for call in calls(folder.parent / "log")]
    assert found == [("open", "a"), ("write", "a")] * 2
    assert content(folder / "a") == b"one\ntwo\n"


# -- crashes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "number", "file", "name"),
    [
        ("before", 1, ABSENT, ABSENT),
        ("after", 1, EMPTY, ABSENT),
        ("torn", 1, ABSENT, ABSENT),
        ("before", 2, EMPTY, ABSENT),
        ("torn", 2, b"01234", ABSENT),
        ("after", 2, b"0123456789", ABSENT),
        ("before", 4, b"0123456789", ABSENT),
        ("torn", 4, b"0123456789", ABSENT),
        ("after", 4, ABSENT, b"0123456789"),
        ("before", 5, ABSENT, b"0123456789"),
        ("after", 5, ABSENT, b"0123"),
    ],
)
def test_a_crash_comes_before_after_or_in_the_middle_of_its_call(
    shim: Shim, folder: Path, when: When, number: int, file: bytes | None, name: bytes | None
) -> None:
    done = python(STORY, folder, shim.crash(when, number, folder))
    assert done.returncode == -signal.SIGKILL
    assert (content(folder / "file"), content(folder / "name")) == (file, name)


def test_a_crash_after_the_last_call_never_comes(shim: Shim, folder: Path) -> None:
    assert python(STORY, folder, shim.crash("before", 6, folder)).returncode == 0


@pytest.mark.parametrize(
    ("write", "torn"),
    [
        ("os.pwrite(file, b'12345', 1)", b"\0" + b"12"),
        ("os.writev(file, [b'12', b'345', b'678'])", b"1234"),
        ("os.write(file, b'1')", b""),
        ("os.writev(file, [])", b""),
    ],
)
def test_every_kind_of_write_can_be_torn(shim: Shim, folder: Path, write: str, torn: bytes) -> None:
    code = f"import os\nfile = os.open('file', os.O_CREAT | os.O_WRONLY)\n{write}"
    assert python(code, folder, shim.crash("torn", 2, folder)).returncode == -signal.SIGKILL
    assert content(folder / "file") == torn


# -- short writes and errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "count"),
    [
        ("os.write(file, b'12345')", 2),
        ("os.pwrite(file, b'12345', 0)", 2),
        ("os.writev(file, [b'1', b'2345'])", 2),
        ("os.write(file, b'1')", 1),
        ("os.write(file, b'')", 0),
    ],
)
def test_a_short_write_says_what_it_wrote_and_comes_once(
    shim: Shim, folder: Path, write: str, count: int
) -> None:
    code = (
        "import os\nfile = os.open('file', os.O_CREAT | os.O_WRONLY)\n"
        f"assert {write} == {count}\n"
        f"assert os.path.getsize('file') == {count}\n"
        "assert os.write(file, b'6789') == 4"
    )
    done = python(code, folder, shim.short(2, folder))
    assert done.returncode == 0, done.stderr


def failed(code: str, folder: Path, env: Mapping[str, str]) -> list[str]:
    """Run the lines of `code` one after the other; return the errors, "" where there was none."""
    each = (
        "import errno, os\n"
        f"for line in {code.strip().splitlines()!r}:\n"
        "    try: exec(line)\n"
        "    except OSError as error: print(errno.errorcode[error.errno])\n"
        "    else: print()"
    )
    done = python(each, folder, env)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split("\n")[:-1]


EIO_ALONE = {"EIO"}
NO_ROOM = {"EIO", "ENOSPC", "EDQUOT"}
READ_ONLY = {"EIO", "EROFS"}
ALL = NO_ROOM | READ_ONLY


@pytest.mark.parametrize("error", sorted(ALL))
@pytest.mark.parametrize(
    ("change", "possible"),
    [
        ("os.open('new', os.O_CREAT)", ALL),
        ("os.open('file', os.O_CREAT)", READ_ONLY),  # exists: takes no room
        ("os.mkdir('new')", ALL),
        ("os.write(file, b'1')", ALL),
        ("os.rename('file', 'new')", ALL),
        ("os.link('file', 'new')", ALL),
        ("os.fsync(file)", NO_ROOM),
        ("os.ftruncate(file, 1)", EIO_ALONE),  # the file is open already
        ("os.truncate('file', 1)", READ_ONLY),
        ("os.open('file', os.O_TRUNC | os.O_WRONLY)", READ_ONLY),
        ("os.chmod('file', 0o600)", READ_ONLY),
        ("os.unlink('file')", READ_ONLY),
        ("os.rmdir('sub')", READ_ONLY),
    ],
)
def test_an_error_comes_once_and_only_from_a_call_to_which_it_can_happen(
    shim: Shim, folder: Path, change: str, possible: set[str], error: str
) -> None:
    (folder / "sub").mkdir()
    (folder / "file").touch()
    code = f"file = os.open('file', os.O_WRONLY)\n{change}\nos.mkdir('after')"
    errors = failed(code, folder, shim.failure(getattr(errno, error), 1, folder))
    assert errors == ["", error if error in possible else "", ""]


def test_a_full_disk_fails_from_one_call_on_and_does_nothing(shim: Shim, folder: Path) -> None:
    (folder / "sub").mkdir()
    full = shim.failure(errno.ENOSPC, 3, folder, onwards=True)
    log = folder.parent / "log"
    code = "a = os.open('a', os.O_CREAT | os.O_WRONLY)\nos.write(a, b'1')\n"
    code += "os.write(a, b'2')\nos.mkdir('b')\nos.rmdir('sub')\nos.write(a, b'3')"
    errors = failed(code, folder, full | shim.recording(log, folder))
    assert errors == ["", "", "ENOSPC", "ENOSPC", "", "ENOSPC"]
    assert names(folder) == ["a"]
    assert content(folder / "a") == b"1"
    assert len(calls(log)) == 6


def test_a_full_disk_can_be_freed_while_the_process_runs(shim: Shim, folder: Path) -> None:
    freed = folder.parent / "freed"
    full = shim.failure(errno.ENOSPC, 1, folder, onwards=True, until=freed)
    code = f"os.mkdir('a')\nos.mkdir('b')\nos.mkdir({str(freed)!r})\nos.mkdir('c')"
    assert failed(code, folder, full) == ["ENOSPC", "ENOSPC", "", ""]
    assert names(folder) == ["c"]


# -- Bantam -----------------------------------------------------------------------------------


def test_bantam_runs_unharmed_and_can_be_killed_at_a_call(shim: Shim, tmp_path: Path) -> None:
    temporary, log = tmp_path / "temporary", tmp_path / "log"
    temporary.mkdir()
    env = environment(tmp_path, TMPDIR=str(temporary))
    done = run("--demo", cwd=tmp_path, env=env | shim.recording(log, temporary))
    assert done.returncode == 0, done.stderr
    found = calls(log)
    assert [call.number for call in found] == list(range(1, len(found) + 1))
    assert {"mkdir", "open", "write", "fsync"} <= {call.name for call in found}
    renamed = next(call for call in found if call.name == "rename")
    done = run("--demo", cwd=tmp_path, env=env | shim.crash("before", renamed.number, temporary))
    assert done.returncode == -signal.SIGKILL


def test_a_missing_compiler_is_a_clear_failure(tmp_path: Path) -> None:
    code = "import faults, pathlib; faults.make_shim(pathlib.Path('.'))"
    tests = str(Path(__file__).parent)
    program = (sys.executable, "-c", code)
    env = {"PATH": str(tmp_path), "PYTHONPATH": tests}
    done = run(program=program, cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert b"apt-get install gcc libc6-dev" in done.stderr
