"""Generators that yield on the way and return a value: one laid over another.

`yield from` hands everything through; `through` changes each item on its way and closes its source.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


def through(
    source: Generator[A, None, R], change: Callable[[A], Iterable[B]]
) -> Generator[B, None, R]:
    """Yield what `change` makes of each item of `source`; return what `source` returns.

    However this ends, `close()` included, `source` is closed.

    >>> list(through((n for n in (1, 2)), lambda n: "x" * n))
    ['x', 'x', 'x']
    """
    with closing(source):
        while True:
            try:
                item = next(source)
            except StopIteration as end:
                result: R = end.value
                return result
            yield from change(item)


def drained(source: Generator[A, None, R], take: Callable[[A], object]) -> R:
    """Give each item of `source` to `take`; return what `source` returns. It is closed as above.

    >>> def twice():
    ...     yield from "ab"
    ...     return 2
    >>> drained(twice(), print)
    a
    b
    2
    """
    with closing(source):
        while True:
            try:
                item = next(source)
            except StopIteration as end:
                result: R = end.value
                return result
            take(item)


def if_any(text: str) -> list[str]:
    """Return `text` as the only item, none if it is empty."""
    return [text] if text else []
