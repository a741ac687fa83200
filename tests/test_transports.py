import gzip
import os
import socket
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, Final, Self

import pytest
from certificates import Certificates, make_certificates
from exchanges import (
    BODY,
    attempt,
    child,
    collected,
    full_listener,
    hold_that_threads_end,
    http,
    interrupted,
    items_of,
    run,
    text_of,
)
from llmrequests import read_request
from llmserver import END, LLMServer, Reply, delta, error, raw, text
from loopback import Listener
from processes import eventually, files_of_at_most, killed, running, unique_seconds, zombie_children
from proxies import HTTPProxy, Socks5Proxy, named, unused_port

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError
from bantam.model.failures import AttemptFailed, Failure, Kind
from bantam.model.programs import RunTransport
from bantam.model.transports import End, Head, HTTPTransport, Item

OK: Final = text("All is well.")


def body_of(items: list[Item]) -> bytes:
    """Return the body, which must have come whole behind a Head."""
    assert isinstance(items[0], Head), items
    assert isinstance(items[-1], End), items
    return b"".join(item for item in items if isinstance(item, bytes))


def failure_of(items: list[Item]) -> Failure:
    assert isinstance(items[-1], Failure), items
    return items[-1]


class Answering:
    """A server that answers each request by the next of `answers`, as it stands, and a FIN."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = iter(answers)
        self._listener = Listener(self._serve)
        self.url = f"http://127.0.0.1:{self._listener.port}/v1"

    def __enter__(self) -> Self:
        self._listener.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self, connection: socket.socket, ordinal: int) -> None:
        with connection.makefile("rb") as source:
            read_request(source, ordinal)
            connection.sendall(next(self._answers))


# -- http: what comes ------------------------------------------------------------------------


def test_an_answer_comes_as_a_head_parts_and_an_end() -> None:
    with LLMServer([replace(OK, headers={"X-One": "1"})]) as server, closing(http(server.url)) as t:
        items = items_of(t.send(BODY))
    head = items[0]
    assert isinstance(head, Head)
    assert (head.status, head.reason, head.headers["x-one"]) == (200, "OK", "1")
    assert body_of(items) == OK.body


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("X-GZip ", gzip.compress),
        ("deflate", zlib.compress),
        ("gzip", lambda body: gzip.compress(body) + b"behind its end"),
    ],
)
def test_a_body_is_the_same_in_any_framing_and_compression(
    framing: Any, encoding: str, pack: Any
) -> None:
    body = os.urandom(1000).hex().encode() * 300
    reply = raw(pack(body), framing=framing, headers={"content-encoding": encoding})
    with LLMServer([reply]) as server, closing(http(server.url)) as transport:
        assert body_of(items_of(transport.send(BODY))) == body


def test_a_compressed_stream_is_read_as_it_comes() -> None:
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(OK.body[:300]) + packer.flush(zlib.Z_SYNC_FLUSH)
    rest = packer.compress(OK.body[300:]) + packer.flush()
    reply = raw(first + rest, headers={"content-encoding": "gzip"}, stall_after=len(first))
    with LLMServer([reply]) as server, closing(http(server.url)) as transport:
        exchange = transport.send(BODY)
        Cancel().get(exchange.inbox, 10)
        early = b""
        while len(early) < 300:
            part = Cancel().get(exchange.inbox, 10)
            assert isinstance(part, bytes)
            early += part
        server.release()
        late = b"".join(item for item in items_of(exchange) if isinstance(item, bytes))
    assert (early, early + late) == (OK.body[:300], OK.body)


def test_broken_compression_is_a_broken_answer_and_an_unknown_one_is_final() -> None:
    broken = raw(gzip.compress(OK.body)[:30] + b"\0" * 60, headers={"content-encoding": "gzip"})
    unknown = raw(OK.body, headers={"content-encoding": "br"})
    with LLMServer([broken, unknown]) as server, closing(http(server.url)) as transport:
        failures = [failure_of(items_of(transport.send(BODY))) for _ in range(2)]
    assert [f.kind for f in failures] == [Kind.BROKEN, Kind.FINAL]
    assert "compression is broken" in failures[0].reason
    assert failures[1].reason.startswith("the answer is compressed")


HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n" + OK.body, 200),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"\r\n" + OK.body, 200),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + HEAD + b"\r\n" + OK.body, 200),
        (b"HTTP/1.1 599\r\n\r\n" + OK.body, 599),
        (HEAD + b"X-Long: " + b"x" * 50_000 + b"\r\n\r\n" + OK.body, 200),
        (HEAD.replace(b"OK", b"Tout va \xe9") + b"X: \xff\r\n\r\n" + OK.body, 200),
    ],
    ids=["http-1.0", "100", "103", "no-reason", "long-header", "not-ascii"],
)
def test_any_sort_of_http_is_understood(answer: bytes, status: int) -> None:
    with Answering(answer) as server, closing(http(server.url)) as transport:
        items = items_of(transport.send(BODY))
    assert body_of(items) == OK.body
    assert isinstance(items[0], Head)
    assert items[0].status == status


def test_204_has_no_body() -> None:
    with Answering(b"HTTP/1.1 204 No Content\r\n\r\n") as server, closing(http(server.url)) as t:
        assert body_of(items_of(t.send(BODY))) == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 200 OK\r\nContent-Len",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        HEAD + b"Content-Length: 99999\r\n\r\n" + OK.body,
        HEAD + b"X-Long: " + b"x" * 300_000 + b"\r\n\r\n",
    ],
    ids=["nothing", "ssh", "tls", "half-a-head", "bad-chunk", "too-short", "endless-header"],
)
def test_what_is_not_http_is_a_failed_connection_that_may_pass(answer: bytes) -> None:
    with Answering(answer) as server, closing(http(server.url)) as transport:
        failure = failure_of(items_of(transport.send(BODY)))
    assert failure.kind is Kind.CONNECTION
    assert failure.reason.startswith("connection failed: ")


def test_a_refused_connection_is_a_failure_that_may_pass() -> None:
    transport = http(f"http://127.0.0.1:{unused_port()}/v1")
    failure = failure_of(items_of(transport.send(BODY)))
    assert failure.kind is Kind.CONNECTION
    assert "refused" in failure.reason


def test_closing_a_transport_that_sent_nothing_does_nothing() -> None:
    http("http://127.0.0.1:9/v1").close()


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-secret\r\nX: 1", "sk-sécret", "sk-secret\0"])
def test_a_key_that_no_header_can_hold_is_final_and_not_shown(key: str) -> None:
    with LLMServer([]) as server:
        headers = {"Authorization": f"Bearer {key}"}
        transport = HTTPTransport(f"{server.url}/chat/completions", headers, {})
        failure = failure_of(items_of(transport.send(BODY)))
        assert server.requests == []
    assert failure.kind is Kind.FINAL
    assert "secret" not in str(failure)
    assert "cret" not in str(failure)


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("https://127.0.0.1:9/v1", {"SSL_CERT_FILE": "/nowhere/ca.pem"}),
        ("ftp://127.0.0.1:9/v1", {}),
        ("http://127.0.0.1:9/v1\n", {}),
    ],
)
def test_what_can_never_be_sent_is_final(url: str, environ: Mapping[str, str]) -> None:
    failure = failure_of(items_of(http(url, environ).send(BODY)))
    assert failure.kind is Kind.FINAL


def test_an_httpx_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "httpx.py").write_text("raise ImportError('half installed')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from exchanges import BODY, http, items_of\n"
        "print(items_of(http('http://127.0.0.1:9/v1').send(BODY)))"
    )
    assert "ImportError: half installed" in child(code, tmp_path, str(tmp_path))


def test_a_redirect_is_not_followed() -> None:
    with LLMServer([]) as elsewhere:
        where = f"{elsewhere.url}/chat/completions"
        redirect = raw(b"", status=307, headers={"location": where}, framing="length")
        with LLMServer([redirect]) as server, closing(http(server.url)) as transport:
            items = items_of(transport.send(BODY))
        assert elsewhere.requests == []
    assert isinstance(items[0], Head)
    assert (items[0].status, items[0].headers["location"]) == (307, where)


def test_cookies_and_netrc_files_are_no_way_to_send_a_key(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("default login me password hidden\n")
    (tmp_path / ".netrc").chmod(0o600)
    code = (
        "import sys\n"
        "from exchanges import BODY, http, items_of\n"
        "from llmserver import LLMServer, text\n"
        "with LLMServer([text('x')]) as server:\n"
        "    items_of(http(server.url).send(BODY))\n"
        "    print(sorted(server.chat[0].headers))"
    )
    assert "authorization" not in child(code, tmp_path)


# -- http: tls and proxies -------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def test_tls_works_with_the_authority_that_is_named(certificates: Certificates) -> None:
    trusted = {"SSL_CERT_FILE": str(certificates.authority)}
    with (
        LLMServer([OK, OK], tls=certificates.server_context()) as server,
        closing(http(server.url, trusted)) as transport,
    ):
        for _ in range(2):
            assert body_of(items_of(transport.send(BODY))) == OK.body
        assert {request.connection for request in server.chat} == {1}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_behind_its_handshake_a_connection_has_one_descriptor(certificates: Certificates) -> None:
    trusted = {"SSL_CERT_FILE": str(certificates.authority)}
    with LLMServer([OK], tls=certificates.server_context()) as server:
        before = descriptors()
        with closing(http(server.url, trusted)) as transport:
            exchange = transport.send(BODY)
            body_of(items_of(exchange))
            # The server's end is one of this process as well.
            assert descriptors() == before + 2
        assert eventually(lambda: descriptors() == before)


def test_a_certificate_of_a_stranger_is_final_and_says_what_to_set(
    certificates: Certificates,
) -> None:
    with LLMServer([], tls=certificates.server_context()) as server:
        failure = failure_of(items_of(http(server.url).send(BODY)))
    assert failure.kind is Kind.FINAL
    assert "SSL_CERT_FILE" in failure.reason


@pytest.mark.parametrize("proxy_type", [HTTPProxy, Socks5Proxy])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_cancel_ends_a_request_through_a_proxy(
    proxy_type: type[HTTPProxy | Socks5Proxy], scheme: str, certificates: Certificates
) -> None:
    tls = certificates.server_context() if scheme == "https" else None
    with proxy_type() as proxy, LLMServer([replace(OK, stall_after=300), OK], tls=tls) as server:
        environ = {
            f"{scheme.upper()}_PROXY": proxy.url,
            "SSL_CERT_FILE": str(certificates.authority),
        }
        with closing(http(named(server.url), environ)) as transport:
            cancel = Cancel()
            interrupted(attempt(transport, cancel), cancel, server.wait_for_stall)
            server.wait_for_close()
            assert text_of(collected(attempt(transport))[0]) == "All is well."
        assert len(proxy.targets) == 2


# -- http: one connection --------------------------------------------------------------------


def test_fifty_requests_need_one_connection() -> None:
    with LLMServer([OK], repeat_last=True) as server, closing(http(server.url)) as transport:
        for _ in range(50):
            collected(attempt(transport))
        assert [request.connection for request in server.chat] == [1] * 50


def test_a_kept_connection_never_expires_by_itself() -> None:
    # A tool may run for hours; httpx by itself forgets a connection after five seconds.
    with closing(http("http://127.0.0.1:9/v1")) as transport:
        pool = transport.client()._transport._pool  # type: ignore[attr-defined]  # noqa: SLF001  no wait of hours
        assert pool._keepalive_expiry is None  # noqa: SLF001  likewise


@pytest.mark.parametrize(
    "reply",
    [
        text("All is well.", done=False),
        replace(OK, body=OK.body + b": bye\n\n" + delta(content="unwanted")),
        replace(OK, framing="length"),
        error(503, "busy"),
        error(400, "no"),
    ],
    ids=["no-done", "behind-done", "length", "503", "400"],
)
def test_the_connection_outlives_every_answer_that_is_read_to_its_end(reply: Reply) -> None:
    with LLMServer([reply, OK]) as server, closing(http(server.url)) as transport:
        for _ in range(2):
            with suppress(AttemptFailed):
                collected(attempt(transport))
        assert [request.connection for request in server.chat] == [1, 1]


@pytest.mark.parametrize("trickle", [False, True])
def test_a_body_held_open_behind_done_costs_one_new_connection(trickle: bool) -> None:
    held = replace(OK, stall_after=END, trickle=trickle)
    with LLMServer([held, OK, OK]) as server, closing(http(server.url)) as transport:
        for _ in range(3):
            assert text_of(collected(attempt(transport))[0]) == "All is well."
        assert [request.connection for request in server.chat] == [1, 2, 2]
        server.wait_for_close()


def test_a_connection_that_the_server_closed_while_idle_is_replaced_unseen() -> None:
    length = b"Content-Length: %d\r\n\r\n" % len(OK.body)
    closed = threading.Event()

    def serve(connection: socket.socket, ordinal: int) -> None:
        with connection.makefile("rb") as source:
            read_request(source, ordinal)
            connection.sendall(HEAD + length + OK.body)
            connection.shutdown(socket.SHUT_WR)
            closed.set()
            source.read()

    with Listener(serve) as listener:
        transport = http(f"http://127.0.0.1:{listener.port}/v1")
        for _ in range(3):
            assert text_of(collected(attempt(transport))[0]) == "All is well."
            assert closed.wait(10)
            closed.clear()
        transport.close()


# -- http: cancel ----------------------------------------------------------------------------

FLOOD: Final = Reply(lazy=lambda: repeat(delta(content="word ")))


@pytest.mark.parametrize(
    "reply",
    [
        replace(OK, hold=True),
        replace(OK, stall_after=0),
        replace(OK, stall_after=300),
        # Behind a whole event: a comment within one would be part of it.
        replace(OK, stall_after=OK.body.index(b"\n\n", 300) + 2, trickle=True),
        replace(OK, stall_after=300, framing="length"),
        raw(b'{"error": "x"}', status=503, framing="length", stall_after=3),
    ],
    ids=["head", "first-byte", "silence", "pings", "length", "error-body"],
)
@pytest.mark.parametrize("used", [False, True], ids=["new", "reused"])
def test_a_cancel_ends_a_wait_at_once_and_the_next_request_works(reply: Reply, used: bool) -> None:
    replies = [OK, reply, OK] if used else [reply, OK]
    with LLMServer(replies) as server:
        before = set(threading.enumerate())
        transport = http(server.url)
        if used:
            collected(attempt(transport))
        cancel = Cancel()
        interrupted(attempt(transport, cancel), cancel, server.wait_for_stall)
        server.wait_for_close()
        assert text_of(collected(attempt(transport))[0]) == "All is well."
        connections = [request.connection for request in server.chat]
        assert connections == ([1, 1, 2] if used else [1, 2])
        transport.close()
        hold_that_threads_end(before)


def test_a_cancel_ends_a_flood() -> None:
    with LLMServer([FLOOD, OK]) as server:
        before = set(threading.enumerate())
        with closing(http(server.url)) as transport:
            cancel = Cancel()
            interrupted(attempt(transport, cancel), cancel, lambda: server.wait_for(1))
            server.wait_for_close()
            collected(attempt(transport))
        hold_that_threads_end(before)


@pytest.mark.parametrize("reply", [replace(OK, stall_after=600), FLOOD])
def test_closing_the_generator_ends_the_request_at_once(reply: Reply) -> None:
    with LLMServer([reply, OK]) as server:
        before = set(threading.enumerate())
        with closing(http(server.url)) as transport:
            running = attempt(transport)
            next(running)
            running.close()
            server.wait_for_close()
            assert text_of(collected(attempt(transport))[0]) == "All is well."
        hold_that_threads_end(before)


def test_a_cancel_while_connecting_is_kept_for_the_socket_that_comes_later() -> None:
    listener, fillers = full_listener()
    before = set(threading.enumerate())
    transport = http(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    with listener, closing(transport):
        cancel = Cancel()
        waiting = threading.Event()
        interrupted(attempt(transport, cancel), cancel, lambda: waiting.wait(0.1))
        known = {filler.getsockname()[1] for filler in fillers}
        while True:
            connection, (_, port) = listener.accept()
            with connection:
                connection.settimeout(10)
                if port not in known:
                    assert connection.recv(100) == b""
                    break
        hold_that_threads_end(before)
        # Nor is it taken for the socket of a request that came after it.
        assert transport.socket is None
    for filler in fillers:
        filler.close()


def test_a_cancel_ends_a_handshake_that_hangs(certificates: Certificates) -> None:
    greeted, left = threading.Event(), threading.Event()

    def serve(connection: socket.socket, _: int) -> None:
        connection.recv(1)
        greeted.set()
        while connection.recv(1 << 16):
            pass
        left.set()

    before = set(threading.enumerate())
    with Listener(serve) as listener:
        trusted = {"SSL_CERT_FILE": str(certificates.authority)}
        with closing(http(f"https://127.0.0.1:{listener.port}/v1", trusted)) as transport:
            cancel = Cancel()
            interrupted(attempt(transport, cancel), cancel, lambda: greeted.wait(10))
            assert left.wait(10)
    hold_that_threads_end(before)


class SlowEnviron(dict[str, str]):
    """An environment that does not say where certificates are before `ready` is set."""

    def __init__(self, certificates: Certificates) -> None:
        super().__init__({"SSL_CERT_FILE": str(certificates.authority)})
        self.asked = threading.Event()
        self.ready = threading.Event()

    def get(self, key: str, default: Any = None) -> Any:
        if key == "SSL_CERT_FILE":
            self.asked.set()
            assert self.ready.wait(10)
        return super().get(key, default)


def test_a_request_cancelled_before_there_is_a_client_is_never_sent(
    certificates: Certificates,
) -> None:
    environ = SlowEnviron(certificates)
    with LLMServer([OK], tls=certificates.server_context()) as server:
        before = set(threading.enumerate())
        with closing(http(server.url, environ)) as transport:
            cancel = Cancel()
            interrupted(attempt(transport, cancel), cancel, lambda: environ.asked.wait(10))
            environ.ready.set()
            hold_that_threads_end(before)
            assert server.requests == []
            assert text_of(collected(attempt(transport))[0]) == "All is well."
            assert server.chat[0].connection == 1


def test_an_exchange_may_be_closed_twice() -> None:
    with LLMServer([OK]) as server, closing(http(server.url)) as transport:
        exchange = transport.send(BODY)
        body_of(items_of(exchange))
        exchange.close()


# -- memory ----------------------------------------------------------------------------------

GROWTH: Final = r"""
import sys, zlib
from exchanges import attempt, client, collected, http, PROMPT
from fakes import NoWaiting
from llmserver import LLMServer, Reply, big_answer, big_line, text
from processes import peak_mib
from bantam.core.errors import ModelError

