"""Whom prompts and keys may be sent to: a cloned folder redirects neither."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bantam.core.config import Config
from bantam.core.endpoints import host_of, is_loopback, origin
from bantam.core.errors import ConfigError, UntrustedEndpoint
from bantam.model.origins import (
    KNOWN_HOSTS,
    NOTHING,
    Accepted,
    Key,
    check_trust,
    goes_open,
    is_harmless,
    is_unencrypted,
    key_for,
    urls,
)

CASES = Path(__file__).parent / "cases" / "urls.jsonl"
OF_FILE = ".bantam.cfg:3"
DEFAULT = Config().endpoint


def cases() -> list[dict[str, dict[str, str]]]:
    return [json.loads(line) for line in CASES.read_text().splitlines()]


# -- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in cases() if "@port" not in c["endpoint"]])
def test_the_public_cases_of_urls(case: dict[str, dict[str, str]]) -> None:
    addresses = urls(str(case["endpoint"]))
    assert {"chat": addresses.chat, "models": addresses.models} == case["expect"]


@pytest.mark.parametrize(
    ("endpoint", "chat"),
    [
        ("http://h", "http://h/chat/completions"),
        ("http://h/", "http://h/chat/completions"),
        ("http://h//", "http://h/chat/completions"),
        ("http://h/v1//", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions/", "http://h/v1/chat/completions"),
        ("http://h/v1?api-version=x", "http://h/v1/chat/completions?api-version=x"),
        ("http://h/v1/?api-version=x&y=/", "http://h/v1/chat/completions?api-version=x&y=/"),
        (
            "https://h/openai/deployments/d/chat/completions?api-version=x",
            "https://h/openai/deployments/d/chat/completions?api-version=x",
        ),
        ("http://h/v1#part", "http://h/v1/chat/completions"),
        ("HTTPS://H/v1", "https://H/v1/chat/completions"),
        ("http://h/chat/completions/v2", "http://h/chat/completions/v2/chat/completions"),
    ],
)
def test_a_path_is_appended_once_and_in_front_of_a_query(endpoint: str, chat: str) -> None:
    addresses = urls(endpoint)
    assert addresses.chat == chat
    assert addresses.models == chat[::-1].replace("snoitelpmoc/tahc", "sledom", 1)[::-1]


@given(st.sampled_from(["", "/", "/v1", "/v1/", "/a/b/v4", "/v1/chat/completions"]))
def test_an_address_means_itself(path: str) -> None:
    assert urls(urls(f"http://h:1{path}").chat) == urls(f"http://h:1{path}")


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com"),
        ("HTTPS://API.OpenAI.COM/v1", "https://api.openai.com"),
        ("https://api.openai.com:443", "https://api.openai.com"),
        ("https://api.openai.com:", "https://api.openai.com"),
        ("http://h:80/v1", "http://h"),
        ("https://h:80/v1", "https://h:80"),
        ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ("http://[0:0:0:0:0:0:0:1]/v1", "http://[::1]"),
        ("https://h?@evil.example", "https://h"),
        ("https://h#@evil.example", "https://h"),
        ("https://h/@evil.example", "https://h"),
        ("https://xn--80ak6aa92e.com/v1", "https://xn--80ak6aa92e.com"),
        ("run://./model.sh -v", "run://./model.sh -v"),
        ("replay://a.json", "replay://a.json"),
    ],
)
def test_an_origin_is_scheme_host_and_port(endpoint: str, name: str) -> None:
    assert origin(endpoint) == name


NO_ENDPOINTS = [
    "",
    "api.openai.com/v1",
    "https:/api.openai.com",
    "https:api.openai.com",
    "ftp://h/v1",
    "run://",
    "replay://",
    "run:///x\u202eok.sh",
    "file:///etc/passwd",
    "javascript://h",
    "https://",
    "https:///v1",
    "https://:443",
    "https://?x",
    "https://evil.example\\@api.openai.com/v1",
    "https://api.openai.com\\.evil.example/v1",
    "https://api.openai.com\t.evil.example",
    "https://api.ope\nnai.com",
    " https://h",
    "https://h /v1",
    "https://h/v1 ",
    "https://h/\x00",
    "https://h/\u202e",
    "https://\u0430pi.openai.com",
    "https://\uff4cocalhost",
    "https://api%2Eopenai%2Ecom",
    "https://h:port",
    "https://h:99999",
    "https://h:\u0661",
    "http://[::1",
    "http://::1/",
    "http://[::1]x",
    "http://[fe80::1%25eth0]/",
    "http://[12345::]/",
    "http://[v1.a]/",
]


@pytest.mark.parametrize("endpoint", NO_ENDPOINTS)
def test_what_could_be_read_in_two_ways_is_no_endpoint(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"^$|^it"):
        origin(endpoint)


@pytest.mark.parametrize("name", ["sk-secret@", "user:sk-secret@", "api.openai.com:sk-secret@"])
def test_a_name_before_the_host_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        origin(f"https://{name}evil.example/v1")
    assert "sk-secret" not in str(caught.value)


@settings(max_examples=200)
@given(st.text(alphabet="htps:/\\@[].#?% \tA1a\u0430", max_size=30).map("http://".__add__))
def test_an_origin_is_what_is_connected_to_or_an_error(endpoint: str) -> None:
    import httpx

    try:
        name = origin(endpoint)
    except ValueError:
        return
    connected = httpx.URL(urls(endpoint).chat)
    host = f"[{connected.host}]" if ":" in connected.host else connected.host
    port = "" if connected.port in (None, 80) else f":{connected.port}"
    assert name == f"http://{host}{port}"


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [("https://H:1/v1", "h"), ("http://[::1]/", "::1"), ("run://p", ""), ("replay://f", "")],
)
def test_only_a_server_has_a_host(endpoint: str, host: str) -> None:
    assert host_of(endpoint) == host


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.255.0.9", "::1", "0:0::1"])
def test_the_loopback_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost.",
        "localhost.evil.example",
        "evil.localhost",
        "127.0.0.1.evil.example",
        "127.0.0.1.",
        "127.0.0.999",
        "127.0.0.010",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0.0.0.0",
        "::",
        "::2",
        "128.0.0.1",
        "10.0.0.1",
        "\u0661\u0662\u0667.0.0.1",
    ],
)
def test_what_may_be_another_machine_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


# -- trust ------------------------------------------------------------------------------------


def check(endpoint: str, *, source: str = OF_FILE, trust: bool = False, accepted: str = "") -> None:
    config = Config(endpoint=endpoint, sources={"endpoint": source})
    check_trust(config, trust=trust, environ={"BANTAM_TRUST": accepted})


HARMLESS = [
    "http://127.0.0.1:8080/v1",
    "http://localhost:11434/v1",
    "https://localhost/v1",
    "http://[::1]:8080/v1",
    "https://api.kilo.ai/api/openrouter",
    "https://API.OPENAI.com:443/v1",
    *(f"https://{host}/v1" for host in sorted(KNOWN_HOSTS)),
]


@pytest.mark.parametrize("endpoint", HARMLESS)
def test_a_file_may_name_what_is_harmless(endpoint: str) -> None:
    check(endpoint)


STRANGE = [
    "https://evil.example/v1",
    "http://api.openai.com/v1",
    "https://api.openai.com:8443/v1",
    "https://api.openai.com./v1",
    "https://api.openai.com.evil.example/v1",
    "https://api-openai.com/v1",
    "https://openai.com/v1",
    "https://127.0.0.1.evil.example/v1",
    "http://localhost.evil.example",
    "http://2130706433/v1",
    "http://0x7f.1/v1",
    "http://10.0.0.1:8080/v1",
    "https://xn--pi-7ya.openai.com",
    "run://./model.sh",
    "run:///usr/bin/model",
    "replay://session.json",
]


@pytest.mark.parametrize("endpoint", STRANGE)
def test_a_file_may_name_nothing_else_unless_it_is_accepted(endpoint: str) -> None:
    with pytest.raises(UntrustedEndpoint) as caught:
        check(endpoint)
    said = str(caught.value)
    assert said.startswith(f"{OF_FILE}: endpoint={endpoint} ")
    assert "add --trust for one run" in said
    assert int(caught.value.exit_status) == 2
    check(endpoint, trust=True)
    check(endpoint, source="-o")


def test_the_error_names_the_variable_with_the_origin() -> None:
    with pytest.raises(UntrustedEndpoint, match=r"BANTAM_TRUST=https://evil\.example:1$"):
        check("https://evil.example:1/v1")


@pytest.mark.parametrize(
    "accepted",
    [
        "https://x.example",
        "https://x.example/",
        "https://x.example/v1",
        "https://X.EXAMPLE:443",
        " https://a.example , https://x.example",
        "nonsense,,https://x.example",
    ],
)
def test_the_variable_accepts_origins_however_they_are_written(accepted: str) -> None:
    check("https://x.example/v1", accepted=accepted)


@pytest.mark.parametrize(
    "accepted",
    [
        "",
        "x.example",
        "http://x.example",
        "https://x.example:444",
        "https://x.example.evil.example",
        "https://example",
        "*",
        "1",
    ],
)
def test_the_variable_accepts_nothing_else(accepted: str) -> None:
    with pytest.raises(UntrustedEndpoint):
        check("https://x.example/v1", accepted=accepted)


@pytest.mark.parametrize("endpoint", ["run:///opt/model -v", "run://~/model", "replay:///a.json"])
def test_the_variable_accepts_a_program_by_its_whole_path(endpoint: str) -> None:
    check(endpoint, accepted=endpoint)
    with pytest.raises(UntrustedEndpoint, match="BANTAM_TRUST"):
        check(f"{endpoint}2", accepted=endpoint)


@pytest.mark.parametrize("endpoint", ["run://./model.sh", "run://model", "replay://a.json"])
def test_what_is_another_program_in_each_folder_is_accepted_for_one_run_alone(
    endpoint: str,
) -> None:
    with pytest.raises(UntrustedEndpoint) as caught:
        check(endpoint, accepted=endpoint)
    assert "BANTAM_TRUST" not in str(caught.value)


def test_what_was_accepted_before_is_trusted_and_nothing_beside_it() -> None:
    names = {"https://x.example", "http://10.0.0.1:8080", "run://./model.sh"}
    accepted = Accepted(frozenset(names), {"https://evil.example": True})
    for endpoint in STRANGE:
        config = Config(endpoint=endpoint, sources={"endpoint": OF_FILE})
        if origin(endpoint) in names:
            check_trust(config, trust=False, environ={}, accepted=accepted)
        else:
            with pytest.raises(UntrustedEndpoint):
                check_trust(config, trust=False, environ={}, accepted=accepted)


def test_the_list_of_known_providers_is_short_and_names_hosts() -> None:
    assert len(KNOWN_HOSTS) <= 10
    for host in KNOWN_HOSTS:
        assert host_of(f"https://{host}/v1") == host == host.lower()
        assert is_harmless(f"https://{host}/v1")
        assert not is_harmless(f"http://{host}/v1")
    assert origin(DEFAULT).removeprefix("https://") in KNOWN_HOSTS


# -- keys -------------------------------------------------------------------------------------


def key(
    endpoint: str,
    configured: str | None = None,
    *,
    trust: bool = False,
    variable: str = "sk-env",
    accepted: str = "",
    source: str = OF_FILE,
    file_endpoint: str | None = None,
    keys: Mapping[str, bool] | None = None,
) -> Key:
    """Return the key for `endpoint`, which is the file's own unless `file_endpoint` is given."""
    config = Config(
        endpoint=endpoint,
        api_key=configured,
        sources={"api_key": source},
        file_endpoint=file_endpoint or endpoint,
    )
    environ = {"OPENAI_API_KEY": variable, "BANTAM_TRUST": accepted}
    return key_for(config, trust=trust, environ=environ, accepted=Accepted(keys=keys or {}))


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://api.openai.com/v1",
        "https://API.openai.com:443/v1",
        "http://127.0.0.1:1/v1",
        "http://localhost/v1",
        "http://[::1]/v1",
    ],
)
def test_the_key_of_the_environment_goes_where_it_belongs(endpoint: str) -> None:
    assert key(endpoint) == Key("sk-env", "OPENAI_API_KEY")


