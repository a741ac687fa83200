"""The wheel and the source archive: what is in them, and that they work where nothing else is."""

import subprocess
import sys
import tarfile
import venv
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

import bantam

ROOT = Path(__file__).parent.parent
MOST_BYTES = 416 * 1024


def run(*command: str | Path, cwd: Path) -> str:
    """Return what `command` prints, run with little in its environment; its home is above `cwd`."""
    above = str(cwd.parent)
    environ = {"HOME": above, "TMPDIR": above, "PATH": "/usr/bin:/bin"}
    child = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=100, check=False
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


def files_in(folder: Path) -> set[str]:
    """Return the files in `folder`, from there; without those that tools leave for themselves."""
    paths = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {
        path.as_posix()
        for path in paths
        if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source archive and of the wheel that is built from that."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    subprocess.run(build, check=True, capture_output=True, timeout=100)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_shared_files_and_the_licence_alone(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = {name for name in names if ".dist-info/" in name}
    shared = f"bantam_agent-{bantam.__version__}.data/data/share/"
    assert names - about == files_in(ROOT / "src") | {
        f"{shared}{name}" for name in files_in(ROOT / "share")
    }
    assert "bantam/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in about)


def test_the_source_archive_holds_what_is_needed_to_work_on_it(dist: Path) -> None:
    (built,) = dist.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        members = {member.name.partition("/")[2]: member for member in archive if member.isfile()}
    folders = ("src", "tests", "scripts", "share", "benchmarks", "extras", "docs")
    held = {f"{folder}/{name}" for folder in folders for name in files_in(ROOT / folder)}
    alone = {"LICENSE", "Makefile", "model.cfg.example", "pyproject.toml", ".gitignore", "PKG-INFO"}
    assert held <= set(members)
    others = set(members) - held - alone
    assert {name for name in others if "/" in name or not name.endswith(".md")} == set()
    for name in files_in(ROOT / "extras"):
        is_program = bool((ROOT / "extras" / name).stat().st_mode & 0o100)
        assert bool(members[f"extras/{name}"].mode & 0o100) == is_program


def test_an_index_takes_both_and_shows_the_readme(dist: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir(), cwd=dist)


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= MOST_BYTES


def test_the_wheel_asks_for_three_packages(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    needed = [each for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    assert sorted(each.partition(">")[0].partition("<")[0] for each in needed) == [
        "httpx[socks]",
        "prompt-toolkit",
        "rich",
    ]
    assert metadata["License-Expression"] == "0BSD"


@pytest.mark.timeout(300)
def test_an_installed_wheel_tells_its_version_and_plays_the_demo(
    wheel: Path, tmp_path: Path
) -> None:
    folder, project = tmp_path / "environment", tmp_path / "project"
    project.mkdir()
    venv.create(folder)
    # With the machine's own settings of pip, from where it takes every other package too.
    python = folder / "bin" / "python"
    install = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel)
    subprocess.run(install, check=True, capture_output=True, timeout=200)

    command = folder / "bin" / "bantam"
    assert run(command, "--version", cwd=project) == f"bantam {bantam.__version__}\n"
    assert run(python, "-m", "bantam.cli", "--version", cwd=project).startswith("bantam ")
    assert run(command, "--demo", cwd=project).strip()
    assert list(project.iterdir()) == []
    assert files_in(ROOT / "share") <= files_in(folder / "share")
