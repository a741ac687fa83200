"""Configuration: what a file, the environment and `-o` mean, and the texts made from the table."""

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bantam.core.config import (
    CONFIG_FILES,
    OPTIONS,
    RESERVED,
    Config,
    example_file,
    help_lines,
    readme_table,
    resolve,
    use_color,
)
from bantam.core.errors import ConfigError, ExitStatus
from bantam.core.kinds import as_text, forwarded_value
from bantam.core.settings import Setting, parse, parse_override, with_setting

ROOT = Path(__file__).parent.parent
CASES = sorted((Path(__file__).parent / "cases" / "config").glob("*.cfg"))


def configured(text: str | bytes, *overrides: str, **environ: str) -> Config:
    """Return what a file `.bantam.cfg` with `text` means."""
    written = text.encode() if isinstance(text, str) else text
    return resolve(parse(written, ".bantam.cfg"), overrides, environ)


def refused(text: str | bytes, *overrides: str, **environ: str) -> str:
    """Return the message with which a file `.bantam.cfg` with `text` is refused."""
    with pytest.raises(ConfigError) as caught:
        configured(text, *overrides, **environ)
    assert caught.value.exit_status == ExitStatus.USAGE
    return str(caught.value)


def value_of(config: Config, key: str) -> Any:
    return getattr(config, key) if key in OPTIONS else config.forwarded[key]


# -- the file ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_file_of_the_public_cases_means_what_they_say(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    if path.stem == "k14_junk_lines":
        # The case skips such lines; the specification refuses them.
        assert refused(path.read_bytes()).startswith(".bantam.cfg:1: no '='")
    elif "error" in expected:
        assert f"{expected['error'][0]}=" in refused(path.read_bytes())
    else:
        config = configured(path.read_bytes())
        set_here = {key for key, source in config.sources.items() if source != "default"}
        assert {key: value_of(config, key) for key in set_here} == expected["values"]


def test_without_a_file_every_option_has_its_default() -> None:
    config = resolve()
    assert config == Config(sources=dict.fromkeys(OPTIONS, "default"))
    assert (config.model, config.temperature, config.tools) == (
        "kilo-auto/free",
        0.7,
        ("shell_exec", "write_file"),
    )
    assert config.api_key is None
    assert config.budget_tokens is None


def test_the_projects_own_file_is_looked_for_before_the_shared_one() -> None:
    assert CONFIG_FILES == (".bantam.cfg", "model.cfg")


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("model=m # c", "m"),
        ("model=m#c", "m#c"),
        ("model=m\t#c", "m"),
        ("model=#m", "#m"),
        ("model= #m", "kilo-auto/free"),
        ('model="m # c"', "m # c"),
        ('model="m" # c', "m"),
        ("model='m' # \"c\"", "m"),
        ('model="m" # "c"', "m"),
        ('model="m"n"', 'm"n'),
        ("model=\"m' # c", "\"m'"),
        ('model="m # c', '"m'),
        ('model="m # c" n', '"m'),
        ('model="m"#c', '"m"#c'),
        ('model=" m "', " m "),
        ('model=""', "kilo-auto/free"),
        ("model='", "'"),
        ("export model=m", "m"),
        ("export\tmodel = m", "m"),
        ("\u00a0model\u00a0=\u00a0m\u00a0", "m"),
        ("model=m\rtimeout=5", "m"),
        ("model=m\u2028n", "m\u2028n"),
        ("model=a\nmodel=", "kilo-auto/free"),
        ("model=caf\u00e9", "caf\u00e9"),
    ],
)
def test_a_line_is_split_into_key_value_and_comment(line: str, model: str) -> None:
    assert configured(line).model == model


def test_a_key_may_be_called_export() -> None:
    assert configured("export=1\nexported = 2\na.export=3").forwarded == {
        "export": 1,
        "exported": 2,
        "a.export": 3,
    }


