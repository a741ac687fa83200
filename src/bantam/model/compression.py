"""Compressed bodies -> plain bytes, in pieces of a bounded size.

No server is asked for compression, but some answer so. httpx would inflate whatever one read
brings at once, which is a thousand times its size if somebody wants to do harm.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from bantam.core.errors import ModelError

_PIECE_BYTES: Final = 65536
_PLAIN: Final = frozenset({"", "identity"})
_ZLIB: Final = frozenset({"gzip", "x-gzip", "deflate"})


def inflated(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the plain bytes of a body under `encoding`, its Content-Encoding, as they come.

    `parts` is read to its end, also behind the end of what is compressed. Raises zlib.error, and
    ModelError for an encoding that is not known.

    >>> list(inflated([zlib.compress(b"hello")], "deflate"))
    [b'hello']
    """
    name = encoding.strip().lower()
    if name in _PLAIN:
        yield from parts
        return
    if name not in _ZLIB:
        raise ModelError(f"the answer is compressed in a way that was not asked for: {name}")
    # 32 more than the largest window: the header tells gzip from zlib (zlib.h, inflateInit2).
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
    for part in parts:
        rest, piece = part, b""
        while not stream.eof and (rest or len(piece) == _PIECE_BYTES):
            piece = stream.decompress(rest, _PIECE_BYTES)
            rest = stream.unconsumed_tail
            yield piece
