"""Progress on a terminal: one line that is rewritten; nothing at all if the output goes elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO


class Progress:
    """Shows what is being done, on terminals only.

    Args:
        stream: Where to; the standard error if not given, so that results on the standard output stay clean.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.enabled = self._stream.isatty()

    def show(self, text: str) -> None:
        """Replace the line by another text, shortened to the width of the terminal."""
        if self.enabled:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + text[:width])
            self._stream.flush()

    def clear(self) -> None:
        """Remove the line."""
        self.show("")
