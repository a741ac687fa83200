"""Which calls are asked about, what a person sees of them, and what becomes of the answer."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bantam.agent.approval import (
    AllowancesInMemory,
    Answer,
    Approval,
    Kind,
    Preview,
    Question,
    Scene,
)
from bantam.agent.commands.place import Place
from bantam.core.errors import Interrupted, OutsideWorkspace, ToolError
from bantam.core.messages import ToolCall
from bantam.core.redaction import Redaction

YES = Answer(Kind.YES)
NO = Answer(Kind.NO)
SESSION = Answer(Kind.SESSION)
ALL = Answer(Kind.ALL)
DETAILS = Answer(Kind.DETAILS)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("a", name, json.dumps(arguments))


def shell(command: str) -> ToolCall:
    return call("shell_exec", command=command)


def write(path: str, content: str = "x") -> ToolCall:
    return call("write_file", path=path, content=content, offset=0, del_bytes=0)


class Person:
    """Gives its answers in order; `asked` keeps the questions."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return self._answers.pop(0)


def no_diff(_: ToolCall) -> Preview:
    return Preview("")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "old.txt").write_text("old\n")
    return project


def approval(
    folder: Path,
    mode: str,
    ask: Callable[[Question], Answer] | None,
    preview: Callable[[ToolCall], Preview] = no_diff,
    allowances: AllowancesInMemory | None = None,
) -> Approval:
    def resolve(path: str) -> Path:
        if path == "refused":
            raise OutsideWorkspace("not there")
        return folder / path

    scene = Scene(Place(str(folder), str(folder.parent / "home")), resolve, preview)
    return Approval(mode, ask, scene, allowances or AllowancesInMemory())


# -- which calls are asked about --------------------------------------------------------------


@pytest.mark.parametrize("made", [shell("rm x"), write("/etc/x"), call("other", a=1)])
def test_auto_runs_everything(folder: Path, made: ToolCall) -> None:
    assert approval(folder, "auto", None)(made) is None


@pytest.mark.parametrize("made", [shell("ls"), write("new"), call("read_file", path="old.txt")])
def test_ask_asks_about_each_call_and_gives_no_reason(folder: Path, made: ToolCall) -> None:
    person = Person(YES)
    assert approval(folder, "ask", person)(made) is None
    assert [(question.call, question.reason) for question in person.asked] == [(made, "")]


@pytest.mark.parametrize(
    "made",
    [
        shell("ls -la"),
        shell("echo x > new"),
        write("new"),
        write("old.txt"),
        write("sub/new"),
        call("edit_file", path="old.txt", edits=""),
        call("read_file", path="/etc/passwd"),
    ],
)
def test_risky_lets_harmless_calls_run(folder: Path, made: ToolCall) -> None:
    assert approval(folder, "risky", None)(made) is None


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (shell("ls; rm x"), "deletes: rm x"),
        (shell("echo x > ~/y"), "writes outside the project: echo x > ~/y"),
        (shell("ls 'x"), "cannot be read (a ' without an end): ls 'x"),
        (write("/etc/x"), "writes outside the project: /etc/x"),
        (write("sub/../../x"), "writes outside the project: {}/sub/../../x"),
        (write(".git/config"), "changes what is run later: {}/.git/config"),
        (write("sub/.GIT/hooks/x"), "changes what is run later: {}/sub/.GIT/hooks/x"),
        (write(".bantam.cfg"), "changes what is run later: {}/.bantam.cfg"),
        (write("model.cfg"), "changes what is run later: {}/model.cfg"),
        (write("lib/x.pth"), "changes what is run later: {}/lib/x.pth"),
        (call("edit_file", path="../x", edits=""), "writes outside the project: {}/../x"),
        (call("deploy", where="x"), "is not known: deploy"),
    ],
)
def test_risky_asks_about_the_others_and_says_why(
    folder: Path, made: ToolCall, reason: str
) -> None:
    person = Person(YES)
    assert approval(folder, "risky", person)(made) is None
    assert [question.reason for question in person.asked] == [reason.format(folder)]