def bomb():
    packer = zlib.compressobj(wbits=31)
    yield packer.compress(b"data: ")
    for _ in range(300):
        yield packer.compress(b"x" * (1 << 20))
    yield packer.flush()

def endless():
    while True:
        yield b"x" * (1 << 16)

replies = {
    "line": big_line(300),
    "answer": big_answer(300),
    "bomb": Reply(lazy=lambda: [b"".join(bomb())], headers={"content-encoding": "gzip"}),
    "error": Reply(lazy=endless, status=400),
}
with LLMServer([text("x"), replies[sys.argv[1]]]) as server:
    transport = http(server.url)
    collected(attempt(transport))
    before = peak_mib()
    try:
        collected(client(transport).reply(PROMPT, (), NoWaiting()))
    except ModelError as error:
        print(type(error).__name__, round(peak_mib() - before))
"""


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("line", "AnswerTooLarge"),
        ("answer", "AnswerTooLarge"),
        ("bomb", "AnswerTooLarge"),
        ("error", "ModelError"),
    ],
)
def test_no_answer_needs_more_than_64_mib(reply: str, wanted: str, tmp_path: Path) -> None:
    kind, grown = child(GROWTH, tmp_path, reply).split()
    sys.stdout.write(f"{reply}: {grown} MiB more\n")
    assert kind == wanted
    assert int(grown) < 64


# -- run -------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Any]:
    """Return what makes a transport to a shell script; its `stream` prints an answer."""
    (tmp_path / "stream").write_bytes(OK.body)

    def make(script: str) -> RunTransport:
        path = tmp_path / "program.sh"
        path.write_text(f"stream() {{ cat {tmp_path}/stream; }}\n{script}\n")
        return run("sh", path)

    yield make
    assert zombie_children() == []


def test_a_program_reads_the_request_and_answers_by_lines(program: Any, tmp_path: Path) -> None:
    transport = program(f"cat > {tmp_path}/got; stream")
    assert text_of(collected(attempt(transport))[0]) == "All is well."
    assert (tmp_path / "got").read_bytes() == BODY
    transport.close()


def test_a_program_may_answer_by_one_json(program: Any, tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(OK.whole or b"")
    _, answer = collected(attempt(program(f"cat {tmp_path}/whole")))
    assert answer.message.content == "All is well."


@pytest.mark.parametrize(
    "script",
    [
        "stream; cat > /dev/null",
        "stream",
        "exec < /dev/null; stream",
        "stream; head -c 3000000 /dev/zero >&2",
        "head -c 3000000 /dev/zero >&2; stream",
        "stream; exec >&-; exit 3",
        "(sleep 0.2; stream)",
    ],
)
def test_a_program_need_not_care_when_it_reads_and_what_else_it_says(
    program: Any, script: str
) -> None:
    assert text_of(collected(attempt(program(script)))[0]) == "All is well."


@pytest.mark.parametrize(
    ("script", "kind", "reason", "message"),
    [
        ("echo busy >&2; exit 75", Kind.CONNECTION, "run://sh ended with status 75", "busy"),
        ("echo no; echo bad >&2; exit 3", Kind.FINAL, "run://sh ended with status 3", "bad"),
        ("kill -9 $$", Kind.FINAL, "run://sh was killed by signal 9", ""),
        ("kill -TERM $$", Kind.FINAL, "run://sh was killed by signal 15", ""),
    ],
)
def test_a_program_that_fails_says_how(
    program: Any, script: str, kind: Kind, reason: str, message: str
) -> None:
    failure = failure_of(items_of(program(script).send(BODY)))
    assert (failure.kind, failure.reason, failure.message) == (kind, reason, message)


def test_of_a_flood_of_errors_the_end_is_shown(program: Any) -> None:
    script = "yes | head -c 3000000 >&2; echo the reason >&2; exit 3"
    failure = failure_of(items_of(program(script).send(BODY)))
    assert failure.message.endswith("the reason")
    assert len(failure.message) <= 8192


def test_a_program_that_cannot_be_run_is_final(tmp_path: Path) -> None:
    program = tmp_path / "model"
    program.write_bytes(b"\x00 neither a script nor machine code")
    program.chmod(0o755)
    exchange = run(program).send(BODY)
    failure = failure_of(items_of(exchange))
    assert failure.kind is Kind.FINAL
    assert failure.reason.startswith(f"run://{program} cannot be run: ")
    exchange.close()


@pytest.mark.parametrize("name", ["folder", "plain", "missing", "./plain", "/nowhere/model", "."])
def test_a_program_that_is_not_there_or_not_executable_is_a_wrong_configuration(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    with pytest.raises(ConfigError, match=f"endpoint=run://{name} -v names no program") as raised:
        run(name, "-v")
    is_plain = name == "./plain"
    assert ("it is not executable: chmod +x ./plain" in str(raised.value)) is is_plain


def test_a_program_in_the_home_folder_is_that_of_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not that of a folder called `~` in a project, which would have another's trust."""
    home, project = tmp_path / "home", tmp_path / "project"
    for folder, says in ((home, "home"), (project / "~", "project")):
        folder.mkdir(parents=True)
        (folder / "model").write_text(f"#!/bin/sh\necho {says} $1\n")
        (folder / "model").chmod(0o755)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    assert body_of(items_of(run("~/model", "-v").send(BODY))) == b"home -v\n"


