"""CPU time of answers read in a text dialect: 1 MB against 100 KB, whole and as it streams.

    python benchmarks/dialects.py      prints a Markdown table; exit 1 if time is not linear

The texts are what could be slow: signs that nearly are something, and much that stays open. A
delta is 4 characters, about a token.
"""

import sys
import time
from collections.abc import Iterator

from bantam.core.messages import Answer, Message, Role
from bantam.model.dialects.blocks import Blocks
from bantam.model.dialects.dialect import Dialect
from bantam.model.dialects.dollar import Dollar

DELTA = 4
MOST_RATIO = 16.0  # ten times the text, and noise: the shorter times are milliseconds
# Name -> how the text begins, and what is repeated.
DOLLAR = {
    "prose": ("", "some words in a row, `code` and more\n"),
    "one line": ("", "x"),
    "lines like commands": ("", "$5 or so\n"),
    "dollars": ("", "$\n"),
    "fences": ("", "`````\n```\n"),
    "list items": ("", "- "),
    "thoughts": ("", "<think>a</think> b\n"),
    "cut tags": ("", "<thin"),
    "a here-document": ("$ cat > a <<'EOF'\n", "some text, and more\n"),
    "one of joined lines": ("$ cat > a <<EOF\n", "a\\\n"),
    "here-documents": ("$ ", "<<a "),
    "a long word": ("$ cat <<", "a\\\n"),
    "here-documents, each closed": ('$ a "', "$(b <<c\nc\n) "),
    "brackets": ("$ ", "("),
    "brackets, then lines": ("$ " + "( " * 10_000 + "a <<b\nb\n", "a <<b\nb\n"),
    "arithmetic": ("$ ", "((<<a))"),
    "quotes": ("$ ", "'\""),
    "continued lines": ("$ a", "a#b \\\n"),
}


# Likewise; `#` becomes the number of the repetition.
BLOCKS = {
    "prose": ("", "some **words** in a row, `code` and more\n"),
    "one line": ("", "x"),
    "empty lines": ("", "\n"),
    "one file": ("**WRITE:`a`**\n```\n", "some text, and more\n"),
    "files": ("", "**WRITE:`#`**\n```\nx\n```\n**EOF:`#`**\n"),
    "files without EOF": ("", "**WRITE:`#`**\n```\nx\n```\nand so on\n"),
    "files without fence and EOF": ("", "**WRITE:`#`**\nx\n"),
    "commands": ("", "**RUN:**\n```bash\nls\n```\n"),
    "nested fences": ("**WRITE:`a`**\n", "```x\n"),
    "closed fences": ("**WRITE:`a`**\n", "```x\n```\n"),
    "EOFs": ("", "**EOF:`x`**\n"),
    "EOFs in a file": ("**WRITE:`a`**\n```\n", "**EOF:`x`**\n"),
    "EOFs and openers": ("", "**EOF:`x`** **FILE:`y`**\n"),
    "open fences": ("", "**WRITE:`#`**\n```py\nx\n**EOF:**\n"),
    "files that may go on": ("", "**WRITE:`#`**\n```\n```\n<think>\n~~~x\n</think>\n"),
    "thoughts": ("", "<think>a</think> b`"),
    "near markers": ("", "**WRITE: x.py\n"),
}


def texts() -> Iterator[tuple[Dialect, str, str]]:
    """Yield dialect, name and text of 1 MB."""
    for name, (head, block) in DOLLAR.items():
        yield Dollar(), name, head + block * (1_000_000 // len(block))
    for name, (head, block) in BLOCKS.items():
        many = range(1_000_000 // len(block))
        yield Blocks(), name, head + "".join(block.replace("#", str(each)) for each in many)


def reading(dialect: Dialect, text: str) -> float:
    """Return the CPU seconds in which `text` is decoded."""
    start = time.process_time()
    dialect.decode(Answer(Message(Role.ASSISTANT, text), "stop"), [], [])
    return time.process_time() - start


def viewing(dialect: Dialect, text: str) -> float:
    """Return the CPU seconds in which `text` is read as it streams."""
    start = time.process_time()
    view = dialect.view()
    for at in range(0, len(text), DELTA):
        view.feed(text[at : at + DELTA])
    view.close()
    return time.process_time() - start


def main() -> int:
    """Print the table; return 1 if ten times the text takes far more than ten times as long."""
    print("| dialect | text | 100 KB, s | 1 MB, s | ratio | 1 MB streamed, s |")
    print("|---|---|--:|--:|--:|--:|")
    worst = 0.0
    for dialect, name, text in texts():
        small, large = (
            min(reading(dialect, text[:size]) for _ in range(3)) for size in (100_000, 1_000_000)
        )
        ratio = large / small if large > 0.05 else 0.0  # less is all noise
        worst = max(worst, ratio)
        print(
            f"| {dialect.name} | {name} | {small:.3f} | {large:.3f} | {large / small:.1f} "
            f"| {viewing(dialect, text):.2f} |",
            flush=True,
        )
    return int(worst > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
