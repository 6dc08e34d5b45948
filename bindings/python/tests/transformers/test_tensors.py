"""Proves that tensors go in and out of a cache by DLPack, without a copy and with the same care as
arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import skymem

TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_tensor_comes_back(dtype: torch.dtype) -> None:
    rows = torch.arange(120).reshape(2, 3, 20).to(dtype)
    with skymem.Cache("mem:16MiB") as cache:
        cache.put("a", rows)
        out = torch.zeros_like(rows)
        address = out.data_ptr()
        assert cache.get_into("a", out) == rows.numel() * rows.element_size()
        assert torch.equal(out, rows) and out.data_ptr() == address
        part = torch.zeros(4, 3, 20, dtype=dtype)[1:3]  # memory that begins within another's
        assert cache.get_into("a", part) and torch.equal(part, rows)
        with cache.lease("a") as view:
            assert bytes(view) == cache.get("a")


ROWS = torch.zeros(3, 4)
BAD: list[tuple[Callable[[skymem.Cache], Any], type[Exception], str]] = [
    (lambda c: c.get_into("a", ROWS.T), BufferError, "out: the array has gaps.*copy from it"),
    (lambda c: c.put("a", ROWS[:, :2]), BufferError, "value: the array has gaps"),
    (lambda c: c.put("a", torch.zeros(3, requires_grad=True)), BufferError, "detach"),
    (lambda c: c.get_into("a", torch.zeros(3, device="meta")), BufferError, "meta"),
    (lambda c: c.get_into("a", torch.zeros(11)), skymem.SmallError, "get of a: .* too small"),
    (lambda c: c.put("a", torch.zeros(1, 1, 1, 1, 1, 1)), TypeError, r"reshape\(-1\)"),
    (lambda c: c.put("a", torch.eye(3).to_sparse()), BufferError, "layout other than"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_tensor_is_refused(number: int) -> None:
    call, kind, words = BAD[number]
    with skymem.Cache("mem:16MiB") as cache:
        cache.put("a", ROWS)
        with pytest.raises(kind, match=words):
            call(cache)
        assert cache.get("a") == bytes(48)


def test_a_tensor_is_held_while_a_batch_runs() -> None:
    keys = [bytes([i + 1]) * 32 for i in range(8)]
    with skymem.Cache("sky:seed") as cache:
        put = cache.start("put", keys, [torch.full((1 << 16,), i) for i in range(8)])
        junk = [torch.full((1 << 16,), 255) for _ in range(16)]
        assert put.wait(None) and len(junk) == 16
        put.check()
        out = [torch.zeros(1 << 16, dtype=torch.int64) for _ in keys]
        assert cache.get_many(keys, out) == [1 << 19] * 8
        assert all(bool((tensor == i).all()) for i, tensor in enumerate(out))
