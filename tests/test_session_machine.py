"""Whatever happens to a session in whatever sequence: the disk holds what it is known to hold."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from processes import files_of_at_most
from test_messages import calling, result, said, user

from bantam.core.events import UsageReport
from bantam.core.messages import NOT_RUN_RESULT, UNKNOWN_RESULT, Message, Role, ToolCall
from bantam.sessions import journal, slot
from bantam.sessions.snapshot import About
from bantam.sessions.store import Store

ID = "s"
FULL = (
    "the session could not be stored: File too large: s; the work goes on, and each step tries "
    "again (BANTAM_HOME can name another folder)"
)
AGAIN = "the session is stored again, as s"
IN_USE = "another Bantam works on the session s; this one works on s-2"
CUT_OFF = (
    "the last run of this session was cut off in shell_exec: check what that did, it may still run"
)
TEXTS = st.text(max_size=5) | st.sampled_from(["", "\ud83d", "é\n\u2028", '{"start": 1}'])
CALL_IDS = st.lists(st.sampled_from("ab"), max_size=3)


@dataclass(frozen=True)
class State:
    """What a conversation is known to be. `open_calls`: ids of calls without a result, in order."""

    messages: tuple[Message, ...] = ()
    turns: int = 0
    calls: tuple[UsageReport, ...] = ()
    open_calls: tuple[str, ...] = ()
    started: bool = False

    def plus(self, message: Message) -> "State":
        is_result = message.role is Role.TOOL
        ids = tuple(call.id for call in message.tool_calls)
        return replace(
            self,
            messages=(*self.messages, message),
            open_calls=self.open_calls[1:] if is_result else ids,
            started=False,
        )

    def recovered(self) -> "State":
        """Return this as the next process finds it."""
        texts = [UNKNOWN_RESULT if self.started else NOT_RUN_RESULT]
        texts += [NOT_RUN_RESULT] * len(self.open_calls)
        state = self
        for call_id, text in zip(self.open_calls, texts, strict=False):
            state = state.plus(result(call_id, text))
        return replace(state, started=False)

    def copied(self) -> tuple[Message, ...]:
        """Return what a second Bantam begins with while this is stored, and in use."""
        messages = self.recovered().messages
        return messages if any(m.role is Role.ASSISTANT for m in messages) else ()


class SessionMachine(RuleBasedStateMachine):
    """`live` is in memory; `written` is on the disk, a state more for each line of the journal."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._homes = 0
        self.home = Path(self._folder.name, "0")
        self.home.mkdir()
        self.session = self._store().fresh(ID, About())
        self.live = State()
        self.written = [State()]
        self.unwritten: list[State] = []
        self.told: list[str] = []
        self.aside: tuple[Message, ...] = ()  # the session of a second Bantam
        self.is_failing = False

    def teardown(self) -> None:
        self.session.close()
        self._folder.cleanup()

    # -- what happens -------------------------------------------------------------------------

    @rule(text=TEXTS)
    def prompt(self, text: str) -> None:
        self.live = replace(self.live, turns=self.live.turns + 1)
        self._append(user(text))

    @rule(text=TEXTS)
    def note(self, text: str) -> None:
        self.session.note(text)
        self._happened(self.live.plus(user(text)))

    @rule(text=TEXTS, ids=CALL_IDS)
    def answer(self, text: str, ids: list[str]) -> None:
        self._append(replace(calling(*ids), content=text) if ids else said(text))

    @precondition(lambda self: self.live.open_calls)
    @rule(text=TEXTS)
    def result(self, text: str) -> None:
        self._append(result(self.live.open_calls[0], text))

    @precondition(lambda self: self.live.open_calls)
    @rule()
    def start(self) -> None:
        self.session.started(ToolCall(self.live.open_calls[0], "shell_exec", "{}"))
        self._happened(replace(self.live, started=True))

    @rule(tokens=st.integers(0, 9))
    def count(self, tokens: int) -> None:
        report = UsageReport(
            prompt=tokens, completion=0, cached=None, estimated=False, context=tokens, window=0
        )
        self.session.count(report)
        self.live = replace(self.live, calls=(*self.live.calls, report))
        self.unwritten.append(self.live)

    @rule()
    def finish(self) -> None:
        self.session.finish()
        if self._has_prompt():
            assert self._journal() == b""
            self._see_what_was_written()

    @precondition(lambda self: self._has_prompt())
    @rule(text=TEXTS)
    def answer_on_a_full_disk(self, text: str) -> None:
        with files_of_at_most(1):
            self.session.append(said(text))
        self.live = self.live.plus(said(text))
        self.unwritten.append(self.live)
        if not self.is_failing:
            self.told.append(FULL)
        self.is_failing = True

    @precondition(lambda self: self.session.undo is not None)
    @rule(text=TEXTS)
    def a_second_bantam_goes_on(self, text: str) -> None:
        other = self._store().resumed(ID)
        assert other.id == f"{ID}-2"
        assert other.notices[0] == IN_USE
        assert tuple(other.messages) == (self.aside or self.written[0].copied())
        other.append(user(text))
        other.append(said(text))
        other.close()
        self.aside = tuple(other.messages)

    # -- how a process ends, and the next one goes on -----------------------------------------

    @rule()
    def close(self) -> None:
        self.finish()
        self.session.close()
        self._resume()

    @rule(left=st.sampled_from([b"", b'{"format": "ban']))
    def crash(self, left: bytes) -> None:
        self._crash()
        if left:
            (self.home / "sessions").mkdir(exist_ok=True)
            (self.home / "sessions" / f".{ID}.json.tmp").write_bytes(left)
        self._resume()

    @precondition(lambda self: len(self.written) > 1 and self._journal().endswith(b"\n"))
    @rule(share=st.floats(0, 1), fill=st.booleans())
    def crash_that_tears_the_last_line(self, share: float, fill: bool) -> None:
        self._crash()
        data = self._journal()
        last = data.splitlines(keepends=True)[-1]
        cut = 1 + int(share * (len(last) - 1))
        self._journal_path().write_bytes(data[:-cut] + (b"\0" * cut if fill else b""))
        self.written.pop()
        self._resume()

    @precondition(lambda self: len(self.written) > 1)
    @rule()
    def crash_before_the_journal_is_emptied(self) -> None:
        data = self._journal()
        self.finish()
        self._crash()
        self._journal_path().write_bytes(data)
        self._resume()

    @precondition(lambda self: self._snapshot_path().exists())
    @rule(left=st.sampled_from([None, b"", b"{", b"[]]"]))
    def crash_and_the_snapshot_is_lost(self, left: bytes | None) -> None:
        self._crash()
        log = self._journal()
        if left is None:
            self._snapshot_path().unlink()
        else:
            self._snapshot_path().write_bytes(left)
        kept = len(list(self.home.glob("sessions/*.damaged*")))
        self.written = [State()]
        self._resume()
        # A line that was torn is nothing to tell, if it is the first.
        losses = [left is not None, bool(log) and (left is not None or log.count(b"\n") > 0)]
        assert len(self.session.notices) == sum(losses)
        assert len(list(self.home.glob("sessions/*.damaged*"))) == kept + sum(losses)
        assert self._journal() == b""
        self.session.notices.clear()

    # -- what must be true --------------------------------------------------------------------

    @invariant()
    def memory_holds_what_happened(self) -> None:
        assert tuple(self.session.messages) == self.live.messages
        assert self.session.turns == self.live.turns
        assert self.session.notices == self.told

    @invariant()
    def the_disk_holds_what_was_written(self) -> None:
        folder = self.home / "sessions"
        data = self._journal() if self._journal_path().exists() else b""
        found = slot.read(folder, ID, journal.parsed(data))
        state = self.written[-1].recovered()
        assert found.damage == ""
        assert tuple(found.conversation.messages) == state.messages
        assert tuple(found.conversation.calls) == state.calls
        assert found.conversation.turns == state.turns
        assert not found.conversation.started
        if self._has_prompt() and not self.is_failing:
            assert self.live.messages == state.messages[: len(self.live.messages)]

    @invariant()
    def the_second_bantam_s_session_is_its_own(self) -> None:
        found = self._store().stored(f"{ID}-2")
        assert tuple(found.conversation.messages) == self.aside

    # -- how it is done -----------------------------------------------------------------------

    def _append(self, message: Message) -> None:
        self.session.append(message)
        self._happened(self.live.plus(message))

    def _happened(self, live: State) -> None:
        self.live = live
        self.unwritten.append(live)
        if self._has_prompt():
            self._see_what_was_written()

    def _see_what_was_written(self) -> None:
        """A snapshot with an empty journal, or more lines of the journal."""
        data = self._journal()
        self.written = [*self.written, *self.unwritten] if data else [self.live]
        self.unwritten = []
        if self.is_failing:
            self.told.append(AGAIN)
        self.is_failing = False
        assert len(self.written) == 1 + len(journal.parsed(data).entries)

    def _crash(self) -> None:
        """Go on in a copy of the home, which nobody holds, as it is now."""
        self._homes += 1
        home = Path(self._folder.name, str(self._homes))
        shutil.copytree(self.home, home)
        self.session.close()
        self.home = home

    def _resume(self) -> None:
        self.session = self._store().resumed(ID)
        found = self.written[-1]
        self.told = [CUT_OFF] if found.started and found.open_calls else []
        self.live = found.recovered()
        self.unwritten = []
        self.is_failing = False

    def _has_prompt(self) -> bool:
        return any(message.role is Role.USER for message in self.live.messages)

    def _snapshot_path(self) -> Path:
        return self.home / "sessions" / f"{ID}.json"

    def _journal_path(self) -> Path:
        return self.home / "sessions" / f"{ID}.journal"

    def _journal(self) -> bytes:
        return self._journal_path().read_bytes()

    def _store(self) -> Store:
        return Store(self.home, lambda: datetime(2026, 1, 2, tzinfo=UTC))


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
