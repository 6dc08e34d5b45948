#!/usr/bin/env python3
"""tiny_gguf.py ARCHITECTURE FILE: a model of a hundred thousand random weights that can read text.

ARCHITECTURE is llama (interleaved rope), qwen3 (NEOX rope, normed queries and keys) or gemma3 (the
same, and layers with a window, all but the sixth); all have four query heads on two KV heads, wider
than the embedding asks for. What llama.cpp does with it is
as real as with any other model, and takes milliseconds. Tokens are bytes.
"""

import random
import struct
import sys
from array import array

WIDTH, HEADS, KV_HEADS, HEAD_WIDTH, INNER, WINDOW = 64, 4, 2, 32, 96, 1000
LAYERS = {"llama": 4, "qwen3": 4, "gemma3": 7}
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, value):
    if kind == STRING:
        data = string(value)
    elif kind == ARRAY:
        of, items = value
        packed = [string(i) if of == STRING else struct.pack("<f" if of == F32 else "<i", i)
                  for i in items]
        data = struct.pack("<IQ", of, len(items)) + b"".join(packed)
    else:
        data = struct.pack("<f" if kind == F32 else "<I", value)
    return string(key) + struct.pack("<I", kind) + data


def vocabulary():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    return [
        pair("tokenizer.ggml.model", STRING, "llama"),
        pair("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        pair("tokenizer.ggml.scores", ARRAY, (F32, [0.0] * len(tokens))),
        pair("tokenizer.ggml.token_type", ARRAY, (I32, kinds)),
        pair("tokenizer.ggml.bos_token_id", U32, 1),
        pair("tokenizer.ggml.eos_token_id", U32, 2),
        pair("tokenizer.ggml.unknown_token_id", U32, 0),
    ], len(tokens)


def tensors(architecture, words):
    yield "token_embd", (WIDTH, words)
    yield "output_norm", (WIDTH,)
    if architecture != "gemma3":
        yield "output", (WIDTH, words)
    for i in range(LAYERS[architecture]):
        yield f"blk.{i}.attn_norm", (WIDTH,)
        yield f"blk.{i}.attn_q", (WIDTH, HEADS * HEAD_WIDTH)
        yield f"blk.{i}.attn_k", (WIDTH, KV_HEADS * HEAD_WIDTH)
        yield f"blk.{i}.attn_v", (WIDTH, KV_HEADS * HEAD_WIDTH)
        yield f"blk.{i}.attn_output", (HEADS * HEAD_WIDTH, WIDTH)
        yield f"blk.{i}.ffn_norm", (WIDTH,)
        yield f"blk.{i}.ffn_gate", (WIDTH, INNER)
        yield f"blk.{i}.ffn_up", (WIDTH, INNER)
        yield f"blk.{i}.ffn_down", (INNER, WIDTH)
        if architecture == "gemma3":
            yield f"blk.{i}.post_attention_norm", (WIDTH,)
            yield f"blk.{i}.post_ffw_norm", (WIDTH,)
        if architecture != "llama":
            yield f"blk.{i}.attn_q_norm", (HEAD_WIDTH,)
            yield f"blk.{i}.attn_k_norm", (HEAD_WIDTH,)


def metadata(architecture, words):
    a = architecture
    pairs = [pair("general.architecture", STRING, a)]
    for key, value in (("vocab_size", words), ("context_length", 4096), ("embedding_length", WIDTH),
                       ("block_count", LAYERS[a]), ("feed_forward_length", INNER),
                       ("attention.head_count", HEADS), ("attention.head_count_kv", KV_HEADS),
                       ("attention.key_length", HEAD_WIDTH),
                       ("attention.value_length", HEAD_WIDTH),
                       ("rope.dimension_count", HEAD_WIDTH)):
        pairs.append(pair(f"{a}.{key}", U32, value))
    if a == "gemma3":
        pairs.append(pair(f"{a}.attention.sliding_window", U32, WINDOW))
    pairs.append(pair(f"{a}.attention.layer_norm_rms_epsilon", F32, 1e-6))
    pairs.append(pair(f"{a}.rope.freq_base", F32, 10000.0))
    return pairs


def main():
    architecture, path = sys.argv[1:]
    chance = random.Random(20261121)
    words_pairs, words = vocabulary()
    pairs = metadata(architecture, words) + words_pairs
    table, data = [], bytearray()
    for name, shape in tensors(architecture, words):
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        scale = 1.5 / shape[0] ** 0.5
        values = array("f", (chance.gauss(0, scale) if len(shape) == 2 else 1.0
                             for _ in range(count)))
        table.append(string(f"{name}.weight") + struct.pack("<I", len(shape)) +
                     b"".join(struct.pack("<Q", n) for n in shape) +
                     struct.pack("<IQ", 0, len(data)))
        data += values.tobytes()
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(pairs)) + b"".join(pairs + table)
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32) + data)


main()
