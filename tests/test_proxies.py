"""Proxies and certificates are found in the usual variables, and used over real sockets."""

import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from certificates import Certificates, make_certificates
from exchanges import client, collected, http, text_of
from hypothesis import given, settings
from hypothesis import strategies as st
from llmreplies import text
from llmserver import LLMServer
from proxies import HTTPProxy, Socks5Proxy, named, unused_port

from bantam.core.cancel import Cancel
from bantam.core.errors import ConfigError, ModelError
from bantam.core.events import Retry
from bantam.core.messages import Message, Role
from bantam.model.proxies import proxy_for, tls_context

CASES = Path(__file__).parent / "cases" / "proxy_tls.jsonl"
HTTP, HTTPS = "http://h.example:8080/v1", "https://h.example/v1"


# -- which proxy ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        (HTTPS, {}, None),
        (HTTPS, {"SOCKS_PROXY": "p:1"}, "socks5://p:1"),
        (HTTPS, {"SOCKS_PROXY": "socks5://p:1"}, "socks5://p:1"),
        (HTTPS, {"socks_proxy": "socks5h://p:1/"}, "socks5h://p:1"),
        (HTTPS, {"socks_proxy": "SOCKS://p:1"}, "socks5://p:1"),
        (HTTPS, {"SOCKS_PROXY": "p:1", "HTTPS_PROXY": "q:2", "ALL_PROXY": "r:3"}, "socks5://p:1"),
        (HTTPS, {"HTTPS_PROXY": "q:2", "HTTP_PROXY": "s:4", "ALL_PROXY": "r:3"}, "http://q:2"),
        (HTTP, {"HTTPS_PROXY": "q:2", "HTTP_PROXY": "s:4", "ALL_PROXY": "r:3"}, "http://s:4"),
        (HTTPS, {"HTTP_PROXY": "s:4", "ALL_PROXY": "r:3"}, "http://r:3"),
        (HTTPS, {"HTTP_PROXY": "s:4"}, None),
        (HTTPS, {"ALL_PROXY": "socks5://r:3"}, "socks5://r:3"),
        (HTTPS, {"all_proxy": "socks://r:3/"}, "socks5://r:3"),
        (HTTPS, {"https_proxy": "low:1", "HTTPS_PROXY": "up:1"}, "http://low:1"),
        (HTTPS, {"https_proxy": "", "HTTPS_PROXY": " up:1 "}, "http://up:1"),
        (HTTPS, {"HTTPS_PROXY": "https://q"}, "https://q"),
        (HTTPS, {"HTTPS_PROXY": "http://u:p%40@q:2"}, "http://u:p%40@q:2"),
        (HTTPS, {"HTTPS_PROXY": "http://[::1]:2"}, "http://[::1]:2"),
        (HTTPS, {"SOCKS_PROXY": "[::1]:2"}, "socks5://[::1]:2"),
    ],
)
def test_the_proxy_is_the_first_of_the_variables(
    url: str, environ: dict[str, str], proxy: str | None
) -> None:
    assert proxy_for(url, environ) == proxy


