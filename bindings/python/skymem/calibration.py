"""Calibration of a model on Hugging Face Transformers: what the codec should know of it.

    profile = calibrate(model, tokenizer, [open(name).read() for name in names])
    kvc = KVCacheBlock(model, tokenizer, store="disk:/var/cache/skymem", level="4",
                       calibration=profile)

With it a level takes fewer bits at the same quality. `skymem calibrate` does the same for models of
llama.cpp, by coding each stream alone; here derivatives say what an error costs:

    texts ─► a prefix, in the cache ─► means, covariances of keys (rope undone) and values
                  └─► the next tokens ─► gradients of what the model would say ─► weights
    covariances, weights ─► a basis for each pair of channels, a step for each stream
    rows, gradients ─► which tokens count more than others, as their own rows tell
    steps ─► classes of the entropy coder ─► bits of each level ─► steps again ─► sealed

An error e of a row changes the model's next distribution by ½ eᵀFe nats, where F is Fisher's
matrix: the second moment of the gradient of log p(token), for tokens that the model itself says.
A few pieces of text have 10 to 30 times the gradients of others, by tokens that the next texts will
not have; so a piece's matrix counts by the root of its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import DynamicCache

from skymem.cache import LEVELS, Level, level_name
from skymem.codec import KINDS, LEVEL_BITS, Profile, Rope, encode_stream, layout, rope_of
from skymem.prompt_cache import Shape

PREFIX_TOKENS, NEXT_TOKENS = 512, 128
FIRST_TOKENS = 4  # of a context: unlike all others, they draw the attention that nobody needs
BLOCK_TOKENS = 128
SEGMENTS_MAX = 32
DRAWS = 2  # of the model's next tokens, for each segment
BLOCKS = 12  # of each stream, on which bits are measured
ROUNDS = 4  # of steps towards the bits that a level is to take
GRADIENT_UNIT = 64.0  # so that f16 holds gradients
RIDGE = 200.0  # pairs of tokens that would say: a channel tells nothing
SHRINK = 0.75  # of what is found, as other texts bear it out
WEIGHT_MIN = 1e-5  # of the mean weight: channels of less would be dropped whole


class Turns(NamedTuple):
    """How positions rotate the keys of a layer: pairs of channels, and radians a position."""

    kind: str
    frequencies: torch.Tensor  # [pairs] f64; none: not at all

    def channels(self, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The two channels of each pair: rotated ones first, as the library counts them."""
        count = len(self.frequencies)
        i, rest = torch.arange(count), torch.arange((dim - 2 * count) // 2)
        one, two = (2 * i, 2 * i + 1) if self.kind == "interleaved" else (i, i + count)
        half = (dim - 2 * count) // 2
        return (torch.cat([one, 2 * count + rest]), torch.cat([two, 2 * count + half + rest]))

    def undo(self, rows: torch.Tensor, first: int) -> torch.Tensor:
        """Rows [heads, tokens, dim] of positions from `first` on, before they were rotated."""
        count = len(self.frequencies)
        one, two = (index[:count] for index in self.channels(rows.shape[-1]))
        angles = torch.arange(first, first + rows.shape[1])[:, None] * self.frequencies
        cos, sin = angles.cos().to(rows.dtype), angles.sin().to(rows.dtype)
        out = rows.clone()
        out[..., one] = rows[..., one] * cos + rows[..., two] * sin
        out[..., two] = rows[..., two] * cos - rows[..., one] * sin
        return out

    def rope(self) -> Rope | None:
        kind: Any = self.kind
        return rope_of(self.frequencies.tolist(), kind) if len(self.frequencies) else None


NO_TURNS = Turns("neox", torch.zeros(0, dtype=torch.float64))


def turns_of(model: Any, shape: Shape) -> list[Turns]:
    """How each layer rotates its keys, found out by trying.

    Of one token many times in a row every layer computes the same rows, but for the rotation.
    """
    known = [NO_TURNS]
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq") and "original" not in name and buffer.dim() == 1:
            known += [Turns(kind, buffer.double().cpu()) for kind in ("neox", "interleaved")]
    cache = DynamicCache(config=model.config)
    token = torch.full((1, 32), 7, device=shape.device)
    model(input_ids=token, past_key_values=cache, use_cache=True, logits_to_keep=1)
    out = []
    for layer in cache.layers:
        rows = layer.keys[0].detach().cpu().double()
        first = 32 - rows.shape[1]
        fits = [t for t in known if 2 * len(t.frequencies) <= rows.shape[2]]
        out.append(min(fits, key=lambda t: float(t.undo(rows, first).var(1).sum())))
    return out


class Stream:
    """What is learnt of one layer's K or V."""

    def __init__(self, layer: int, kv: int, turns: Turns) -> None:
        self.layer, self.kv, self.turns = layer, kv, turns
        self.pieces: list[torch.Tensor] = []  # [heads, tokens, dim] f32, not rotated
        self.blocks: list[tuple[int, torch.Tensor]] = []  # as they are, and the first's position
        self.gradients: list[list[torch.Tensor]] = []  # by piece, draw: [heads, tokens, dim] f16
        self.drawn: list[torch.Tensor] = []  # of this piece
        self.fineness: torch.Tensor | None = None  # [heads, dim]: weights of tokens
        self.relative = 1.0  # step over the common one

    def take(self, rows: torch.Tensor, first: int) -> None:
        rows = rows.detach().cpu().float()
        self.pieces.append(self.turns.undo(rows, first))
        start = max(0, rows.shape[1] - BLOCK_TOKENS)  # a window may hold fewer
        self.blocks.append((first + start, rows[:, start:].permute(1, 0, 2)))

    def weigh(self, gradient: torch.Tensor, first: int) -> None:
        g = self.turns.undo(gradient.cpu().float(), first)
        self.drawn.append((g * GRADIENT_UNIT).half())

    def end_piece(self) -> None:
        self.gradients.append(self.drawn)
        self.drawn = []

    def weight(self, steps: list[torch.Tensor]) -> torch.Tensor:
        """[heads, dim, dim] f64: Fisher's matrix of all pieces, each by the root of its size, with
        tokens' errors as large as these squares of steps make them."""
        total = torch.zeros(())
        for drawn, square in zip(self.gradients, steps):
            matrix = torch.zeros(())
            for gradient in drawn:
                g = gradient.float()
                matrix = matrix + (g.mT @ (g * square[:, None])).double()
            size = float(matrix.diagonal(dim1=1, dim2=2).mean())
            total = total + matrix / math.sqrt(max(size, 1e-30))
        return total

    def harms(self, drawn: list[torch.Tensor]) -> torch.Tensor:
        """[pairs of tokens] f64: log2 of what an error of one step does in each."""
        inverse = self.pairs.mT.float()
        index = torch.stack(self.turns.channels(self.mean.shape[1]), 1)
        harm = torch.zeros(drawn[0].shape[1])
        for gradient in drawn:
            g = gradient.float()[..., index].unsqueeze(-2) @ inverse[:, None]
            harm = harm + g.square().sum((0, 2, 3, 4))
        count = len(harm) // 2
        return (harm[: 2 * count].view(count, 2).sum(1) + 1e-12).log2().double()

    def tell_fineness(self) -> list[torch.Tensor]:
        """Weights of channels that tell how much a pair of tokens counts, by their mean row, and
        the squares of the steps that they make of each piece's tokens."""
        every, wanted = [], []
        for piece, drawn in zip(self.pieces, self.gradients):
            harm = self.harms(drawn)
            centred = (piece - self.mean.float()[:, None]).transpose(0, 1).flatten(1)
            every.append(centred[: 2 * len(harm)].view(len(harm), 2, -1).mean(1).double())
            wanted.append(harm - harm.mean())
        x = torch.cat(every)
        spread = x.square().mean(0).sqrt() + 1e-9
        x = x / spread
        ridge = RIDGE * torch.eye(x.shape[1], dtype=torch.float64)
        found = torch.linalg.solve(x.T @ x + ridge, x.T @ torch.cat(wanted))
        weights = SHRINK * found / spread
        self.fineness = weights.float()
        squares = []
        for piece, rows in zip(self.pieces, every):
            finer = (rows @ weights + 0.5).floor().clamp(-1, 2)
            each = torch.exp2(-finer.float()).repeat_interleave(2)
            squares.append(torch.cat([each, each.new_ones(piece.shape[1] - len(each))]))
        return squares

    def learn(self, archive: bool) -> None:
        """The mean, the basis of each pair, and how coarse it may be."""
        rows = torch.cat(self.pieces, 1).double()
        self.rows = rows.float().permute(1, 0, 2).contiguous()
        self.mean = rows.mean(1)
        centred = rows - self.mean[:, None]
        covariance = centred.mT @ centred / rows.shape[1]
        index = torch.stack(self.turns.channels(rows.shape[2]), 1)
        pick = (slice(None), index[:, :, None], index[:, None, :])
        eye = torch.eye(rows.shape[2], dtype=torch.float64)
        steps = [torch.ones(piece.shape[1]) for piece in self.pieces]
        for turn in range(2):  # with steps all alike; with those of tokens
            weight = self.weight(steps)
            each = float(weight.diagonal(dim1=1, dim2=2).mean())
            weight = weight / each if each > 0 else eye.expand_as(covariance)
            _, self.pairs = weighted_klt(covariance[pick], weight[pick])
            if turn == 0 and each > 0:
                steps = self.tell_fineness()
        self.klt = weighted_klt(covariance, weight) if archive else None
        self.relative = 1 / max(each, 1e-15)  # each is a root already


def weighted_klt(
    covariance: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """F and G of y = x F, x = y G: channels of y are uncorrelated, and an error of one weighs as
    much as of another. With S = W^½ and U the eigenvectors of S C S: F = S U, G = Uᵀ S⁻¹."""
    values, vectors = torch.linalg.eigh(weight)
    root = values.clamp(min=WEIGHT_MIN).sqrt()
    s = vectors * root[..., None, :] @ vectors.mT
    inverse = vectors / root[..., None, :] @ vectors.mT
    u = torch.linalg.eigh(s @ covariance @ s)[1]
    return s @ u, u.mT @ inverse


def segments(tokenizer: Any, texts: Iterable[Any]) -> list[torch.Tensor]:
    """Pieces of the texts, long enough for a prefix and what follows; spread evenly. What follows
    one is where the next begins."""
    size, out = PREFIX_TOKENS + NEXT_TOKENS, []
    for text in texts:
        ids = tokenizer(text).input_ids if isinstance(text, str) else list(text)
        starts = range(0, len(ids) - size + 1, PREFIX_TOKENS)
        out += [torch.tensor([ids[i : i + size]]) for i in starts]
    if not out:
        raise ValueError(f"texts: none is as long as {size} tokens")
    count = min(len(out), SEGMENTS_MAX)
    return [out[i * len(out) // count] for i in range(count)]


def measure(
    model: Any, ids: torch.Tensor, streams: list[Stream], generator: torch.Generator
) -> None:
    """Rows of a prefix, and gradients of what the model says next."""
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids[:, :PREFIX_TOKENS], past_key_values=cache, use_cache=True,
              logits_to_keep=1)  # fmt: skip
    leaves = []
    for layer in cache.layers:
        layer.keys, layer.values = (
            rows.detach().clone().requires_grad_() for rows in (layer.keys, layer.values)
        )
        leaves += [layer.keys, layer.values]
    out = model(input_ids=ids[:, PREFIX_TOKENS:], past_key_values=cache, use_cache=True)
    said = torch.log_softmax(out.logits[0].float(), -1)
    held = [leaf.shape[2] for leaf in leaves]
    for draw in range(DRAWS):
        chances = said.detach().exp().cpu()
        drawn = torch.multinomial(chances, 1, generator=generator).to(said.device)
        last = draw == DRAWS - 1
        found = torch.autograd.grad(said.gather(1, drawn).sum(), leaves, retain_graph=not last)
        for stream, leaf, gradient, rows in zip(streams, leaves, found, held):
            first = PREFIX_TOKENS - rows
            skip = max(0, FIRST_TOKENS - first)
            stream.weigh(gradient[0, :, skip:], first + skip)
            if last:
                stream.take(leaf[0, :, skip:], first + skip)
                stream.end_piece()


def profile_of(
    shape: Shape, streams: list[Stream], steps: dict[tuple[int, bool], float], fitted: bool
) -> Profile:
    """A sealed profile of what is known: layers in the order in which they are stored."""
    layers = [
        (shape.heads, shape.dim, shape.v_dim, streams[2 * i].turns.rope()) for i in shape.order
    ]
    profile = layout(layers, fingerprint=shape.print, order=shape.order)
    for place, number in enumerate(shape.order):
        for stream in streams[2 * number : 2 * number + 2]:
            where = (place, stream.kv)
            profile.set_mean(*where, stream.mean.float())
            profile.set_pairs(*where, stream.pairs.float().reshape(shape.heads, -1, 4))
            if stream.fineness is not None:
                profile.set_weights(*where, stream.fineness.reshape(shape.heads, -1).contiguous())
            if stream.klt:
                f, g = stream.klt
                profile.set_klt(*where, f.float().contiguous(), g.float().contiguous())
            for (level, plain), step in steps.items():
                profile.set_step(*where, level, not plain, step * stream.relative)
            if fitted:
                profile.fit(*where, stream.rows, BLOCK_TOKENS)
    profile.seal()
    return profile


def bits_of(
    shape: Shape, streams: list[Stream], profile: Profile, levels: Iterable[tuple[int, bool]]
) -> dict[tuple[int, bool], float]:
    """Bits that an element takes, of some blocks of each stream, at each level."""
    out = {}
    for level, plain in levels:
        size = elements = 0
        for place, number in enumerate(shape.order):
            for stream in streams[2 * number : 2 * number + 2]:
                for first, rows in stream.blocks[:: max(1, len(stream.blocks) // BLOCKS)]:
                    size += len(encode_stream(
                        rows, level=LEVELS[level], plain=plain, profile=profile, layer=place,
                        kv="v" if stream.kv else "k", first_position=first,
                    ))  # fmt: skip
                    elements += rows.numel()
        out[level, plain] = 8 * size / elements
    return out


def calibrate(
    model: Any, tokenizer: Any, texts: Iterable[Any], *, levels: Sequence[Level] = LEVELS[:-1],
    matrices: bool = True, like: Profile | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> Profile:  # fmt: skip
    """Measure a model on texts (or lists of tokens) of the kind that it will read.

    Each text counts by pieces of 512 tokens and the 128 after them; 32 pieces are used, spread over
    all.

    levels: those to be made; all but "archive", whose matrices make the profile large
    matrices: False: "archive" has none, and is coded as the other levels are
    like: a calibration of the same model from llama.cpp; what is made serves llama.cpp as it does
    progress: is given words of what is done next
    """
    names = [level_name(level) for level in levels]
    shape = Shape(model, tokenizer)
    pieces = segments(tokenizer, texts)
    turns = turns_of(model, shape)
    if like is not None:
        stand_for(shape, turns, like)
    streams = [Stream(i // 2, i % 2, turns[i // 2] if i % 2 == 0 else NO_TURNS)
               for i in range(2 * len(turns))]  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    frozen = [p for p in model.parameters() if p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        for number, ids in enumerate(pieces):
            progress(f"text {number + 1} of {len(pieces)}")
            measure(model, ids.to(shape.device), streams, generator)
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
    for stream in streams:
        stream.learn(matrices and "archive" in names)
    return levelled(shape, streams, names, progress)


def stand_for(shape: Shape, turns: list[Turns], like: Profile) -> None:
    """Have the shape be that of another engine's calibration of this model: its fingerprint, its
    order of layers. Channels must stand in the same order in both; keys of Llama do not."""
    rows = [layer[:3] for layer in like.layers]
    kinds = {rope[0] for rope in like.ropes if rope}
    if set(rows) != {(shape.heads, shape.dim, shape.v_dim)} or len(rows) != len(turns):
        raise ValueError("like: is of another model")
    if {KINDS[turn.kind] for turn in turns} != kinds:
        raise ValueError("like: its keys have their channels in another order")
    shape.print, shape.order = like.fingerprint, [layer[3] for layer in like.layers]


def levelled(
    shape: Shape, streams: list[Stream], levels: Sequence[str], progress: Callable[[str], object]
) -> Profile:
    """Common steps at which the levels take the bits they are meant to."""
    mean = sum(math.log(s.relative) for s in streams) / len(streams)
    for stream in streams:
        stream.relative /= math.exp(mean)
    spread = sum(float(s.rows.var(0).mean()) / s.relative**2 for s in streams) / len(streams)
    numbers = sorted({LEVELS.index(level) for level in levels} - {0})  # lossless has no step
    keys = [(number, plain) for number in numbers for plain in (False, True)]
    steps = {key: 4 * math.sqrt(spread) * 2 ** -LEVEL_BITS[LEVELS[key[0]]] for key in keys}
    for turn in range(ROUNDS if keys else 0):
        progress(f"steps, round {turn + 1} of {ROUNDS}")
        bits = bits_of(shape, streams, profile_of(shape, streams, steps, True), keys)
        for key in keys:
            steps[key] *= 2 ** (bits[key] - LEVEL_BITS[LEVELS[key[0]]])
    return profile_of(shape, streams, steps, True)
