"""Of a vLLM engine: whether its state can be kept, and a name for all that the state depends on."""

from __future__ import annotations

import glob
import json
import mmap
import os
from typing import Any

import torch
import vllm
from vllm.v1.kv_cache_interface import FullAttentionSpec

from skymem import _core
from skymem.errors import UnsupportedError
from skymem.keys import digest

FORMAT = "skymem.vllm 1"
# How weights come into memory where the files in the model's folder say all about them.
LOADED_FROM_FILES = {"auto", "hf", "safetensors", "pt", "fastsafetensors"}
WEIGHTS = ("safetensors", "bin", "pt", "pth")
OTHERS = ("json", "py")  # of a model's folder: what else its state may depend on


def weights_digest(config: Any) -> bytes:
    """Of the content of all files of a model that say what it computes."""
    if config.load_config.load_format == "dummy":
        return digest(b"dummy")  # the same numbers in each process
    if config.load_config.load_format not in LOADED_FROM_FILES:
        raise UnsupportedError(f"weights of format {config.load_config.load_format} have no name")
    folder = config.model_config.model
    if not os.path.isdir(folder):
        from huggingface_hub import snapshot_download  # where vLLM has put it

        folder = snapshot_download(folder, revision=config.model_config.revision,
                                   cache_dir=config.load_config.download_dir,
                                   local_files_only=True)  # fmt: skip
    pieces: list[bytes] = []
    weights = 0
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*"))):
        kind = path.rsplit(".", 1)[-1]
        if kind in WEIGHTS + OTHERS and os.path.getsize(path):
            weights += kind in WEIGHTS
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
                pieces.append(f"{os.path.basename(path)} {_core.content_hash(data)}\n".encode())
    if not weights:
        raise UnsupportedError(f"{folder} has no files of weights")
    return digest(*pieces)


def refusal(config: Any, kv: Any) -> str | None:
    """Why the state of this engine is not kept; None: it is."""
    if config.parallel_config.world_size > 1:
        return "it has several ranks, and only whole models are kept"
    if config.speculative_config is not None:
        return "speculative decoding keeps state of tokens that are taken back"
    if config.model_config.runner_type != "generate":
        return "the model does not generate"
    groups = kv.kv_cache_groups
    specs = {type(group.kv_cache_spec) for group in groups}
    if len(groups) != 1 or specs != {FullAttentionSpec}:
        return "its state is not rows of full attention alone"
    spec = groups[0].kv_cache_spec
    if spec.non_causal or spec.kv_quant_mode.value or spec.tokens_per_state != 1:
        return "tokens attend to later ones, or its state is quantised"
    return None


def namespace_of(config: Any, layers: dict[str, torch.Tensor], block_tokens: int) -> bytes:
    """A digest of everything that makes state wrong when it changes: what computes it, and how
    its bytes lie. Adapters and salts of requests are added for each request."""
    model = config.model_config
    settings = model.hf_config.to_dict()
    settings.pop("_name_or_path", None)
    text = json.dumps(settings, sort_keys=True, default=str)
    pieces = [FORMAT, vllm.__version__, text, str(model.dtype), str(model.quantization),
              str(config.cache_config.cache_dtype), str(block_tokens)]  # fmt: skip
    if any(kind in text for kind in ('"dynamic"', '"longrope"')):
        pieces.append(f"length {model.max_model_len}")
    context = config.compilation_config.static_forward_context
    for name, tensor in layers.items():
        backend = context[name].get_attn_backend().get_name() if name in context else ""
        shape = tuple(tensor.shape[1:])
        pieces.append(f"{name} {backend} {shape} {tensor.dtype} {tensor.device.type}")
    if next(iter(layers.values())).device.type == "cpu":  # whose kernels lay out keys each its way
        pieces.append(torch.backends.cpu.get_cpu_capability())
        pieces.append(str(torch.cpu._is_amx_tile_supported()))
    return digest(json.dumps(pieces).encode(), weights_digest(config))


def named_tokens(request: Any) -> int:
    """How many leading tokens of a request say all of what its state depends on."""
    if request.lora_request or request.prompt_embeds is not None or request.resumable:
        return 0
    return int(min([request.num_tokens, *(f.mm_position.offset for f in request.mm_features)]))
