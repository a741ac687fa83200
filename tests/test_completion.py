"""What Tab offers, as a table of lines."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from editor_driver import words_after

from bantam.terminal.completion import Candidate, candidates


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("sub/deep", "sub/file.txt", ".hidden/x", "my file", "my dir/a b", "café", 'q"q'):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for name in ("evil\x1b[2J", "evil\nline", "evil\u202e"):
        (tmp_path / name).touch()
    (tmp_path / "broken").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("", []),
        ("/", ["/load", "/list", "/help", "/cfg"]),
        ("/l", ["/load", "/list"]),
        ("/nothing", []),
        (" /l", []),
        ("say /l", []),
        ("a\n/l", []),
        ("/l\n/l", []),
        ("/load ", ["abc-1", "abc-2", "xyz"]),
        ("/load  x", ["xyz"]),
        ("/cfg model ", ["kilo/free", "kilo/paid"]),
        ("/cfg other ", []),
        ("@", ["@broken", "@café", '@"my dir/', '@"my file"', "@sub/"]),
        ("@su", ["@sub/"]),
        ("@sub/", ["@sub/deep", "@sub/file.txt"]),
        ("see @sub/f", ["@sub/file.txt"]),
        ("a\n@sub/f", ["@sub/file.txt"]),
        ("/export @sub/f", ["@sub/file.txt"]),
        ("@caf", ["@café"]),
        ("@bro", ["@broken"]),
        ("@my", ['@"my dir/', '@"my file"']),
        ('@"my dir/', ['@"my dir/a b"']),
        ('@"my dir/a', ['@"my dir/a b"']),
        ('@"su', ['@"sub/']),
        ("@.", ["@.hidden/"]),
        ("@.hidden/", ["@.hidden/x"]),
        ("@./su", ["@./sub/"]),
        ("@q", []),
        ("@evil", []),
        ("@sub/file.txt/", []),
        ("@nowhere/", []),
        ("@\0/", []),
        ("mail me@su", []),
        ('@"my dir" ', []),
    ],
)
def test_what_is_offered(before: str, texts: list[str], folder: Path) -> None:
    found = [each.text for each in candidates(before, words_after, str(folder))]
    assert found == texts


def test_a_candidate_takes_the_place_of_what_was_typed_of_it(folder: Path) -> None:
    assert [*candidates("see @sub/f", words_after, str(folder))] == [
        Candidate("@sub/file.txt", replaced=6, shown="file.txt")
    ]
    assert [*candidates("/load x", words_after, str(folder))] == [Candidate("xyz", 1, "xyz")]


def test_an_absolute_path_is_one(folder: Path) -> None:
    found = [each.text for each in candidates(f"@{folder}/su", words_after, "/")]
    assert found == [f"@{folder}/sub/"]


def test_of_a_huge_folder_so_many_names_are_offered(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{number:03}").touch()
    found = [each.shown for each in candidates("@", words_after, str(tmp_path))]
    assert found == [f"{number:03}" for number in range(500)]


def test_of_endless_words_so_many_are_offered(tmp_path: Path) -> None:
    def endless(_: Sequence[str]) -> Iterable[str]:
        while True:
            yield "/x"

    assert len([*candidates("/", endless, str(tmp_path))]) == 500
