#!/usr/bin/env python3
"""Compares how much memory psp-redis and redis-server take for a key or an element of common shapes.

    bench/compare_memory.py [--psp-redis PROGRAM] [--redis-server PROGRAM] [SHAPE..]

Each shape fills a new server of each kind over a socket. The table, in markdown, has bytes for each item: by
`used_memory`, which is what the server counts, and by its resident memory, which is what the machine gives. Both are
what the items added to the idle server. An item is a key, or an element where one key has all elements.
"""

import argparse
import tempfile
import time
from pathlib import Path

from redis_process import built, start

BATCH = 1000
# A server whose used memory stays the same for so long is settled. psp-redis returns freed pages after a second.
SETTLED_S = 2


def many(name, count, *words):
    """A command for each of `count` keys. Words are formatted with the key's number."""
    return count, ([name, *(word.format(index) for word in words)] for index in range(count))


def one(name, key, count, *words):
    """One key of `count` elements, in commands of a hundred elements each."""
    def commands():
        for first in range(0, count, 100):
            elements = (word.format(index) for index in range(first, first + 100) for word in words)
            yield [name, key, *elements]
    return count, commands()


def five(name, count, *words):
    """`count` keys of five elements each. In words, {0} is the key's number and {1} that of the element."""
    def elements(index):
        return [word.format(index, part) for part in range(5) for word in words]
    return count, ([name, f"key:{index}", *elements(index)] for index in range(count))


SHAPES = {
    "a string of 10 bytes": lambda: many("SET", 500_000, "key:{:07}", "value{:05}"),
    "a string of 100 bytes": lambda: many("SET", 500_000, "key:{:07}", "{:0100}"),
    "a string of 1000 bytes": lambda: many("SET", 200_000, "key:{:07}", "{:01000}"),
    "a number": lambda: many("SET", 500_000, "key:{:07}", "{}"),
    "a string of 10 bytes that expires": lambda: many("SET", 500_000, "key:{:07}", "value{:05}", "EX", "100000"),
    "a hash of 5 fields": lambda: five("HSET", 100_000, "field{1}", "value{0}"),
    "a field of a hash": lambda: one("HSET", "hash", 500_000, "field{:07}", "value{:05}"),
    "a list of 5 elements": lambda: five("RPUSH", 100_000, "element{0}"),
    "an element of a list": lambda: one("RPUSH", "list", 1_000_000, "element{:07}"),
    "a number of a list": lambda: one("RPUSH", "list", 1_000_000, "{}"),
    "an element of 300 bytes of a list": lambda: one("RPUSH", "list", 200_000, "{:0300}"),
    "a set of 5 numbers": lambda: five("SADD", 100_000, "{0}{1}"),
    "a member of a set": lambda: one("SADD", "set", 500_000, "member{:07}"),
    "a sorted set of 5 members": lambda: five("ZADD", 100_000, "{1}", "member{0}{1}"),
    "a member of a sorted set": lambda: one("ZADD", "zset", 500_000, "{0}", "member{0:07}"),
    "an entry of a stream": lambda: many("XADD", 500_000, "stream", "*", "field", "{:010}"),
}


def used_bytes(connection):
    [info] = connection.ask([["INFO", "memory"]])
    [line] = [line for line in info.decode().splitlines() if line.startswith("used_memory:")]
    return int(line.split(":")[1])


def resident_bytes(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def wait_until_settled(connection):
    """Waits until the server has dropped what it no longer needs, and given freed pages back."""
    last_bytes = None
    while last_bytes != (now_bytes := used_bytes(connection)):
        last_bytes = now_bytes
        time.sleep(SETTLED_S)


def measure(program, shape):
    """Bytes for each item, counted and resident."""
    with tempfile.TemporaryDirectory() as folder:
        process, connection = start(program, folder)
        try:
            before = used_bytes(connection), resident_bytes(process)
            items, commands = SHAPES[shape]()
            batch = []
            for words in commands:
                batch.append(words)
                if len(batch) == BATCH:
                    connection.ask(batch)
                    batch.clear()
            connection.ask(batch)
            wait_until_settled(connection)
            after = used_bytes(connection), resident_bytes(process)
            return [(after - before) / items for before, after in zip(before, after)]
        finally:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--psp-redis", metavar="PROGRAM", help="by default, that of a release build")
    parser.add_argument("--redis-server", metavar="PROGRAM", default="redis-server")
    parser.add_argument("shapes", metavar="SHAPE", nargs="*", help="; ".join(SHAPES))
    args = parser.parse_args()
    unknown = set(args.shapes) - set(SHAPES)
    if unknown:
        parser.error(f"no shape `{unknown.pop()}`; there are: {'; '.join(SHAPES)}")
    programs = [args.psp_redis or built(), args.redis_server]
    print("| bytes for | psp-redis, counted | redis-server, counted | ratio | resident | resident | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for shape in args.shapes or SHAPES:
        figures = zip(*(measure(program, shape) for program in programs))
        cells = (f"{ours:.1f} | {theirs:.1f} | {ours / theirs:.2f}" for ours, theirs in figures)
        print(f"| {shape} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
