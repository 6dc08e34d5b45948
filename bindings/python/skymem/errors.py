"""Exceptions: one for each status of the library, with its sentence.

Each is an `Error`, and also the built-in exception that fits:

>>> issubclass(DeadlineError, TimeoutError)
True
"""

from __future__ import annotations

from skymem._core import status_list


class Error(Exception):
    """A call of the library failed. `status` is its number, `name` such as "SKY_E_IO"."""

    status: int = 0
    name: str = ""


class MissError(Error, KeyError):
    """The key is not there, where it must be."""

    def __str__(self) -> str:  # KeyError would quote it
        return str(self.args[0]) if self.args else ""


class ParamError(Error, ValueError):
    """An argument is out of range."""


class NoMemoryError(Error, MemoryError):
    """Out of memory."""


class FullError(Error):
    """No room left."""


class DeadlineError(Error, TimeoutError):
    """The timeout passed first."""


class CancelledError(Error):
    """Cancelled by the caller."""


class CorruptError(Error):
    """Damaged or foreign bytes."""


class IoError(Error, OSError):
    """A device, file or link failed."""


class UnsupportedError(Error):
    """Not supported here."""


class SmallError(Error, ValueError):
    """The destination is too small."""


class BusyError(Error):
    """In use, try again."""


class DeniedError(Error, PermissionError):
    """Permission denied."""


class UrlError(Error, ValueError):
    """The text does not parse."""


class ForkedError(Error):
    """Opened before a fork: open it again in this process."""


class UnavailableError(Error):
    """What may hold it does not answer."""


class ConflictError(Error):
    """Another version is stored. `version`: that of the value that is; 0: nothing is."""

    version: int = 0


_KINDS: dict[str, type[Error]] = {
    "SKY_MISS": MissError,
    "SKY_E_PARAM": ParamError,
    "SKY_E_NOMEM": NoMemoryError,
    "SKY_E_FULL": FullError,
    "SKY_E_DEADLINE": DeadlineError,
    "SKY_E_CANCELLED": CancelledError,
    "SKY_E_CORRUPT": CorruptError,
    "SKY_E_IO": IoError,
    "SKY_E_UNSUPPORTED": UnsupportedError,
    "SKY_E_DST_SMALL": SmallError,
    "SKY_E_BUSY": BusyError,
    "SKY_E_DENIED": DeniedError,
    "SKY_E_SYNTAX": UrlError,
    "SKY_E_FORKED": ForkedError,
    "SKY_E_UNAVAILABLE": UnavailableError,
    "SKY_E_CONFLICT": ConflictError,
}

for _name, _status, _ in status_list():
    if _name in _KINDS:
        _KINDS[_name].status, _KINDS[_name].name = _status, _name


def make(status: int, name: str, sentence: str, where: str) -> Error:
    """The exception of a status: what and where, then the library's sentence."""
    error = _KINDS.get(name, Error)(f"{where}: {sentence}" if where else sentence)
    error.status, error.name = status, name
    return error
