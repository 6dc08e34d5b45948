"""Warnings of what fails, for adapters: a store that is down fails often, and says so rarely."""

from __future__ import annotations

import logging
import time

AGAIN_S = 60.0


class Complaints:
    """Warnings in a log, each kind once a minute.

    >>> complaints = Complaints(logging.getLogger("doc"))
    >>> [complaints.say("a load failed", OSError(n)) for n in range(2)]
    [True, False]
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._said: dict[tuple[str, type[Exception]], float] = {}

    def say(self, what: str, error: Exception) -> bool:
        """Warn of an error, unless one of its type said the same within a minute. Was it said?"""
        kind, now = (what, type(error)), time.monotonic()
        if now - self._said.get(kind, float("-inf")) < AGAIN_S:
            return False
        self._said[kind] = now
        self._logger.warning("SkyMemory: %s: %s", what, error)
        return True