def test_a_comment_behind_a_value_may_hold_any_bytes() -> None:
    assert configured(b"model=m # caf\xe9\n").model == "m"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"model=m\nwords", ".bantam.cfg:2: no '='"),
        (b"\xef\xbb\xbf\r\n[section]", ".bantam.cfg:2: no '='"),
        (b"export model", ".bantam.cfg:1: no '='"),
        (b"=value", ".bantam.cfg:1: '' is not a key"),
        (b"export =\n =v", ".bantam.cfg:2: '' is not a key"),
        (b"my model=m", ".bantam.cfg:1: 'my...' is not a key"),
        (b"model: a=b", ".bantam.cfg:1: 'model...' is not a key"),
        (b"m\xe9=m", ".bantam.cfg:1: 'm...' is not a key"),
        (b"\xff\xfem\x00=\x00", ".bantam.cfg:1: "),
        (b"\nmodel=caf\xe9", ".bantam.cfg:2: model is not UTF-8"),
        (b"user=caf\xe9", ".bantam.cfg:1: user is not UTF-8"),
        (b"model=\xed\xa0\x80", ".bantam.cfg:1: model is not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_by_its_number(text: bytes, message: str) -> None:
    assert refused(text).startswith(message)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("stream", "FALSE", False),
        ("stream", "On", True),
        ("stream", "0", False),
        ("color", "Never", "never"),
        ("timeout", "1e3", 1000.0),
        ("timeout", ".5", 0.5),
        ("temperature", "0", 0.0),
        ("temperature", "+1.", 1.0),
        ("compact_at", "1", 1.0),
        ("min_cacheable_tokens", "0", 0),
        ("context_window", "1000000000", 1_000_000_000),
        ("budget_tokens", "007", 7),
        ("endpoint", "HTTP://[::1]:8080/v1", "HTTP://[::1]:8080/v1"),
        ("endpoint", "run://./my program", "run://./my program"),
        ("tools", "read_file, shell_exec,read_file", ("read_file", "shell_exec")),
        ("bantam_tools_dir", "~/t\u00f6\u00f6ls", "~/t\u00f6\u00f6ls"),
        ("edit_mode", "vi", "vi"),
    ],
)
def test_a_value_is_typed_by_the_table(key: str, text: str, value: object) -> None:
    typed = value_of(configured(f"{key}={text}"), key)
    assert typed == value
    assert type(typed) is type(value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("stream", "maybe"),
        ("color", "true"),
        ("timeout", "0"),
        ("timeout", "-1"),
        ("timeout", "nan"),
        ("timeout", "Infinity"),
        ("timeout", "1e999"),
        ("timeout", "1000001"),
        ("timeout", "1_000"),
        ("timeout", "5 s"),
        ("timeout", "\u0665"),
        ("shell_timeout", "9" * 5000),
        ("temperature", "-0.1"),
        ("temperature", "0,7"),
        ("compact_at", "0"),
        ("compact_at", "1.01"),
        ("compact_at", "60%"),
        ("max_al_iterations", "0"),
        ("max_al_iterations", "1.5"),
        ("tool_output_limit", "-1"),
        ("budget_tokens", "1000000001"),
        ("context_window", "9" * 5000),
        ("context_window", "\u0661"),
        ("min_cacheable_tokens", "-1"),
        ("endpoint", "localhost:8080"),
        ("endpoint", "ftp://host"),
        ("endpoint", "https://"),
        ("endpoint", "run://"),
        ("model", "a\x00b"),
        ("bantam_tools_dir", "a\x1b[2Jb"),
        ("tools", "shell_exec,"),
        ("tools", "shell_exec,browser"),
        ("edit_mode", "nano"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_what_was_expected(key: str, text: str) -> None:
    message = refused(f"# first\n{key}={text}")
    assert message.startswith(f".bantam.cfg:2: {key}={text!r}"[:60])
    assert f" is not {OPTIONS[key].kind.expected}" in message
    assert len(message) < 300


def test_an_error_shows_the_default_as_a_value_that_fits() -> None:
    assert refused("timeout=abc") == (
        ".bantam.cfg:1: timeout='abc' is not a number of seconds, above 0, at most 1000000; "
        "write timeout=300"
    )


@pytest.mark.parametrize("row", OPTIONS.values(), ids=lambda row: row.name)
def test_every_option_has_an_example_that_an_error_can_show(row: Any) -> None:
    typed = value_of(configured(f"{row.name}={row.example}"), row.name)
    assert typed is not None
    assert row.default in (typed, None)


def test_an_error_shows_an_example_where_there_is_no_default() -> None:
    assert refused("budget_tokens=0") == (
        ".bantam.cfg:1: budget_tokens='0' is not a whole number from 1 to 1000000000; "
        "write budget_tokens=1000000"
    )


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("http://x:99999", "its port is above 65535"),
        ("http://[12345::]/v1", "its IPv6 address is none"),
        ("http:///x", "it names no host"),
        ("http://a%2eexample/v1", "its host and port are not of letters from a to z"),
        ("http://x/v 1", "it holds a blank"),
    ],
)
def test_an_endpoint_that_is_none_is_refused_by_its_place_and_with_the_reason(
    endpoint: str, why: str
) -> None:
    expected = OPTIONS["endpoint"].kind.expected
    fix = "write endpoint=https://api.kilo.ai/api/openrouter"
    in_file = refused(f"model=m\nendpoint={endpoint}", "endpoint=http://good.example")
    assert in_file.startswith(f".bantam.cfg:2: endpoint='{endpoint}' is not {expected}: {why}")
    on_line = refused("", f"endpoint={endpoint}")
    assert on_line.startswith(f"-o endpoint={endpoint} is not {expected}: {why}")
    assert in_file.endswith(fix)
    assert on_line.endswith(fix)


