"""The user's keys, kept out of what tools show: each exact value becomes `[key]` (SPEC section 11).

A key that was encoded, reversed or cut on its way is not recognised, and no pattern guesses what
may be one: text that only looks like a key is often what the work is about.
"""

import re
from collections.abc import Iterable
from typing import Final

PLACEHOLDER: Final = "[key]"
_SHORTEST: Final = 8  # characters; what is shorter is a word that stands anywhere


class Redaction:
    """Text without `secrets`; where two begin at one place, the longer one is replaced.

    >>> Redaction(["sk-12345678", None]).text("KEY=sk-12345678")
    'KEY=[key]'
    """

    def __init__(self, secrets: Iterable[str | None]) -> None:
        self._secrets: list[str] = []
        self.learn(secrets)

    def learn(self, secrets: Iterable[str | None]) -> None:
        """Replace `secrets` too from now on."""
        # A shell drops the blanks around a variable's value.
        found = {secret.strip() for secret in secrets if secret}
        usable = {secret for secret in found if len(secret) >= _SHORTEST}
        self._secrets = sorted(
            usable.union(self._secrets), key=lambda secret: (-len(secret), secret)
        )
        self._pattern = re.compile("|".join(map(re.escape, self._secrets)))

    def __bool__(self) -> bool:
        """Whether there is anything to replace."""
        return bool(self._secrets)

    def text(self, text: str) -> str:
        """Return `text` with a placeholder for each secret."""
        return self._pattern.sub(PLACEHOLDER, text) if self._secrets else text

    def decided(self, text: str) -> tuple[str, str]:
        """Return the beginning of `text`, redacted, that no text behind it can change; the rest."""
        if not self._secrets:
            return text, ""
        done, begun, shown = 0, self._begun(text, 0), []
        for match in self._pattern.finditer(text):
            if match.start() >= begun:
                break
            shown += [text[done : match.start()], PLACEHOLDER]
            done = match.end()
            if done > begun:
                begun = self._begun(text, done)
        return "".join([*shown, text[done:begun]]), text[begun:]

    def _begun(self, text: str, start: int) -> int:
        """Return where, from `start` on, the first secret begins that the end of `text` cuts."""
        begun = len(text)
        for secret in self._secrets:
            at = max(start, len(text) - len(secret) + 1)
            while (at := text.find(secret[0], at, begun)) >= 0:
                if secret.startswith(text[at:]):
                    begun = at
                at += 1
        return begun


class RedactionFilter:
    """Text in pieces -> the same text without secrets, however it was cut.

    Held back: what may be the beginning of a secret.
    """

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held = ""

    def feed(self, part: str) -> str:
        """Return what can be shown now."""
        shown, self._held = self._redaction.decided(self._held + part)
        return shown

    def close(self) -> str:
        """Return what was held back, as nothing follows."""
        shown, self._held = self._redaction.text(self._held), ""
        return shown
