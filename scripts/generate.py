"""Write what is made from the code: the example, README's table, completions, the manual page.

Run it after a change of an option or a key; tests hold the files equal to the code.
"""

from pathlib import Path
from typing import Final

import manual
import shells

from bantam.core.config import example_file, readme_table

ROOT: Final = Path(__file__).parent.parent
START, END = "<!-- options -->\n", "<!-- /options -->\n"


def shared() -> dict[str, str]:
    """Return path and content of the files that an installation puts where a system looks."""
    return {
        "share/bash-completion/completions/bantam": shells.bash(),
        "share/zsh/site-functions/_bantam": shells.zsh(),
        "share/fish/vendor_completions.d/bantam.fish": shells.fish(),
        "share/man/man1/bantam.1": manual.page(),
    }


def main() -> None:
    """Bring all files up to date. The README must hold the two marks, each on its own line."""
    (ROOT / "model.cfg.example").write_text(example_file())
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(START)
    readme.write_text(before + START + readme_table() + END + rest.split(END)[1])
    for name, content in shared().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


if __name__ == "__main__":
    main()