@pytest.mark.parametrize(
    "endpoint", ["https://user:sk-secret@h/v1", "http://sk-secret@h", "http://a\\sk-secret\n@h"]
)
def test_a_name_before_a_host_is_refused_and_not_shown(endpoint: str) -> None:
    message = refused("", f"endpoint={endpoint}")
    assert "//...@h" in message
    assert "sk-secret" not in message


@pytest.mark.parametrize("scheme", ["run:///x", "replay://x", "http://h/"])
@pytest.mark.parametrize(
    "hidden",
    [
        "\t",
        "\n",
        "\x1b",
        "\x7f",
        "\x9b",
        "\xa0",
        "\xad",
        "\u034f",
        "\u200b",
        "\u200d",
        "\u202e",
        "\u2028",
        "\u2066",
        "\u3164",
        "\ufe0f",
        "\ufeff",
        "\U000e0041",
    ],
    ids=ascii,
)
def test_what_no_screen_shows_is_in_no_endpoint(scheme: str, hidden: str) -> None:
    endpoint = f"{scheme}{hidden}ok.sh"
    message = refused("", f"endpoint={endpoint}")
    assert message.startswith(f"-o endpoint={endpoint!a} is not an ")
    assert f": it holds U+{ord(hidden):04X}; write endpoint=" in message
    in_file = f"endpoint='{endpoint}'"
    if hidden != "\n":
        assert refused(in_file).startswith(f".bantam.cfg:1: endpoint={endpoint!a} is not")


def test_the_endpoint_of_the_file_is_known_where_another_is_used() -> None:
    default = OPTIONS["endpoint"].default
    assert configured("api_key=k", "endpoint=http://o").file_endpoint == default
    assert configured("endpoint=", "endpoint=http://o").file_endpoint == default
    config = configured("endpoint=http://a\nendpoint=http://b", "endpoint=http://o")
    assert (config.endpoint, config.file_endpoint) == ("http://o", "http://b")


