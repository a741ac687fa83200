"""One change of a file, with all that puts it back."""

from dataclasses import dataclass
from typing import Final

# Deleted bytes beyond this are not kept: a change that deletes more cannot be put back.
MOST_KEPT_BYTES: Final = 16 * 1024 * 1024
PERMISSIONS: Final = 0o777  # the bits of a mode that are kept


@dataclass(frozen=True, slots=True)
class Change:
    """`added` bytes in place of the bytes `removed` at byte `offset` of the file `path`.

    `before` and `after` are the SHA-256 of the whole file in hex, "" where there is no file.
    `removed` is None where it was too large to keep. `mode`: permission bits before, None for no
    file. `folders`: those that were made for it, deepest first.
    """

    path: str
    before: str
    after: str
    mode: int | None
    offset: int
    added: int
    removed: bytes | None
    folders: tuple[str, ...] = ()
