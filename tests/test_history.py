"""The file of what was typed before: its format, and what may have become of it."""

import os
import stat
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import files_of_at_most
from users import open_folder, ordinary_user

from bantam.core.redaction import Redaction
from bantam.terminal.history import History, decoded, encoded

KEY = "sk-0123456789"


def history(path: Path | None) -> History:
    return History(path, Redaction([KEY]).text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)))
def test_entries_are_read_as_they_were_written(entries: list[str]) -> None:
    lines = [encoded(entry) for entry in entries]
    assert all(line.index(b"\n") == len(line) - 1 for line in lines)
    assert decoded(b"".join(lines)) == entries


@given(st.binary())
def test_whatever_the_file_holds_is_read(raw: bytes) -> None:
    for entry in decoded(raw):
        entry.encode()


@pytest.mark.parametrize(
    ("raw", "entries"),
    [
        (b"a\r\nb", ["a", "b"]),
        (b"ok \xe9\n", ["ok \ufffd"]),
        (b"a\x1b[2Jb\xe2\x80\xae\x00\n\n\n", ["ab"]),
        (rb"C:\dir\\new \\n \n \x" + b"\n", ["C:\\dir\\new \\n \n \\x"]),
    ],
)
def test_a_line_of_somebody_else_is_an_entry(
    raw: bytes, entries: list[str], tmp_path: Path
) -> None:
    (tmp_path / "h").write_bytes(raw)
    assert history(tmp_path / "h").entries == entries


def test_an_entry_of_many_lines_is_one_the_next_time(tmp_path: Path) -> None:
    assert history(tmp_path / "h").add("one\ntwo")
    assert history(tmp_path / "h").entries == ["one\ntwo"]


@pytest.mark.parametrize(
    "entry",
    [
        "",
        " \n ",
        "last",
        "/cfg api_key abc",
        "  /cfg  API_KEY=abc",
        "first\n/cfg api_key abc",
        "/cfg apikey abc",
        "/cfg token = abc",
        "/cfg x-Secret abc",
        "/cfg endpoint http://host/v1?key=abc",
        "/cfg endpoint='https://abc@host/v1'",
        "/cfg base_url https://user:abc@host/v1",
        "/cfg endpoint\n http://host/v1?key=abc",
        f"the key is {KEY}.",
        "/config api_key abc",
        "/cfg  API_KEY=abc",
        "/cfg api-key abc",
        "/cfg api_kye abc",
        "/cfgs set api_key: abc",
        "/set-key abc",
        "/api_key=abc",
        "/login token\nabc",
        "  /conf Password abc",
        "first\n /config x secret=abc",
        "/config endpoint https://abc@host/v1",
        "run bantam -o api_key=abc with it",
        "!bantam -c -o 'API_KEY=abc'",
        "bantam -oopenai_api_key=abc",
    ],
)
def test_not_everything_is_kept(entry: str, tmp_path: Path) -> None:
    one = history(tmp_path / "h")
    one.add("last")
    assert not one.add(entry)
    assert one.entries == ["last"]
    assert (tmp_path / "h").read_bytes() == b"last\n"


def test_a_million_empty_lines_are_no_work() -> None:
    assert history(None).add("x" + "\n" * 1_000_000)
    assert not history(None).add("\n" * 1_000_000 + "  /cfg api_key abc")


@pytest.mark.parametrize("line", ["/cfg {}", "/k{0} {0}\n", "/cfg k=1\n", "-o k{}="])
def test_a_million_characters_of_a_command_are_no_work(line: str) -> None:
    text = line.format("k" * 1_000_000) if "{" in line else line * 100_000
    assert history(None).add(text)


@pytest.mark.parametrize(
    "entry",
    [
        "/cfg",
        "/cfg endpoint http://host/v1",
        "/cfg max_tokens 5",
        "/cfg stop ?@",
        "/load monkey",
        "/compact",
        "why is the api_key secret here? My password token=1 works",
        "see /etc/hosts: which key is it",
        "use -o and the key",
        "git log -o x=key",
    ],
)
def test_a_setting_that_is_no_secret_is_kept(entry: str, tmp_path: Path) -> None:
    assert history(tmp_path / "h").add(entry)


def test_a_huge_entry_is_kept_in_memory_alone(tmp_path: Path) -> None:
    one = history(tmp_path / "h")
    assert one.add("a" * 70_000)
    assert len(one.entries) == 1
    assert not (tmp_path / "h").exists()


def test_lone_surrogates_do_no_harm(tmp_path: Path) -> None:
    assert history(tmp_path / "h").add("a\udce9")
    assert history(tmp_path / "h").entries == ["a?"]


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    lines = [f"{number:06}" * 20 for number in range(20_000)]
    (tmp_path / "h").write_text("\n".join(lines) + "\n")
    entries = history(tmp_path / "h").entries
    assert 8000 < len(entries) < 9000
    assert entries == lines[-len(entries) :]


def test_only_so_many_entries_are_read(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("".join(f"{number}\n" for number in range(20_000)))
    assert history(tmp_path / "h").entries == [str(number) for number in range(10_000, 20_000)]


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        history(tmp_path / "new").add("a")
    finally:
        os.umask(before)
    (tmp_path / "wide").write_text("a\n")
    (tmp_path / "wide").chmod(0o664)
    history(tmp_path / "wide")
    for name in ("new", "wide"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_two_that_append_at_once_tear_nothing(tmp_path: Path) -> None:
    def append(letter: str) -> None:
        one = history(tmp_path / "h")
        for number in range(200):
            one.add(f"{letter * 500}\n{number}")

    threads = [Thread(target=append, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"{letter * 500}\n{number}" for letter in "ab" for number in range(200)}
    entries = history(tmp_path / "h").entries
    assert len(entries) == 400
    assert set(entries) == expected


def test_behind_a_torn_entry_the_next_is_whole(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("whole\nto")
    history(tmp_path / "h").add("next")
    assert (tmp_path / "h").read_text() == "whole\nto\nnext\n"


def test_a_full_disk_is_no_error(tmp_path: Path) -> None:
    one = history(tmp_path / "h")
    one.add("a")
    with files_of_at_most(4):
        assert one.add("bcdef")
        assert one.add("g")
    assert one.entries == ["a", "bcdef", "g"]
    assert history(tmp_path / "h").entries[0] == "a"


def test_a_file_that_may_not_be_touched_is_no_error() -> None:
    with open_folder() as folder:
        (folder / "h").write_text("a\n")
        (folder / "h").chmod(0)
        (folder / "locked").mkdir(mode=0o500)
        with ordinary_user():
            for path in (folder / "h", folder / "locked" / "h"):
                one = history(path)
                assert one.add("b")
                assert one.entries == ["b"]
        assert (folder / "h").read_text() == "a\n"


def test_what_is_no_file_is_no_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "no" / "h", Path("/dev/null"), None):
        one = history(path)
        assert one.add("a")
        assert one.entries == ["a"]