def test_a_wrong_value_is_refused_even_where_a_later_one_replaces_it() -> None:
    assert refused("timeout=abc\ntimeout=5").startswith(".bantam.cfg:1: timeout=")
    assert refused("timeout=abc", "timeout=5").startswith(".bantam.cfg:1: timeout=")


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_what_bantam_writes_itself_is_never_forwarded(key: str) -> None:
    assert f"{key} is written by Bantam itself" in refused(f"{key}=[]")
    assert f"-o {key} is written by Bantam itself" in refused("", f"{key}=")


API_KEYS = [
    "models",
    "max_tokens",
    "max_completion_tokens",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "n",
    "user",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "response_format",
    "service_tier",
    "store",
    "metadata",
    "modalities",
    "prediction",
    "verbosity",
    "web_search_options",
    "safety_identifier",
    "prompt_cache_key",
    "transforms",
    "route",
    "provider",
    "plugins",
    "repetition_penalty",
    "cache_prompt",
    "slot_id",
    "mirostat",
    "grammar",
    "typical_p",
    "extra_body",
    "chat_template_kwargs",
    "guided_json",
    "num_ctx",
    "keep_alive",
    "options",
    "enable_thinking",
]


@pytest.mark.parametrize("key", API_KEYS)
def test_a_key_of_the_api_goes_there_though_it_resembles_one_of_bantam_s(key: str) -> None:
    assert resolve((), [f"{key}=x"]).forwarded == {key: "x"}


@pytest.mark.parametrize(
    ("key", "right"),
    [
        ("Temperature", "temperature=0.7"),
        ("API_KEY", "api_key=KEY"),
        ("api-key", "api_key=KEY"),
        ("ApiKey", "api_key=KEY"),
        ("OPENAI_API_KEY", "api_key=KEY"),
        ("x-api-key", "api_key=KEY"),
        ("Endpoint", "endpoint=https://api.kilo.ai/api/openrouter"),
        ("max.al-iterations", "max_al_iterations=1000"),
        ("BANTAM_TOOLS_DIR", "bantam_tools_dir=/path/to/tools"),
        ("endpiont", "endpoint=https://api.kilo.ai/api/openrouter"),
        ("sandbx", "sandbox=off"),
        ("approv", "approve=auto"),
        ("budget_token", "budget_tokens=1000000"),
        ("temprature", "temperature=0.7"),
        ("modle", "model=kilo-auto/free"),
        ("base_url", "endpoint=https://api.kilo.ai/api/openrouter"),
        ("OPENAI_BASE_URL", "endpoint=https://api.kilo.ai/api/openrouter"),
        ("token", "api_key=KEY"),
    ],
)
def test_a_key_that_looks_like_one_of_bantam_s_is_never_forwarded(key: str, right: str) -> None:
    assert refused(f"{key}=sk-secret") == f".bantam.cfg:1: {key} is not a key; write {right}"
    assert refused("", f"{key}=") == f"-o {key} is not a key; write {right}"


def test_a_reserved_key_in_another_case_is_reserved() -> None:
    assert "Messages is written by Bantam itself" in refused("Messages=[]")


def test_no_option_is_forwarded() -> None:
    text = "\n".join(f"{row.name}={as_text(row.default)}" for row in OPTIONS.values())
    assert configured(text).forwarded == {}


# -- forwarded keys ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.9", 0.9),
        ("-3", -3),
        ("1e3", 1000.0),
        ("null", None),
        ("true", True),
        ('["END", 1]', ["END", 1]),
        ('{"type": "json_object"}', {"type": "json_object"}),
        ("True", "True"),
        ("high", "high"),
        ('"4"', '"4"'),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("[1e999]", "[1e999]"),
        ('["\\ud800"]', '["\\ud800"]'),
        ("[1,", "[1,"),
        ("01", "01"),
        ("9" * 5000, "9" * 5000),
        ("[" * 100_000, "[" * 100_000),
        ("[" * 900 + "]" * 900, "[" * 900 + "]" * 900),
        ('{"a":' * 900 + "1" + "}" * 900, '{"a":' * 900 + "1" + "}" * 900),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_forwarded_value_is_json_where_every_server_reads_it_as_json(
    text: str, value: object
) -> None:
    config = configured("", f"x={text}")
    assert config.forwarded == {"x": value}
    assert type(config.forwarded["x"]) is type(value)
    json.dumps(config.forwarded, ensure_ascii=False, allow_nan=False).encode()