def test_a_link_that_leads_out_of_the_project_is_outside(folder: Path) -> None:
    (folder / "away").symlink_to("/")
    person = Person(YES)
    assert approval(folder, "risky", person)(write("away/x")) is None
    assert person.asked[0].reason == f"writes outside the project: {folder}/away/x"


@pytest.mark.parametrize("mode", ["ask", "risky"])
def test_a_path_that_the_tool_will_refuse_is_left_to_it(folder: Path, mode: str) -> None:
    assert approval(folder, mode, None)(write("refused")) is None


# -- where nobody can be asked ----------------------------------------------------------------


def test_where_nobody_can_be_asked_a_needed_question_is_a_refusal(folder: Path) -> None:
    assert approval(folder, "risky", None)(shell("rm x")) == (
        "denied: nobody can be asked here; with approve=risky this needs a yes (deletes: rm x): "
        "do it in another way, or say what the user should run"
    )
    assert approval(folder, "ask", None)(shell("ls")) == (
        "denied: nobody can be asked here; with approve=ask this needs a yes: "
        "do it in another way, or say what the user should run"
    )


# -- what is shown ----------------------------------------------------------------------------


def test_a_command_is_shown_as_it_is(folder: Path) -> None:
    person = Person(YES)
    approval(folder, "ask", person)(shell("echo a\necho b\n"))
    assert person.asked[0].lines == ("echo a", "echo b")
    assert person.asked[0].remembers == "this very command"


def test_a_file_is_shown_as_its_diff(folder: Path) -> None:
    person = Person(YES)
    made = write("old.txt")

    def preview(asked: ToolCall) -> Preview:
        return Preview("@@ -1 +1 @@\n-old\n+x\n" if asked is made else "")

    approval(folder, "ask", person, preview)(made)
    assert person.asked[0].lines == ("@@ -1 +1 @@", "-old", "+x")
    assert person.asked[0].remembers == f"write_file of {folder}/old.txt"


@pytest.mark.parametrize("error", [ToolError("offset=9 is past the end"), OSError(20, "no folder")])
def test_where_a_diff_fails_its_error_is_shown_as_the_call_will_fail(
    folder: Path, error: Exception
) -> None:
    def preview(_: ToolCall) -> Preview:
        raise error

    person = Person(NO)
    approval(folder, "ask", person, preview)(write("old.txt"))
    assert person.asked[0].lines == (str(error),)


def test_other_calls_and_files_without_a_diff_are_shown_as_their_arguments(folder: Path) -> None:
    person = Person(YES, YES)
    judge = approval(folder, "ask", person)
    judge(call("look", where="hier über"))
    judge(write("big"))
    assert person.asked[0].lines == ("{", '  "where": "hier über"', "}")
    assert person.asked[0].remembers == "this very call of look"
    assert '  "content": "x",' in person.asked[1].lines


def test_a_long_call_is_cut_until_details_are_asked_for(folder: Path) -> None:
    person = Person(DETAILS, DETAILS, YES)
    command = "\n".join(f"echo {number}" for number in range(50))
    assert approval(folder, "ask", person)(shell(command)) is None
    shown = [(len(question.lines), question.has_details) for question in person.asked]
    assert shown == [(20, False), (50, True), (50, True)]


# -- the answers ------------------------------------------------------------------------------


def test_a_no_is_told_to_the_model_with_its_reason(folder: Path) -> None:
    person = Person(NO, Answer(Kind.NO, "use git mv"))
    judge = approval(folder, "ask", person)
    assert judge(shell("ls")) == "denied by the user"
    assert judge(shell("ls")) == "denied by the user: use git mv"


def test_a_yes_holds_once(folder: Path) -> None:
    person = Person(YES, NO)
    judge = approval(folder, "ask", person)
    assert judge(shell("ls")) is None
    assert judge(shell("ls")) == "denied by the user"


def test_a_command_allowed_for_the_session_is_that_command_alone(folder: Path) -> None:
    person = Person(SESSION, NO)
    judge = approval(folder, "risky", person)
    assert judge(shell("rm x")) is None
    assert judge(shell("rm x")) is None
    assert judge(shell("rm y")) == "denied by the user"


