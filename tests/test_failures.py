"""What an error response says is read from every server's shape of it."""

import json
import ssl
import zlib
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bantam.core.errors import ConfigError
from bantam.core.redaction import Redaction
from bantam.model.failures import (
    AttemptFailed,
    Failure,
    Kind,
    Named,
    first_line,
    network_failure,
    rejection,
    status_line,
)


def failure_of(body: Any, status: int = 400) -> Failure:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return rejection(status, "", {}, raw)


SHAPES: dict[str, tuple[Any, str]] = {
    "OpenAI": ({"error": {"message": "No.", "type": "t", "param": None, "code": None}}, "No."),
    "Azure": ({"error": {"code": "BadRequest", "message": "No.", "innererror": {}}}, "No."),
    "FastAPI, text": ({"detail": "No."}, "No."),
    "FastAPI, list": (
        {"detail": [{"loc": ["body", "n"], "msg": "No.", "type": "t"}, {"msg": "Nor this."}]},
        "No.; Nor this.",
    ),
    "Mistral": ({"object": "error", "message": {"detail": [{"msg": "No."}]}, "code": 1}, "No."),
    "vLLM": ({"object": "error", "message": "No.", "type": "BadRequestError", "code": 400}, "No."),
    "llama.cpp": ({"error": {"code": 500, "message": "No.", "type": "server_error"}}, "No."),
    "Ollama": ({"error": "No."}, "No."),
    "xAI": ({"code": "Client specified an invalid argument", "error": "No."}, "No."),
    "Google": ([{"error": {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}}], "No."),
    "OpenRouter": (
        {"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":"No."}'}}},
        "Provider returned error: No.",
    ),
    "the second line": ({"error": {"message": "\n  No.  \nMore."}}, "No."),
    "plain text": (b"No.\n", "No."),
    "with a BOM": (b'\xef\xbb\xbf{"error": "No."}', "No."),
    "unknown shape": ({"reasons": ["No."]}, '{"reasons": ["No."]}'),
    "cut JSON": (b'{"error": {"message": "No', '{"error": {"message": "No'),
    "empty": (b"", ""),
    "blank": (b" \r\n ", ""),
    "null": (b"null", "null"),
    "binary": (b"\x1f\x8b\x08\x00\x00\x00", ""),
    "not UTF-8": (b"\xff\xfe\xfd\xfc", ""),
    "Latin-1": (b"Zugriff verweigert f\xfcr Sie", "Zugriff verweigert f\ufffdr Sie"),
}


@pytest.mark.parametrize(("body", "message"), SHAPES.values(), ids=SHAPES)
def test_every_shape_of_error_gives_its_words(body: Any, message: str) -> None:
    assert failure_of(body).message == message


PAGES: dict[str, tuple[str, str]] = {
    "Cloudflare": (
        (
            "<!DOCTYPE html>\n<!--[if lt IE 7]> <html> <![endif]-->\n<head>\n"
            "<title>api.example.com | 502: Bad gateway</title></head><body><h1>No</h1></body>"
        ),
        "api.example.com | 502: Bad gateway",
    ),
    "nginx": (
        "<html>\r\n<head><title>503 Service Temporarily Unavailable</title></head>",
        "503 Service Temporarily Unavailable",
    ),
    "a heading": ("<h1 class='e'>Bad <b>Gateway</b></h1>", "Bad Gateway"),
    "no title": ("<p>down for\nrepair &amp; back soon</p>", "down for repair & back soon"),
    "XML": ("<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>", "SlowDown"),
    "nothing in it": ("<html></html>", ""),
}


@pytest.mark.parametrize(("page", "title"), PAGES.values(), ids=PAGES)
def test_a_page_is_known_and_gives_its_title(page: str, title: str) -> None:
    failure = failure_of(page.encode(), 502)
    assert (failure.message, failure.is_page, failure.will_recur) == (title, True, True)


