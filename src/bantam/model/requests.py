"""Request bodies: their members, always in the same order, and their bytes."""

import json
from collections.abc import Mapping
from typing import Any

from bantam.core.messages import without_surrogates


def request_body(
    model: str, encoded: Mapping[str, Any], *, stream: bool, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a request (SPEC section 4), its members always in the same order.

    Its `messages` are left empty: see `serialised`. `encoded`: a dialect's other members, `tools`
    where it sends them. `options`: the temperature and the forwarded keys; they never replace
    another member.
    """
    body: dict[str, Any] = {"model": model, "messages": []}
    if encoded.get("tools"):
        body["tools"] = encoded["tools"]
    body |= {name: value for name, value in encoded.items() if name not in body and name != "tools"}
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    names = sorted(options, key=lambda name: name != "temperature")  # stable: the rest as given
    return body | {name: options[name] for name in names if name not in body}


def serialised(body: Mapping[str, Any], messages: bytes = b"") -> bytes:
    r"""Return `body` as JSON in UTF-8: equal bodies give equal bytes; lone surrogates are U+FFFD.

    `messages`: the items of its empty member of that name, as JSON.

    >>> serialised({"text": "café \ud83d"}).decode()
    '{"text":"café �"}'
    >>> serialised({"model": "m", "messages": [], "stream": True}, b'{"role":"user"}').decode()
    '{"model":"m","messages":[{"role":"user"}],"stream":true}'
    """
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    whole = without_surrogates(text).encode()
    return whole.replace(b'"messages":[]', b'"messages":[%s]' % messages, 1) if messages else whole