def test_the_quotes_of_a_file_are_no_part_of_a_forwarded_value() -> None:
    assert configured("""a="high"\nb='["x #y"]'\nc="1"\n""").forwarded == {
        "a": "high",
        "b": ["x #y"],
        "c": 1,
    }


def test_a_forwarded_null_is_kept_and_an_empty_value_is_not() -> None:
    assert configured("a=null\nb=\nc=1\nc=").forwarded == {"a": None}


@given(st.text())
def test_any_text_makes_a_value_that_can_be_sent(text: str) -> None:
    json.dumps(forwarded_value(text), ensure_ascii=False, allow_nan=False)


@given(st.binary())
def test_any_file_is_read_or_refused(text: bytes) -> None:
    try:
        configured(text)
    except ConfigError as error:
        assert str(error).startswith(".bantam.cfg:")  # noqa: PT017  # most inputs raise nothing


# -- layers -----------------------------------------------------------------------------------


def test_the_command_line_wins_over_environment_and_file() -> None:
    file = "bantam_tools_dir=file\ntimeout=1"
    assert configured(file).bantam_tools_dir == "file"
    config = configured(file, BANTAM_TOOLS_DIR="environment")
    assert config.bantam_tools_dir == "environment"
    config = configured(file, "bantam_tools_dir=o", "timeout=2", BANTAM_TOOLS_DIR="environment")
    assert (config.bantam_tools_dir, config.timeout) == ("o", 2.0)
    assert configured(file, BANTAM_TOOLS_DIR="").bantam_tools_dir == "file"


def test_every_key_tells_where_its_value_comes_from() -> None:
    config = configured(
        "\nmodel=m\ntop_p=1\nstream=", "timeout=5", "timeout=6", BANTAM_TOOLS_DIR="t"
    )
    assert config.sources == dict.fromkeys(OPTIONS, "default") | {
        "model": ".bantam.cfg:2",
        "top_p": ".bantam.cfg:3",
        "timeout": "-o",
        "bantam_tools_dir": "environment",
    }


def test_an_empty_override_unsets_what_the_file_and_the_environment_say() -> None:
    config = configured(
        "model=m\ntop_p=1", "model=", "top_p=", "bantam_tools_dir=", BANTAM_TOOLS_DIR="t"
    )
    assert config == resolve()


def test_an_override_is_taken_as_the_shell_passed_it() -> None:
    config = configured("", " model = a # b ", "stop=['x #y']", 'user="q"')
    assert config.model == "a # b"
    assert config.forwarded == {"stop": "['x #y']", "user": '"q"'}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("words", "words"),
        ("top_p", "top_p"),
        ("=v", "..."),
        ("a b=c", "a..."),
        ("", ""),
        ("api_key:sk-secret", "api_key..."),
        ("api_key sk-secret", "api_key..."),
        ("api_key: sk-secret=", "api_key..."),
        ("sk-secret", "sk..."),
    ],
)
def test_an_override_without_key_and_value_is_refused_and_only_its_first_word_shown(
    text: str, shown: str
) -> None:
    assert refused("", text) == f"-o {shown} is not a key and a value; write -o KEY=VALUE"


def test_a_wrong_override_is_named_as_it_was_typed() -> None:
    assert refused("", "timeout=abc").startswith("-o timeout=abc is not a number of seconds")
    assert refused("", "model=\udcff").startswith("-o model is not UTF-8")