@pytest.mark.parametrize("text", ["<html>", "<model> is unknown"])
def test_a_message_in_json_is_no_page(text: str) -> None:
    assert not failure_of({"error": text}).is_page


@pytest.mark.parametrize(
    "text",
    [
        "Jinja Exception in the chat template: roles must alternate between user and assistant",
        "Value is not callable: null at chat_template, row 1",
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ],
)
def test_a_template_that_fails_once_fails_again(text: str) -> None:
    assert failure_of({"error": {"message": text}}, 500).will_recur
    assert not failure_of({"error": {"message": "internal"}}, 500).will_recur


NAMED: dict[str, tuple[Any, list[Named]]] = {
    "OpenAI": (
        {"error": {"message": "No.", "param": "temperature", "code": "unsupported_value"}},
        [Named("temperature", "No. temperature unsupported_value")],
    ),
    "OpenAI, inside": (
        {"error": {"message": "No.", "param": "messages[2].content[0].type"}},
        [Named("messages.2.content.0.type", "No. messages[2].content[0].type")],
    ),
    "FastAPI": (
        {
            "detail": [
                {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "No.", "input": 1}
            ]
        },
        [Named("seed", "extra_forbidden No.")],
    ),
    "Google": (
        {"error": {"details": [{"fieldViolations": [{"field": "seed", "description": "No."}]}]}},
        [Named("seed", "seed No.")],
    ),
    "in JSON in a text": (
        {"error": {"message": "m", "metadata": {"raw": '{"param": "seed", "message": "No."}'}}},
        [Named("seed", "seed No.")],
    ),
    "not in what the server got": (
        {"detail": [{"msg": "No.", "input": {"content": '{"param": "seed", "message": "No."}'}}]},
        [],
    ),
    "nothing": ({"error": {"message": "No.", "param": None, "loc": []}}, []),
    "no JSON": (b"{param: seed}", []),
}


@pytest.mark.parametrize(("body", "named"), NAMED.values(), ids=NAMED)
def test_what_a_server_names_is_a_path_into_the_request(body: Any, named: list[Named]) -> None:
    assert list(failure_of(body).named) == named


def test_words_are_codes_and_all_lines_but_bounded() -> None:
    failure = failure_of({"error": {"message": "one\ntwo", "code": "c", "type": "t"}})
    assert (failure.message, failure.words) == ("one", "c: t: one\ntwo")
    assert len(failure_of(b"x" * 65536).words) < 5000
    assert len(failure_of(b"x" * 65536).message) < 600
    assert Failure(Kind.BROKEN, "r", "m").words == "m"


def test_a_failure_says_reason_and_message_but_nothing_twice() -> None:
    assert str(failure_of({"error": "No."}, 503)) == "503 Service Unavailable: No."
    assert str(failure_of(b"Service Unavailable", 503)) == "503 Service Unavailable"
    assert str(failure_of(b"", 503)) == "503 Service Unavailable"
    error = AttemptFailed(failure_of({"error": "No."}, 418))
    assert (str(error), error.status) == ("418 I'm a Teapot: No.", 418)


@pytest.mark.parametrize("depth", [*range(80, 130, 7), 900, 1000, 5000, 32000])
@pytest.mark.parametrize("bracket", [b"[", b'{"error":'])
def test_a_body_of_any_depth_is_read(depth: int, bracket: bytes) -> None:
    closing = {b"[": b"]", b'{"error":': b"}"}[bracket]
    failure_of(bracket * depth + b'"No."' + closing * depth)
    failure_of(bracket * depth)


@pytest.mark.parametrize("piece", [b"<title", b"<h1>", b"<", b"< ", b'{"a":"', b"unknown "])
def test_a_hostile_body_costs_no_time(piece: bytes) -> None:
    assert failure_of((b"<" + piece * 65536)[:65536]).status == 400