def test_a_file_allowed_for_the_session_is_that_file_with_that_tool(folder: Path) -> None:
    person = Person(SESSION, NO, NO)
    judge = approval(folder, "ask", person)
    assert judge(write("new", "a")) is None
    assert judge(write("sub/../new", "b")) == "denied by the user"
    assert judge(write("new", "b")) is None
    assert judge(call("edit_file", path="new", edits="")) == "denied by the user"


def test_all_may_be_allowed_for_the_session(folder: Path) -> None:
    person = Person(ALL)
    judge = approval(folder, "risky", person)
    assert [judge(made) for made in (shell("rm x"), shell("rm y"), write("/etc/x"))] == [None] * 3
    assert len(person.asked) == 1


def test_what_is_allowed_outlives_the_approval_and_tells_nothing_of_the_call(folder: Path) -> None:
    class Recorded(AllowancesInMemory):
        def allow(self, key: str) -> None:
            keys.append(key)
            super().allow(key)

    keys: list[str] = []
    allowances = Recorded()
    judge = approval(folder, "risky", Person(SESSION), allowances=allowances)
    assert judge(shell("curl -H secret x")) is None
    assert [len(key) for key in keys] == [64]
    later = approval(folder, "risky", None, allowances=allowances)
    assert later(shell("curl -H secret x")) is None


@pytest.mark.parametrize("allowed", ["risky", "ask"])
def test_all_in_one_mode_says_nothing_in_the_other(folder: Path, allowed: str) -> None:
    allowances = AllowancesInMemory()
    assert approval(folder, allowed, Person(ALL), allowances=allowances)(shell("rm x")) is None
    other = {"risky": "ask", "ask": "risky"}[allowed]
    judge = approval(folder, other, Person(NO), allowances=allowances)
    assert judge(shell("rm x")) == "denied by the user"


@pytest.mark.parametrize(
    ("answer", "made"), [(SESSION, shell("rm x")), (ALL, shell("rm x")), (SESSION, write("/etc/x"))]
)
def test_what_is_allowed_in_one_project_is_not_in_another(
    folder: Path, tmp_path: Path, answer: Answer, made: ToolCall
) -> None:
    allowances = AllowancesInMemory()
    assert approval(folder, "ask", Person(answer), allowances=allowances)(made) is None
    assert approval(folder, "ask", None, allowances=allowances)(made) is None
    other = tmp_path / "other"
    other.mkdir()
    judge = approval(other, "ask", Person(NO), allowances=allowances)
    assert judge(made) == "denied by the user"


def test_a_link_allowed_for_the_session_is_asked_about_when_it_leads_elsewhere(
    folder: Path,
) -> None:
    (folder / "link").symlink_to("old.txt")
    person = Person(SESSION, NO)
    judge = approval(folder, "ask", person)
    assert judge(write("link")) is None
    assert person.asked[0].remembers == f"write_file of {folder}/link, which is {folder}/old.txt"
    assert judge(write("link")) is None
    (folder / "link").unlink()
    (folder / "link").symlink_to("other.txt")
    assert judge(write("link")) == "denied by the user"
    assert person.asked[1].remembers == f"write_file of {folder}/link, which is {folder}/other.txt"


# -- what changes while a person thinks -------------------------------------------------------


class Meddling(Person):
    """Does something to the project just before each answer, as long as there is something."""

    def __init__(self, answers: Sequence[Answer], *deeds: Callable[[], object]) -> None:
        super().__init__(*answers)
        self._deeds = list(deeds)

    def __call__(self, question: Question) -> Answer:
        if self._deeds:
            self._deeds.pop(0)()
        return super().__call__(question)


def seen(folder: Path) -> Callable[[ToolCall], Preview]:
    """Return a preview that shows what a file holds."""

    def preview(made: ToolCall) -> Preview:
        path = folder / json.loads(made.arguments)["path"]
        return Preview(path.read_text() if path.exists() else "", (path.stat().st_size,))

    return preview