def test_a_wrong_variable_of_the_environment_is_named() -> None:
    assert refused("", BANTAM_SANDBOX="yes") == (
        "BANTAM_SANDBOX=yes is not one of off, on, net; write BANTAM_SANDBOX=off"
    )


@pytest.mark.parametrize(
    ("file", "overrides", "environ", "sandbox", "source"),
    [
        ("", [], {}, "off", "default"),
        ("sandbox=net", [], {}, "net", ".bantam.cfg:1"),
        ("sandbox=off", [], {"BANTAM_SANDBOX": "on"}, "on", "environment"),
        ("sandbox=net", [], {"BANTAM_SANDBOX": "on"}, "on", "environment"),
        ("sandbox=on", [], {"BANTAM_SANDBOX": "net"}, "on", ".bantam.cfg:1"),
        ("sandbox=off", ["sandbox=ON"], {}, "on", "-o"),
        ("sandbox=on", ["sandbox=off"], {}, "on", ".bantam.cfg:1"),
        ("sandbox=on", ["sandbox="], {}, "on", ".bantam.cfg:1"),
        ("sandbox=", ["sandbox=net"], {}, "net", "-o"),
        ("sandbox=on", ["sandbox=on"], {}, "on", "-o"),
        ("", ["sandbox=off"], {"BANTAM_SANDBOX": "on"}, "off", "-o"),
    ],
)
def test_a_file_tightens_the_sandbox_and_never_loosens_it(
    file: str, overrides: list[str], environ: dict[str, str], sandbox: str, source: str
) -> None:
    config = configured(file, *overrides, **environ)
    assert (config.sandbox, config.sources["sandbox"]) == (sandbox, source)


# -- secrets ----------------------------------------------------------------------------------


def test_no_representation_and_no_error_shows_the_key() -> None:
    config = configured("api_key=sk-secret")
    assert config.api_key == "sk-secret"
    assert "sk-secret" not in repr(config)
    assert "sk-secret" not in repr(Setting("api_key", "sk-secret", "-o"))
    pasted = ("sk-secret", "api_key=sk-secret\u00e9", "api_key: sk-secret==", "API_KEY=sk-secret")
    for text in pasted:
        assert "sk-secret" not in refused(text)
    assert "sk-secret" not in refused("", "api_key=sk-secret\x00")


@pytest.mark.parametrize("key", ["k\u00e9", "k\x00", '"k "', '" k"', "k\tk"])
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    message = refused(f"api_key={key}")
    assert message == (".bantam.cfg:1: api_key is not one line of visible ASCII; write api_key=KEY")


def test_a_configuration_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        resolve().model = "other"  # type: ignore[misc]  # the error is what is tested


# -- setting a key in a file ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (b"", "m", b"model=m\n"),
        (b"# c\na=1", "m", b"# c\na=1\nmodel=m\n"),
        (b"a=1\r\n", "m", b"a=1\r\nmodel=m\n"),
        (b"model=a\r\nb=1\r\n", "m", b"model=m\r\nb=1\r\n"),
        (b"\xef\xbb\xbfmodel=a", "m", b"\xef\xbb\xbfmodel=m"),
        (b" export  model = a \t # caf\xe9\n", "m", b" export  model = m \t # caf\xe9\n"),
        (b"model='a' # c\n", "m", b"model=m # c\n"),
        (b"model=a\nmodel=b\n#model=c\n", "m", b"model=a\nmodel=m\n#model=c\n"),
        (b"model=a\n", "", b"model=\n"),
        (b"model=\n", "m", b"model=m\n"),
        (b"model=a\n", "m # n", b'model="m # n"\n'),
        (b"model=a\n", "#m", b'model="#m"\n'),
        (b"model=a\n", '"m"', b'model=""m""\n'),
        (b"model=a\n", 'a" # b', b"model='a\" # b'\n"),
        (b"model\n", "m", b"model\nmodel=m\n"),
        (b'model="a # b" # c\n', "m", b"model=m # c\n"),
        (b'model="a # b"\r\n', "m", b"model=m\r\n"),
    ],
)
def test_a_new_value_leaves_the_rest_of_the_file_as_it_was(
    before: bytes, value: str, after: bytes
) -> None:
    assert with_setting(before, "model", value) == after


