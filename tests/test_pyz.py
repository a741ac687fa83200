"""`make pyz`: one file that does the job of an installation."""

import subprocess
import sys
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest
from certificates import make_certificates
from llmserver import LLMServer, text
from program import at, run
from typist import typist

import bantam

SCRIPT = Path(__file__).parent.parent / "scripts" / "pyz.py"
# What anything installed could help with is out of reach.
PYTHON = (sys.executable, "-I", "-S")


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("built") / "bantam.pyz")


def built(file: Path, **env: str) -> Path:
    subprocess.run([sys.executable, SCRIPT, file], env=env, check=True, timeout=100)
    return file


def test_it_is_built_the_same_again(pyz: Path, tmp_path: Path) -> None:
    other = {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1700000000"}
    assert built(tmp_path / "dist" / "another.pyz", **other).read_bytes() == pyz.read_bytes()


def test_it_tells_its_version_by_itself(pyz: Path, tmp_path: Path) -> None:
    done = run("--version", cwd=tmp_path, program=[str(pyz)])
    assert (done.stdout, done.stderr) == (f"bantam {bantam.__version__}\n".encode(), b"")


def test_it_plays_the_demo_where_nothing_is_installed(pyz: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "b.pyz").symlink_to(pyz)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)}
    # The demo runs in another folder: the file must be found from there too.
    demo = run("--demo", cwd=tmp_path, program=[*PYTHON, "b.pyz"], env=env)
    assert demo.returncode == 0, demo.stderr
    assert demo.stdout.strip()
    (left,) = temporary.iterdir()  # its copy of the recording is gone
    assert left.name.startswith("bantam-demo-")


def test_its_prompt_speaks_https_and_draws_code(pyz: Path, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    answer = text("```python\nprint()  # code\n```\n")
    with LLMServer([answer], tls=certificates.server_context()) as server:
        program = (*PYTHON, str(pyz), *at(server.url))
        env = {"SSL_CERT_FILE": str(certificates.authority)}
        with typist(tmp_path, program=program, env=env) as terminal:
            terminal.ready()
            terminal.type("Hi\r")
            terminal.shows("print()  # code")
            terminal.ready()
            terminal.type("/quit\r")
            assert terminal.end() == 0


def test_it_brings_authorities_for_a_system_without(pyz: Path, tmp_path: Path) -> None:
    count = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from bantam.model.proxies import tls_context\n"
        "context = tls_context('https://model.test', {}, folders=())\n"
        "print(context.cert_store_stats()['x509_ca'])\n"
    )
    env = {"TMPDIR": str(tmp_path)}
    done = run("-c", count, str(pyz), cwd=tmp_path, program=PYTHON, env=env)
    assert int(done.stdout) > 100, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_source_lies_beside_its_bytecode_which_nothing_is_held_against(pyz: Path) -> None:
    with zipfile.ZipFile(pyz) as archive:
        names = set(archive.namelist())
        sources = {name for name in names if name.endswith(".py")}
        assert {f"{name}c" for name in sources} == {n for n in names if n.endswith(".pyc")}
        assert {"bantam/cli.py", "httpx/__init__.py", "certifi/cacert.pem"} <= names
        for name in sources:
            # The kind is that of PEP 552: a hash, which is not checked.
            assert archive.read(f"{name}c")[:8] == MAGIC_NUMBER + b"\x01\0\0\0"


def test_each_library_comes_with_its_licence(pyz: Path) -> None:
    with zipfile.ZipFile(pyz) as archive:
        names = archive.namelist()
    about = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    licensed = {name.partition("/")[0] for name in names if "LICENSE" in name}
    assert {name.partition("-")[0] for name in about} > {"httpx", "prompt_toolkit", "rich"}
    assert licensed == about


def test_another_python_takes_the_sources(pyz: Path, tmp_path: Path) -> None:
    # Bytecode of a version that there is not.
    foreign = tmp_path / "foreign.pyz"
    with zipfile.ZipFile(pyz) as archive, zipfile.ZipFile(foreign, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            changed.writestr(name, b"\0\0" + content[2:] if name.endswith(".pyc") else content)
    env = {"HOME": str(tmp_path)}
    done = run("--help", cwd=tmp_path, program=[*PYTHON, str(foreign)], env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"usage: bantam" in done.stdout
