"""The window comes from /models, and nothing ever waits for it."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Self

import pytest
from exchanges import collected, http
from hypothesis import given, settings
from hypothesis import strategies as st
from llmreplies import JSON, Reply, error, raw, text
from llmserver import LLMServer
from processes import eventually
from proxies import unused_port

from bantam.core.cancel import Cancel
from bantam.core.errors import Interrupted
from bantam.core.events import Event, UsageReport
from bantam.core.messages import Message, Role
from bantam.model.catalogue import Catalogue, window_of
from bantam.model.client import Client, Settings
from bantam.model.dialects.native import Native
from bantam.model.transports import HTTPTransport

CASES = Path(__file__).parent / "cases" / "models.jsonl"
LISTED: dict[str, Any] = {"data": [{"id": "m", "context_length": 4096}]}
CONFIGURED = 1000


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text().splitlines()]


def window(entry: Any, model: str = "m") -> int | None:
    return window_of(model, json.dumps({"data": [{"id": "m", **entry}]}).encode())


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        ({"context_length": 1, "context_window": 2}, 1),
        ({"context_length": None, "context_window": 2}, 2),
        ({"context_length": 0, "max_context_length": 3}, 3),
        ({"context_length": -1, "max_model_len": 4}, 4),
        ({"context_length": "many", "loaded_context_length": 5}, 5),
        ({"context_length": True, "max_input_tokens": 6}, 6),
        ({"context_length": [9], "top_provider": {"context_length": 7}}, 7),
        ({"top_provider": None, "meta": {"n_ctx": 8}}, 8),
        ({"top_provider": [], "meta": {"n_ctx": None, "n_ctx_train": 9}}, 9),
        ({"meta": "none"}, None),
        ({"context_length": " 4096 "}, 4096),
        ({"context_length": "9" * 30}, None),
        ({"context_length": "-4"}, None),
        ({"context_length": 4096.0}, 4096),
        ({"context_length": 0.5}, None),
        ({"context_length": 10**30}, None),
        ({}, None),
    ],
)
def test_the_window_is_the_first_positive_number_of_the_known_fields(
    entry: Any, tokens: int | None
) -> None:
    assert window(entry) == tokens


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<!DOCTYPE html>",
        b"null",
        b"4",
        b"[]",
        b'{"data": null}',
        b'{"data": {"m": {}}}',
        b'{"data": ["m", null, 4]}',
        b'{"data": [{"id": ["m"], "context_length": 4}]}',
        b'{"data": [{"id": "m", "context_length": NaN}]}',
        b'{"data": [{"id": "m", "context_length": 1e999}]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"data": [{"id": "m", "context_length": 4}]',
    ],
)
def test_what_is_no_list_of_models_tells_nothing(body: bytes) -> None:
    assert window_of("m", body) is None


@pytest.mark.parametrize(
    "body",
    [b'[{"id": "m", "context_length": 4}]', b'{"models": [{"id": "m", "context_length": 4}]}'],
)
def test_a_bare_list_and_a_list_of_models_are_read(body: bytes) -> None:
    assert window_of("m", body) == 4


@settings(max_examples=60)
@given(st.binary(max_size=80))
def test_any_body_is_read(body: bytes) -> None:
    window_of("m", body)


# -- over sockets -----------------------------------------------------------------------------


def models_of(url: str, environ: dict[str, str] | None = None) -> HTTPTransport:
    return HTTPTransport(f"{url}/models", {"Connection": "close"}, environ or {})


@contextmanager
def talking(url: str, model: str = "m", patience_s: float = 5.0) -> Iterator["Talk"]:
    catalogue = Catalogue(models_of(url), model, CONFIGURED, patience_s=patience_s)
    client = Client(Settings(model), http(url), Native(), catalogue)
    with closing(client):
        yield Talk(client, catalogue)


class Talk:
    """A client and its catalogue."""

    def __init__(self, client: Client, catalogue: Catalogue) -> None:
        self.client = client
        self.catalogue = catalogue

    def ask(self, cancel: Cancel | None = None) -> list[Event]:
        """Return the events of one reply."""
        prompt = [Message(Role.USER, "hi")]
        return collected(self.client.reply(prompt, (), cancel or Cancel()))[0]

    def window(self) -> int:
        """Return the window that the usage of one reply names."""
        return next(e.window for e in self.ask() if isinstance(e, UsageReport))

    def settled(self) -> tuple[int, str]:
        """Return the window and its source once the answer was taken or given up."""

        def is_over() -> bool:
            self.catalogue.refresh(Cancel())
            return self.catalogue.is_settled

        assert eventually(is_over)
        return self.catalogue.window, self.catalogue.source


@pytest.mark.parametrize("case", cases(), ids=[case["id"] for case in cases()])
def test_the_public_cases_of_models(case: dict[str, Any]) -> None:
    body = case.get("body_text") or json.dumps(case["body"])
    listing = raw(body.encode(), status=case["status"], content_type=JSON, framing="length")
    tokens = case["expect"]["window"]
    told = (CONFIGURED, "context_window") if tokens is None else (tokens, "/models")
    with (
        LLMServer([text("Hi.")], models=listing) as server,
        talking(server.url, case["model"]) as talk,
    ):
        talk.ask()
        assert talk.settled() == told


def test_the_window_of_models_is_in_the_usage() -> None:
    with LLMServer([text("1"), text("2")], models=LISTED) as server, talking(server.url) as talk:
        talk.ask()
        assert talk.settled() == (4096, "/models")
        assert talk.window() == 4096


def test_the_request_comes_first_and_models_is_asked_once() -> None:
    with LLMServer([text("1"), text("2")], models=LISTED) as server, talking(server.url) as talk:
        talk.ask()
        talk.settled()
        talk.ask()
        assert [r.is_chat for r in server.requests if not r.is_models] == [True, True]
        assert server.requests[0].is_chat
        assert len(server.model_requests) == 1
        assert server.model_requests[0].connection != server.chat[0].connection
        assert len({request.connection for request in server.chat}) == 1


def test_a_server_that_is_down_is_not_asked_for_models() -> None:
    with talking(f"http://127.0.0.1:{unused_port()}/v1") as talk:
        cancel = Cancel()
        running = talk.client.reply([Message(Role.USER, "hi")], (), cancel)
        with closing(running):
            next(running)
            next(running)  # the first retry
        assert not talk.catalogue.is_settled


def test_models_that_are_held_delay_one_usage_by_a_moment() -> None:
    held = Reply(body=b"{}", content_type=JSON, framing="length", hold=True)
    with LLMServer([text(str(n)) for n in range(20)], models=held) as server:
        with talking(server.url) as talk:
            began = monotonic()
            assert [talk.window() for _ in range(20)] == [CONFIGURED] * 20
            assert monotonic() - began < 3  # 0.2 s each would be 4 s
            server.wait_for_stall()
        server.wait_for_close()


def test_models_that_trickle_delay_no_more() -> None:
    body = json.dumps(LISTED).encode()

    def slowly() -> Iterator[bytes]:
        never = threading.Event()
        for byte in body:
            never.wait(0.05)
            yield bytes([byte])

    trickle = Reply(lazy=slowly, content_type=JSON)
    with (
        LLMServer([text("1"), text("2")], models=trickle) as server,
        talking(server.url) as talk,
    ):
        began = monotonic()
        assert talk.window() == CONFIGURED
        assert monotonic() - began < 0.05 * len(body) * 0.75
        assert talk.settled() == (4096, "/models")


def test_models_that_do_not_answer_in_time_are_given_up() -> None:
    held = Reply(body=b"{}", content_type=JSON, framing="length", hold=True)
    with (
        LLMServer([text("1")], models=held) as server,
        talking(server.url, patience_s=0.3) as talk,
    ):
        talk.ask()
        assert talk.settled() == (CONFIGURED, "context_window")
        server.wait_for_close()


@pytest.mark.parametrize(
    "listing",
    [
        raw(json.dumps(LISTED).encode(), status=500, content_type=JSON),
        error(401, "no"),
        raw(json.dumps(LISTED | {"x": "x" * 9_000_000}).encode(), content_type=JSON),
        raw(b'{"data": [{"id": "m", "context_length": 4096}]}', content_type=JSON, cut_after=20),
        raw(b'{"data": [{"id": "m", "context_length": 4096}]}', content_type=JSON, reset_after=9),
    ],
    ids=["500", "401", "too large", "cut", "reset"],
)
def test_models_that_fail_change_nothing(listing: Reply) -> None:
    with LLMServer([text("1")], models=listing) as server, talking(server.url) as talk:
        talk.ask()
        assert talk.settled() == (CONFIGURED, "context_window")


def test_a_cancel_does_not_wait_for_models() -> None:
    held = Reply(body=b"{}", content_type=JSON, framing="length", hold=True)
    with LLMServer([text("1")], models=held) as server, talking(server.url) as talk:
        talk.catalogue.start()
        server.wait_for_stall()
        cancel = Cancel()
        cancel.set()
        with pytest.raises(Interrupted):
            talk.catalogue.refresh(cancel)


def test_a_server_of_one_connection_at_a_time_is_not_blocked() -> None:
    with OneAtATime() as server, talking(server.url) as talk:
        for _ in range(3):
            talk.ask()
        talk.client.close()
        assert eventually(lambda: server.idle)
    assert server.asked[:3] == [b"POST"] * 3


class OneAtATime:
    """A server in one thread: it serves a kept connection to its end before the next."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.asked: list[bytes] = []
        self.idle = True
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.idle = False
            with connection, connection.makefile("rb") as source:
                while line := source.readline():
                    self._answer(connection, source, line)
            self.idle = True

    def _answer(self, connection: socket.socket, source: Any, line: bytes) -> None:
        self.asked.append(line.split()[0])
        length = 0
        while (field := source.readline()) not in (b"\r\n", b""):
            if field.lower().startswith(b"content-length:"):
                length = int(field.partition(b":")[2])
        source.read(length)
        reply = text("Hi.") if line.startswith(b"POST") else error(404, "no list")
        body = reply.body
        head = f"HTTP/1.1 {reply.status} X\r\ncontent-type: {reply.content_type}\r\n"
        connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)


def test_without_somebody_to_ask_nothing_is_asked() -> None:
    catalogue = Catalogue(None, "m", CONFIGURED)
    catalogue.start()
    catalogue.refresh(Cancel())
    catalogue.close()
    assert (catalogue.window, catalogue.source) == (CONFIGURED, "context_window")


def test_closing_before_and_after_is_quiet() -> None:
    with LLMServer([], models=LISTED) as server:
        catalogue = Catalogue(models_of(server.url), "m", CONFIGURED)
        catalogue.close()
        catalogue.start()
        catalogue.close()
        assert server.requests == []
