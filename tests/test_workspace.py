"""The file tools in the sandbox: what they refuse, whatever becomes of a path meanwhile."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle

import pytest
from sandboxes import Site, ran, site_for
from test_files import CancelAtLook, returned

from bantam.agent.undo import put_back
from bantam.core.cancel import Cancel
from bantam.core.changes import Change
from bantam.core.errors import OutsideWorkspace, ToolError
from bantam.core.events import Status
from bantam.core.messages import ToolCall
from bantam.sessions.records import Turn
from bantam.tools.editing import edit_tool
from bantam.tools.files import planned, write_tool
from bantam.tools.reading import read_tool
from bantam.tools.splice import Keep, perform
from bantam.tools.tool import Result, Toolbox


@pytest.fixture(params=["this", "ordinary"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with site_for(request.param) as site:
        yield site


def call(
    site: Site,
    name: str,
    keep: Keep | None = None,
    cancel: Cancel | None = None,
    **arguments: object,
) -> Result:
    where = site.executor()
    tools = [write_tool(where, keep), edit_tool(where, keep), read_tool(where, output_limit=1000)]
    toolbox = Toolbox(tools)
    checked = toolbox.check(ToolCall("1", name, json.dumps(arguments)))
    return returned(toolbox.run(checked, cancel or Cancel()))


def write(site: Site, path: str, content: str = "x", del_bytes: int = 0) -> Result:
    return call(site, "write_file", path=path, content=content, del_bytes=del_bytes)


def edit(site: Site, path: str, old: str = "", new: str = "x\n") -> Result:
    edits = f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"
    return call(site, "edit_file", path=path, edits=edits)


def read(site: Site, path: str) -> Result:
    return call(site, "read_file", path=path)


def outside(site: Site) -> dict[str, object]:
    """Return everything beside the project."""
    return {
        str(path): path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in site.folder.rglob("*")
        if site.project not in path.parents
    }


def inside(site: Site) -> dict[str, object]:
    return {
        str(path.relative_to(site.project)): path.is_file() and path.read_bytes()
        for path in site.project.rglob("*")
    }


# -- what works -------------------------------------------------------------------------------


def test_files_of_the_project_are_written_edited_and_read(site: Site) -> None:
    assert write(site, "p/q/a", "old\n").status is Status.OK
    assert edit(site, "p/q/a", "old\n", "new\n").status is Status.OK
    assert edit(site, str(site.project / "b"), "", "b\n").status is Status.OK
    assert read(site, "p/../p/q/a").text == "new\n"
    result = write(site, "b", "c", del_bytes=1)
    assert result.text.startswith("b: bytes written: 1; offset: 0; bytes deleted: 1; size now: 2")
    assert result.files[0].diff == "@@ -1,1 +1,1 @@\n-b\n+c\n"
    assert inside(site) == {"p": False, "p/q": False, "p/q/a": b"new\n", "b": b"c\n"}


def test_a_link_inside_the_project_is_followed(site: Site) -> None:
    (site.project / "folder").mkdir()
    (site.project / "to_folder").symlink_to("folder")
    (site.project / "to_file").symlink_to(site.project / "folder" / "file")
    (site.home / "back").symlink_to(site.project)
    assert write(site, "to_file", "x").status is Status.OK
    assert write(site, "to_folder/other", "y").status is Status.OK
    assert write(site, "~/back/third", "z").status is Status.OK
    assert read(site, "to_folder/file").text == "x"
    assert (site.project / "to_file").is_symlink()
    assert inside(site)["folder/other"] == b"y"
    assert inside(site)["third"] == b"z"


def test_a_change_is_kept_under_its_path_and_taken_back_by_undo(site: Site) -> None:
    (site.project / "a").write_text("old")
    kept: list[Change] = []
    for path, deleted in (("a", 3), ("p/q/b", 0)):
        call(site, "write_file", kept.append, path=path, content="new", del_bytes=deleted)
    assert [change.path for change in kept] == [f"{site.project}/a", f"{site.project}/p/q/b"]
    assert kept[1].folders == (f"{site.project}/p/q", f"{site.project}/p")
    put_back(Turn(1, tuple(kept)), Cancel())
    assert inside(site) == {"a": b"old"}


def test_what_a_command_wrote_is_edited_and_the_other_way_round(site: Site) -> None:
    where = site.executor()
    ran(where, "echo old > a")
    assert edit(site, "a", "old\n", "new\n").status is Status.OK
    assert ran(where, "cat a")[0] == "new\n"


# -- what is refused --------------------------------------------------------------------------

OUTSIDE = [
    "../x",
    "~/x",
    "/etc/x",
    "/tmp/x",
    "linked/x",
    "linked_file",
    "../neighbour",
    "a/../../x",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_outside_the_project_is_written_or_read(path: str, site: Site) -> None:
    (site.folder / "neighbour").write_text("neighbour\n")
    (site.home / "x").write_text("x\n")
    (site.project / "linked").symlink_to("..")
    (site.project / "linked_file").symlink_to(site.folder / "neighbour")
    before = outside(site)
    for result in (write(site, path), edit(site, path, "x\n", ""), read(site, path)):
        assert result.status is Status.ERROR
        assert "is outside the project; in the sandbox files are" in result.text
    assert outside(site) == before
    with pytest.raises(OutsideWorkspace):
        site.executor().resolve(path)


def test_the_project_s_folder_itself_is_a_folder(site: Site) -> None:
    for result in (write(site, "../project"), read(site, "../project")):
        assert (result.status, "Is a directory" in result.text) == (Status.ERROR, True)


PROTECTED = [
    *(".git", ".git/config", ".git/hooks/pre-commit", ".git/new/x", ".GIT/config", "sub/.git"),
    *("sub/.git/config", "sub/new/.git/hooks/x", ".bantam.cfg", "model.cfg", "Model.CFG"),
    *("model.cfg/x", "git/config", "config", "real/config", "to_git", "hidden/x"),
]


@pytest.mark.parametrize("there", [False, True], ids=["nothing there", "something there"])
@pytest.mark.parametrize("path", PROTECTED)
def test_what_is_protected_is_not_written(there: bool, path: str, site: Site) -> None:
    (site.project / "git").symlink_to(".git")
    (site.project / "config").symlink_to(".git/config")
    (site.project / "to_git").symlink_to(".git/new")
    if there:
        for folder in (".git/hooks", "sub/.git", "other", "real", "hidden"):
            (site.project / folder).mkdir(parents=True)
        for name in (".git/config", ".bantam.cfg", "model.cfg", "real/config", "hidden/x"):
            (site.project / name).write_text("old\n")
        (site.project / "other" / ".git").write_text("gitdir: ../real")
    elif path in ("real/config", "hidden/x"):
        return  # a folder like another
    site.environ["GNUPGHOME"] = str(site.project / "hidden")
    before = inside(site)
    for result in (write(site, path), edit(site, path), edit(site, path, "old\n", "new\n")):
        assert result.status is Status.ERROR
        assert "protected by the sandbox" in result.text
    assert inside(site) == before


@pytest.mark.parametrize("there", [False, True], ids=["nothing there", "something there"])
@pytest.mark.parametrize(
    "path",
    [".bantam/trust.json", ".Bantam/x/y", ".bantam_history", "state/bantam/trust.json", "to/x"],
)
def test_bantam_s_own_files_are_not_written_where_the_home_is_the_project(
    path: str, there: bool, site: Site
) -> None:
    site.environ["HOME"] = str(site.project)
    site.environ["BANTAM_HOME"] = str(site.project / "state" / "bantam")
    if there:
        for folder in (".bantam", "state/bantam"):
            (site.project / folder).mkdir(parents=True)
        (site.project / ".bantam_history").touch()
    (site.project / "to").symlink_to("state/bantam")
    before = inside(site)
    for result in (write(site, path), edit(site, path)):
        assert (result.status, "protected by the sandbox" in result.text) == (Status.ERROR, True)
    assert inside(site) == before


def test_the_repository_of_a_bare_one_s_worktree_is_not_written(site: Site) -> None:
    for folder in ("bare/worktrees/main", "main"):
        (site.project / folder).mkdir(parents=True)
    (site.project / "main" / ".git").write_text("gitdir: ../bare/worktrees/main\n")
    (site.project / "bare" / "worktrees" / "main" / "commondir").write_text("../..\n")
    before = inside(site)
    for path in ("bare/config", "bare/hooks/x", "bare/worktrees/main/config.worktree"):
        assert "protected by the sandbox" in write(site, path).text
    assert inside(site) == before


def test_what_is_protected_is_read_but_no_secret(site: Site) -> None:
    for name in (".git/config", "model.cfg", "hidden/x"):
        (site.project / name).parent.mkdir(exist_ok=True)
        (site.project / name).write_text("old\n")
    site.environ["GNUPGHOME"] = str(site.project / "hidden")
    assert read(site, ".git/config").text == read(site, "model.cfg").text == "old\n"
    assert "nor secrets be read" in read(site, "hidden/x").text


def test_a_file_that_is_a_secret_itself_is_not_read(site: Site) -> None:
    (site.project / "token").write_text("secret")
    site.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(site.project / "token")
    assert "nor secrets be read" in read(site, "token").text
    assert write(site, "token").status is Status.ERROR


def test_what_is_no_file_is_refused(site: Site) -> None:
    os.mkfifo(site.project / "fifo")
    (site.project / "loop").symlink_to("loop")
    (site.project / "file").touch()
    for path, says in {
        "fifo": "is a device, pipe or socket",
        "loop": "Too many levels of symbolic links",
        "file/below": "Not a directory",
    }.items():
        assert says in write(site, path).text
        assert says in read(site, path).text
    for path in ("missing", "no/way/there"):
        assert "No such file" in read(site, path).text


def test_a_file_that_may_not_be_written_is_refused() -> None:
    with site_for("ordinary") as site:
        (site.project / "a").touch(mode=0o444)
        assert "a is read-only for this user" in write(site, "a").text


# -- without a race ---------------------------------------------------------------------------


def linked_away(site: Site) -> None:
    with suppress(OSError):
        (site.project / "a").rename(site.project / "was_a")
        (site.project / "a").symlink_to(site.folder / "victim")


def file_linked_away(site: Site) -> None:
    with suppress(OSError):
        (site.project / "a" / "file").unlink()
        (site.project / "a" / "file").symlink_to(site.folder / "victim" / "file")


def moved_into_git(site: Site) -> None:
    with suppress(OSError):
        (site.project / "a").rename(site.project / "was_a")
        (site.project / "a").symlink_to(".git")


def another_name_of_the_configuration(site: Site) -> None:
    with suppress(OSError):
        (site.project / "a" / "file").unlink()
        (site.project / "a" / "file").hardlink_to(site.project / "model.cfg")


SWAPS = [linked_away, file_linked_away, moved_into_git, another_name_of_the_configuration]


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("path", ["a/file", "a/new/file"])
def test_what_is_swapped_during_a_write_leads_nowhere(
    path: str, swap: Callable[[Site], None], at: int, site: Site
) -> None:
    for folder in (site.project / "a", site.project / ".git", site.folder / "victim"):
        folder.mkdir()
        (folder / "file").write_text("old")
    (site.project / "model.cfg").write_text("old")
    before, git = outside(site), inside(site)[".git/file"]
    looks = iter(range(1, 100))

    def look() -> None:
        if next(looks) == at:
            swap(site)

    call(site, "write_file", cancel=CancelAtLook(-1, look), path=path, content="new", offset=0)
    assert outside(site) == before
    assert (inside(site)[".git/file"], inside(site)["model.cfg"]) == (git, b"old")
    assert [name for name in inside(site) if name.startswith(".git")] == [".git", ".git/file"]


@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_between_plan_and_write_is_an_error(
    swap: Callable[[Site], None], site: Site
) -> None:
    for folder in (site.project / "a", site.project / ".git", site.folder / "victim"):
        folder.mkdir()
        (folder / "file").write_text("old")
    (site.project / "model.cfg").write_text("old")
    workspace = site.executor().workspace
    arguments = {"path": "a", "content": "new", "offset": 0, "del_bytes": 0}
    splice = planned(site.project / "a" / "file", arguments, workspace)
    swap(site)
    before = outside(site), sorted(inside(site).items())
    with pytest.raises((OSError, ToolError)):
        perform(splice, Cancel())
    with pytest.raises((OSError, OutsideWorkspace)):
        splice.opened()
    assert (outside(site), sorted(inside(site).items())) == before


def test_a_folder_that_is_a_link_now_and_then_leads_nowhere(site: Site) -> None:
    victim, done = site.folder / "victim", threading.Event()
    for folder in (victim, site.project / "a", site.project / ".git"):
        folder.mkdir()
        (folder / "file").write_text("old")
    before = outside(site)

    def swap() -> None:
        folder, spare = site.project / "a", site.project / "spare"
        for target in cycle([victim, site.project / ".git"]):
            folder.rename(spare)
            with suppress(FileExistsError):  # a write has made it
                folder.symlink_to(target)
                folder.unlink()
            while spare.exists():
                with suppress(OSError):
                    spare.rename(folder)
                    break
                shutil.rmtree(folder, ignore_errors=True)
            if done.is_set():
                return

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        statuses = {write(site, "a/file").status for _ in range(60)}
        texts = {read(site, "a/file").text for _ in range(60)}
    finally:
        done.set()
        swapper.join()
    assert statuses <= {Status.OK, Status.ERROR}
    assert texts
    assert outside(site) == before
    assert [name for name in inside(site) if name.startswith(".git")] == [".git", ".git/file"]
    assert inside(site)[".git/file"] == b"old"
