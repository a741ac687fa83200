"""The scripted server does what its scripts say: faults are what they claim, nothing lingers."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from llmserver import (
    END,
    LLMServer,
    Reply,
    big_line,
    error,
    raw,
    text,
)

USER: dict[str, Any] = {"role": "user", "content": "hi"}
ASKED: dict[str, Any] = {"model": "m", "messages": [USER], "stream": True}
OK = text("All is well.")


def connected(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)


def post(connection: http.client.HTTPConnection, asked: Any = ASKED) -> http.client.HTTPResponse:
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", body, headers)
    return connection.getresponse()


def answer(url: str, asked: Any = ASKED) -> tuple[int, bytes]:
    with closing(connected(url)) as connection:
        response = post(connection, asked)
        return response.status, response.read()


def raw_request(url: str, missing: int = 0) -> socket.socket:
    """Send the request, but `missing` bytes, by hand: the caller reads what comes as it comes."""
    host, port = urlsplit(url).netloc.split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    body = json.dumps(ASKED).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n"
    connection.sendall(head.encode() + b"content-type: application/json\r\n\r\n")
    connection.sendall(body[: len(body) - missing])
    return connection


def read_to_end(connection: socket.socket) -> bytes:
    read = b""
    while part := connection.recv(1 << 16):
        read += part
    return read


# -- replies ----------------------------------------------------------------------------------


def test_a_text_comes_as_a_stream_or_whole_as_was_asked() -> None:
    with LLMServer([text("Héllo", reasoning="Hm."), text("Héllo", reasoning="Hm.")]) as server:
        _, streamed = answer(server.url)
        _, whole = answer(server.url, ASKED | {"stream": False})
    assert streamed == text("Héllo", reasoning="Hm.").body
    message = json.loads(whole)["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Héllo", "reasoning_content": "Hm."}


@pytest.mark.parametrize("reply", [OK, replace(OK, piece_size=1), replace(OK, framing="close")])
def test_the_body_is_the_same_however_it_is_cut_and_framed(reply: Reply) -> None:
    with LLMServer([reply]) as server:
        assert answer(server.url) == (200, OK.body)


def test_an_error_is_json_with_its_members_and_headers() -> None:
    reply = error(529, "busy", headers={"retry-after": "7"}, code="c")
    with LLMServer([reply]) as server, closing(connected(server.url)) as connection:
        response = post(connection)
        assert (response.status, response.reason) == (529, "")
        assert response.getheader("retry-after") == "7"
        assert json.loads(response.read()) == {"error": {"message": "busy", "code": "c"}}


# -- faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 100, END])
@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_a_cut_is_a_fin_before_the_body_has_ended(after: int, framing: Any) -> None:
    reply = replace(OK, cut_after=after, framing=framing)
    with LLMServer([reply]) as server, raw_request(server.url) as connection:
        head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    if framing == "length":
        assert body == OK.body[:after]
    else:
        assert not body.endswith(b"0\r\n\r\n")
        assert sum(len(chunk) for chunk in chunks(body)) == min(after, len(OK.body))


def chunks(body: bytes) -> Iterator[bytes]:
    while body:
        size, _, rest = body.partition(b"\r\n")
        yield rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


def test_a_reset_is_an_rst_and_no_fin() -> None:
    reply = replace(OK, reset_after=100)
    with (
        LLMServer([reply]) as server,
        raw_request(server.url) as connection,
        pytest.raises(ConnectionResetError),
    ):
        read_to_end(connection)


def test_a_stall_goes_on_once_it_is_released() -> None:
    reply = replace(OK, stall_after=100)
    with LLMServer([reply]) as server, closing(connected(server.url)) as connection:
        response = post(connection)
        assert response.read(100) == OK.body[:100]
        server.wait_for_stall()
        server.release()
        assert response.read() == OK.body[100:]


def test_a_held_request_is_recorded_and_gets_no_byte_until_released() -> None:
    reply = replace(OK, hold=True, framing="close")
    with LLMServer([reply]) as server, raw_request(server.url) as connection:
        server.wait_for(1)
        server.wait_for_stall()
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(10)
        server.release()
        assert read_to_end(connection).endswith(OK.body)


def test_a_trickle_sends_comments_alone() -> None:
    reply = replace(OK, stall_after=0, trickle=True)
    with LLMServer([reply]) as server, closing(connected(server.url)) as connection:
        response = post(connection)
        assert response.read(27) == b": ping\n\n" * 3 + b": p"
        server.release()
        assert response.read().endswith(OK.body)


def test_a_client_that_leaves_is_noticed() -> None:
    replies = [replace(OK, hold=True), replace(OK, stall_after=50), big_line(300), OK]
    with LLMServer(replies) as server:
        for count in (1, 2):
            with raw_request(server.url):
                server.wait_for_stall(count)
            server.wait_for_close(count)
        with raw_request(server.url) as connection:
            connection.recv(1000)
        server.wait_for_close(3)
        answer(server.url)
        server.wait_for_close(4)


def test_a_client_that_leaves_in_mid_request_has_made_none() -> None:
    with LLMServer([]) as server:
        raw_request(server.url, missing=1).close()
        server.wait_for_close()
        assert server.requests == []


# -- the server -------------------------------------------------------------------------------


def test_one_connection_serves_many_requests_and_each_is_recorded() -> None:
    server = LLMServer([OK, text("2")], models={"data": []})
    with server, closing(connected(server.url)) as connection:
        post(connection).read()
        post(connection).read()
        connection.request("GET", "/v1/models")
        assert json.loads(connection.getresponse().read()) == {"data": []}
    assert [r.connection for r in server.requests] == [1, 1, 1]
    assert [len(server.chat), len(server.model_requests)] == [2, 1]
    assert server.chat[0].json == ASKED
    assert server.chat[0].headers["content-type"] == "application/json"
    assert server.requests[0].at <= server.requests[1].at


def test_a_connection_that_should_close_closes() -> None:
    with LLMServer([OK]) as server, closing(connected(server.url)) as connection:
        body = json.dumps(ASKED)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        response = connection.getresponse()
        assert response.read() == OK.body
        assert connection.sock.recv(1) == b""


def test_models_may_be_a_reply_and_are_missing_by_default() -> None:
    for models, status in ((raw(b"<html>", status=503), 503), (None, 404)):
        with LLMServer([], models=models) as server, closing(connected(server.url)) as connection:
            connection.request("GET", "/v1/models")
            assert connection.getresponse().status == status


def test_a_wrong_path_is_404_and_no_chat_request() -> None:
    with LLMServer([]) as server, closing(connected(server.url)) as connection:
        connection.request("POST", "/chat/completions", b"{}")
        assert connection.getresponse().status == 404
        assert (len(server.requests), server.chat) == (1, [])


def test_an_exhausted_script_fails_the_test_and_is_not_worth_a_retry() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(LLMServer([OK]))
        answer(server.url)
        status, body = answer(server.url)
        assert (status, b"exhausted" in body) == (410, True)
        with pytest.raises(AssertionError, match=r"no reply to request 2: .*script of 1 replies"):
            stack.close()


def test_a_failing_script_fails_the_test() -> None:
    def script(asked: dict[str, Any], ordinal: int) -> Reply:
        assert ordinal == 0, f"asked {asked['model']} again"
        return OK

    with ExitStack() as stack:
        server = stack.enter_context(LLMServer(script))
        assert [answer(server.url)[0] for _ in range(2)] == [200, 410]
        with pytest.raises(AssertionError, match="asked m again"):
            stack.close()


def test_the_error_of_the_test_is_not_hidden_by_the_servers() -> None:
    def story() -> None:
        with LLMServer([]) as server:
            answer(server.url)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        story()


def test_the_last_reply_repeats_and_a_lenient_server_forgives() -> None:
    with LLMServer([OK, text("2")], repeat_last=True) as server:
        assert len({answer(server.url)[1] for _ in range(4)}) == 2
    with LLMServer([], strict=False) as server:
        assert answer(server.url)[0] == 410
    assert len(server.faults) == 1


def test_an_invalid_request_is_refused_and_costs_no_reply() -> None:
    twice = ASKED | {"messages": [USER, USER]}
    with ExitStack() as stack:
        server = stack.enter_context(LLMServer([OK]))
        assert answer(server.url, twice)[0] == 400
        assert answer(server.url) == (200, OK.body)
        with pytest.raises(AssertionError, match=r"invalid request 1: .*R4"):
            stack.close()
    with LLMServer([OK], check=False) as lenient:
        assert answer(lenient.url, twice)[0] == 200


def test_waiting_for_what_does_not_come_says_what_did() -> None:
    with LLMServer([OK]) as server:
        answer(server.url)
        with pytest.raises(AssertionError, match=r"no 2 chat requests .*: 1 chat requests, 0 held"):
            server.wait_for(2, timeout=0.01)


def test_closing_ends_every_thread_and_connection_at_once() -> None:
    before = set(threading.enumerate())
    with LLMServer([replace(OK, hold=True), replace(OK, stall_after=9), OK]) as server:
        connections = [raw_request(server.url) for _ in range(3)]
        server.wait_for_stall(2)
        server.wait_for(3)
    assert set(threading.enumerate()) <= before
    for connection in connections:
        with connection:
            read_to_end(connection)
    server.close()
