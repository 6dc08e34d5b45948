"""The prefix cache of a model, for engines written in Python."""

from __future__ import annotations

from collections.abc import Sequence as Row
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skymem import _core
from skymem.cache import Cache

if TYPE_CHECKING:
    from skymem._core import Buffer, Target

Profile = _core.Profile
"""What calibration knows of a model: `Profile(open("model.skycal", "rb").read())`."""


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
        return Lookup(*self.load(tokens, timeout))
