"""TLS by a private authority, and proxies that record: real clients, the loopback alone."""

import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from certificates import Certificates, make_certificates
from llmserver import LLMServer, text
from proxies import HTTPProxy, Socks5Proxy, unused_port

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
OK = text("All is well.")


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


def trusting(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.authority)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    return context


def test_the_authority_is_trusted_by_who_knows_it_and_by_nobody_else(
    certificates: Certificates,
) -> None:
    with LLMServer([OK], tls=certificates.server_context()) as server:
        assert server.url.startswith("https://")
        url = f"{server.url}/chat/completions"
        with httpx.Client(verify=trusting(certificates), trust_env=False) as client:
            assert client.post(url, json=ASKED).content == OK.whole
            by_name = url.replace("127.0.0.1", "localhost")
            assert client.get(by_name).status_code == 404
        with (
            httpx.Client(verify=ssl.create_default_context(), trust_env=False) as stranger,
            pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            stranger.post(url, json=ASKED)


@pytest.mark.parametrize("kind", [HTTPProxy, Socks5Proxy])
def test_a_proxy_records_the_name_and_goes_to_the_loopback(
    kind: type[HTTPProxy | Socks5Proxy],
) -> None:
    with LLMServer([OK, OK]) as server, kind() as proxy:
        url = f"{server.url}/chat/completions".replace("127.0.0.1", "model.invalid")
        client = httpx.Client(proxy=proxy.url)
        with client:
            assert [client.post(url, json=ASKED).content for _ in range(2)] == [OK.whole] * 2
    assert [name.partition(":")[0] for name in proxy.targets] == ["model.invalid"]
    assert [request.connection for request in server.chat] == [1, 1]


@pytest.mark.parametrize("kind", [HTTPProxy, Socks5Proxy])
def test_a_proxy_tunnels_tls(
    kind: type[HTTPProxy | Socks5Proxy], certificates: Certificates
) -> None:
    with (
        LLMServer([OK], tls=certificates.server_context()) as server,
        kind() as proxy,
        httpx.Client(proxy=proxy.url, verify=trusting(certificates)) as client,
    ):
        assert client.post(f"{server.url}/chat/completions", json=ASKED).content == OK.whole
    assert proxy.targets == [server.url.split("/")[2]]


def test_an_http_proxy_keeps_the_head_it_was_sent() -> None:
    with (
        LLMServer([OK]) as server,
        HTTPProxy() as proxy,
        httpx.Client(proxy=proxy.url) as client,
    ):
        client.post(f"{server.url}/chat/completions", json=ASKED)
    assert proxy.heads[0].startswith(f"POST {server.url}/chat/completions HTTP/1.1".encode())


@pytest.mark.parametrize(("kind", "address"), [(1, bytes([127, 0, 0, 1])), (4, bytes(15) + b"\1")])
def test_a_socks_proxy_takes_addresses_of_both_kinds(kind: int, address: bytes) -> None:
    with LLMServer([]) as server, Socks5Proxy() as proxy:
        port = int(server.url.split(":")[2].partition("/")[0])
        with socks_greeting(proxy) as connection:
            connection.sendall(bytes([5, 1, 0, kind]) + address + port.to_bytes(2, "big"))
            assert connection.recv(2) == b"\x05\x00"
    assert proxy.targets == [f"{'127.0.0.1' if kind == 1 else '::1'}:{port}"]


def test_a_socks_proxy_refuses_what_is_no_connect() -> None:
    with Socks5Proxy() as proxy, socks_greeting(proxy) as connection:
        connection.sendall(b"\x05\x02\x00")
        assert connection.recv(1) == b""
    assert proxy.targets == []


def socks_greeting(proxy: Socks5Proxy) -> socket.socket:
    host, port = proxy.url.removeprefix("socks5://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.sendall(b"\x05\x01\x00")
    assert connection.recv(2) == b"\x05\x00"
    return connection


def test_a_proxy_whose_target_is_dead_or_whose_client_leaves_ends_the_connection() -> None:
    dead = unused_port()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", dead), timeout=10)
    with (
        HTTPProxy() as proxy,
        httpx.Client(proxy=proxy.url) as client,
        pytest.raises(httpx.HTTPError),
    ):
        client.get(f"http://model.invalid:{dead}/")
    with Socks5Proxy() as leaving:
        socks_greeting(leaving).close()
