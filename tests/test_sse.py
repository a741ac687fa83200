"""Bytes of a body -> JSON texts: event streams, plain JSON, and which of the two it is."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bantam.core.errors import ModelError
from bantam.core.messages import MAX_DEPTH
from bantam.model.body import Body
from bantam.model.jsontext import JSONTexts, Nesting, SurrogatePairs, parsed
from bantam.model.sse import MAX_ANSWER_BYTES, MAX_EVENT_BYTES, AnswerTooLarge, SSEDecoder

MIB = 1024 * 1024
READ_SIZES = (1, 2, 3, 7, 64)


def decoded(decoder: SSEDecoder | JSONTexts | Body, *parts: bytes) -> list[str]:
    payloads = [payload for part in parts for payload in decoder.feed(part)]
    return payloads + decoder.close()


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\r\n\ndata: b\n\r\n", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a \n\n", [" a "]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: {\ndata: }\n\n", ["{\n}"]),
        (b'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n\n', ['{"a":1}', '{"b":2}', "[DONE]"]),
        (b"data: [\ndata: {}\ndata: ]\n\n", ["[\n{}\n]"]),
        (b": comment\n\ndata: a\n: comment\ndata: b\n\n", ["a\nb"]),
        (b"event: error\nid: 7\nretry: 10\ndata: a\n\n", ["a"]),
        (b"event: ping\n\n", []),
        (b"data\n\n", [""]),
        (b"data:\n\n", [""]),
        (b"database: a\nDATA: b\n data: c\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", ["a"]),
        (b"data: a", ["a"]),
        (b"data: a\n", ["a"]),
        (b"", []),
        (b"\n\n\n", []),
        ("data: a\u2028b\x0b\x0c\x85\u2029c\n\n".encode(), ["a\u2028b\x0b\x0c\x85\u2029c"]),
        ("data: 你好 🙂\n\n".encode(), ["你好 🙂"]),
        (b"data: caf\xe9!\n\n", ["caf\ufffd!"]),
        (b"data: \xed\xa0\x80\n\n", ["\ufffd\ufffd\ufffd"]),
        (b"data: a\x00b\n\n", ["a\x00b"]),
    ],
)
def test_the_payloads_of_a_stream_are_its_data_lines(stream: bytes, payloads: list[str]) -> None:
    assert decoded(SSEDecoder(), stream) == payloads
    for size in READ_SIZES:
        assert decoded(SSEDecoder(), *cut(stream, size)) == payloads


STREAM_BYTES = st.lists(
    st.sampled_from(
        [
            *(b"data: ", b"data", b":", b"{}", b"[", b" ", b"event: x"),
            *(b"\n", b"\r", b"\r\n", b"\n\n"),
            *(b"\xef\xbb\xbf", b"\xe9", "🙂".encode(), "\u2028".encode()),
        ]
    ),
    max_size=40,
).map(b"".join)


@given(STREAM_BYTES, st.lists(st.integers(0, 150)))
def test_what_a_stream_holds_does_not_depend_on_its_cuts(stream: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(min(at, len(stream)) for at in cuts), len(stream)]
    parts = [stream[a:b] for a, b in pairwise(borders)]
    assert decoded(SSEDecoder(), *parts) == decoded(SSEDecoder(), stream)
    assert decoded(Body(), *parts) == decoded(Body(), stream)


def test_an_event_is_given_out_as_soon_as_its_blank_line_came() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\r\n\r") == ["a"]
    assert decoder.feed(b"\ndata: b\n") == []
    assert decoder.feed(b"\n") == ["b"]


def fed_until_refused(decoder: SSEDecoder | JSONTexts, part: bytes, most: int) -> int:
    """Return how many bytes were taken before AnswerTooLarge, feeding at most `most`."""
    for taken in range(0, most, len(part)):
        try:
            decoder.feed(part)
        except AnswerTooLarge:
            return taken
    return most


@pytest.mark.parametrize("begin", [b"data: ", b": ", b""])
def test_a_line_that_never_ends_is_refused_at_the_bound(begin: bytes) -> None:
    decoder = SSEDecoder()
    decoder.feed(begin)
    assert fed_until_refused(decoder, b"x" * 65536, 300 * MIB) <= MAX_EVENT_BYTES


def test_an_event_of_many_lines_is_refused_at_the_bound() -> None:
    assert fed_until_refused(SSEDecoder(), b"data: " + b"x" * 9994, 300 * MIB) <= MAX_EVENT_BYTES
    line = b"data: " + b"x" * 65535 + b"\n"
    assert fed_until_refused(SSEDecoder(), line, 300 * MIB) <= MAX_EVENT_BYTES + MIB
    assert (
        fed_until_refused(SSEDecoder(), (b"data:" + b"x" * 50 + b"\n") * 100, 300 * MIB)
        <= MAX_EVENT_BYTES
    )


def test_comments_do_not_count_as_answer() -> None:
    decoder = SSEDecoder()
    for _ in range(18):
        assert decoder.feed((b": " + b"x" * 1021 + b"\n") * 1024) == []
    assert decoder.feed(b"data: a\n\n") == ["a"]


def test_an_event_just_below_the_bound_is_whole() -> None:
    payload = b"x" * (MAX_EVENT_BYTES - 100)
    assert decoded(SSEDecoder(), b"data: " + payload + b"\n\n") == [payload.decode()]


def test_too_large_is_a_final_error_that_names_the_bound() -> None:
    error = AnswerTooLarge("the answer", MAX_ANSWER_BYTES)
    assert isinstance(error, ModelError)
    assert "16 MiB" in str(error)


def test_a_long_line_in_single_bytes_is_decoded() -> None:
    decoder = SSEDecoder()
    for byte in b"data: " + b"x" * 300_000:
        assert decoder.feed(bytes([byte])) == []
    assert decoder.feed(b"\n\n") == ["x" * 300_000]


# -- plain JSON -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        (b'{"a": 1}', ['{"a": 1}']),
        (b'\xef\xbb\xbf \r\n {"a": [{}]}\n', ['{"a": [{}]}']),
        (b'{"a": 1}\n{"b": 2}', ['{"a": 1}', '{"b": 2}']),
        (b'[{"a": 1}]', ['[{"a": 1}]']),
        (b'{"a": "}"}{"b": "\\"}"}', ['{"a": "}"}', '{"b": "\\"}"}']),
        (b'{"a": "\\\\"}{}', ['{"a": "\\\\"}', "{}"]),
        (b'{"a": "\\\n"}', ['{"a": "\\\n"}']),
        (b'{"a": ', ['{"a": ']),
        (b'{"a": "\xc3', ['{"a": "\ufffd']),
        (b"no JSON", []),
        (b"}{}", ["{}"]),
    ],
)
def test_the_texts_of_a_body_end_with_their_outermost_bracket(
    body: bytes, texts: list[str]
) -> None:
    assert decoded(JSONTexts(), body) == texts
    for size in READ_SIZES:
        assert decoded(JSONTexts(), *cut(body, size)) == texts


def test_a_json_text_is_given_out_before_the_body_ends() -> None:
    texts = JSONTexts()
    assert texts.feed(b'{"a": 1') == []
    assert texts.feed(b"}") == ['{"a": 1}']
    assert texts.close() == []


def test_a_closing_bracket_too_many_does_not_confuse_what_follows() -> None:
    nesting = Nesting()
    assert nesting.end_in("]}") == 1
    assert nesting.end_in("{}") == 2


@pytest.mark.parametrize("part", [b"[" + b"1," * 40000, b" " * 65536])
def test_a_json_body_is_refused_at_the_bound(part: bytes) -> None:
    assert fed_until_refused(JSONTexts(), part, 300 * MIB) <= MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": }',
        "[" * 100_000,
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1),
        "9" * 5000,
        "{} {}",
        '{"a": "\n"}',
    ],
)
def test_what_is_no_sensible_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the texts are Python's
        parsed(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": NaN, "b": [Infinity, -Infinity]}', {"a": None, "b": [None, None]}),
        (f"[{'[],' * 500}1]", [*[[]] * 500, 1]),
        (' "a\u2028" ', "a\u2028"),
    ],
)
def test_json_as_servers_write_it_is_parsed(text: str, value: object) -> None:
    assert parsed(text) == value


def test_a_hundred_levels_are_parsed() -> None:
    assert parsed("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert parsed('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH)


# -- characters that escapes cut --------------------------------------------------------------


@given(st.text(alphabet=st.sampled_from(list("a\ud83d\ude42\udc00é")), max_size=12), st.data())
def test_surrogates_in_any_pieces_become_characters(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    pairs = SurrogatePairs()
    whole = pairs.feed(text[:at]) + pairs.feed(text[at:]) + pairs.close()
    assert whole == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# -- which of the two -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "is_json", "payloads", "first_line"),
    [
        (b'{"a": 1}', True, ['{"a": 1}'], '{"a": 1}'),
        (b'\n \t\r\n\xef\xbb\xbf\n[{"a": 1}]', True, ['[{"a": 1}]'], '[{"a": 1}]'),
        (b"data: a\n\n", False, ["a"], "data: a"),
        (b"\n\n\xef\xbb\xbfdata: a\n\n", False, ["a"], "data: a"),
        (b"<html>\n<body>", False, [], "<html>"),
        (b" \n", False, [], ""),
        (b"\xef\xbb", False, [], "\ufffd"),
        (b"x" * 5000, False, [], "x" * 200),
    ],
)
def test_the_first_byte_tells_json_from_a_stream(
    body: bytes, is_json: bool, payloads: list[str], first_line: str
) -> None:
    for size in (len(body), *READ_SIZES):
        reader = Body()
        assert decoded(reader, *cut(body, size)) == payloads
        assert reader.is_json == is_json
        assert reader.first_line == first_line
