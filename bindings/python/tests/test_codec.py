"""Proves that arrays are coded to the bytes of `skymem codec`, where they lie, and come back; and
that wrong arrays and damaged bytes end in an exception."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skymem
from skymem import codec

SHARE = Path(__file__).parents[3] / "share"
LAYERS, TOKENS, HEADS, DIM = 3, 200, 2, 64
LAYOUT = {"rope": {"kind": "neox", "dims": 64, "base": 5000}, "first_position": 1000}


def made(dtype: Any = np.float16, layers: int = LAYERS, heads: int = HEADS, dim: int = DIM) -> Any:
    rng = np.random.default_rng(7)
    channels = rng.normal(size=(layers, 2, 1, heads, dim)) * 4
    return (rng.normal(size=(layers, 2, TOKENS, heads, dim)) + channels).astype(dtype)


def command(*args: object) -> None:
    name = os.path.join(os.environ.get("SKYMEM_BUILD", "build"), "skymem")
    if not os.path.exists(name):
        pytest.skip("the command is not built")
    subprocess.run([name, "codec", *map(str, args)], check=True, stdout=subprocess.DEVNULL)


def blocks(rows: Any, **how: Any) -> bytes:
    first = how.pop("first_position", 0)
    return b"".join(
        codec.encode(rows[:, :, at : at + 128], first_position=first + at, **how)
        for at in range(0, TOKENS, 128)
    )


def layout(layers: int = LAYERS) -> codec.Profile:
    rope = codec.rope(64, 5000.0)
    profile = codec.layout([(HEADS, DIM, DIM, rope)] * layers)
    profile.seal()
    return profile


def back(data: bytes, out: Any, **how: Any) -> None:
    at = token = 0
    while at < len(data):
        head = codec.info(data[at:])
        codec.decode(data[at : at + head.size], out[:, :, token : token + head.tokens], **how)
        at, token = at + head.size, token + head.tokens
    assert token == out.shape[2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("level", ["lossless", "8", "4", "2"])
def test_the_bytes_are_those_of_the_command(tmp_path: Path, level: str, dtype: Any) -> None:
    rows = made(dtype)
    np.save(tmp_path / "a.npy", rows)
    (tmp_path / "l.json").write_text(json.dumps(LAYOUT))
    encode = ("encode", tmp_path / "a.npy", "--level", level, "-o")
    command(*encode, tmp_path / "bare.skv")
    command(*encode, tmp_path / "plain.skv", "--plain")
    command(*encode, tmp_path / "layout.skv", "--layout", tmp_path / "l.json")
    assert blocks(rows, level=level) == (tmp_path / "bare.skv").read_bytes()
    assert blocks(rows, level=level, plain=True) == (tmp_path / "plain.skv").read_bytes()
    coded = blocks(rows, level=level, profile=layout(), first_position=1000)
    assert coded == (tmp_path / "layout.skv").read_bytes()
    command("decode", tmp_path / "layout.skv", "--layout", tmp_path / "l.json", "-o",
            tmp_path / "b.npy")  # fmt: skip
    out = np.empty_like(rows)
    back(coded, out, profile=layout())
    assert out.tobytes() == np.load(tmp_path / "b.npy").tobytes()
    assert (out.tobytes() == rows.tobytes()) == (level == "lossless")


def test_a_profile_tells_its_ropes() -> None:
    assert layout().ropes == [codec.rope(64, 5000.0)] * LAYERS
    assert codec.layout([(HEADS, DIM, DIM, None)]).ropes == [None]


def test_pairs_of_an_odd_head_leave_one_channel_alone() -> None:
    profile = codec.layout([(2, 7, 7, None)])
    one = np.tile(np.array([1, 0, 0, 1], np.float32), (2, 3, 1))  # [heads, dim / 2, 4]
    profile.set_pairs(0, 0, one)
    with pytest.raises(TypeError, match="24 numbers of f32"):
        profile.set_pairs(0, 0, np.ones((2, 7, 2), np.float32))


def test_with_a_calibration(tmp_path: Path) -> None:
    path = SHARE / "calibration/gemma-3-270m.skycal"
    profile = codec.Profile(path.read_bytes())
    assert profile.data() == path.read_bytes() and len(profile.fingerprint) == 32
    shapes = profile.layers
    ropes = [rope for rope in profile.ropes if rope]
    assert len(ropes) == len(shapes) and {rope[0] for rope in ropes} == {codec.KINDS["neox"]}
    assert all(len(turns) == shapes[0][1] // 2 for _, turns in ropes)
    heads, dim = shapes[0][:2]
    # The cache keeps this model's layers in another order than the model does.
    assert sorted(layer[3] for layer in shapes) == list(range(len(shapes)))
    assert [layer[3] for layer in shapes] != list(range(len(shapes)))
    rows = made(layers=len(shapes), heads=heads, dim=dim)
    np.save(tmp_path / "a.npy", rows)
    command("encode", tmp_path / "a.npy", "--level", "4", "--calibration", path, "-o",
            tmp_path / "a.skv")  # fmt: skip
    coded = blocks(rows, level="4", profile=profile)
    assert coded == (tmp_path / "a.skv").read_bytes()
    head = codec.info(coded)
    assert (head.profile, head.fingerprint) == (profile.id, profile.fingerprint)
    out = np.empty_like(rows)
    back(coded, out, profile=profile)
    assert 0 < abs(out.astype(float) - rows).mean() < 1
    with pytest.raises(skymem.ParamError, match="decode: layer"):
        codec.decode(coded[: head.size], out[:, :, :128])


def test_a_container_is_lowered_as_by_the_command(tmp_path: Path) -> None:
    rows = made()[:, :, :128]
    high = codec.encode(rows, level="8", profile=layout())
    (tmp_path / "high.skv").write_bytes(high)
    (tmp_path / "l.json").write_text(json.dumps({**LAYOUT, "first_position": 0}))
    command("lower", tmp_path / "high.skv", "--level", "3", "--layout", tmp_path / "l.json", "-o",
            tmp_path / "low.skv")  # fmt: skip
    low = codec.lower(high, level="3", profile=layout())
    assert low == (tmp_path / "low.skv").read_bytes() and len(low) < len(high) / 2
    codec.verify(low)
    assert {level for layer in codec.info(low).layers for level in layer[5:7]} == {"3"}
    out = np.empty_like(rows)
    codec.decode(low, out, profile=layout())
    assert abs(out - rows).mean() < 0.5
    assert codec.lower(low, level="8", profile=layout()) == low  # it is below already
    for at in range(0, len(low), 97):
        damaged = bytearray(low)
        damaged[at] ^= 1
        with pytest.raises((skymem.CorruptError, skymem.UnsupportedError)):
            codec.verify(damaged)
    with pytest.raises(skymem.CorruptError, match="lower: no container"):
        codec.lower(b"x" * 100, level="3")
    with pytest.raises(ValueError, match="level: one of"):
        codec.lower(high, level="5")
    with pytest.raises(skymem.ParamError, match="lower"):
        codec.lower(high, level="3")  # it was made with a profile


def test_arrays_are_coded_where_they_lie() -> None:
    rows = made(np.float32)[:, :, :128]
    data = codec.encode(rows, level="8", profile=layout())
    # [layer, 2, head, token, dim] in memory, as Transformers has it; a piece of a larger array
    other = np.zeros((LAYERS, 2, HEADS, 300, DIM), np.float32)
    piece = other[:, :, :, 100:228].swapaxes(2, 3)
    piece[:] = rows
    assert codec.encode(piece, level="8", profile=layout()) == data
    wanted = np.empty_like(rows)
    codec.decode(data, wanted, profile=layout())
    other[:] = 7
    codec.decode(data, piece, profile=layout())
    assert (piece == wanted).all()
    assert (other[:, :, :, :100] == 7).all() and (other[:, :, :, 228:] == 7).all()
    other[:] = 7  # only V of the second layer
    codec.decode(data, [(None, None), (None, piece[1, 1]), (None, None)], profile=layout())
    assert (piece[1, 1] == wanted[1, 1]).all()
    assert (other[0] == 7).all() and (other[1, 0] == 7).all()


def test_bf16_as_uint16() -> None:
    rows = (made(np.float32)[:, :, :100].view(np.uint32) >> 16).astype(np.uint16)
    data = codec.encode(rows, level="lossless", element="bf16")
    assert {layer.k_element for layer in codec.info(data).layers} == {"bf16"}
    out = np.empty_like(rows)
    codec.decode(data, out, element="bf16")
    assert (out == rows).all()
    with pytest.raises(TypeError, match="layer 0, K: rows are .* element=.bf16."):
        codec.encode(rows)


def test_streams() -> None:
    rows = made(np.float32)[1, 1, :77]
    for level in skymem.LEVELS:
        for plain in (False, True):
            data = codec.encode_stream(rows, level=level, kv="v", layer=1, first_position=50,
                                       plain=plain, profile=layout())  # fmt: skip
            out = np.empty_like(rows)
            codec.decode_stream(data, out, kv="v", layer=1, first_position=50, profile=layout())
            assert (out == rows).all() == (level == "lossless")
    assert codec.LEVEL_BITS["8"] > codec.LEVEL_BITS["4"] > codec.LEVEL_BITS["archive"]
    finer = codec.encode_stream(rows, step_scale=0.5)
    assert len(finer) > len(codec.encode_stream(rows))


def test_a_profile_is_made_sealed_and_kept() -> None:
    rows = made(np.float32)
    shape = [(HEADS, DIM, DIM, None)] * LAYERS
    profile = codec.layout(shape, fingerprint=b"f" * 32, order=[2, 0, 1])
    steps = codec.layout(shape)
    with pytest.raises(ValueError, match="not sealed yet"):
        codec.encode(rows[:, :, :128], profile=profile)
    with pytest.raises(skymem.ParamError, match="only a sealed profile"):
        profile.data()
    for layer in range(LAYERS):
        for kv in (0, 1):
            mine = rows[profile.layers[layer][3], kv]
            profile.set_mean(layer, kv, mine.mean(0))
            profile.set_weights(layer, kv, np.full(mine.shape[1:], 0.01, np.float32))
            for one in (profile, steps):
                one.set_step(layer, kv, skymem.LEVELS.index("4"), True, 0.4)
            profile.fit(layer, kv, mine, 100)
    profile.seal()
    steps.seal()
    with pytest.raises(skymem.ParamError, match="set_mean"):
        profile.set_mean(0, 0, rows[0, 0].mean(0))
    again = codec.Profile(profile.data())
    assert again.id == profile.id and again.fingerprint == b"f" * 32
    data = codec.encode(rows[:, :, :128], profile=again)
    assert len(data) < 0.97 * len(codec.encode(rows[:, :, :128], profile=steps))
    out = np.empty_like(rows[:, :, :128])
    codec.decode(data, out, profile=profile)
    assert abs(out - rows[:, :, :128]).max() < 0.6


def test_threads_code_at_the_same_time() -> None:
    rows, profile = made()[:, :, :128], layout()
    wanted = codec.encode(rows, profile=profile)
    said: list[bool] = []

    def work() -> None:
        out = np.empty_like(rows)
        for _ in range(5):
            data = codec.encode(rows, profile=profile)
            codec.decode(data, out, profile=profile)
            said.append(data == wanted)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [True] * 20


ROWS = made()[:, :, :128]
DATA = codec.encode(ROWS)
BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: codec.encode(ROWS, level="5"), ValueError, "one of lossless"),
    (lambda: codec.encode([]), ValueError, "1 to 1024 pairs of K and V are wanted, not 0"),
    (lambda: codec.encode([[ROWS[0, 0]]]), ValueError, "layer 0: a pair of K and V"),
    (lambda: codec.encode([(ROWS[0, 0], None)]), TypeError, "layer 0, V: bytes, a memoryview"),
    (lambda: codec.encode(ROWS[0, 0]), TypeError, "rows are .tokens, heads, dim"),
    (lambda: codec.encode(ROWS.astype(np.float64)), TypeError, "f16, f32 or bf16"),
    (lambda: codec.encode(ROWS[:, :, ::-1]), TypeError, "no stride below 0"),
    (lambda: codec.encode(ROWS[:, :, :0]), TypeError, "at least one token"),
    (lambda: codec.encode([(ROWS[0, 0], ROWS[0, 1, :9])]), ValueError, "tokens or heads"),
    (lambda: codec.encode(np.zeros((1, 2, 513, 1, 8), np.float16)), ValueError, "1 to 512 tokens"),
    (lambda: codec.encode(np.zeros((1, 2, 4, 1, 513), np.float16)), ValueError, "1 to 512 elem"),
    (lambda: codec.encode(np.broadcast_to(ROWS[:, :, :1], ROWS.shape)), skymem.ParamError, "K"),
    (lambda: codec.encode(ROWS, step_scale=-1.0), skymem.ParamError, "encode: layer 0, K"),
    (lambda: codec.encode(ROWS, step_scale=0), ValueError, "step_scale.*not 0"),
    (lambda: codec.encode_stream(ROWS[0, 0], step_scale=0), ValueError, "step_scale.*not 0"),
    (lambda: codec.lower(DATA, level="8", step_scale=0), ValueError, "step_scale.*not 0"),
    (lambda: codec.match(ROWS[0, 1], profile=layout(2), layer=2), skymem.ParamError, "no layer 2"),
    (lambda: codec.encode(ROWS, first_position=2**32), ValueError, "below 2..32"),
    (lambda: codec.encode(ROWS, first_position=2**70), ValueError, "below 2..32"),
    (lambda: codec.encode(ROWS.astype(">f2")), TypeError, "byte order"),
    (lambda: codec.encode(ROWS.view(">u2"), element="bf16"), TypeError, "byte order"),
    (lambda: codec.encode_stream(ROWS[0, 0], layer=-1), ValueError, "below 2..32"),
    (lambda: codec.encode(ROWS, element="f64"), ValueError, "f16, f32 or bf16, not f64"),
    (lambda: codec.encode(ROWS, profile=layout(2)), ValueError, "3 pairs where the profile has 2"),
    (lambda: codec.encode(ROWS, profile=b"x"),  # type: ignore[arg-type]
     TypeError, "a skymem.Profile"),
    (lambda: codec.encode(ROWS[..., :32], profile=layout()), skymem.ParamError, "layer 0, K"),
    (lambda: codec.decode(b"", ROWS), skymem.CorruptError, "no container"),
    (lambda: codec.decode(DATA[:-1], ROWS), skymem.CorruptError, "no container"),
    (lambda: codec.decode(DATA[:-1] + b"~", ROWS.copy()), skymem.CorruptError, "layer 2, V"),
    (lambda: codec.decode(DATA, ROWS[:2].copy()), ValueError, "2 pairs; the container has 3"),
    (lambda: codec.decode(DATA, ROWS[:, :, :9].copy()), skymem.ParamError, "layer 0, K"),
    (lambda: codec.decode(DATA, ROWS.astype(np.float32)), skymem.ParamError, "layer 0, K"),
    (lambda: codec.decode(DATA, np.broadcast_to(ROWS[:1], ROWS.shape)), BufferError, "read-only"),
    (lambda: codec.info(DATA[:70]), skymem.CorruptError, "no container"),
    (lambda: codec.info(b"x" * 200), skymem.CorruptError, "no container"),
    (lambda: codec.decode_stream(b"x" * 99, ROWS[0, 0].copy()), skymem.Error, "decode"),
    (lambda: codec.encode_stream(ROWS[0, 0], kv="kv"), ValueError, "kv: k or v"),  # type: ignore
    (lambda: codec.rope(63), skymem.ParamError, "an even number"),
    (lambda: codec.rope(2**40), ValueError, "below 2..32"),
    (lambda: codec.rope(64, kind="other"), ValueError, "neox or"),  # type: ignore[arg-type]
    (lambda: codec.layout([]), skymem.ParamError, "cannot be made"),
    (lambda: codec.layout([(1, 8, 8, None)], order=[1]), skymem.ParamError, "cannot be made"),
    (lambda: codec.layout([(1, 8, 8, codec.rope(16))]), skymem.ParamError, "cannot be made"),
    (lambda: codec.layout([(1, 8, 8, None)]).set_mean(1, 0, b""), skymem.ParamError, "no layer 1"),
    (lambda: codec.layout([(1, 8, 8, None)]).set_mean(0, 0, b""), TypeError, "8 numbers of f32"),
    (lambda: codec.layout([(1, 8, 8, None)]).set_weights(0, 1, b""), TypeError, "8 numbers"),
    (lambda: codec.layout([(1, 8, 8, None)]).set_mean(2**32, 0, np.zeros(8, np.float32)),
     ValueError, "below 2..32"),
    (lambda: codec.layout([(1, 8, 8, None)]).set_mean(0, 0, np.zeros(8, ">f4")),
     TypeError, "8 numbers of f32"),
    (lambda: codec.layout([(1, 8, 8, None)]).set_step(0, 0, 0, True, 1.0), skymem.ParamError, "s"),
    (lambda: codec.layout([(1, 8, 8, None)]).fit(0, 0, np.zeros(9, np.float32), 2), ValueError,
     "tokens, 1, 8"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_it_says_what_to_do(number: int) -> None:
    call, kind, words = BAD[number]
    with pytest.raises(kind, match=words):
        call()


def test_any_damage_is_noticed() -> None:
    data, out = bytearray(DATA), np.empty_like(ROWS)
    for at in range(0, len(data), 997):
        data[at] ^= 1
        with pytest.raises((skymem.CorruptError, skymem.UnsupportedError, ValueError)):
            codec.decode(data, out)
        data[at] ^= 1
    codec.decode(data, out)


@pytest.mark.parametrize("size", [1, 977, 1 << 20])
def test_a_stream_in_pieces(size: int) -> None:
    rows = made()[0, 0]
    data = codec.encode_stream(rows, level="4", profile=layout(), layer=1, first_position=300)
    out, whole = np.zeros_like(rows), np.zeros_like(rows)
    decoder = codec.Decoder(out, len(data), profile=layout(), layer=1, first_position=300)
    codec.decode_stream(data, whole, profile=layout(), layer=1, first_position=300)
    tokens = [decoder.tokens]
    for at in range(0, len(data), size):
        done = decoder.feed(data[at : at + size])
        assert (out[: decoder.tokens] == whole[: decoder.tokens]).all()
        tokens.append(decoder.tokens)
    assert done and tokens == sorted(tokens) and tokens[-1] == TOKENS
    assert out.tobytes() == whole.tobytes()
    with pytest.raises(skymem.CorruptError):
        decoder.feed(b"more")
    with pytest.raises(skymem.CorruptError, match="an earlier piece failed"):
        decoder.feed(b"more")


def test_a_decoder_refuses_what_is_wrong() -> None:
    rows = made(np.float32)[0, 0]
    data = codec.encode_stream(rows, level="4", profile=layout())
    out = np.zeros_like(rows)
    for size in (0, -1, 2**32):
        with pytest.raises(ValueError, match="size: the bytes of a stream"):
            codec.Decoder(out, size)
    with pytest.raises(BufferError, match="read-only"):
        codec.Decoder(np.frombuffer(bytes(rows.nbytes), rows.dtype).reshape(rows.shape), 9)
    with pytest.raises(TypeError, match="rows are"):
        codec.Decoder(out[0], 9)
    with pytest.raises(ValueError, match="kv: k or v"):
        codec.Decoder(out, 9, kv="x")  # type: ignore[arg-type]
    with pytest.raises(skymem.ParamError):
        codec.Decoder(out, len(data), profile=layout(), layer=7).feed(data)
    with pytest.raises(skymem.Error):
        codec.Decoder(out, len(data)).feed(data)  # it wants its profile
    with pytest.raises(skymem.Error):
        codec.Decoder(out, 9).feed(bytes(100))
    target = memoryview(bytearray(rows.nbytes)).cast("f", rows.shape)
    decoder = codec.Decoder(target, len(data), profile=layout())
    with pytest.raises(BufferError, match="exported"):
        target.release()  # it is held
    with pytest.raises(TypeError, match="is wanted, not"):
        decoder.feed("text")  # type: ignore[arg-type]
    assert decoder.feed(data)
    del decoder
    target.release()


def test_whose_rows_these_are() -> None:
    rows = made(np.float32)
    profile = codec.layout([(HEADS, DIM, DIM, None)] * LAYERS)
    for layer in range(LAYERS):
        profile.set_mean(layer, 1, rows[layer, 1].mean(0))
    with pytest.raises(ValueError, match="not sealed"):
        codec.match(rows[0, 1], profile=profile, layer=0)
    profile.seal()
    for layer in range(LAYERS):
        near = codec.match(rows[layer, 1], profile=profile, layer=layer)
        assert near.layer == layer and near.distance == near.own_distance < 1e-3
    near = codec.match(rows[2, 1], profile=profile, layer=0)
    assert near.layer == 2 and near.own_distance > 100 * near.distance
    assert codec.match(rows[2, 1][:, :, :32], profile=profile, layer=0).layer is None
    with pytest.raises(TypeError, match="rows are"):
        codec.match(rows[2, 1].astype(np.float64), profile=profile, layer=0)
    with pytest.raises(TypeError, match="a skymem.Profile is wanted"):
        codec.match(rows[2, 1], profile=None, layer=0)  # type: ignore[arg-type]
