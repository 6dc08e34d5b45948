#!/usr/bin/env python3
"""bench/codec_peers.py BUILD [KV.npy]: the codec beside other compressors, on rows of a real model.

Every compressor gets the same pieces, one after the other by one thread: f16 rows of 128 tokens of
one layer's K or V, 64 KiB each. A piece is done several times and its best time counts, since
machines are shared; a call from here takes about a microsecond, which is in every figure. Writes
bench/results/codec-peers.jsonl and .md.

The rows are the first 512 tokens of share/texts/prose.txt as Gemma 3 270M keeps them (skymem run
--dump-kv), unless a file of the same layout is given. The compressors come from PyPI into a virtual
environment beside the model, q8_0 and q4_0 are llama.cpp's own, KIVI is codec_peers_kivi.c. Nothing
of this is needed to build or to use the library.
"""

import ctypes as C
import datetime
import json
import os
import platform
import subprocess
import sys
import time
import unittest.mock

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(HOME, "bench", "results")
CACHE = os.environ.get("SKYMEM_CACHE", os.path.expanduser("~/.cache/skymem-tools"))
PYTHON = os.path.join(CACHE, "codec-peers", "bin", "python3")
PACKAGES = ["numpy==2.4.6", "zstandard==0.25.0", "lz4==4.4.5", "blosc2==4.14.1"]
PACKAGES_ALONE = ["zipnn==0.5.4", "safetensors==0.8.0"]  # without torch, which bytes do not need

TOKENS = 512
PIECE_TOKENS = 128
SECONDS = 2.0  # for each compressor and direction


def enter_environment():
    if os.path.realpath(sys.prefix) == os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
        return
    if not os.path.exists(PYTHON):
        subprocess.run([sys.executable, "-m", "venv", os.path.dirname(os.path.dirname(PYTHON))],
                       check=True)
        for options in (PACKAGES, ["--no-deps"] + PACKAGES_ALONE):
            subprocess.run([PYTHON, "-m", "pip", "install", "-q"] + options, check=True)
    os.execv(PYTHON, [PYTHON, os.path.abspath(__file__)] + sys.argv[1:])


# ---- the rows ----


def dump_rows(build):
    path = os.path.join(CACHE, "prose-kv.npy")
    if not os.path.exists(path):
        model = subprocess.run([os.path.join(HOME, "tools", "get-model")], check=True,
                               capture_output=True, text=True).stdout.strip()
        with open(os.path.join(HOME, "share", "texts", "prose.txt"), encoding="utf-8") as f:
            prompt = f.read(2600)
        subprocess.run([os.path.join(build, "skymem"), "run", "--model", model, "--prompt-file",
                        "-", "--predict", "1", "--no-load", "--no-save", "--store", "mem:256MiB",
                        "--dump-kv", path], input=prompt, check=True, text=True,
                       stdout=subprocess.DEVNULL)
    return path


class Piece:
    def __init__(self, rows, layer, kv, first):
        self.rows, self.layer, self.kv, self.first = rows, layer, kv, first
        self.bytes = rows.tobytes()
        self.floats = rows.astype("float32")


def pieces_of(array):
    """Shape: array [layer, 2, token, head, dim]"""
    import numpy

    tokens = min(TOKENS, array.shape[2]) // PIECE_TOKENS * PIECE_TOKENS
    return [Piece(numpy.ascontiguousarray(array[layer, kv, first:first + PIECE_TOKENS]), layer, kv,
                  first)
            for layer in range(array.shape[0]) for kv in range(2)
            for first in range(0, tokens, PIECE_TOKENS)]


# ---- compressors: each a name, whether it is exact, and code(piece) -> (encode, decode); encode()
# gives what decode(coded) takes and its bytes, decode gives the rows ----


def exact(name, encode, decode):
    def code(piece):
        def encoded():
            coded = encode(piece)
            return coded, len(coded)
        return encoded, decode
    return name, True, code


def split(piece):
    """All low bytes, then all high ones."""
    import numpy

    return numpy.frombuffer(piece.bytes, "u1").reshape(-1, 2).T.tobytes()


def joined(data):
    import numpy

    return numpy.frombuffer(data, "u1").reshape(2, -1).T.tobytes()


def zstd(level):
    import zstandard

    press, loosen = zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()
    yield exact(f"zstd -{level}", lambda p: press.compress(p.bytes), loosen.decompress)
    yield exact(f"zstd -{level}, bytes apart", lambda p: press.compress(split(p)),
                lambda c: joined(loosen.decompress(c)))


def lz4():
    import lz4.block

    yield exact("lz4", lambda p: lz4.block.compress(p.bytes), lz4.block.decompress)


