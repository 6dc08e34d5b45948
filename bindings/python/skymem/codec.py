"""The codec on arrays: rows of a KV cache to fewer bytes, and back into memory of yours.

>>> import numpy as np
>>> rows = np.random.default_rng(1).normal(size=(2, 2, 128, 1, 64)).astype(np.float16)
>>> data = encode(rows, level="4")  # two layers, K and V of each, 128 tokens
>>> info(data).tokens, len(data) < rows.nbytes / 3
(128, True)
>>> out = np.empty_like(rows)
>>> decode(data, out)
>>> float(abs(out - rows).mean()) < 0.2
True

Rows are arrays [tokens, heads, dim] of f16, f32 or bf16 (numpy, torch, any buffer), with any
strides that keep a head's elements together; they are read and written where they lie. A block is a
sequence of layers, in the model's order, each a pair of K and V: an array [layer, 2, token, head,
dim] is one, and so is `[(k[0].transpose(0, 1), v[0].transpose(0, 1)), …]` of Transformers.

The bytes are the library's containers (.skv), those that `skymem codec` and tiers with a level
have. What was encoded with a profile is decoded with the same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from skymem import _core
from skymem.cache import LEVELS, Level, coding_of

if TYPE_CHECKING:
    from skymem._core import Buffer, Target

Profile = _core.Profile
"""What calibration knows of a model: `Profile(open("model.skycal", "rb").read())`."""

LEVEL_BITS: dict[str, float] = dict(zip(LEVELS, _core.level_bits))
"""Bits that an element takes, typically, of each level."""

KINDS = {"neox": 1, "interleaved": 2}


class Rope(NamedTuple):
    """How positions rotate keys: pair i by turns[i] / 2**32 of a full turn a position."""

    kind: int
    turns: tuple[int, ...]


def rope(
    dims: int, base: float = 10000.0, *, kind: Literal["neox", "interleaved"] = "neox",
    scale: float = 1.0,
) -> Rope:  # fmt: skip
    """The usual frequencies: base ** (-i / pairs) radians a position, times scale."""
    if kind not in KINDS:
        raise ValueError(f"kind: neox or interleaved, not {kind!r}")
    return Rope(KINDS[kind], tuple(_core.rope_turns(KINDS[kind], dims, base, scale)))


def rope_of(frequencies: Iterable[float], kind: Literal["neox", "interleaved"] = "neox") -> Rope:
    """A rope of any frequencies, in radians a position."""
    turns = (round(f / (2 * math.pi) * 2**32) % 2**32 for f in frequencies)
    return Rope(KINDS[kind], tuple(turns))


def layout(
    layers: Sequence[tuple[int, int, int, Rope | None]], *, fingerprint: bytes = bytes(32),
    order: Sequence[int] = (),
) -> Profile:  # fmt: skip
    """A profile that knows layers (heads, dim of K, dim of V, rope) alone, not sealed yet.

    fingerprint: 32 bytes of the model; order: the model's number of each layer, where another.
    """
    ropes = list(dict.fromkeys(layer[3] for layer in layers if layer[3]))
    rows = [(h, k, v, ropes.index(r) if r else None) for h, k, v, r in layers]
    return _core.profile_make(rows, ropes, fingerprint, order)


class Layer(NamedTuple):
    """A layer of a container. A level of None: its K or V was left out."""

    heads: int
    k_dim: int
    v_dim: int
    k_element: str
    v_element: str
    k_level: str | None
    v_level: str | None
    k_size: int
    v_size: int


class Info(NamedTuple):
    """What the head of a container says. profile: the id of what it was made with, or 0."""

    tokens: int
    first_position: int
    size: int
    profile: int
    fingerprint: bytes
    layers: tuple[Layer, ...]


def info(data: Buffer) -> Info:
    """What a container holds; of several that follow each other, the first. Rows are not read."""
    tokens, first, size, profile, fingerprint, layers = _core.skv_info(data)
    rows = tuple(
        Layer(heads, k, v, ke, ve, _name(kl), _name(vl), ks, vs)
        for heads, k, v, ke, ve, kl, vl, ks, vs in layers
    )
    return Info(tokens, first, size, profile, fingerprint, rows)


def _name(level: int | None) -> str | None:
    return None if level is None else LEVELS[level]


def _number(level: Level) -> int:
    return coding_of(level) - 1


def _kv(kv: str) -> int:
    if kv not in ("k", "v"):
        raise ValueError(f"kv: k or v is wanted, not {kv!r}")
    return ("k", "v").index(kv)


def encode(
    layers: Iterable[Iterable[Buffer]], *, level: Level = "4", profile: Profile | None = None,
    first_position: int = 0, plain: bool = False, first_token_raw: bool | None = None,
    step_scale: float = 1.0, element: str | None = None,
) -> bytes:  # fmt: skip
    """A block of at most 512 tokens as a container.

    level: one of `skymem.LEVELS`; plain: by rounding, fast and a little larger
    first_position: of the first token; it says how far keys are rotated
    first_token_raw: keep the first token as it is; None: if it is the context's first
    step_scale: finer (below 1) or coarser than the level; element: "bf16", of uint16 arrays
    """
    raw = first_position == 0 if first_token_raw is None else first_token_raw
    options = (_number(level), plain, raw, step_scale, first_position, profile, element)
    return _core.skv_encode(layers, options)


def decode(
    data: Buffer, out: Iterable[Iterable[Target | None]], *, profile: Profile | None = None,
    element: str | None = None,
) -> None:  # fmt: skip
    """Decode a container into arrays of its shape; None instead of one passes over it.

    CorruptError: damaged; ParamError: other shapes, or made with another profile. Arrays may have
    been written in part then.
    """
    _core.skv_decode(data, out, profile, element)


def lower(
    data: Buffer, *, level: Level, profile: Profile | None = None, plain: bool = False,
    step_scale: float = 1.0,
) -> bytes:  # fmt: skip
    """A container with the streams that are above a level at that level, made without the rows.

    profile: the one that it was made with. What is at the level or below stays as it is.
    """
    options = (_number(level), plain, False, step_scale, 0, profile, None)
    return _core.skv_lower(data, options)


def verify(data: Buffer) -> None:
    """CorruptError, unless a container and the checksum of each of its streams are whole.

    >>> import numpy as np
    >>> data = encode(np.ones((1, 2, 128, 1, 64), np.float16), level="8")
    >>> verify(data)
    >>> info(lower(data, level="4")).layers[0].k_level
    '4'
    """
    _core.skv_verify(data)


def encode_stream(
    rows: Buffer, *, level: Level = "4", profile: Profile | None = None, layer: int = 0,
    kv: Literal["k", "v"] = "k", first_position: int = 0, plain: bool = False,
    first_token_raw: bool = False, step_scale: float = 1.0, element: str | None = None,
) -> bytes:  # fmt: skip
    """One layer's K or V as a bare stream, which has no checksum: bring one.

    layer: as the profile counts, in its order.
    """
    options = (_number(level), plain, first_token_raw, step_scale, first_position, profile, element)
    return _core.stream_encode(rows, layer, _kv(kv), options)


def decode_stream(
    data: Buffer, out: Target, *, profile: Profile | None = None, layer: int = 0,
    kv: Literal["k", "v"] = "k", first_position: int = 0, element: str | None = None,
) -> None:  # fmt: skip
    """Decode a bare stream into an array of its shape."""
    options = (0, False, False, 1.0, first_position, profile, element)
    _core.stream_decode(data, out, layer, _kv(kv), options)


class Decoder(_core.Decoder):
    """A bare stream that is decoded as it arrives, into an array of its shape.

    >>> import numpy as np
    >>> rows = np.ones((128, 1, 64), np.float16)
    >>> data, out = encode_stream(rows, level="8"), np.empty_like(rows)
    >>> decoder = Decoder(out, len(data))
    >>> decoder.feed(data[:50])
    False
    >>> decoder.feed(data[50:]), decoder.tokens
    (True, 128)

    The array is held until the decoder is dropped. `feed` returns True when all rows are written;
    of the first `tokens` they are before. CorruptError: damaged; the array may be written in part.
    """

    def __new__(
        cls, out: Target, size: int, *, profile: Profile | None = None, layer: int = 0,
        kv: Literal["k", "v"] = "k", first_position: int = 0, element: str | None = None,
    ) -> Decoder:  # fmt: skip
        """size: bytes of the whole stream; the others: as of `decode_stream`."""
        return super().__new__(cls, out, size, layer, _kv(kv), profile, element, first_position)


class Match(NamedTuple):
    """Whose rows are these? Squared distances of channel means; inf: there are none.

    layer: the nearest of the profile's layers of this shape; None: none of them has means.
    own_distance: of the layer that they were given out for.
    """

    layer: int | None
    distance: float
    own_distance: float


def match(
    rows: Buffer, *, profile: Profile, layer: int, element: str | None = None
) -> Match:
    """Which layer of a profile do rows of V look like? A wrong order of layers shows, before it
    costs bits. layer: which they are given out for, as the profile counts."""
    return Match(*_core.profile_match(profile, layer, rows, element))
