"""A model that remembers prompts, on Hugging Face Transformers.

python3 examples/python/remember.py MODEL STORE PROMPT_FILE, twice
"""

import sys
import time

from transformers import AutoModelForCausalLM, AutoTokenizer

from skymem.transformers import KVCacheBlock

folder, store, file = sys.argv[1:4]
model = AutoModelForCausalLM.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
prompt = open(file).read()

kvc = KVCacheBlock(model, tokenizer, store=["mem:1GiB", f"disk:{store}"])
inputs = tokenizer(prompt, return_tensors="pt")
begin = time.perf_counter()
out = model.generate(
    **inputs, past_key_values=kvc.get_cache(prompt), max_new_tokens=16, do_sample=False
)
took = time.perf_counter() - begin
new = kvc.add_blocks(prompt)
found = kvc.lookups[0]
print(f"{found.verdict}: {found.hit_tokens} of {found.prompt_tokens} tokens were there")
print(f"answered in {took:.1f} s: {tokenizer.decode(out[0, inputs.input_ids.shape[1]:])!r}")
print(f"{new} new blocks")
kvc.close()