@pytest.mark.parametrize(
    "endpoint",
    [e for e in [*HARMLESS, *STRANGE] if e.startswith("http") and not is_loopback(host_of(e))],
)
def test_the_key_of_the_environment_goes_nowhere_else(endpoint: str) -> None:
    if origin(endpoint) == "https://api.openai.com":
        return
    for trust in (True, False):
        found = key(endpoint, trust=trust, accepted=origin(endpoint))
        assert (found.value, found.source) == (None, "none")
        assert found.notice is not None
        assert "OPENAI_API_KEY is not sent to" in found.notice
        assert "sk-env" not in found.notice


@pytest.mark.parametrize("endpoint", ["https://x.example/v1", "http://x.example/v1"])
def test_the_key_of_the_environment_goes_where_it_was_accepted(endpoint: str) -> None:
    name = origin(endpoint)
    for answers, expected in (
        ({name: True}, Key("sk-env", "OPENAI_API_KEY")),
        ({name: False}, Key(None, "none")),  # said once: no notice
    ):
        assert key(endpoint, keys=answers) == expected
    other = key(endpoint, keys={"https://x.example:8443": True, "https://y.example": True})
    assert (other.value, other.withheld) == (None, True)


def test_that_the_environment_s_key_was_accepted_accepts_no_other_key() -> None:
    with pytest.raises(ConfigError, match="unencrypted"):
        key("http://x.example/v1", "sk-own", keys={"http://x.example": True})


