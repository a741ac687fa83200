"""The house's rules, read from the sources: who may import whom, how large a thing may be."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "bantam"
FILES = sorted(PACKAGE.rglob("*.py"))
# Rooms of one rank stand side by side: none imports another.
RANKS = {
    "core": 0,
    "model": 1,
    "tools": 1,
    "sessions": 1,
    "agent": 2,
    "terminal": 3,
    "cli": 4,
    "__init__": 5,
    "__main__": 5,
}
# Third-party package -> the modules that may import it, by the beginning of their name.
HOMES = {
    "httpx": "bantam.model.transports",
    "certifi": "bantam.model.",  # httpx needs it, so it is there
    "prompt_toolkit": "bantam.terminal.",
    "rich": "bantam.terminal.",
    "markdown_it": "bantam.terminal.",  # rich needs both
    "pygments": "bantam.terminal.",
}
MOST_LINES = 300
MOST_LINES_OF_A_FUNCTION = 60

every_file = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))


def module_name(path: Path) -> str:
    """Return the dotted name; a package's own module ends in `.__init__`."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


MODULES = {module_name(path) for path in FILES}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(path: Path) -> Iterator[str]:
    """Yield the full name of each module that `path` imports, inside functions too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (resolved(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            assert node.module
            yield from (resolved(f"{node.module}.{alias.name}") for alias in node.names)


def resolved(name: str) -> str:
    """Return the module that `name`, a module or something in one, is imported from.

    A foreign name stands for itself.
    """
    for module in (name, f"{name}.__init__", name.rpartition(".")[0]):
        if module in MODULES:
            return module
    package = f"{name.rpartition('.')[0]}.__init__"
    return package if package in MODULES else name


def own_imports(path: Path) -> Iterator[str]:
    """Yield what `path` imports of the package, its version aside, which is everyone's."""
    return (name for name in imports(path) if name in MODULES and name != "bantam.__init__")


def listed_order(package: str) -> list[str]:
    """Return the order of import that the docstring of a package gives, lowest first."""
    path = PACKAGE.parent.joinpath(*package.split("."), "__init__.py")
    docstring = " ".join((ast.get_docstring(tree_of(path)) or "").split())
    found = re.search(r"Order of import, lowest first: ([\w, ]+)\.", docstring)
    return found[1].split(", ") if found else []


def parted(importer: str, imported: str) -> tuple[str, str, str]:
    """Return the innermost package that holds both, and the child of it that holds each."""
    ours, theirs = importer.split("."), imported.split(".")
    together = takewhile(lambda pair: pair[0] == pair[1], zip(ours[:-1], theirs[:-1], strict=False))
    depth = len(list(together))
    return ".".join(ours[:depth]), ours[depth], theirs[depth]


# -- imports ----------------------------------------------------------------------------------


@every_file
def test_a_room_imports_only_rooms_below_it(path: Path) -> None:
    importer = module_name(path)
    for imported in own_imports(path):
        package, ours, theirs = parted(importer, imported)
        if package == "bantam":
            assert RANKS[theirs] < RANKS[ours], f"{importer} imports {imported}"


@every_file
def test_within_a_room_a_module_imports_only_what_is_listed_before_it(path: Path) -> None:
    importer = module_name(path)
    for imported in own_imports(path):
        package, ours, theirs = parted(importer, imported)
        if package != "bantam":
            order = listed_order(package)
            below = order[: order.index(ours)] if ours in order else order
            assert theirs in below, f"{importer} imports {imported}"


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in FILES} - {PACKAGE}), ids=lambda p: p.name
)
def test_a_room_of_several_modules_lists_them_all(package: Path) -> None:
    assert (package / "__init__.py").exists()
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in package.glob("*/*.py")}
    listed = listed_order(module_name(package))
    assert len(listed) == len(set(listed))
    assert set(listed) == modules or len(modules) == 1


@every_file
def test_a_third_party_package_stays_in_its_home(path: Path) -> None:
    module = module_name(path)
    for name in imports(path):
        top = name.partition(".")[0]
        if top != "bantam" and top not in sys.stdlib_module_names:
            assert top in HOMES, f"{module} imports {name}, which is no dependency"
            assert module.startswith(HOMES[top]), f"{module} imports {name}"


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("core/*.py")), ids=lambda p: p.name)
def test_core_touches_neither_files_nor_network(path: Path) -> None:
    for name in imports(path):
        assert name.partition(".")[0] not in {
            *("io", "os", "pathlib", "shutil", "tempfile", "random"),
            *("socket", "ssl", "subprocess", "urllib", "http", "sys"),
        }


def test_httpx_prompt_toolkit_and_rich_are_all_that_is_needed_at_run_time() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[^\w-]", each)[0] for each in project["dependencies"]}
    assert names == set(HOMES) - {"certifi", "markdown_it", "pygments"}


# -- sizes and shapes -------------------------------------------------------------------------


@every_file
def test_a_file_has_at_most_300_lines(path: Path) -> None:
    lines = path.read_text().count("\n")
    assert lines <= MOST_LINES


@every_file
def test_a_function_has_at_most_60_lines(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = len(range(node.lineno, (node.end_lineno or 0) + 1))
            assert lines <= MOST_LINES_OF_A_FUNCTION, node.name


@every_file
def test_nothing_runs_when_a_module_is_imported(path: Path) -> None:
    for statement in tree_of(path).body:
        assert is_definition(statement), f"{path}:{statement.lineno}"


def is_definition(statement: ast.stmt) -> bool:
    match statement:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.FunctionDef()
            | ast.AsyncFunctionDef()
            | ast.ClassDef()
            | ast.Assign()
            | ast.AnnAssign()
            | ast.Expr(value=ast.Constant(value=str()))  # a docstring
        ):
            return True
        case ast.If(test=test, orelse=[]):
            # For type checkers, and for `python -m`.
            return ast.unparse(test) in ("TYPE_CHECKING", "__name__ == '__main__'")
        case _:
            return False


@every_file
def test_only_the_terminal_and_the_command_line_print(path: Path) -> None:
    if module_name(path).startswith(("bantam.terminal.", "bantam.cli")):
        return
    for node in ast.walk(tree_of(path)):
        printing = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
        assert not printing, f"{path}:{getattr(node, 'lineno', 0)}"


# -- what is loaded ---------------------------------------------------------------------------


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after running `code`."""
    # Without coverage's own start-up, whose imports are not the program's.
    environ = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    report = "import sys; print('loaded:', *sys.modules)"
    child = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = child.stdout.rpartition("loaded:")[2].split()
    return {name.partition(".")[0] for name in loaded}


def test_telling_the_version_loads_no_heavy_package() -> None:
    loaded = modules_after(
        "import sys\n"
        "from bantam.cli import main\n"
        "sys.argv = ['bantam', '--version']\n"
        "try: assert not main()\n"
        "except SystemExit as end: assert not end.code"
    )
    assert "bantam" in loaded
    assert loaded.isdisjoint({"httpx", "rich", "prompt_toolkit", "asyncio"})


def test_httpx_comes_without_its_command_line() -> None:
    # Where click is installed beside it, httpx loads its own command line, and rich with it.
    loaded = modules_after("import httpx")
    assert "httpx" in loaded
    assert loaded.isdisjoint({"click", "rich"})
    assert not [each for each in requires("httpx") or () if "click" in each and "extra" not in each]
