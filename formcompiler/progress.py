"""What the user sees of a running compilation: log lines, and how long each stage takes.

Code that does one stage of the work wraps it in `stage`, which costs nothing unless someone records (`record_stages`).
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class StageTimes:
    """Times of stages, which may contain each other.

    Attributes:
        seconds: Total time by the names of the stage and of those around it, outermost first, in order of entry.
        counts: How often each was entered.
    """

    seconds: dict[tuple[str, ...], float] = field(default_factory=dict)
    counts: dict[tuple[str, ...], int] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    def table(self) -> str:
        """Return one line for each stage, inner ones indented; the share is that of the sum of the outermost."""
        total = sum(seconds for names, seconds in self.seconds.items() if len(names) == 1) or 1.0
        labels = {names: f"{'  ' * (len(names) - 1)}{names[-1]}" for names in self.seconds}
        width = max(map(len, labels.values()), default=0)
        return "\n".join(
            f"{labels[names]:<{width}}  {seconds:9.4f} s  {seconds / total:6.1%}  {self.counts[names]:5d} x"
            for names, seconds in self.seconds.items()
        )


_recorder: ContextVar[StageTimes | None] = ContextVar("recorder", default=None)


@contextmanager
def record_stages() -> Iterator[StageTimes]:
    """Record the times of all stages that run inside; times of stages that fail count as well."""
    times = StageTimes()
    token = _recorder.set(times)
    try:
        yield times
    finally:
        _recorder.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Count what runs inside as one stage of the compilation, if someone records."""
    times = _recorder.get()
    if times is None:
        yield
        return
    times._open.append(name)
    names = tuple(times._open)
    times.seconds.setdefault(names, 0.0)
    times.counts[names] = times.counts.get(names, 0) + 1
    start = time.perf_counter()
    try:
        yield
    finally:
        times.seconds[names] += time.perf_counter() - start
        times._open.pop()


class _Formatter(logging.Formatter):
    """Bare messages for information; the level in front of what needs attention."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of ``record``, with its level from WARNING on."""
        text = super().format(record)
        return f"{record.levelname.lower()}: {text}" if record.levelno >= logging.WARNING else text


def configure_logging(verbosity: int) -> None:
    """Show log lines of formcompiler on stderr: warnings for 0, one line per integral for 1, everything for 2.

    For programs, not for libraries; a second call replaces the first.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logger = logging.getLogger("formcompiler")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))
