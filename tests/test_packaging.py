"""The wheel: what is in it, and that it works in an environment of its own."""

import subprocess
import sys
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    subprocess.run(build, check=True, capture_output=True, timeout=100)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_types_and_its_licence_alone(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {path for path in (ROOT / "src").rglob("*") if "__pycache__" not in path.parts}
    package = {str(path.relative_to(ROOT / "src")) for path in sources if path.is_file()}
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == package
    assert "bantam/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in about)


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
