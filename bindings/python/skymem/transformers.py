"""Prompts that begin alike are computed once, on Hugging Face Transformers.

    kvc = KVCacheBlock(model, tokenizer, store=["mem:4GiB", "disk:/var/cache/skymem"])
    inputs = tokenizer(prompt, return_tensors="pt")
    out = model.generate(**inputs, past_key_values=kvc.get_cache(prompt))
    kvc.add_blocks(prompt)

Layers with full attention and with a sliding window are cached, in f32, bf16 and f16. The cache
that generate() gets knows which tokens went through it. So add_blocks stores what was generated
too, and never bytes under tokens that they are not of.
"""

from __future__ import annotations

import inspect
import threading
import time
import weakref
from collections.abc import Mapping
from collections.abc import Sequence as Row
from contextlib import suppress
from functools import partial
from itertools import dropwhile
from typing import Any, TypeAlias

import torch

from skymem.cache import Cache, Level
from skymem.errors import BusyError, CorruptError, Error
from skymem.manager import Lookup, Manager, Profile, Sequence, open_store, read_profile
from skymem.prompt_cache import PromptCache, Shape, State, adapters_of

Prompt: TypeAlias = str | Row[str] | Row[int] | torch.Tensor
"""A text, several texts, or tokens: of one prompt [tokens], or of several [prompts, tokens]."""


# Arguments of a forward pass that are compared with the prompt, or change no state.
SEEN = {"input_ids", "attention_mask", "position_ids", "cache_position", "labels", "logits_to_keep"}


