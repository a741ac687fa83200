"""The server of the benchmarks: a process of its own, so that its work is not the subject's.

    with Wire() as wire:
        ...  # POST to f"{wire.url}/tokens-5000/chat/completions"
        wire.taken()  # what came since the last look

What is asked for stands in the path: `hello`, `tokens-N` (an answer of N deltas, in Markdown),
`rounds-N` (N calls of the shell, then an answer) and `output-N` (one that prints N bytes, then an
answer). An answer is one piece of bytes, made before it
is asked for again, and nothing waits. tests/llmserver.py keeps the rules of strict servers and has
faults; both take time.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Final, Self

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from llmreplies import Reply, shell, text  # found by the line above

COMMAND: Final = ":"  # of the rounds
_MARKDOWN: Final = (
    "## A heading\n\nSome **bold** words, some `code` and [a link](https://example.com/x) in a\n"
    "paragraph of two lines.\n\n- an item\n- one more, with *emphasis*\n  1. a nested one\n\n"
    "```python\ndef f(x: int) -> str:\n    return str(x)  # as text\n```\n\n"
)


def printing(size: int) -> str:
    """Return the command that prints so many bytes."""
    return f"head -c {size} /dev/zero | tr '\\0' x"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it was served; times are seconds of the monotonic clock.

    `sent`: bytes of head and body. `same`: the first bytes of the body that are those of the one
    before. `at`: when it had come whole. `answered`: when the answer was on its way.
    """

    method: str
    connection: int
    sent: int
    size: int
    same: int
    at: float
    answered: float


class Wire:
    """The server, started and ended; `url` is its address."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self._port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def taken(self) -> list[Request]:
        """Return the requests since the last look, and forget them."""
        return [Request(**each) for each in json.loads(self._asked("/taken"))]

    def body(self) -> bytes:
        """Return the last body that was posted."""
        return self._asked("/body")

    def _asked(self, path: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request("GET", path)
        with connection.getresponse() as answer:
            return answer.read()


# -- the process ------------------------------------------------------------------------------


class _Server(ThreadingTCPServer):
    daemon_threads = True
    requests: list[Request]
    connections = 0
    body = b""


class _Connection(StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.server.connections += 1
        number = self.server.connections
        while (line := self.rfile.readline()).strip():
            self._exchange(line, number)

    def _exchange(self, line: bytes, number: int) -> None:
        head = line
        while (more := self.rfile.readline()).strip():
            head += more
        fields = dict(each.lower().split(b":", 1) for each in head.splitlines()[1:])
        body = self.rfile.read(int(fields.get(b"content-length", 0)))
        at = time.monotonic()
        method, path = line.decode().split()[:2]
        server = self.server
        if path in ("/taken", "/body"):
            self.wfile.write(_plain(_told(server) if path == "/taken" else server.body))
            return
        same, answer = 0, _plain(b'{"data": []}')
        if method == "POST":
            ordinal = sum(each.method == "POST" for each in server.requests)
            same = _common(server.body, body) if ordinal else 0
            answer = _answer(path.split("/")[1], ordinal)
            server.body = body
        sent = len(head) + len(more) + len(body)
        # Before the answer: a client that has it may be gone, and be asked about.
        server.requests.append(Request(method, number, sent, len(body), same, at, time.monotonic()))
        self.wfile.write(answer)


def _told(server: _Server) -> bytes:
    told, server.requests = server.requests, []
    return json.dumps([asdict(each) for each in told]).encode()


def _common(one: bytes, other: bytes) -> int:
    """Return how many first bytes are the same: halving, as comparing a slice is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _plain(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


def _answer(kind: str, ordinal: int) -> bytes:
    """Return the answer to the request `ordinal` (from 0) since the last look."""
    name, _, number = kind.partition("-")
    if name == "tokens":
        return _tokens(int(number))
    if name == "rounds" and ordinal < int(number):
        return _call(COMMAND, ordinal)
    if name == "output" and ordinal == 0:
        return _call(printing(int(number)), ordinal)
    return _hello()


def _call(command: str, ordinal: int) -> bytes:
    return _bytes_of(shell(command, start=ordinal))


@cache
def _hello() -> bytes:
    return _bytes_of(text("Hello."))


@cache
def _tokens(number: int) -> bytes:
    size = 4 * number  # about a token's letters
    return _bytes_of(text((_MARKDOWN * (1 + size // len(_MARKDOWN)))[:size], pieces=number))


def _bytes_of(reply: Reply) -> bytes:
    pieces = (reply.framed(piece) for piece in reply.pieces())
    return b"".join([reply.head, *pieces, b"0\r\n\r\n"])


def main() -> None:
    """Serve on a free port, which is told, until killed."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.requests = []
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