@pytest.mark.parametrize(
    ("endpoint", "is_open"),
    [
        ("http://x.example", True),
        ("HTTP://x.example", True),
        ("http://127.0.0.1.x.example", True),
        ("https://x.example", False),
        ("http://127.0.0.1:1", False),
        ("http://localhost", False),
        ("run://./http:", False),
    ],
)
def test_plain_http_to_another_machine_is_unencrypted(endpoint: str, is_open: bool) -> None:
    assert is_unencrypted(endpoint) is is_open
    assert goes_open(Config(endpoint=endpoint), Key("sk", "-o"), {}, NOTHING) is is_open
    assert not goes_open(Config(endpoint=endpoint), Key(None, "none"), {}, NOTHING)


def test_a_configured_key_wins_and_goes_to_its_endpoint() -> None:
    assert key("https://x.example/v1", "sk-own") == Key("sk-own", OF_FILE)
    assert key("https://api.openai.com/v1", "sk-own") == Key("sk-own", OF_FILE)


@pytest.mark.parametrize(
    ("endpoint", "of_file"),
    [
        ("https://x.example/v2", "https://x.example/v1"),
        ("HTTPS://X.example:443", "https://x.example/v1"),
        ("https://api.kilo.ai/other", DEFAULT),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
    ],
)
def test_the_key_of_a_file_goes_to_the_origin_of_its_endpoint(endpoint: str, of_file: str) -> None:
    assert key(endpoint, "sk-own", file_endpoint=of_file) == Key("sk-own", OF_FILE)


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize(
    ("endpoint", "of_file"),
    [
        ("http://other.example/v1", "https://x.example/v1"),
        ("http://x.example/v1", "https://x.example/v1"),
        ("https://x.example:8443/v1", "https://x.example/v1"),
        ("https://api.mistral.ai/v1", DEFAULT),
        ("http://127.0.0.1:8080/v1", DEFAULT),
        ("http://127.0.0.1:8081/v1", "http://127.0.0.1:8080/v1"),
        ("https://x.example/v1", "run://./model.sh"),
    ],
)
def test_the_key_of_a_file_goes_nowhere_else_and_that_is_told(
    endpoint: str, of_file: str, *, trust: bool, accepted: bool
) -> None:
    found = key(
        endpoint,
        "sk-own",
        variable="",
        trust=trust,
        accepted=origin(endpoint) if accepted else "",
        file_endpoint=of_file,
    )
    assert (found.value, found.source) == (None, "none")
    assert found.notice == (
        f"{OF_FILE}: api_key is not sent to {origin(endpoint)}: a file's key goes only to its own "
        f"endpoint, {origin(of_file)}; to use a key here, add -o api_key=KEY, or write this "
        "endpoint into the file"
    )