def blosc2():
    import blosc2 as b

    b.set_nthreads(1)
    for name, codec, level, order in (("lz4, shuffle", b.Codec.LZ4, 5, b.Filter.SHUFFLE),
                                      ("lz4, bitshuffle", b.Codec.LZ4, 5, b.Filter.BITSHUFFLE),
                                      ("zstd, shuffle", b.Codec.ZSTD, 5, b.Filter.SHUFFLE),
                                      ("zstd, bitshuffle", b.Codec.ZSTD, 5, b.Filter.BITSHUFFLE)):
        yield exact("blosc2 " + name,
                    lambda p, a=(codec, level, order): b.compress2(
                        p.bytes, codec=a[0], clevel=a[1], filters=[a[2]], typesize=2, nthreads=1),
                    lambda c: b.decompress2(c, nthreads=1))


def zipnn():
    sys.modules.setdefault("torch", unittest.mock.MagicMock())  # imported, and not used for bytes
    from zipnn import ZipNN

    z = ZipNN(input_format="byte", bytearray_dtype="float16", threads=1)
    yield exact("ZipNN", lambda p: bytes(z.compress(p.bytes)), lambda c: bytes(z.decompress(c)))


def pointer(array):
    return C.c_void_p(array.ctypes.data)


def ggml(width):
    """As a cache of that type is filled and read: f16 to float to blocks, and back."""
    import numpy

    prefix = subprocess.run([os.path.join(HOME, "tools", "get-llama")], check=True,
                            capture_output=True, text=True).stdout.strip()
    base, cpu = (C.CDLL(os.path.join(prefix, "lib", f"libggml-{part}.so"), C.RTLD_GLOBAL)
                 for part in ("base", "cpu"))
    count = PIECE_TOKENS * width
    n, floats, out = C.c_int64(count), numpy.empty(count, "f4"), numpy.empty(count, "f2")
    for name, bits in (("q8_0", 8.5), ("q4_0", 4.5)):
        pack, unpack = cpu[f"quantize_row_{name}"], base[f"dequantize_row_{name}"]
        coded = numpy.empty(int(count * bits / 8), "u1")

        def code(piece, pack=pack, unpack=unpack, coded=coded):
            def encode():
                cpu.ggml_cpu_fp16_to_fp32(pointer(piece.rows), pointer(floats), n)
                pack(pointer(floats), pointer(coded), n)
                return coded, coded.nbytes

            def decode(_):
                unpack(pointer(coded), pointer(floats), n)
                cpu.ggml_cpu_fp32_to_fp16(pointer(floats), pointer(out), n)
                return out

            return encode, decode

        yield f"ggml {name}", False, code


def kivi(width, scratch):
    import numpy

    library = os.path.join(scratch, "kivi.so")
    source = os.path.join(HOME, "bench", "codec_peers_kivi.c")
    subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source],
                   check=True)
    lib = C.CDLL(library)
    lib.kivi_encode.restype = C.c_size_t
    coded, out = numpy.empty(1 << 20, "u1"), numpy.empty(PIECE_TOKENS * width, "f2")
    for bits in (4, 2):
        def code(piece, bits=bits):
            shape = PIECE_TOKENS, width, int(piece.kv == 0), bits

            def encode():
                return coded, lib.kivi_encode(pointer(piece.rows), *shape, pointer(coded))

            def decode(_):
                lib.kivi_decode(pointer(coded), *shape, pointer(out))
                return out

            return encode, decode

        yield f"KIVI-{bits}, groups of 32", False, code


class Shape(C.Structure):
    _fields_ = [(name, C.c_uint32) for name in
                ("layer", "kv", "element", "token_count", "kv_heads", "head_dim", "first_position")]


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("token_bytes", C.c_size_t), ("head_bytes", C.c_size_t)]


class Options(C.Structure):
    _fields_ = [("level", C.c_uint32), ("plain", C.c_bool), ("first_token_raw", C.c_bool),
                ("step_scale", C.c_float)]


