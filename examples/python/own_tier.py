"""A store of your own as a tier: here a dict, which could as well be a client of anything."""

import skymem


class DictStore:
    def __init__(self, where: str) -> None:
        self.values: dict[bytes, bytes] = {}

    def read(self, key: bytes, offset: int, size: int) -> tuple[bytes, int] | None:
        value = self.values.get(key)
        return None if value is None else (value[offset : offset + size], len(value))

    def write(self, key: bytes, value: bytes, durable: bool) -> None:
        self.values[key] = value

    def remove(self, key: bytes) -> bool:
        return self.values.pop(key, None) is not None

    def keys(self) -> list[bytes]:
        return list(self.values)


skymem.register_tier("dict", DictStore, volatile=True)
with skymem.Cache(["mem:64MiB", "dict:example"]) as cache:
    cache.put("greeting", b"hello", ttl=60)
    cache.flush(None)
    print([(entry.name, entry.tier, entry.size) for entry in sorted(cache.list())])
