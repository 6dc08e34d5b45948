"""A vLLM engine in a process of its own: answers the prompts of a job, which is JSON on standard
input, and prints a line of JSON for each of them.

    {"model": FOLDER, "stores": [URL, …], "prompts": [{"tokens": […], "salt": …, "before": …}],
     "settings": {…}, "max_tokens": 8}

settings: of vLLM.
before: "reset", so that vLLM forgets its own blocks, or a folder whose files are damaged as well.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_NO_USAGE_STATS"] = os.environ["HF_HUB_OFFLINE"] = "1"

from vllm import LLM, SamplingParams
from vllm.config import KVTransferConfig


def opened(model: str, stores: list[str], **settings: Any) -> LLM:
    transfer = KVTransferConfig(
        kv_connector="SkyMemoryConnector", kv_connector_module_path="skymem.vllm",
        kv_role="kv_both", kv_connector_extra_config={"stores": stores},
    )  # fmt: skip
    return LLM(model, skip_tokenizer_init=True, enforce_eager=True, max_num_seqs=4,
               kv_transfer_config=transfer if stores else None, **settings)  # fmt: skip


def damage(folder: Path) -> int:
    """Change a byte in the middle of every payload. How many."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 8192]
    for path in files:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 0xFF]))
    return len(files)


def answer(
    llm: LLM, count: int, tokens: list[int], salt: str | None = None
) -> dict[str, Any]:
    prompt: dict[str, Any] = {"prompt_token_ids": tokens}
    if salt is not None:
        prompt["cache_salt"] = salt
    wanted = SamplingParams(temperature=0, max_tokens=count, logprobs=1, ignore_eos=True,
                            detokenize=False)  # fmt: skip
    start = time.perf_counter()
    (out,) = llm.generate([prompt], wanted, use_tqdm=False)
    chosen = out.outputs[0]
    return {
        "tokens": list(chosen.token_ids),
        "logprobs": [row[t].logprob for t, row in zip(chosen.token_ids, chosen.logprobs)],
        "cached": out.num_cached_tokens,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    job = json.load(sys.stdin)
    settings = job.get("settings", {"dtype": "float32", "max_model_len": 512})
    llm = opened(job["model"], job["stores"], block_size=32, **settings)
    for prompt in job["prompts"]:
        before = prompt.pop("before", None)
        if before is not None:
            assert llm.reset_prefix_cache()
            time.sleep(1)  # what a thread stores is there
        if before not in (None, "reset"):
            assert damage(Path(before))
        print("answer", json.dumps(answer(llm, job.get("max_tokens", 8), **prompt)), flush=True)
    llm.llm_engine.engine_core.shutdown()


if __name__ == "__main__":
    main()