@settings(max_examples=60)
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_any_body_is_read(body: bytes) -> None:
    failure = failure_of(body)
    assert "\n" not in failure.message
    assert str(failure).startswith("400 Bad Request")


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["error", "message", "detail", "loc", "param", "code", "msg", "x"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(_JSON)
def test_any_json_is_read(body: Any) -> None:
    assert failure_of(body).status == 400


def test_a_secret_is_hidden_wherever_the_server_says_it() -> None:
    failure = rejection(
        400, "no sk-12345", {"location": "/?sk-12345"}, b'{"error": "sk-12345, sk-12345"}'
    )
    hidden = failure.without(Redaction(["sk-12345"]))
    assert "sk-12345" not in repr((hidden.reason, hidden.message, hidden.said, hidden.headers))
    assert hidden.message == "[key], [key]"
    assert failure.without(Redaction([None])) == failure


def test_the_status_line_has_the_servers_phrase_or_the_standard_one() -> None:
    assert status_line(503, "Loading") == "503 Loading"
    assert status_line(529) == "529"
    assert rejection(429, "", {}, b"").reason == "429 Too Many Requests"


def test_the_first_line_is_not_blank_and_not_long() -> None:
    assert first_line("\n \n a \nb") == "a"
    assert first_line("") == ""
    assert first_line("x" * 501) == "x" * 500 + "…"


NETWORK: dict[str, tuple[Exception, Kind, str]] = {
    "refused": (
        httpx.ConnectError("[Errno 111] Connection refused"),
        Kind.CONNECTION,
        "connection failed: [Errno 111] Connection refused (host:1)",
    ),
    "without words": (
        httpx.ReadError(""),
        Kind.CONNECTION,
        "connection failed: ReadError (host:1)",
    ),
    "proxy": (httpx.ProxyError("502 Bad"), Kind.CONNECTION, "connection failed: 502 Bad (host:1)"),
    "proxy-refuses": (
        httpx.ProxyError("407 Proxy Authentication Required"),
        Kind.FINAL,
        (
            "the proxy refused: 407 Proxy Authentication Required; "
            "does its address hold the right name and password?"
        ),
    ),
    "no-tls": (
        httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        Kind.FINAL,
        (
            "the server does not speak TLS; is it http:// and not https://? "
            "([SSL: WRONG_VERSION_NUMBER] wrong version number)"
        ),
    ),
    "location": (
        httpx.RemoteProtocolError("Invalid URL in location header: x"),
        Kind.FINAL,
        "the server redirects to no valid address: Invalid URL in location header: x",
    ),
    "certificate": (
        httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"),
        Kind.FINAL,
        (
            "the server's certificate was not accepted: [SSL: CERTIFICATE_VERIFY_FAILED] "
            "self-signed; if the authority is your own, name its file in SSL_CERT_FILE"
        ),
    ),
    "scheme": (
        httpx.UnsupportedProtocol("no such scheme"),
        Kind.FINAL,
        "the request could not be made: UnsupportedProtocol: no such scheme",
    ),
    "header": (
        httpx.LocalProtocolError("Illegal header value b'Bearer sk-secret'"),
        Kind.FINAL,
        (
            "the request could not be made: HTTP cannot carry one of its headers; is the key one "
            "line of plain characters?"
        ),
    ),
    "compression": (
        zlib.error("incorrect header check"),
        Kind.BROKEN,
        "the answer's compression is broken: incorrect header check",
    ),
    "TLS set-up": (
        ssl.SSLError("no cipher"),
        Kind.FINAL,
        "the request could not be made: SSLError: ('no cipher',)",
    ),
    "configuration": (ConfigError("SSL_CERT_FILE: no"), Kind.FINAL, "SSL_CERT_FILE: no"),
}


@pytest.mark.parametrize(("error", "kind", "reason"), NETWORK.values(), ids=NETWORK)
def test_a_failure_of_the_network_is_told_in_words(
    error: Exception, kind: Kind, reason: str
) -> None:
    failure = network_failure(error, "host:1")
    assert (failure.kind, failure.reason) == (kind, reason)
