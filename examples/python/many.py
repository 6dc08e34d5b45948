"""Many requests at once, on an event loop that nothing blocks, with satellites as the far tier."""

import asyncio

import skymem


async def request(cache: skymem.AsyncCache, number: int) -> str:
    keys = skymem.block_keys(range(number, number + 256))
    out = [bytearray(65536) for _ in keys]
    try:
        sizes = await cache.get_many(keys, out, timeout=5)
    except skymem.DeadlineError:
        return "late: compute it"
    return f"{sum(size is not None for size in sizes)} of {len(keys)} blocks"


async def main() -> None:
    async with skymem.AsyncCache("sky:seed") as cache:
        for number in range(3):
            keys = skymem.block_keys(range(number, number + 256))
            await cache.put_many(keys, [bytes(65536)] * 2, parents=[None, keys[0]])
        print(await asyncio.gather(*(request(cache, number) for number in range(4))))


asyncio.run(main())
