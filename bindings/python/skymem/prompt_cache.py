"""The state of a Transformers model: what it looks like, and that of a prompt, as rows that are
restored from a store and taken out for it."""

from __future__ import annotations

import json
import re
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from skymem import _core
from skymem.errors import UnsupportedError
from skymem.keys import digest
from skymem.manager import Lookup

FORMAT = b"skymem.transformers 3"
# Settings of a model that change no state, as those whose names begin with _ (its folder).
PASSING = {"architectures", "use_cache", "pad_token_id", "eos_token_id", "bos_token_id"}
ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def lasting(settings: dict[str, Any]) -> dict[str, Any]:
    """Those of a model that its state depends on."""
    return {
        name: lasting(value) if isinstance(value, dict) else value
        for name, value in settings.items()
        if not name.startswith("_") and name not in PASSING
    }


def adapters_of(model: Any) -> str:
    """Which adapters of PEFT act on which layers, and how much: no weight says so."""
    names = ("active_adapters", "disable_adapters", "merged_adapters", "scaling")
    return repr([
        (name, [getattr(layer, what, None) for what in names])
        for name, layer in model.named_modules()
        if isinstance(getattr(layer, "active_adapters", None), list)
    ])  # fmt: skip


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    """Each once, by its first name."""
    weights: dict[tuple[Any, ...], tuple[str, torch.Tensor]] = {}
    parameters = model.named_parameters(remove_duplicate=False)
    empty = {name for name, one in parameters if not one.numel()}  # their rows are elsewhere: ZeRO
    for name, tensor in model.state_dict().items():
        packed = not isinstance(tensor, torch.Tensor) or tensor.is_quantized
        if packed or tensor.device.type == "meta" or name in empty:
            why = "is packed" if packed else "is not in memory"
            raise UnsupportedError(f"{type(model).__name__}: {name} {why}, so no key can name it")
        same = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        weights.setdefault(same if tensor.data_ptr() else (name,), (name, tensor))
    return dict(weights.values())