def test_a_file_that_changed_before_the_yes_is_asked_about_again_as_it_is_now(
    folder: Path,
) -> None:
    file = folder / "old.txt"
    person = Meddling([YES, YES], lambda: file.write_text("new\n"))
    assert approval(folder, "ask", person, seen(folder))(write("old.txt")) is None
    assert [question.lines for question in person.asked] == [("old",), ("new",)]
    assert [question.reason for question in person.asked] == [
        "",
        "the file has changed since it was shown",
    ]


def test_a_no_to_what_has_changed_is_a_no(folder: Path) -> None:
    file = folder / "old.txt"
    person = Meddling([YES, NO], lambda: file.write_text("new\n"))
    judge = approval(folder, "ask", person, seen(folder))
    assert judge(write("old.txt")) == "denied by the user"


def test_where_no_diff_can_be_shown_the_state_of_the_file_tells(folder: Path) -> None:
    states = [(1,), (2,), (2,)]
    person = Person(YES, YES)
    judge = approval(folder, "ask", person, lambda _: Preview("", states.pop(0)))
    assert judge(write("old.txt")) is None
    assert len(person.asked) == 2


@pytest.mark.parametrize("mode", ["ask", "risky"])
@pytest.mark.parametrize("answer", [YES, SESSION])
def test_a_link_that_leads_elsewhere_before_the_yes_is_asked_about_again(
    folder: Path, mode: str, answer: Answer
) -> None:
    for name in ("a", "b"):  # the same to look at
        (folder.parent / name).write_text("same\n")
    link = folder / "link"
    link.symlink_to("../a")

    def turn() -> None:
        link.unlink()
        link.symlink_to("../b")

    person = Meddling([answer, NO], turn)
    judge = approval(folder, mode, person, seen(folder))
    assert judge(write("link")) == "denied by the user"
    assert person.asked[1].remembers.endswith(f"which is {folder.parent}/b")
    assert person.asked[1].reason.startswith("the file has changed since it was shown")


def test_a_link_that_leads_out_of_the_project_only_now_is_told_to_do_so(folder: Path) -> None:
    link = folder / "link"
    link.symlink_to("model.cfg")

    def turn() -> None:
        link.unlink()
        link.symlink_to("/etc/x")

    person = Meddling([YES, NO], turn)
    assert approval(folder, "risky", person)(write("link")) == "denied by the user"
    assert person.asked[0].reason == f"changes what is run later: {folder}/link"
    assert person.asked[1].reason == (
        f"the file has changed since it was shown; writes outside the project: {folder}/link"
    )


def test_a_file_that_changes_under_each_question_is_not_written(folder: Path) -> None:
    file = folder / "old.txt"
    deeds = [partial(file.write_text, f"{number}\n") for number in range(99)]
    person = Meddling([YES] * 99, *deeds)
    judge = approval(folder, "ask", person, seen(folder))
    assert judge(write("old.txt")) == "denied: the file changed each time that it was asked about"
    assert len(person.asked) == 5


def test_all_in_the_session_needs_no_second_look(folder: Path) -> None:
    file = folder / "old.txt"
    person = Meddling([ALL], lambda: file.write_text("new\n"))
    assert approval(folder, "ask", person, seen(folder))(write("old.txt")) is None


def test_no_key_stands_in_a_question(folder: Path) -> None:
    key = "sk-0123456789"
    person = Person(YES, DETAILS, YES, NO)
    scene = Scene(
        Place(str(folder), ""),
        lambda path: folder / path,
        lambda _: Preview(f"+{key}"),
        Redaction([key]).text,
    )
    judge = Approval("risky", person, scene, AllowancesInMemory())
    judge(shell(f"rm {key}"))
    judge(write(f"../{key}"))
    judge(call(key, where=key))
    shown = [(q.reason, q.lines, q.remembers) for q in person.asked]
    assert key not in str(shown)
    assert "[key]" in str(shown)


def test_an_interrupt_of_the_person_passes_through(folder: Path) -> None:
    def interrupted(_: Question) -> Answer:
        raise Interrupted

    with pytest.raises(Interrupted):
        approval(folder, "ask", interrupted)(shell("ls"))
