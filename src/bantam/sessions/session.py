"""A conversation that is stored while it happens.

In memory is the truth; the disk follows, a line of the journal for each thing that happens and a
snapshot at the end of each turn. Where the disk does not follow (it is full, read-only, gone), the
chat goes on: that is told once, and each next step writes all of it anew: one way to catch up.

Nothing is written before the first prompt: an empty conversation replaces nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from bantam.core.changes import Change
from bantam.core.discretion import hidden_in
from bantam.core.errors import why_of
from bantam.core.events import UsageReport
from bantam.core.messages import Message, Role, ToolCall, last_prompt, parsed_arguments
from bantam.core.redaction import Redaction
from bantam.sessions.files import encoded
from bantam.sessions.slot import Loaded, Slot, Tell
from bantam.sessions.snapshot import About, Conversation, first_line, report_to_json
from bantam.sessions.undo import UndoLog

Acquire = Callable[[Tell], Slot]


class Session:
    """A conversation and its place on the disk; `notices` holds what the user should hear.

    No value of `redaction` is stored, nor sent from here: `messages` are as they are stored.
    """

    def __init__(
        self,
        loaded: Loaded,
        acquire: Acquire,
        *,
        session_id: str,
        now: Callable[[], datetime],
        redaction: Redaction,
        slot: Slot | None = None,
    ) -> None:
        """`acquire` gives the place where `slot` is None; what is stored there is kept then."""
        self.notices: list[str] = []
        self._id = session_id
        self._about = loaded.about
        self._conversation = loaded.conversation
        self._rewound: Conversation | None = None  # what comes back if no answer comes
        self._replaced: list[tuple[str, Conversation]] = []  # by what; not stored yet
        self._acquire = acquire
        self._now = now
        self._redaction = redaction
        self._slot = slot
        # The disk lacks what only a snapshot adds; and a conversation begins with one.
        self._behind = slot is None or not (loaded.as_stored and loaded.conversation.messages)
        self._changed = slot is not None and not loaded.as_stored  # since the last snapshot
        self._held, self._fault = b"", ""  # lines written with the next one; what was told

    @property
    def id(self) -> str:
        """Its name: the slot's, once there is one."""
        return self._slot.id if self._slot else self._id

    @property
    def created(self) -> str:
        """When it was first stored (UTC, ISO 8601), "" before."""
        return self._about.created

    @property
    def undo(self) -> UndoLog | None:
        """What puts back the files of its turns; None while it has no place of its own."""
        return self._slot.undo if self._slot else None

    @property
    def turns(self) -> int:
        """The number of its last turn."""
        return self._conversation.turns

    @property
    def messages(self) -> Sequence[Message]:
        """All messages so far."""
        return self._conversation.messages

    @property
    def calls(self) -> Sequence[UsageReport]:
        """What each request cost."""
        return self._conversation.calls

    @property
    def is_unsaved(self) -> bool:
        """Whether the disk lacks something of it: that could not be stored."""
        return self._changed and self._conversation.has_prompt

    # -- what happens -------------------------------------------------------------------------

    def hide(self, secrets: Iterable[str | None]) -> None:
        """Let none of `secrets` stand in it from now on: what it holds by now included."""
        self._redaction.learn(secrets)
        messages = hidden_in(self.messages, self._redaction)
        if messages != self.messages:
            self._conversation = replace(self._conversation, messages=messages, _encoded=[])
            self._behind = self._changed = True

    def begin(self, system: Message) -> None:
        """Put a system message before all others."""
        self._conversation.insert_first(*hidden_in([system], self._redaction))
        self._behind = True

    def append(self, message: Message) -> None:
        """Add a message; stored when this returns. A user's begins a turn.

        Not yet stored is what stands before the first prompt, and a prompt that was taken out and
        is sent again: the disk keeps its old answer until there is a new one.
        """
        if message.role is not Role.USER:
            self._add(message)
            return
        self._conversation.turns += 1
        self._add(message, b', "turn": %d' % self._conversation.turns)
        self._begin_undo()

    def note(self, text: str) -> None:
        """Add what the model should know of what happened outside of any turn."""
        self._add(Message(Role.USER, text))

    def rewind(self) -> str | None:
        """Take the last prompt, and what came of it, out; return its text, None if there is none.

        It is lost, on the disk too, once the model has answered anew; else `finish` restores it.
        Where the answer has calls, which may come to nothing, it is kept as `<id>-before-retry`.
        """
        at = last_prompt(self.messages)
        if at is None:
            return None
        self._rewound = old = self._conversation
        self._conversation = Conversation(old.messages[:at], calls=old.calls, turns=old.turns)
        return old.messages[at].content

    def compact_to(self, messages: Sequence[Message]) -> None:
        """Let `messages` take the place of all; what was stays stored, `<id>-before-compact`."""
        old, new = self._conversation, hidden_in(messages, self._redaction)
        self._replaced.append(("compact", self._rewound or old))
        self._give_up_rewound()
        self._conversation = Conversation(new, calls=old.calls, turns=old.turns)
        self.describe(summary=self._about.summary or first_line(old.messages))
        self._save()

    def dialect_of(self, model: str) -> str:
        """Return the dialect that `model` was last spoken to in, "" if it was not."""
        text = self._redaction.text
        return self._about.dialect if text(self._about.model) == text(model) else ""

    def speaks(self, model: str, dialect: str) -> None:
        """Remember that; stored with the next snapshot."""
        if dialect != self.dialect_of(model):
            self._about = replace(self._about, model=model, dialect=dialect)
            self._changed = True

    def describe(self, *, endpoint: str = "", model: str = "", summary: str = "") -> None:
        """Let it say of itself what is given; stored with the next thing that happens."""
        about = self._about
        self._about = replace(
            about,
            endpoint=endpoint or about.endpoint,
            model=model or about.model,
            dialect=self.dialect_of(model or about.model),
            summary=summary or about.summary,
        )
        self._behind = self._changed = True

    def started(self, call: ToolCall) -> None:
        """Note that `call`, the first without a result, is about to run; stored as above."""
        self._conversation.started = True
        text = self._redaction.text
        start = {"id": text(call.id), "name": text(call.name)}
        self._log(encoded({"start": start}) + b"\n")
        command = (parsed_arguments(call.arguments) or {}).get("command")
        if isinstance(command, str) and self._slot is not None:
            with suppress(OSError):  # it only names what cannot be undone
                self._slot.undo.ran(text(command))

    def keep(self, change: Change) -> None:
        """Keep what puts a file back, durably, before it changes; tell it if that fails."""
        path, why = self._redaction.text(change.path), "the session is not stored"
        try:
            if self._slot is not None:
                self._slot.undo.keep(change, path)
                return
        except OSError as error:
            why = why_of(error)
        self.notices.append(f"{path} cannot be put back later: {why}")

    def count(self, report: UsageReport) -> None:
        """Add what a request cost; stored with the next thing that happens."""
        self._changed = True
        self._conversation.calls.append(report)
        self._held += encoded({"usage": report_to_json(report)}) + b"\n"

    def finish(self) -> None:
        """Write the snapshot: the turn is over."""
        self._conversation, self._rewound = self._rewound or self._conversation, None
        if self._changed and self._conversation.has_prompt:
            self._save()

    def copy_to(self, slot: Slot) -> None:
        """Write the conversation to another place. Raises OSError."""
        slot.save(self._stamped(), self._conversation)

    def close(self) -> None:
        """Write what is unwritten and let the place on the disk go."""
        self.finish()
        if self._slot is not None:
            self._slot.release(remove=not self._changed)
            self._slot = None
        self._changed = False  # closed twice, it is not stored beside what could not be stored

    def _add(self, message: Message, more: bytes = b"") -> None:
        self._conversation.append(*hidden_in([message], self._redaction))
        if self._rewound is None or message.role is Role.ASSISTANT:
            if self._rewound is not None and message.tool_calls:
                self._replaced.append(("retry", self._rewound))
            self._give_up_rewound()
            self._log(b'{"message": ' + self._conversation.encoded_messages()[-1] + more + b"}\n")

    # -- the disk -----------------------------------------------------------------------------

    def _log(self, line: bytes) -> None:
        self._changed = True
        self._held += line
        if not self._conversation.has_prompt:
            return
        if self._slot is not None and not self._behind:
            try:
                self._slot.append(self._held)
            except OSError:
                self._behind = True  # the cause, if it lasts, is told by `_save`
            else:
                self._held = b""
                return
        self._save()

    def _save(self) -> None:
        """Write a snapshot, in a place taken now if there is none; tell it if that fails."""
        about = self._stamped()
        self._behind, self._held = True, b""  # the snapshot has all of it
        try:
            slot = self._place()
            # First: a crash then leaves the old one twice, and not the new one alone.
            slot.keep(about, self._replaced, self.notices.append)
            slot.save(about, self._conversation)
        except OSError as error:
            self._tell_fault(error)
            return
        self._about = about
        self._behind = self._changed = False
        if self._fault:
            self._fault = ""
            self.notices.append(f"the session is stored again, as {self.id}")

    def _place(self) -> Slot:
        if self._slot is not None and self._slot.is_lost:
            self._slot.release(remove=False)
            self._slot = None
        if self._slot is None:
            slot = self._acquire(self.notices.append)
            try:
                slot.make_room(self.notices.append)
            except OSError:
                slot.release(remove=False)
                raise
            self._slot = slot
            self._begin_undo()
        return self._slot

    def _give_up_rewound(self) -> None:
        if self._rewound is not None:
            self._rewound, self._behind = None, True
            self._begin_undo()

    def _begin_undo(self) -> None:
        if self._slot is not None and self._rewound is None:
            with suppress(OSError):  # `keep` will fail likewise, and tells it
                self._slot.undo.begin(self._conversation.turns)

    def _tell_fault(self, error: OSError) -> None:
        if (fault := why_of(error)) == self._fault:  # met at another file, perhaps
            return
        self._fault = fault
        self.notices.append(
            f"the session could not be stored: {fault}: {error.filename or self.id}; the work goes "
            "on, and each step tries again (BANTAM_HOME can name another folder)"
        )

    def _stamped(self) -> About:
        now = self._now().astimezone(UTC).isoformat(timespec="seconds")
        about = self._about.without(self._redaction)
        return replace(about, created=about.created or now, updated=now)
