"""Keeps copies of keys with redis-py, which hears when they change. Usage: redis_py_cache.py PORT"""

import sys
import time
from threading import Thread

import redis
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection

# redis-py refuses to keep copies of what an older server has, though Redis tells of changes since 6.0. The server says 7.0.
CacheProxyConnection.MIN_ALLOWED_VERSION = "6.0.0"

KEYS = 20
CHANGES = 2000
PATIENCE_S = 30


def check(actual, expected):
    """Fails with both values when they differ."""
    if actual != expected:
        raise AssertionError(f"{actual!r} instead of {expected!r}")


def cached(port):
    return redis.Redis(port=port, protocol=3, cache_config=CacheConfig(), decode_responses=True)


def eventually(read, expected):
    """Waits until a copy is gone: the message may come later than the reply to the change."""
    deadline = time.monotonic() + PATIENCE_S
    while (value := read()) != expected:
        assert time.monotonic() < deadline, f"{value!r} stays in place of {expected!r}"
        time.sleep(0.01)


def reads_of(client):
    """How many reads the server has answered so far."""
    stats = client.info("commandstats")
    return stats.get("cmdstat_get", {"calls": 0})["calls"]


def copies_are_used_until_they_change(port):
    client, other = cached(port), redis.Redis(port=port, decode_responses=True)
    other.set("k", "1")
    before = reads_of(other)
    for _ in range(10):
        check(client.get("k"), "1")
    check(reads_of(other), before + 1)
    check(client.get_cache().size, 1)
    other.set("k", "2")
    eventually(lambda: client.get("k"), "2")
    check(reads_of(other), before + 2)
    for change in [lambda: other.delete("k"), other.flushall, lambda: other.set("k", "x", px=1)]:
        other.set("k", "3")
        eventually(lambda: client.get("k"), "3")
        change()
        eventually(lambda: client.get("k"), None)
    client.close()


def copies_converge(port):
    """Many changes of few keys by others, while several threads read."""
    client, other = cached(port), redis.Redis(port=port, decode_responses=True)
    names = [f"key:{number}" for number in range(KEYS)]

    def change():
        for number in range(CHANGES):
            other.set(names[number % KEYS], number)

    writer = Thread(target=change)
    writer.start()
    while writer.is_alive():
        for name in names:
            client.get(name)
    writer.join()
    for name in names:
        eventually(lambda: client.get(name), other.get(name))
    client.close()


def main():
    port = int(sys.argv[1])
    copies_are_used_until_they_change(port)
    copies_converge(port)
    print(f"redis-py {redis.__version__}: all checks passed")


main()
