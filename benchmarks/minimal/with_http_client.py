"""`with_http_client.py URL FILE`: as with_httpx.py, with what Python brings."""

import json
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit


def main() -> None:
    url, file = sys.argv[1:]
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=60)
    headers = {"content-type": "application/json"}
    connection.request("POST", parts.path, Path(file).read_bytes(), headers)
    for line in connection.getresponse():
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            sys.stdout.write(choice["delta"].get("content") or "")
            sys.stdout.flush()


main()