class Ours:
    def __init__(self, build, heads, dim):
        import numpy

        self.lib = C.CDLL(os.path.join(build, "libskymem-codec.so"))
        self.lib.sky_encode_bound.restype = C.c_size_t
        self.lib.sky_codec_kernels_name.restype = C.c_char_p
        self.heads, self.dim = heads, dim
        self.profile = C.c_void_p()
        with open(os.path.join(HOME, "share/calibration/gemma-3-270m.skycal"), "rb") as f:
            data = f.read()
        self.check(self.lib.sky_profile_read(data, C.c_size_t(len(data)), C.byref(self.profile),
                                             None))
        memory = numpy.empty((256 << 10) + 64, "u1")
        self.memory, self.work = memory, C.c_void_p((memory.ctypes.data + 63) // 64 * 64)
        self.coded = numpy.empty(1 << 20, "u1")
        self.out = numpy.empty(PIECE_TOKENS * heads * dim, "f2")

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"skymem: status {status}")

    def tensor(self, array):
        head_bytes = 2 * self.dim
        return Tensor(array.ctypes.data, self.heads * head_bytes, head_bytes)

    def code(self, level, plain, kernels):
        def code(piece):
            shape = Shape(piece.layer, piece.kv, 1, PIECE_TOKENS, self.heads, self.dim, piece.first)
            how = Options(level, plain, piece.first == 0, 0)
            into, out_bytes = pointer(self.coded), C.c_size_t()
            bound = C.c_size_t(self.lib.sky_encode_bound(C.byref(shape)))
            source, target = self.tensor(piece.rows), self.tensor(self.out)
            profile, of_shape, options = self.profile, C.byref(shape), C.byref(how)
            count = C.byref(out_bytes)
            self.check(self.lib.sky_codec_kernels_use(kernels))

            def encode():
                self.check(self.lib.sky_encode(profile, of_shape, options, source, into, bound,
                                               count, self.work))
                return self.coded, out_bytes.value

            def decode(_):
                self.check(self.lib.sky_decode(profile, of_shape, into, out_bytes, target,
                                               self.work))
                return self.out

            return encode, decode
        return code

    def all(self):
        best = self.lib.sky_codec_kernels_name()
        for kernels in (best, b"avx2", b"scalar"):
            if self.lib.sky_codec_kernels_use(kernels) != 0 or (kernels == b"avx2" == best):
                continue
            name = kernels.decode()
            yield f"skymem lossless, {name}", True, self.code(0, False, kernels)
            for level, level_name in enumerate(("8", "6", "4", "3", "2.5", "2", "archive"), 1):
                for plain in (True, False) if kernels == best or level_name == "4" else ():
                    yield (f"skymem {level_name} {'plain' if plain else 'trellis'}, {name}", False,
                           self.code(level, plain, kernels))


# ---- measuring ----


def seconds_of(call, *arguments):
    start = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - start, result


def measure(pieces, name, is_exact, code):
    best = [[1e9, 1e9] for _ in pieces]
    total, begin, rounds = 0, time.monotonic(), 0
    while rounds < 1 or time.monotonic() - begin < 2 * SECONDS:
        for i, piece in enumerate(pieces):
            encode, decode = code(piece)
            took, (coded, size) = seconds_of(encode)
            best[i][0] = min(best[i][0], took)
            took, rows = seconds_of(decode, coded)
            best[i][1] = min(best[i][1], took)
            if rounds == 0:
                total += size
                if is_exact and bytes(rows) != piece.bytes:
                    raise RuntimeError(f"{name}: a piece came back changed")
        rounds += 1
    row_bytes = sum(len(p.bytes) for p in pieces)
    speeds = [row_bytes / sum(b[way] for b in best) / 1e9 for way in (0, 1)]
    return {"codec": name, "exact": is_exact, "bits": 16 * total / row_bytes,
            "encode_gb_s": speeds[0], "decode_gb_s": speeds[1]}


def write(name, lines):
    path = os.path.join(RESULTS, name)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    os.replace(path + ".new", path)
    print(os.path.relpath(path, os.getcwd()))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")][0]
    return f"{cpu}, one thread, Linux {platform.release()}, {datetime.date.today()}"


def table(rows):
    yield "| codec | bits an element | exact | encode, GB/s | decode, GB/s |"
    yield "|---|--:|---|--:|--:|"
    for r in rows:
        yield (f"| {r['codec']} | {r['bits']:.2f} | {'yes' if r['exact'] else ''} | "
               f"{r['encode_gb_s']:.3g} | {r['decode_gb_s']:.3g} |")


def main():
    enter_environment()
    import numpy

    build = os.path.abspath(sys.argv[1])
    array = numpy.load(sys.argv[2] if len(sys.argv) > 2 else dump_rows(build), mmap_mode="r")
    pieces = pieces_of(array)
    heads, dim = array.shape[3:]
    peers = [*zstd(1), *zstd(19), *lz4(), *blosc2(), *zipnn(), *ggml(heads * dim),
             *kivi(heads * dim, os.path.dirname(PYTHON))]
    rows = []
    for name, is_exact, code in (*peers, *Ours(build, heads, dim).all()):
        rows.append(measure(pieces, name, is_exact, code))
        print(list(table(rows[-1:]))[-1], flush=True)
    write("codec-peers.jsonl", [json.dumps(row) for row in rows])
    head = ["# The codec beside others", "", "`bench/codec_peers.py build`, " + machine(), ""]
    write("codec-peers.md", head + list(table(rows)))


if __name__ == "__main__":
    main()