@pytest.mark.parametrize("source", ["-o", "default"])
def test_the_user_s_own_key_goes_wherever_the_user_says(source: str) -> None:
    for endpoint in ("https://x.example/v1", "http://127.0.0.1:1/v1"):
        found = key(endpoint, "sk-own", source=source, file_endpoint=DEFAULT)
        assert found == Key("sk-own", source)


def test_where_the_file_s_key_does_not_belong_the_environment_s_may() -> None:
    found = key("https://api.openai.com/v1", "sk-own", file_endpoint=DEFAULT)
    assert (found.value, found.source) == ("sk-env", "OPENAI_API_KEY")
    assert "api_key is not sent to https://api.openai.com" in str(found.notice)
    found = key("https://api.mistral.ai/v1", "sk-own", file_endpoint=DEFAULT)
    assert found.value is None
    assert f"{OF_FILE}: api_key is not sent" in str(found.notice)


def test_without_a_key_there_is_nothing_to_say() -> None:
    assert key("https://x.example/v1", variable="") == Key(None, "none")


@pytest.mark.parametrize("endpoint", ["run:///opt/model", "replay://a.json"])
def test_a_program_gets_no_key_and_no_notice(endpoint: str) -> None:
    assert key(endpoint, "sk-own") == key(endpoint) == Key(None, "none")


