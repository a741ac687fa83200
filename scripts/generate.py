"""Write what is made from the code: model.cfg.example, and the table of options in README.md.

Run it after a change of the option table; tests hold the files equal to the code.
"""

from pathlib import Path

from bantam.core.config import example_file, readme_table

ROOT = Path(__file__).parent.parent
START, END = "<!-- options -->\n", "<!-- /options -->\n"


def main() -> None:
    """Bring both files up to date. The README must hold the two marks, each on its own line."""
    (ROOT / "model.cfg.example").write_text(example_file())
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(START)
    readme.write_text(before + START + readme_table() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
