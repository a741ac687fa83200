"""A prompt, and nothing behind it."""

from contextlib import suppress

from prompt_toolkit import PromptSession


def main() -> None:
    with suppress(EOFError):
        PromptSession[str]().prompt("> ")


main()
