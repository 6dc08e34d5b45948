"""A plain store: any bytes under any key, in memory and on disk.

python3 examples/python/store.py FOLDER
"""

import sys

import skymem

with skymem.Cache(["mem:256MiB", f"disk:{sys.argv[1]}?max=1GiB"]) as cache:
    visits = int(cache.get("visits") or 0) + 1
    cache.put("visits", str(visits).encode(), durable=True)
    print(f"visit {visits}; {len(cache.list())} entries")