@pytest.mark.parametrize("value", ["a\nb", "a\r", "\ud800", "a\" # b' # c"])
def test_a_value_that_no_line_can_hold_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="model: no line of a file can hold this value"):
        with_setting(b"model=a\n", "model", value)


@given(st.text(st.characters(codec="utf-8"), max_size=12), st.sampled_from([b"", b" # c", b"\t#"]))
def test_a_value_written_to_a_file_is_read_back_the_same(value: str, comment: bytes) -> None:
    file = b"a=1\nmodel = old" + comment + b"\nb=2\n"
    try:
        changed = with_setting(file, "model", value)
    except ConfigError:
        return
    assert [(s.key, s.text) for s in parse(changed, "f")] == [
        ("a", "1"),
        ("model", value),
        ("b", "2"),
    ]


# -- colour -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "environ", "is_tty", "coloured"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"BANTAM_NO_COLOR": "0"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {}, True, False),
    ],
)
def test_colour_follows_the_option_then_the_environment(
    choice: str, environ: dict[str, str], is_tty: bool, coloured: bool
) -> None:
    assert use_color(choice, environ, is_tty=is_tty) is coloured


# -- generated texts --------------------------------------------------------------------------


def test_the_example_file_is_the_one_that_the_table_makes() -> None:
    assert (ROOT / "model.cfg.example").read_text() == example_file()


def test_readme_shows_the_table_of_options() -> None:
    assert (
        f"<!-- options -->\n{readme_table()}<!-- /options -->\n" in (ROOT / "README.md").read_text()
    )


def test_the_example_file_changes_nothing_as_it_stands() -> None:
    assert parse(example_file().encode(), "model.cfg.example") == []


def test_the_example_file_holds_every_default_behind_its_comment_sign() -> None:
    lines = [line.removeprefix("#") for line in example_file().splitlines() if line[:2] != "# "]
    settings = parse("\n".join(lines).encode(), "model.cfg.example")
    assert {setting.key for setting in settings} == {
        *OPTIONS,
        "reasoning_effort",
        "top_p",
        "stop",
    }
    config = resolve(settings)
    assert {key: value_of(config, key) for key in OPTIONS} == {
        key: row.default for key, row in OPTIONS.items()
    }


@pytest.mark.parametrize("row", OPTIONS.values(), ids=lambda row: row.name)
def test_every_default_is_a_value_of_its_option(row: Any) -> None:
    if row.default is not None:
        assert row.kind.read(as_text(row.default)) == row.default


def test_help_names_every_key_in_few_short_lines() -> None:
    lines = help_lines(60)
    assert " ".join(lines).split() == list(OPTIONS)
    assert max(map(len, lines)) <= 60
    assert len(help_lines()) <= 5


def test_a_setting_of_the_command_line_says_so() -> None:
    assert parse_override("model=m") == Setting("model", "m", "-o")


def test_every_key_that_was_given_is_known_as_a_secret_and_never_shown() -> None:
    file = parse(b"api_key=sk-first-1\napi_key=sk-second-2\n", ".bantam.cfg")
    config = resolve(file, ["api_key=sk-third-3"])
    assert config.secrets == ("sk-first-1", "sk-second-2", "sk-third-3")
    assert "sk-" not in repr(config)


def test_an_address_without_its_scheme_is_shown_with_it() -> None:
    with pytest.raises(ConfigError, match=r"write endpoint=http://127\.0\.0\.1:8091/v1$"):
        resolve(overrides=["endpoint=127.0.0.1:8091/v1"])
