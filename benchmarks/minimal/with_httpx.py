"""`with_httpx.py URL FILE`: post FILE's JSON, write what the stream answers. No more than that."""

import json
import sys
from pathlib import Path

import httpx


def main() -> None:
    url, file = sys.argv[1:]
    headers = {"content-type": "application/json"}
    body = Path(file).read_bytes()
    with httpx.stream("POST", url, content=body, headers=headers, timeout=60) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                sys.stdout.write(choice["delta"].get("content") or "")
                sys.stdout.flush()


main()