@pytest.mark.parametrize(
    "endpoint", ["http://x.example/v1", "http://10.0.0.1:8080/v1", "http://api.openai.com/v1"]
)
def test_a_key_goes_unencrypted_to_no_other_machine_that_was_not_accepted(endpoint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        key(endpoint, "sk-own")
    assert "sk-own" not in str(caught.value)
    assert "--trust" in str(caught.value)
    assert OF_FILE in str(caught.value)
    assert key(endpoint, "sk-own", trust=True).value == "sk-own"
    assert key(endpoint, "sk-own", accepted=origin(endpoint)).value == "sk-own"
    assert key("http://127.0.0.1/v1", "sk-own").value == "sk-own"


def test_the_line_end_of_a_secret_s_file_is_no_part_of_the_key() -> None:
    assert key("https://api.openai.com/v1", variable="sk-own\r\n").value == "sk-own"


@pytest.mark.parametrize("bad", ["sk-\r\nX: y", "sk-\u00e9", "sk-\x00", "sk-\town"])
@pytest.mark.parametrize("from_file", [True, False])
def test_a_key_that_no_header_can_hold_is_an_error_that_does_not_show_it(
    bad: str, from_file: bool
) -> None:
    with pytest.raises(ConfigError) as caught:
        key("https://api.openai.com/v1", bad if from_file else None, variable=bad)
    assert "sk-" not in str(caught.value)
    assert (OF_FILE if from_file else "OPENAI_API_KEY") in str(caught.value)
