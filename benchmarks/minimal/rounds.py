"""`rounds.py URL FILE COMMAND`: post bodies of the sizes in FILE over one connection.

Prints the seconds that COMMAND takes in a shell, the median of some runs.
"""

import json
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit


def main() -> None:
    url, file, command = sys.argv[1:]
    sizes = json.loads(Path(file).read_bytes())
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=60)
    for size in sizes:
        headers = {"content-type": "application/json"}
        connection.request("POST", parts.path, b"x" * size, headers)
        connection.getresponse().read()
    times = []
    for _ in sizes[:200]:
        began = time.perf_counter()
        subprocess.run(
            ["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        times.append(time.perf_counter() - began)
    sys.stdout.write(f"{median(times)}\n")


main()
