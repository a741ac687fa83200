"""What Tab offers, as a table of lines."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from editor_driver import words_after
from users import open_folder, ordinary_user

from bantam.terminal.completion import Candidate, candidates


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "sub/deep",
        "sub/file.txt",
        ".hidden/x",
        "my file",
        "my dir/a b",
        "café",
        'q"q',
        "tab\ted",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for name in ("evil\x1b[2J", "evil\nline", "evil\u202e", "evil\udcff", "evil\xa0blank"):
        (tmp_path / name).touch()
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
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
        ("@", ["@broken", "@café", "@loop", '@"my dir/', '@"my file"', "@sub/", '@"tab\ted"']),
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
        ("@tab", ['@"tab\ted"']),
        ("@~", []),
        ("@~nobody-at-all/", []),
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


def test_a_tilde_is_the_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "sub"))
    found = [each.text for each in candidates("@~/f", words_after, str(folder / "my dir"))]
    assert found == ["@~/file.txt"]


def test_of_a_folder_that_may_not_be_read_nothing_is_offered() -> None:
    with open_folder() as folder:
        (folder / "locked").mkdir()
        (folder / "locked" / "file").touch()
        (folder / "link").symlink_to("locked/file")
        (folder / "locked").chmod(0)
        with ordinary_user():
            inside = [*candidates("@locked/", words_after, str(folder))]
            beside = [each.text for each in candidates("@", words_after, str(folder))]
        (folder / "locked").chmod(0o700)
        assert inside == []
        assert beside == ["@link", "@locked/"]


def test_of_a_huge_folder_so_many_names_are_offered(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{number:03}").touch()
    found = [each.shown for each in candidates("@", words_after, str(tmp_path))]
    assert found == [f"{number:03}" for number in range(500)]


@pytest.mark.parametrize("word", ["/x\x1b[2J", "/x\u202ey", "/x\ny", "/x\xa0y"])
def test_a_word_that_a_terminal_may_not_show_is_not_offered(word: str, tmp_path: Path) -> None:
    found = candidates("/x", lambda _: [word, "/xyz"], str(tmp_path))
    assert [each.text for each in found] == ["/xyz"]


def test_of_endless_words_so_many_are_offered(tmp_path: Path) -> None:
    def endless(_: Sequence[str]) -> Iterable[str]:
        while True:
            yield "/x"

    assert len([*candidates("/", endless, str(tmp_path))]) == 500
