"""The prefix cache of a model, for engines written in Python."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence as Row
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skymem import _core
from skymem.cache import LEVELS, Cache

if TYPE_CHECKING:
    from skymem._core import Buffer, Target

Profile = _core.Profile
"""What calibration knows of a model: `Profile(open("model.skycal", "rb").read())`."""


def read_profile(calibration: Profile | str | os.PathLike[str] | None) -> Profile | None:
    """A profile, or the .skycal file of one."""
    if calibration is None or isinstance(calibration, Profile):
        return calibration
    with open(calibration, "rb") as file:
        return Profile(file.read())


def with_level(urls: str | Row[str], level: str | float | None) -> list[str]:
    """URLs of tiers; those behind memory at a level, where they name none.

    >>> with_level(["mem:1GiB", "disk:/a", "disk:/b?level=8"], 2.5)
    ['mem:1GiB', 'disk:/a?level=2.5', 'disk:/b?level=8']
    """
    out = [urls] if isinstance(urls, str) else list(urls)
    if level is None:
        return out
    if str(level) not in LEVELS:
        raise ValueError(f"level: one of {', '.join(LEVELS)} is wanted, not {level!r}")
    for i, url in enumerate(out):
        if not url.startswith("mem:") and not re.search(r"[?&]level=", url):
            out[i] += f"{'&' if '?' in url else '?'}level={level}"
    if not any("level=" in url for url in out):
        raise ValueError("level: memory keeps rows as they are; name a farther tier, such as disk:")
    return out


def open_store(store: Cache | str | Row[str], level: str | float | None) -> Cache:
    """A cache that is open, or one of tiers, those behind memory at a level."""
    if not isinstance(store, Cache):
        return Cache(with_level(store, level))
    if level is not None:
        raise ValueError("level: the store is open; say it in the URLs of its tiers (?level=4)")
    return store


class Engine(Protocol):
    """What computes state, and holds that of one prompt. Tensors are [heads, tokens, dim].

    Tensors come in the order (group, layer, K then V), each with the number of its first token.
    """

    def fingerprint(self) -> bytes:
        """32 bytes that change with anything that would make stored state wrong."""

    def layout(self) -> Row[tuple[int, int, int, int, int, str]]:
        """Of each group: window (0: none), layers, heads, dim of K, dim of V, element.

        element: "f16", "f32" or "bf16".
        """

    def extract(self, first_token: int, token_count: int) -> Row[tuple[int, Buffer]]:
        """Tensors that hold these tokens, or more."""

    def restore(self, token_count: int) -> Row[tuple[int, Target]]:
        """Where the first tokens go: all of them, of a group with a window the last of these."""

    def restored(self, commit: bool) -> None:
        """Go on from what was restored; or, without commit, forget it: the state is empty."""


class Lookup(NamedTuple):
    """What a load came to."""

    verdict: str
    """ "hit", "partial", "miss" or "recompute"."""
    prompt_tokens: int
    hit_tokens: int
    """The engine now holds these; compute the rest."""
    tier_blocks: tuple[int, ...]
    corrupt_blocks: int
    foreign_blocks: int
    bytes_loaded: int
    load_ns: int
    transfer_ns: int
    level_blocks: dict[str, int]
    """How many came at each level, of those that came coded."""


class Manager(_core.Manager):
    """Blocks of prompts of one model, in the tiers of a cache. Safe from any thread."""

    def __new__(
        cls, cache: Cache, engine: Engine, *, block_tokens: int = 128, drop: bool = False,
        salt: bytes | None = None, profile: Profile | None = None,
    ) -> Manager:  # fmt: skip
        """engine: any of the model; it is asked what its state looks like, and not kept.

        salt: 32 secret bytes of a tenant; profile: for tiers with a level.
        """
        return super().__new__(cls, cache, engine, block_tokens, drop, salt, profile)


class Sequence(_core.Sequence):
    """One request on an engine. Its calls must not overlap."""

    def __new__(cls, manager: Manager, engine: Engine) -> Sequence:
        return super().__new__(cls, manager, engine)

    def look(self, tokens: Row[int], timeout: float | None = None) -> Lookup:
        """Put the longest stored prefix into the engine, but for the last token."""
        row = self.load(tokens, timeout)
        levels = {LEVELS[i - 1]: count for i, count in enumerate(row[9]) if i and count}
        return Lookup(*row[:9], levels)