class KVCacheBlock:
    """The prefix cache of a model, with the calls of the SkyMemory paper.

    store: a Cache, or URLs of tiers, such as ["mem:4GiB", "disk:/var/cache/skymem"]
    level: of the codec, behind memory; calibration: of skymem.calibration, or its file
    block_tokens: a prefix is found to its last whole block; salt: 32 secret bytes of a tenant
    """

    def __init__(
        self, model: Any, tokenizer: Any = None, store: Cache | str | Row[str] = "mem:1GiB", *,
        level: Level | None = None, calibration: Profile | str | None = None,
        block_tokens: int = 32, salt: bytes | None = None,
    ) -> None:  # fmt: skip
        self.model, self.tokenizer, self.block_tokens = model, tokenizer, block_tokens
        self.shape = Shape(model, tokenizer)
        self.store = open_store(store, level)
        self.manager: Manager | None = Manager(self.store, State(self.shape), salt=salt,
            block_tokens=block_tokens, profile=read_profile(calibration))  # fmt: skip
        self.lookups: list[Lookup] = []  # what the last get_cache found, of each prompt
        self._owner = not isinstance(store, Cache)
        self._local = threading.local()  # the last cache of each thread, until it is stored
        self._sequences: weakref.WeakKeyDictionary[PromptCache, list[Sequence]]
        self._sequences = weakref.WeakKeyDictionary()
        inner = unwrapped(model)
        names = tuple(inspect.signature(inner.forward).parameters)
        feed = partial(feed_cache, self.shape, weakref.ref(inner), names)
        hook = inner.register_forward_pre_hook(feed, with_kwargs=True)
        self._let_go = weakref.finalize(self, hook.remove)

    def __enter__(self) -> KVCacheBlock:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except BusyError:
            if kind is None:  # frames of an exception hold the manager: the store closes with it
                raise

    def close(self) -> None:
        """Write out what is queued, for at most 10 s, while levels can still be made of it; let go
        of the model, and close the store if it was opened here."""
        self._let_go()
        if self.manager is not None and not self.store.closed:
            with suppress(Error):
                self.store.flush(10)
        self._local = threading.local()
        self._sequences.clear()
        self.manager = None
        if self._owner:
            self.store.close()

    def tokens(self, prompt: Prompt) -> list[list[int]]:
        """The tokens of each prompt, as the tokenizer makes them, without padding."""
        if isinstance(prompt, Mapping) or not getattr(prompt, "shape", True):
            raise TypeError("a prompt is a text, texts or tokens: pass inputs.input_ids")
        texts: list[Any] = [prompt] if isinstance(prompt, str) else list(prompt)
        if not texts:
            raise ValueError("the prompt is empty")
        if not isinstance(texts[0], str):
            ids = torch.as_tensor(prompt)
            if ids.dim() not in (1, 2) or not ids.numel():
                raise ValueError(f"prompts are [tokens] or [prompts, tokens], not {[*ids.shape]}")
            rows = ids.reshape(-1, ids.shape[-1]).tolist()
            return self._unpadded(rows) if len(rows) > 1 else rows
        if self.tokenizer is None:
            raise ValueError("a text needs a tokenizer; pass one, or tokens instead of the text")
        if len(texts) > 1 and self.tokenizer.padding_side != "left":
            raise ValueError('several prompts are padded left: tokenizer.padding_side = "left"')
        return [list(self.tokenizer(text).input_ids) for text in texts]

    @torch.no_grad()
    def get_cache(self, prompt: Prompt, *, timeout: float | None = None) -> PromptCache:
        """The state of the longest stored prefix, for generate(past_key_values=…), or an empty one.

        timeout: seconds that loading may take; what did not come by then is computed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        prompts = self.tokens(prompt)
        states = [State(self.shape) for _ in prompts]
        manager = self._manager()
        sequences = [Sequence(manager, state) for state in states]
        cache = PromptCache(self.shape, prompts, states)
        self._sequences[cache] = sequences
        for sequence, row in zip(sequences, prompts):
            cache.lookups.append(sequence.look(self.shape.text(row) or row[:1], left_until(until)))
        slots = min(pad + state.count for pad, state in zip(cache.pads, states))
        if slots > max(cache.pads):
            for state, sequence, pad, row in zip(states, sequences, cache.pads, prompts):
                if state.count != slots - pad:  # prompts of several lengths end at one slot
                    self._shorten(state, sequence, row, slots - pad, left_until(until))
            rows = [[state.rows[i] for state in states] for i in range(len(self.shape.windows))]
            cache.fill(slots, rows)
        for number, state in enumerate(states):
            state.rows, state.cache, state.row = {}, None, number
        self.lookups, self._local.last = cache.lookups, cache
        return cache

    @torch.no_grad()
    def add_blocks(self, prompt: Prompt, cache: PromptCache | None = None) -> int:
        """Store the whole blocks of a prompt, and of what generate() made of it; how many were new.

        cache: of get_cache; without it the last of this thread. A prompt whose state was not
        computed with that is computed first.
        """
        prompts = [self.shape.text(row) for row in self.tokens(prompt)]
        self._manager()
        if not is_exact(self.model, self.shape.device):
            raise ValueError("the model trains, or autocast is on: call model.eval(), without it")
        last: PromptCache | None = getattr(self._local, "last", None) if cache is None else cache
        new = None
        if last is not None and last in self._sequences and last.layers[0].is_initialized:
            held = [last.tokens_of(row) for row in range(len(last.prompts))]
            if len(held) == len(prompts) and all(h[: len(p)] == p for h, p in zip(held, prompts)):
                new = self._save(last, held)
        return sum(self._compute(row) for row in prompts if row) if new is None else new

    def _save(self, cache: PromptCache, held: list[list[int]]) -> int | None:
        """None: blocks that were restored have left the store, and their rows are not all here."""
        self._local.last = None
        for state in cache.states:
            state.cache = cache
        sequences = self._sequences.pop(cache)
        try:
            return sum(one.save(row)[0] for one, row in zip(sequences, held) if row)
        except CorruptError:
            return None

    def _unpadded(self, rows: list[list[int]]) -> list[list[int]]:
        pad = getattr(self.tokenizer or self.model.config, "pad_token_id", None)
        if all(row[0] == pad for row in rows):
            raise ValueError("every prompt begins with padding: drop the columns that are padding")
        return [list(dropwhile(lambda token: token == pad, row)) for row in rows]

    def _compute(self, row: list[int]) -> int:
        cache = self.get_cache(row)
        ids = torch.tensor([row[cache.filled :]], device=self.shape.device)
        self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return self._save(cache, [cache.tokens_of(0)]) or 0

    def _shorten(
        self, state: State, sequence: Sequence, row: list[int], count: int, timeout: float | None
    ) -> None:
        """Restore so many tokens: the blocks among them, and compute what is left."""
        sequence.look(row[: count + 1], timeout)
        cache = PromptCache(self.shape, [row[:count]], [state])
        if state.count:
            cache.fill(state.count, [[state.rows[i]] for i in range(len(self.shape.windows))])
        if state.count < count:
            ids = torch.tensor([row[state.count : count]], device=self.shape.device)
            self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            state.rows = {i: (l.keys[0], l.values[0]) for i, l in enumerate(cache.layers)}
            state.count = count

    def _manager(self) -> Manager:
        if self.manager is None:
            raise ValueError("this KVCacheBlock is closed; make another one")
        if adapters_of(self.model) != self.shape.adapters:
            raise ValueError("other adapters act on the model now; make another KVCacheBlock")
        return self.manager


def left_until(until: float | None) -> float | None:
    """Seconds; None: no limit."""
    return None if until is None else max(0.0, until - time.monotonic())


def unwrapped(model: Any) -> Any:
    """The module whose forward pass is run: not torch.compile's, nor PEFT's."""
    model = getattr(model, "_orig_mod", model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def is_exact(model: Any, device: torch.device) -> bool:
    """Does it compute what it does when it answers? Not with dropout, nor in another type."""
    trains = any(module.training for module in model.modules())
    return not trains and not torch.is_autocast_enabled(device.type)


def is_in_tokens(shape: Shape, ids: Any, name: str, value: Any) -> bool:
    """Is this argument in the tokens, as far as they are stored? What goes with images is."""
    if name in SEEN or not isinstance(value, torch.Tensor) or not bool(value.any()):
        return True
    if not shape.media or name != "token_type_ids" or value.shape != getattr(ids, "shape", None):
        return bool(shape.media) and name != "token_type_ids"
    media = torch.isin(ids, torch.tensor(sorted(shape.media), device=ids.device))
    return not bool((value.bool() & (media.cumsum(1) == 0)).any())


def feed_cache(
    shape: Shape, owner: Any, names: tuple[str, ...], model: Any,
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """Before a forward pass: its cache hears of its tokens; those that it holds are left out."""
    given = {**dict(zip(names, args)), **kwargs}
    cache = given.get("past_key_values", given.get("cache"))  # so since Transformers 5.24
    if not isinstance(cache, PromptCache) or cache.shape is not shape or owner() is not model:
        return None  # a deep copy of the model has a copy of this hook
    ids: Any = given.get("input_ids")
    positions: Any = given.get("position_ids")
    if "input_ids" in kwargs and (held := cache.held_of(ids, positions)):
        ids, positions = ids[:, held:], positions[:, held:]
        kwargs = {**kwargs, "input_ids": ids, "position_ids": positions}
    unkeyed = [name for name, value in given.items() if not is_in_tokens(shape, ids, name, value)]
    if unkeyed and cache.filled and not cache.fed.shape[1]:
        raise ValueError(f"{unkeyed[0]}: no key tells of it; without it the prefix was stored")
    cache.unsure |= bool(unkeyed) or model.training or torch.is_autocast_enabled(shape.device.type)
    cache.feed(ids, given.get("attention_mask"), positions)
    return args, kwargs
