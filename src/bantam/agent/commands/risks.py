"""What a shell command does that a person should be asked about: `risk_of`.

The command is read (`reader`) and each simple command in it is looked up (`table`). Asked about is
what is known to be risky, what is not known, and what cannot be read; so an oversight costs a
question. It is a help against accidents, not a wall (SPEC section 11): a test that is run may do
anything, and a command that was written to deceive may find a way.
"""

import re
from typing import Final

from bantam.agent.commands.place import Place
from bantam.agent.commands.reading import Reading
from bantam.agent.commands.table import TABLE
from bantam.agent.commands.words import Unreadable
from bantam.core.text import shortened

_SHOWN: Final = 200  # characters of a command in a reason
# Among them the private planes, of which `words` makes its own use.
_STRANGE: Final = re.compile(r"[^\n\t -~\xa0-\U000effff]|[\u2028\u2029\ud800-\udfff]")


def risk_of(command: str, place: Place) -> str | None:
    """Return why a person should be asked about `command`, run in the project; None: no reason."""
    try:
        if _STRANGE.search(command):
            raise Unreadable("a control character")
        if place.shell == "cmd":
            raise Unreadable("a command of Windows")
        if found := Reading(place, TABLE).risk_in(command):
            risk, inner = found
            return f"{risk}: {shortened(inner.source, _SHOWN)}"
    except Unreadable as error:
        what = shortened(" ".join(str(error).split()), _SHOWN)
        return f"cannot be read ({what}): {shortened(command.strip(), _SHOWN)}"
    return None