@pytest.mark.parametrize("name", ["SOCKS_PROXY", "HTTPS_PROXY", "all_proxy"])
@pytest.mark.parametrize(
    "value",
    [
        "socks4://u:secret@p:1",
        "ftp://u:secret@p:1",
        "://u:secret@p:1",
        "http://",
        "http://u:secret@",
        "http://u:secret@p:port",
        "http://u:secret@p:99999",
        "http://u:secret@p:0",
        "http://u:secret@[::1",
        "http://u:secret@p\\q:1",
        "http://u:secret@p q:1",
        "http://u:secret@p\n:1",
        "nonsense!",
    ],
)
def test_a_proxy_that_cannot_be_used_is_an_error_that_names_the_variable_alone(
    name: str, value: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        proxy_for(HTTPS, {name: value})
    assert str(caught.value).startswith(name)
    assert "secret" not in str(caught.value)
    assert "://host:port" in str(caught.value)


@pytest.mark.parametrize("name", ["SOCKS_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/v1",
        "http://127.9.9.9:8080/v1",
        "http://localhost/v1",
        "http://LocalHost/v1",
        "http://[::1]:8080/v1",
        "http://[0:0::1]:8080/v1",
    ],
)
def test_there_is_no_proxy_to_this_machine(url: str, name: str) -> None:
    assert proxy_for(url, {name: "p:1"}) is None


@pytest.mark.parametrize("host", ["127.0.0.1.example", "localhost.example", "128.0.0.1", "127.1"])
def test_what_only_looks_like_this_machine_is_behind_the_proxy(host: str) -> None:
    assert proxy_for(f"http://{host}:8080/v1", {"ALL_PROXY": "p:1"}) == "http://p:1"


def test_a_wrong_proxy_ends_the_run_at_its_start() -> None:
    with pytest.raises(ConfigError, match="ALL_PROXY"):
        http(HTTPS, {"ALL_PROXY": "socks4://127.0.0.1:1"})


def is_direct(url: str, no_proxy: str) -> bool:
    return proxy_for(url, {"ALL_PROXY": "p:1", "NO_PROXY": no_proxy}) is None


@pytest.mark.parametrize(
    ("url", "no_proxy"),
    [
        ("https://h.example", "*"),
        ("https://h.example", "h.example"),
        ("https://h.example", "H.Example"),
        ("https://H.EXAMPLE", "h.example"),
        ("https://h.example.", "h.example"),
        ("https://h.example", ".example"),
        ("https://h.example", "example"),
        ("https://h.example", "*.example"),
        ("https://h.example", ".h.example"),
        ("https://h.example", "a.example, h.example"),
        ("https://h.example", "a.example h.example"),
        ("https://h.example", ",,h.example,"),
        ("https://h.example", "h.example:443"),
        ("http://h.example", "h.example:80"),
        ("https://h.example:8443", "h.example:8443"),
        ("https://h.example:8443", "h.example"),
        ("https://a.h.example:8443", ".h.example:8443"),
        ("http://10.1.2.3", "10.0.0.0/8"),
        ("http://10.1.2.3", "10.1.2.3/8"),
        ("http://[2001:db8::1]:8080", "2001:db8::1"),
        ("http://[2001:db8::1]:8080", "[2001:db8::1]"),
        ("http://[2001:db8::1]:8080", "[2001:db8::1]:8080"),
        ("http://[2001:db8:0::1]:8080", "2001:db8::1"),
        ("http://[fd00::5]", "fd00::/8"),
    ],
)
def test_no_proxy_is_an_exception(url: str, no_proxy: str) -> None:
    assert is_direct(url, no_proxy)
    assert proxy_for(url, {"SOCKS_PROXY": "p:1", "no_proxy": no_proxy}) is None


@pytest.mark.parametrize(
    ("url", "no_proxy"),
    [
        ("https://h.example", ""),
        ("https://h.example", ","),
        ("https://h.example", "."),
        ("https://h.example", "a.example"),
        ("https://h.example", ".h.example.org"),
        ("https://h.example", "le"),
        ("https://eh.example", "h.example"),
        ("https://h.example", "h.example:80"),
        ("https://h.example", "h.example:"),
        ("https://h.example", "10.0.0.0/8"),
        ("http://11.1.2.3", "10.0.0.0/8"),
        ("http://11.1.2.3", "10.0.0.0/99"),
        ("http://127.0.0.1.evil.example", "127.0.0.0/8"),
        ("http://127.0.0.1.evil.example", "127.0.0.1"),
        ("http://[2001:db8::1]:8080", "[2001:db8::1]:8081"),
        ("http://[::2]", "::1"),
        ("http://10.1.2.3", "::/0"),
    ],
)
def test_no_proxy_means_what_it_says_alone(url: str, no_proxy: str) -> None:
    assert not is_direct(url, no_proxy)


@settings(max_examples=150)
@given(
    st.text(alphabet="htps:/5@[].,*%1a \\", max_size=20), st.sampled_from([HTTP, "http://[::1]"])
)
def test_any_text_is_a_proxy_or_an_error(value: str, url: str) -> None:
    import httpx

    try:
        proxy = proxy_for(url, {"ALL_PROXY": value, "NO_PROXY": value[::-1]})
    except ConfigError:
        return
    if proxy is not None:
        httpx.Proxy(proxy)


# -- over sockets -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def server() -> Iterator[LLMServer]:
    with LLMServer([text("There.")]) as server:
        yield server


def asked(url: str, environ: dict[str, str]) -> str:
    """Return the text that comes from `url` in the environment `environ`."""
    talker = client(http(url, environ))
    try:
        events, _ = collected(talker.reply([Message(Role.USER, "hi")], (), Cancel()))
    finally:
        talker.close()
    return text_of(events)


@pytest.mark.parametrize(
    ("variable", "form"),
    [
        ("SOCKS_PROXY", "{place}"),
        ("socks_proxy", "socks5://{place}"),
        ("ALL_PROXY", "socks://{place}"),
        ("all_proxy", "socks5h://{place}/"),
        ("HTTP_PROXY", "socks5://{place}"),
    ],
)
def test_a_socks_proxy_carries_the_request(server: LLMServer, variable: str, form: str) -> None:
    with Socks5Proxy() as proxy:
        place = proxy.url.partition("://")[2]
        assert asked(named(server.url), {variable: form.format(place=place)}) == "There."
        assert proxy.targets == [named(server.url).split("/")[2]]


def test_an_http_proxy_carries_the_request(server: LLMServer) -> None:
    with HTTPProxy() as proxy:
        assert asked(named(server.url), {"HTTP_PROXY": proxy.url}) == "There."
        assert proxy.targets == [named(server.url).split("/")[2]]


def test_the_proxy_resolves_the_name(server: LLMServer) -> None:
    url = server.url.replace("127.0.0.1", "model.invalid")
    with Socks5Proxy() as proxy:
        assert asked(url, {"SOCKS_PROXY": proxy.url}) == "There."
        assert proxy.targets == [url.split("/")[2]]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_does_not_answer_is_told_without_its_password(scheme: str) -> None:
    proxy = f"{scheme}://user:secret@127.0.0.1:{unused_port()}"
    talker = client(http(HTTP, {"ALL_PROXY": proxy}))
    with closing(talker), closing(talker.reply([Message(Role.USER, "hi")], (), Cancel())) as reply:
        failed = next(event for event in reply if isinstance(event, Retry))
    assert failed.reason.startswith("connection failed")
    assert f"through the proxy {proxy.split('@')[1]}" in failed.reason
    assert "secret" not in failed.reason


@pytest.mark.parametrize("no_proxy", ["127.1,localhost", "*"])
def test_a_dead_proxy_is_not_in_the_way_of_an_exception(server: LLMServer, no_proxy: str) -> None:
    # A resolver's spelling of the loopback, which is none by its letters.
    url = server.url.replace("127.0.0.1", "127.1")
    dead = f"socks5://127.0.0.1:{unused_port()}"
    assert asked(url, {"ALL_PROXY": dead, "NO_PROXY": no_proxy}) == "There."


@pytest.mark.parametrize("variable", ["SOCKS_PROXY", "HTTP_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_this_machine_is_reached_without_any_proxy(
    server: LLMServer, host: str, variable: str
) -> None:
    with Socks5Proxy() as proxy:
        url = server.url.replace("127.0.0.1", host)
        assert asked(url, {variable: proxy.url}) == "There."
        assert proxy.targets == []


@pytest.mark.parametrize("proxied", [True, False])
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_private_authority_is_trusted_where_it_is_named(
    certificates: Certificates, variable: str, proxied: bool
) -> None:
    authority = certificates.authority
    value = authority if variable == "SSL_CERT_FILE" else hashed(authority)
    environ = {variable: str(value)}
    context = certificates.server_context()
    with ExitStack() as stack:
        server = stack.enter_context(LLMServer([text("Safe.")], tls=context))
        proxy = stack.enter_context(HTTPProxy())
        if proxied:
            environ["HTTPS_PROXY"] = proxy.url
        assert asked(named(server.url) if proxied else server.url, environ) == "Safe."
        assert [head.split()[0] for head in proxy.heads] == [b"CONNECT"] * proxied


def hashed(authority: Path) -> Path:
    """Return a folder that holds `authority` under its hash, as OpenSSL looks it up."""
    import subprocess

    command = ["openssl", "x509", "-noout", "-subject_hash", "-in", str(authority)]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    folder = authority.parent / "hashed"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.0").write_bytes(authority.read_bytes())
    return folder


def test_an_unknown_authority_is_refused_with_the_way_out(certificates: Certificates) -> None:
    context = certificates.server_context()
    with (
        LLMServer([text("Safe.")], tls=context) as server,
        pytest.raises(ModelError, match="SSL_CERT_FILE"),
    ):
        asked(server.url, {})


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_of_authorities_that_is_none_is_named(
    tmp_path: Path, certificates: Certificates, content: str | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=f"SSL_CERT_FILE={path}"):
        tls_context(HTTPS, {"SSL_CERT_FILE": str(path)})
    with (
        LLMServer([], tls=certificates.server_context()) as server,
        pytest.raises(ModelError, match=f"^SSL_CERT_FILE={path}"),
    ):
        asked(server.url, {"SSL_CERT_FILE": str(path)})


def test_without_variables_the_systems_authorities_verify() -> None:
    context = tls_context(HTTPS, {})
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_where_the_system_has_no_hashed_folder_the_bundle_verifies(tmp_path: Path) -> None:
    context = tls_context(HTTPS, {}, folders=(str(tmp_path), str(tmp_path / "none")))
    assert context.cert_store_stats()["x509_ca"] > 50
    folder = tmp_path / "hashed"
    folder.mkdir()
    (folder / "0a1b2c3d.0").touch()
    assert tls_context(HTTPS, {}, folders=(str(folder),)).cert_store_stats()["x509_ca"] == 0


def test_plain_http_loads_no_authority() -> None:
    assert tls_context(HTTP, {}).cert_store_stats()["x509_ca"] == 0


def test_localhost_is_reached_where_only_the_old_address_listens(server: LLMServer) -> None:
    assert asked(server.url.replace("127.0.0.1", "localhost"), {}) == "There."


# -- the public cases -------------------------------------------------------------------------


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text().splitlines()]


@pytest.mark.parametrize("case", cases(), ids=[case["id"] for case in cases()])
def test_the_public_cases_of_proxies_and_certificates(
    case: dict[str, Any], certificates: Certificates
) -> None:
    tls = certificates.server_context() if "https_ok" in case["expect"] else None
    with Socks5Proxy() as proxy, LLMServer([text("There.")], tls=tls) as server:
        filled = json.dumps(case["env"])
        filled = filled.replace("@socks", proxy.url.rpartition(":")[2])
        filled = filled.replace("@dead", str(unused_port()))
        filled = filled.replace("@ca.pem", str(certificates.authority))
        # The case of a proxy that is used: nothing of it is the loopback's.
        starts = "starts" in case["expect"]
        url = named(server.url) if starts else server.url
        assert asked(url, json.loads(filled)) == "There."
        assert bool(proxy.targets) == starts


def test_an_ipv6_literal_is_asked_for_as_one(server: LLMServer) -> None:
    with Socks5Proxy() as proxy:
        url = server.url.replace("127.0.0.1", "[2001:db8::1]")
        assert asked(url, {"SOCKS_PROXY": proxy.url}) == "There."
        assert proxy.targets == [url.split("/")[2].replace("[", "").replace("]", "")]
