"""Keys of prompts: tokens, cut into blocks, each named by all tokens up to its end."""

from __future__ import annotations

from collections.abc import Sequence

from skymem import _core

BLOCK_TOKENS = 128
ZEROS = bytes(32)


def block_keys(
    tokens: Sequence[int], *, namespace: bytes = ZEROS, block_tokens: int = BLOCK_TOKENS,
    after: bytes | None = None,
) -> list[bytes]:  # fmt: skip
    """Keys of the whole blocks of a prompt. Equal keys mean equal prefixes.

    namespace: 32 bytes that change with everything that makes a KV cache invalid (see `digest`).
    after: the key of the block before the first token; None: the prompt begins there.

    >>> one, two = block_keys(range(256)), block_keys([*range(128), 0])
    >>> len(one), one[0] == two[0]
    (2, True)
    >>> block_keys(range(128, 256), after=one[0]) == one[1:]
    True
    """
    return _core.block_keys(namespace, tokens, block_tokens, after)


def digest(*pieces: _core.Buffer) -> bytes:
    """BLAKE2b-256 of the pieces, one after the other.

    >>> digest(b"weights", b"tokenizer") == digest(b"weightstokenizer")
    True
    """
    return _core.digest(pieces)


def salted(namespace: bytes, salt: bytes) -> bytes:
    """The namespace of a tenant with a secret salt of 32 bytes."""
    return _core.namespace_salt(namespace, salt)


def read_salt(path: str) -> bytes:
    """A salt from a file of 64 hexadecimal digits that nobody but its owner can read."""
    return _core.salt_read(path)