def test_a_relative_program_is_looked_for_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "model"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    assert body_of(items_of(run("./model").send(BODY))) == b"here\n"


def test_a_request_that_does_not_fit_on_the_disk_is_a_failure() -> None:
    with files_of_at_most(1000):
        exchange = run("cat").send(b"x" * 5000)
    failure = failure_of(items_of(exchange))
    exchange.close()
    assert failure.reason == "run://cat cannot be run: [Errno 27] File too large"


@pytest.mark.parametrize("endpoint", ["run://", "run://  ", "run://sh 'half", 'run://"'])
def test_an_endpoint_that_is_no_command_line_is_a_wrong_configuration(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="endpoint=run://"):
        RunTransport(endpoint)


def test_a_program_with_arguments_and_blanks_is_started_as_a_shell_would(tmp_path: Path) -> None:
    script = tmp_path / "a model.sh"
    script.write_text('printf "%s\\n" "$#" "$1"')
    items = items_of(RunTransport(f"run://sh '{script}' 'x y' z").send(BODY))
    assert body_of(items) == b"2\nx y\n"


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep {seconds}",
        "sleep {seconds} & wait",
        "trap '' TERM; sleep {seconds}; sleep {seconds}",
        "head -c 600 {folder}/stream; sleep {seconds}",
        "exec >&-; exec sleep {seconds}",
    ],
    ids=["leader", "child", "ignores-term", "mid-stream", "closed-output"],
)
def test_a_cancel_ends_a_program_and_its_children(
    program: Any, script: str, tmp_path: Path
) -> None:
    seconds = unique_seconds()
    before = set(threading.enumerate())
    cancel = Cancel()
    asked = attempt(program(script.format(seconds=seconds, folder=tmp_path)), cancel)
    interrupted(asked, cancel, lambda: eventually(lambda: running(f"sleep {seconds}")))
    # Nobody can wait for the death of a grandchild, but it has been killed.
    assert eventually(lambda: not running(seconds))
    hold_that_threads_end(before)


def test_a_program_that_floods_is_ended_with_its_request(program: Any) -> None:
    before = set(threading.enumerate())
    exchange = program("yes '' | head -c 100000000").send(BODY)
    assert eventually(lambda: exchange.inbox.queue.qsize() >= 32)
    exchange.close()
    hold_that_threads_end(before)


@pytest.mark.parametrize(("status", "ending"), [(0, End), (3, Failure)])
def test_what_a_program_leaves_behind_does_not_hold_the_answer_up(
    program: Any, status: int, ending: type[Item]
) -> None:
    seconds = unique_seconds()
    before = set(threading.enumerate())
    try:
        items = items_of(program(f"sleep {seconds} & stream; exit {status}").send(BODY))
        assert isinstance(items[-1], ending)
        assert b"".join(item for item in items if isinstance(item, bytes)) == OK.body
        hold_that_threads_end(before)
        # What runs on is the user's: a program may start a server for itself.
        assert running(seconds)
    finally:
        killed(seconds)


def test_fifty_runs_leave_no_descriptor_open(program: Any) -> None:
    transport = program("stream")
    collected(attempt(transport))
    before = descriptors()
    for _ in range(50):
        collected(attempt(transport))
    assert eventually(lambda: descriptors() <= before)
