"""The prefix cache of a model, for engines written in Python."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence as Row
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skymem import _core
from skymem.cache import LEVELS, Cache, Level, level_name
from skymem.errors import Error

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


def with_level(urls: str | Row[str], level: Level | None) -> list[str]:
    """URLs of tiers; those behind memory at a level, where they name none.

    >>> with_level(["mem:1GiB", "disk:/a", "disk:/b?level=8"], 2.5)
    ['mem:1GiB', 'disk:/a?level=2.5', 'disk:/b?level=8']
    """
    out = [urls] if isinstance(urls, str) else list(urls)
    if level is None:
        return out
    name = level_name(level)
    for i, url in enumerate(out):
        if not url.startswith("mem:") and not re.search(r"[?&]level=", url):
            out[i] += f"{'&' if '?' in url else '?'}level={name}"
    if not any("level=" in url for url in out):
        raise ValueError("level: memory keeps rows as they are; name a farther tier, such as disk:")
    return out


def open_store(store: Cache | str | Row[str], level: Level | None) -> Cache:
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

        salt: 32 secret bytes of a tenant; profile: for tiers with a level. Managers of a cache
        with such tiers have one layout, block_tokens and profile: BusyError tells of another.
        """
        return super().__new__(cls, cache, engine, block_tokens, drop, salt, profile)


def _lookup(row: _core._Lookup) -> Lookup:
    levels = {LEVELS[i - 1]: count for i, count in enumerate(row[9]) if i and count}
    return Lookup(*row[:9], levels)


class LayerLoad:
    """A load that comes layer by layer: `Sequence.load_layers`.

    lookup: what is to come (hit_tokens 0: nothing); after the `with`, what came. A `with` that
    ends by an exception waits for nothing more, and the engine is empty.
    """

    def __init__(self, sequence: Sequence, lookup: Lookup) -> None:
        self.sequence, self.lookup = sequence, lookup

    def wait(self, layer: int, timeout: float | None = None) -> bool:
        """Wait until a layer's rows are where `restore` said; False: not within so many seconds.

        layer: its place in the layout, from 0. An exception: some layers do not come.
        """
        return self.sequence.load_wait(layer, timeout)

    def fileno(self) -> int:
        """For a selector, or asyncio's add_reader: readable when rows may have come. Then ask
        wait(layer, 0). Do not read from it."""
        return self.sequence.fileno()

    def end(self, timeout: float | None = None) -> Lookup:
        """Wait for all layers; then the engine's `restored` is called. With verdict "recompute"
        it is empty: a layer failed, or did not come within so many seconds."""
        self.lookup = _lookup(self.sequence.load_end(timeout))
        return self.lookup

    def __enter__(self) -> LayerLoad:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.end()
        else:
            self.lookup = _lookup(self.sequence.load_give_up())


class LayerSave:
    """A save that is given layer by layer: `Sequence.save_layers`.

    first_token: rows from it on to the end of the last whole block are wanted; where it is the
    number of tokens, none are. blocks, size: after the `with`, what was stored. A `with` that ends
    by an exception stores nothing, unless every layer had been given.
    """

    def __init__(self, sequence: Sequence, first_token: int) -> None:
        self.sequence, self.first_token = sequence, first_token
        self.blocks = self.size = 0

    def put(self, layer: int, keys: Buffer, values: Buffer, *, first_token: int = 0) -> None:
        """Copy a layer's rows [heads, tokens, dim], also of a layer with a window.

        layer: its place in the layout, from 0; first_token: that of the first row.
        """
        self.sequence.save_layer(layer, first_token, keys, values)

    def end(self) -> None:
        """Store the blocks. ParamError: layers are missing, and nothing is stored."""
        self.blocks, self.size = self.sequence.save_end()

    def __enter__(self) -> LayerSave:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.end()
        except Error:
            if kind is None:
                raise


class Push:
    """A prompt that is stored while it is computed: `Sequence.push_blocks`.

    blocks, size: after the `with`, what was stored; the rest of what was announced is withdrawn.
    """

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self.blocks = self.size = 0

    def put(self, computed_tokens: int) -> None:
        """The engine holds so many tokens: store the whole blocks of them that are not yet."""
        self.sequence.push(computed_tokens)

    def end(self) -> None:
        """Withdraw what was announced and not stored."""
        self.blocks, self.size = self.sequence.push_end()

    def __enter__(self) -> Push:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Sequence(_core.Sequence):
    """One request on an engine. Its calls must not overlap."""

    def __new__(cls, manager: Manager, engine: Engine) -> Sequence:
        return super().__new__(cls, manager, engine)

    def look(self, tokens: Row[int], timeout: float | None = None) -> Lookup:
        """Put the longest stored prefix into the engine, but for the last token."""
        return _lookup(self.load(tokens, timeout))

    def load_layers(self, tokens: Row[int]) -> LayerLoad:
        """As `look`, and the engine may compute a layer while those after it still come:

            with sequence.load_layers(tokens) as load:
                for layer in range(layers):
                    load.wait(layer)
                    ...  # the engine computes the layer
            load.lookup.hit_tokens

        Layers count in the order of the layout, from 0. A load and a save may be under way at
        once; no other call may come before they end.
        """
        return LayerLoad(self, _lookup(self.load_begin(tokens)))

    def save_layers(self, tokens: Row[int]) -> LayerSave:
        """As `save`, of a prompt that the engine is about to compute; it is given each layer:

        with sequence.save_layers(tokens) as save:
            for layer in range(layers):
                save.put(layer, keys[layer], values[layer])
        """
        return LayerSave(self, self.save_begin(tokens))

    def push_blocks(self, tokens: Row[int]) -> Push:
        """Announce the blocks of a prompt to those who wait for them (`await_blocks`) through the
        same shm: or skymem: store, and store them as they are computed:

        with sequence.push_blocks(tokens) as push:
            for end in range(512, len(tokens), 512):
                ...  # the engine computes tokens up to end
                push.put(end)
        """
        self.push_begin(tokens)
        return Push(self)

    def await_blocks(self, tokens: Row[int], patience: float = 60.0, /) -> int:
        """Wait as long as somebody has announced the next block of a prompt, and it comes within
        so many seconds of the one before. Of how many leading tokens there are blocks now."""
        return super().await_blocks(tokens, patience)