class Shape:
    """What a model's state looks like, and what its keys depend on."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.name = type(model).__name__
        can_generate = getattr(model, "can_generate", lambda: False)()
        if not can_generate or getattr(model.config, "is_encoder_decoder", False):
            raise UnsupportedError(f"{self.name}: a causal language model is wanted")
        self.config, self.device = model.config, model.device
        text = model.config.to_json_string(use_diff=False)
        if re.search(r'"(rope_)?type": "(dynamic|longrope)"', text):
            raise UnsupportedError(f"{self.name}: turns keys by the length of the whole prompt")
        layers = DynamicCache(config=model.config).layers
        kinds = {type(layer) for layer in layers}
        if not layers or not kinds <= {DynamicLayer, DynamicSlidingWindowLayer}:
            names = ", ".join(sorted(kind.__name__ for kind in kinds)) or "no layers"
            raise UnsupportedError(f"{self.name}: its state is not rows ({names})")
        weights = weights_of(model)
        self.windows = [int(getattr(layer, "sliding_window", 0)) for layer in layers]
        # Layers in stored order: by group of one window, full attention first.
        self.groups = sorted(set(self.windows))
        self.order = sorted(range(len(layers)), key=self.windows.__getitem__)
        media = re.findall(r'"(?:image|video|audio)_token_(?:id|index)": (\d+)', text)
        self.media = set(map(int, media))
        self.heads, self.dim, self.v_dim, self.dtype = self._rows(model)
        self.adapters = adapters_of(model)
        self.print = self._fingerprint(model, tokenizer, json.loads(text), weights)

    def _rows(self, model: Any) -> tuple[int, int, int, torch.dtype]:
        """Heads, dims and type of all layers' rows, as the model makes them of two tokens."""
        one, two, three = sorted(set(range(len(self.media) + 3)) - self.media)[:3]
        cache, other = self._probe(model, [one, two]), self._probe(model, [one, three])
        kinds = {
            (layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3], layer.keys.dtype)
            for layer in cache.layers
            if layer.is_initialized and layer.keys.shape[2] == 2
        }
        held = sum(layer.is_initialized for layer in cache.layers)
        if held != len(self.windows) or len(kinds) != 1:
            raise UnsupportedError(f"{self.name}: layers share state, or have unlike rows")
        rows = kinds.pop()
        self.devices = [layer.keys.device for layer in cache.layers]
        if rows[3] not in ELEMENTS:
            raise UnsupportedError(f"{self.name}: its state is {rows[3]}")
        trains = any(module.training for module in model.modules())  # dropout: rows differ
        for first, second in zip(cache.layers, [] if trains else other.layers):
            was, now = first.keys[0, :, 0].float(), second.keys[0, :, 0].float()
            if (now - was).norm() > was.norm() * torch.finfo(rows[3]).eps ** 0.5:
                raise UnsupportedError(f"{self.name}: rows depend on tokens behind them")
        return rows

    @torch.no_grad()
    def _probe(self, model: Any, tokens: list[int]) -> DynamicCache:
        cache = DynamicCache(config=model.config)
        ids = torch.tensor([tokens], device=self.device)
        model(input_ids=ids, past_key_values=cache, use_cache=True)
        return cache

    def _fingerprint(
        self, model: Any, tokenizer: Any, config: dict[str, Any], weights: dict[str, torch.Tensor]
    ) -> bytes:
        pieces = [FORMAT, json.dumps(lasting(config), sort_keys=True).encode()]
        pieces += [str(model.config._attn_implementation).encode(), self.adapters.encode()]
        pieces.append(f"{type(model).__module__}.{type(model).__qualname__}".encode())
        if tokenizer is not None:
            backend = getattr(tokenizer, "backend_tokenizer", None)
            words = json.loads(backend.to_str()) if backend else tokenizer.get_vocab()
            for name in ("padding", "truncation") if backend else ():  # of its last call
                words.pop(name, None)
            pieces.append(json.dumps(words, sort_keys=True).encode())
        for name, tensor in weights.items():
            hashed = _core.content_hash(tensor.detach().cpu().reshape(-1).view(torch.uint8))
            pieces.append(f"{name} {tensor.dtype} {hashed}".encode())
        return digest(*pieces)

    def text(self, row: list[int]) -> list[int]:
        """The tokens before the first that stands for an image or a sound: no key names those."""
        media = (place for place, token in enumerate(row) if token in self.media)
        return row[: next(media, len(row))]

    def __deepcopy__(self, _: Any) -> Shape:  # of a cache: the model is the same
        return self

    def new_rows(self, tokens: int, dim: int) -> torch.Tensor:  # as payloads have them
        return torch.empty(tokens, self.heads, dim, dtype=self.dtype).permute(1, 0, 2)

    def check(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Are these rows as they were when keys were made?"""
        rows = (keys.shape[1], keys.shape[3], values.shape[3], keys.dtype)
        if rows != (self.heads, self.dim, self.v_dim, self.dtype):
            raise UnsupportedError(f"{self.name}: its rows are {rows} now: make another "
                                   "KVCacheBlock after a change of the model")  # fmt: skip


class PromptCache(DynamicCache):
    """A DynamicCache that knows which tokens went through it: of each prompt the restored ones,
    then `fed`. After anything else than tokens one behind the other it is `unsure`, for good."""

    def __init__(self, shape: Shape, prompts: list[list[int]], states: list[State]) -> None:
        super().__init__(config=shape.config)
        self.shape, self.prompts, self.states = shape, prompts, states
        self.lookups: list[Lookup] = []  # what was found, of each prompt
        self.pads = [max(map(len, prompts)) - len(row) for row in prompts]
        self.filled, self.unsure = 0, False  # filled: slots that were restored
        self.fed = torch.zeros(len(prompts), 0, dtype=torch.long, device=shape.device)
        for layer in self.layers:
            if isinstance(layer, DynamicSlidingWindowLayer):
                layer.activate_past_recording()  # or rows leave before they are stored

    def fill(self, slots: int, rows: list[list[tuple[torch.Tensor, torch.Tensor]]]) -> None:
        """Restore slots: of each layer the rows of each prompt, which end with the last slot."""
        self.filled = slots
        for layer, each, device in zip(self.layers, rows, self.shape.devices):
            window = getattr(layer, "sliding_window", 0)
            held = min(slots, window - 1) if window else slots
            keys, values = (aligned([pair[kv] for pair in each], held) for kv in (0, 1))
            keys, values = keys.to(device), values.to(device)
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            if window:
                # How many tokens came, not how many are held: masks are made from it. Without it
                # answers are wrong, and nothing says so.
                layer.cumulative_length = slots

    def held_of(self, ids: Any, positions: Any) -> int:
        """How many of the tokens before a forward pass the cache holds: assisted decoding gives the
        model the whole prompt, whatever its cache holds, which would count its tokens twice."""
        count = 0 if self.fed.shape[1] or len(self.prompts) > 1 else self.filled
        both = isinstance(ids, torch.Tensor) and isinstance(positions, torch.Tensor)
        if not count or not both or positions.shape != ids.shape or positions[0, 0] != 0:
            return 0
        return count if ids[0, :count].tolist() == self.prompts[0][:count] else 0

    def feed(self, ids: Any, mask: Any, positions: Any) -> None:
        """Before a forward pass: its tokens, if each row is a prompt's, one behind the other."""
        start, rows = self.filled + self.fed.shape[1], len(self.prompts)
        whole = isinstance(ids, torch.Tensor) and ids.dim() == 2 and len(ids) % rows == 0
        self.unsure |= not whole or start != self.get_seq_length()
        if self.unsure:
            return
        pads = torch.tensor(self.pads, device=ids.device).repeat_interleave(len(ids) // rows)
        place = torch.arange(start + ids.shape[1], device=ids.device) - pads[:, None]
        wanted = place[:, start:]
        if mask is None or positions is None:
            self.unsure = any(self.pads)
        elsewhere = False
        if mask is not None and getattr(mask, "shape", None) == place.shape:
            elsewhere = bool(((place >= 0) != mask).any())
        elif mask is not None:
            self.unsure = True
        if positions is not None:  # of some models in planes, which are alike for text
            wrong = positions.dim() not in (2, 3) or positions.shape[-1] != ids.shape[1]
            elsewhere |= wrong or bool(((positions != wanted) & (wanted >= 0)).any())
        if elsewhere and start == self.filled > 0:
            raise ValueError("the tokens of get_cache stand elsewhere in this forward pass, or are "
                             "masked: give both the same tokens, without padding")  # fmt: skip
        beams = ids.reshape(rows, -1, ids.shape[1])
        beams = beams[:, :, : max(0, max(map(len, self.prompts)) - start)]
        self.unsure |= elsewhere or bool((beams != beams[:, :1]).any())  # unlike within a prompt
        self.fed = torch.cat([self.fed, ids[:: len(ids) // rows]], 1)

    def __copy__(self) -> PromptCache:  # its layers are shared: what one is given, the other holds
        self.unsure = True
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def crop(self, tokens_to_remove: int) -> None:
        left = self.get_seq_length() - abs(tokens_to_remove)
        for layer in self.layers if self.filled else ():
            needed = min(left, getattr(layer, "sliding_window", left + 1) - 1)
            if layer.keys.shape[-2] - abs(tokens_to_remove) < needed:
                raise ValueError("crop: rows before the restored ones of a window would be needed: "
                                 "call get_cache with the shorter prompt")  # fmt: skip
        for layer in self.layers:  # without what a window's own crop forgets, which is to be stored
            DynamicLayer.crop(layer, tokens_to_remove)
            if isinstance(layer, DynamicSlidingWindowLayer):
                layer.cumulative_length -= abs(tokens_to_remove)
        self.filled = min(self.filled, self.get_seq_length())
        self.fed = self.fed[:, : self.get_seq_length() - self.filled]

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        beams = len(beam_idx) // len(self.prompts)
        kept = [number // beams for number in range(len(beam_idx))]
        self.unsure |= (beam_idx // max(1, beams)).tolist() != kept
        super().reorder_cache(beam_idx)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self.unsure = True
        super().batch_select_indices(indices)

    def tokens_of(self, row: int) -> list[int]:
        """The tokens whose state row `row` holds; of beams, those of the prompt. [] if unsure."""
        pad, slots = self.pads[row], self.filled + self.fed.shape[1]
        if self.unsure or any(
            layer.get_seq_length() != slots or layer.keys.shape[-2] < self.fed.shape[1]
            for layer in self.layers
        ):
            return []
        fed: list[int] = self.fed[row, max(0, pad - self.filled) :].tolist()
        tokens = self.prompts[row][: max(0, self.filled - pad)] + fed
        beams = self.layers[0].keys.shape[0] > len(self.prompts)
        return self.shape.text(tokens[: len(self.prompts[row])] if beams else tokens)


class State:
    """The engine of one prompt: rows that were restored, or those of a row of a cache."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rows: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.count = 0
        self.cache: PromptCache | None = None
        self.row = 0

    def fingerprint(self) -> bytes:
        return self.shape.print

    def layout(self) -> list[tuple[int, int, int, int, int, str]]:
        s = self.shape
        element = ELEMENTS[s.dtype]
        return [(w, s.windows.count(w), s.heads, s.dim, s.v_dim, element) for w in s.groups]

    def restore(self, count: int) -> list[tuple[int, torch.Tensor]]:
        self.count = count
        out = []
        for i in self.shape.order:
            held = min(self.shape.windows[i] or count, count)
            dims = (self.shape.dim, self.shape.v_dim)
            self.rows[i] = (self.shape.new_rows(held, dims[0]), self.shape.new_rows(held, dims[1]))
            out += [(count - held, rows) for rows in self.rows[i]]
        return out

    def restored(self, commit: bool) -> None:
        if not commit:
            self.rows, self.count = {}, 0

    def extract(self, first: int, count: int) -> list[tuple[int, torch.Tensor]]:
        assert self.cache is not None
        out = []
        pad, slots = self.cache.pads[self.row], self.cache.get_seq_length()
        row = self.row * (self.cache.layers[0].keys.shape[0] // len(self.cache.prompts))
        for i in self.shape.order:
            layer = self.cache.layers[i]
            self.shape.check(layer.keys, layer.values)
            skip = max(0, pad - (slots - layer.keys.shape[-2]))  # slots that pad the prompt
            start = slots - layer.keys.shape[-2] + skip - pad
            for rows in (layer.keys, layer.values):
                out.append((start, rows[row, :, skip:].detach().cpu()))
        return out


def aligned(rows: list[torch.Tensor], held: int) -> torch.Tensor:
    """[prompts, heads, held, dim]: the last rows of each, zeros before them."""
    last = [row[:, max(0, row.shape[1] - held) :] for row in rows]
    if len(last) == 1:
        return last[0][None]  # where it lies, without a copy
    tokens = [row.transpose(0, 1) for row in last]
    return pad_sequence(tokens, batch_first=True, padding_side="left").transpose(1, 2)
