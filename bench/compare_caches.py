#!/usr/bin/env python3
"""Compares what psp-memcached and memcached hold in the same memory.

    bench/compare_caches.py [--psp-memcached PROGRAM] [--memcached PROGRAM] [hits|resident ..]

`hits`: of a cache with items of one size, the share of gets that hit. Each key that is missed is stored. The popularity
of keys falls with their rank (Zipf, exponent 1); there are ten times as many keys as items fit. Both servers get the same
trace, a part of it at a time in turns. The first fifth fills the caches, and does not count.

`resident`: the resident memory that items add to an idle server. Tables grow by steps, so the table has several counts.
"""

import argparse
import bisect
import itertools
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from redis_process import built, free_port

MIB = 1 << 20
SIZES = {"1 KB": 1000, "20 KB": 20_000, "100 KB": 100_000, "500 KB": 500_000}
MEMORIES_MIB = [8, 64]
REQUESTS_MIN = 20_000
# How often each place of a cache is asked for, on average.
REQUESTS_PER_PLACE = 8
KEYS_PER_PLACE = 10
# The parts of a trace that the servers get in turns.
PARTS = 10
# Numbers of items, and the bytes of each.
RESIDENT = [(600_000, 100), (1_000_000, 100), (1_100_000, 100), (1_600_000, 100), (1_000_000, 10), (200_000, 1000)]
RESIDENT_BATCH = 1000


class Server:
    def __init__(self, program, memory_mib):
        port = free_port()
        # memcached does not run as root unless it is told so.
        own = [] if "psp" in Path(program).name else ["-u", "root"]
        command = [program, "-l", "127.0.0.1", "-p", str(port), "-m", str(memory_mib), *own]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        else:
            sys.exit(f"{program} does not listen")
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, request):
        """The first line of the reply."""
        self.socket.sendall(request)
        return self.stream.readline()

    def stats(self):
        lines = iter(self.stream.readline, b"END\r\n")
        self.socket.sendall(b"stats\r\n")
        return {words[1]: words[2] for words in (line.decode().split() for line in lines)}

    def resident_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


def trace(places):
    keys = places * KEYS_PER_PLACE
    weights = list(itertools.accumulate(1 / rank for rank in range(1, keys + 1)))
    pick = random.Random(places)
    count = max(REQUESTS_MIN, places * REQUESTS_PER_PLACE)
    return [bisect.bisect(weights, pick.random() * weights[-1]) for _ in range(count)]


def play(server, keys, value):
    """The number of hits."""
    hits = 0
    for key in keys:
        # Without flags that ask for something a hit is a line.
        if server.ask(b"mg key%d\r\n" % key) == b"HD\r\n":
            hits += 1
        else:
            stored = server.ask(b"set key%d 0 0 %d\r\n%s\r\n" % (key, len(value), value))
            assert stored == b"STORED\r\n", (server.process.args[0], stored)
    return hits


def compare_hits(programs):
    print("| memory | items | psp-memcached, hits | memcached, hits | psp-memcached, held | memcached, held |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for memory_mib, (name, size) in itertools.product(MEMORIES_MIB, SIZES.items()):
        keys = trace(memory_mib * MIB // size)
        parts = [keys[len(keys) * part // PARTS:len(keys) * (part + 1) // PARTS] for part in range(PARTS)]
        value = b"v" * size
        with Server(programs[0], memory_mib) as ours, Server(programs[1], memory_mib) as theirs:
            hits = [[play(server, part, value) for server in (ours, theirs)] for part in parts]
            counted = sum(len(part) for part in parts[PARTS // 5:])
            shares = (sum(column[PARTS // 5:]) / counted for column in zip(*hits))
            held = (server.stats()["curr_items"] for server in (ours, theirs))
            cells = [f"{share:.3f}" for share in shares] + list(held)
            print(f"| -m {memory_mib} | {name} | {' | '.join(cells)} |", flush=True)


def resident(program, items, size):
    with Server(program, 1024) as server:
        before = server.resident_bytes()
        request = b"set key:%%07d 0 0 %d noreply\r\n%%0%dd\r\n" % (size, size)
        for first in range(0, items, RESIDENT_BATCH):
            batch = range(first, first + RESIDENT_BATCH)
            server.socket.sendall(b"".join(request % (key, key) for key in batch))
        server.ask(b"mn\r\n")
        time.sleep(3)
        stats = server.stats()
        assert int(stats["curr_items"]) == items
        return server.resident_bytes() - before, int(stats["bytes"])


def compare_resident(programs):
    print("| items | bytes of each | psp-memcached | memcached | psp-memcached, `bytes` | memcached, `bytes` |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for items, size in RESIDENT:
        columns = zip(*(resident(program, items, size) for program in programs))
        cells = [f"{value / 1e6:.0f} MB" for column in columns for value in column]
        print(f"| {items} | {size} | {' | '.join(cells)} |", flush=True)


TABLES = {"hits": compare_hits, "resident": compare_resident}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--psp-memcached", metavar="PROGRAM", help="by default, that of a release build")
    parser.add_argument("--memcached", metavar="PROGRAM", default="memcached")
    parser.add_argument("tables", metavar="TABLE", nargs="*", help=" or ".join(TABLES))
    args = parser.parse_args()
    unknown = set(args.tables) - set(TABLES)
    if unknown:
        parser.error(f"no table `{unknown.pop()}`; there are: {', '.join(TABLES)}")
    for table in args.tables or TABLES:
        TABLES[table]([args.psp_memcached or built("psp-memcached"), args.memcached])
        print()


if __name__ == "__main__":
    main()
