#!/usr/bin/env python3
"""Compares how long scripts take psp-redis and redis-server, alone and beside endless loops of other programs.

    bench/compare_scripts.py [--turns N] [--turn-ms MS] [--loops N,..] [--psp-redis PROGRAM] [--flags FLAGS]
                             [--redis-server PROGRAM] [CASE..]

One client sends a script again and again, to psp-redis and to redis-server in turn. The table, in markdown, has the
median and the 99th percentile of all turns in microseconds, and how many times redis-server's psp-redis's are.
"""

import argparse
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

from redis_process import built, start

LOOP = ["sh", "-c", "while :; do :; done"]
WARMUP = 50

DOCUMENT = """local document = {}
    for i = 1, 100 do
        document[i] = {id = i, name = 'name ' .. i, price = i * 1.25, tags = {'one', 'two', 'three'}, on = i % 2 == 0}
    end
"""
# Scripts by name. KEYS[1] is a string, KEYS[2] a hash, KEYS[3] a list of 1000 elements, KEYS[4] a document of 10 KB.
CASES = {
    "nothing": "return 1",
    "get": "for i = 1, 1000 do redis.call('get', KEYS[1]) end",
    "set": "for i = 1, 1000 do redis.call('set', KEYS[1], 'value') end",
    "hget": "for i = 1, 1000 do redis.call('hget', KEYS[2], 'field') end",
    "incr": "for i = 1, 1000 do redis.call('incr', KEYS[5]) end",
    "lrange": "local sum = 0 for _, element in ipairs(redis.call('lrange', KEYS[3], 0, -1)) do sum = sum + element end",
    "decode": "cjson.decode(redis.call('get', KEYS[4]))",
    "encode": DOCUMENT + "return #cjson.encode(document)",
    "loop": "local sum = 0 for i = 1, 100000 do sum = sum + i end return sum",
    "concat": "local text = '' for i = 1, 1000 do text = text .. i end return #text",
}
KEYS = ["string", "hash", "list", "document", "counter"]


def fill(connection):
    connection.ask([
        ["SET", "string", "value"],
        ["HSET", "hash", "field", "value"],
        ["RPUSH", "list", *map(str, range(1000))],
        ["EVAL", DOCUMENT + "redis.call('set', KEYS[1], cjson.encode(document))", "1", "document"],
    ])


def turn(connection, script, seconds, taken):
    """Sends the script for some time."""
    ends = time.perf_counter() + seconds
    began = time.perf_counter()
    while began < ends:
        connection.ask([["EVAL", script, str(len(KEYS)), *KEYS]])
        ended = time.perf_counter()
        taken.append(ended - began)
        began = ended


def compare(connections, script, turns, seconds):
    """The latencies of each server, in seconds and in order."""
    taken = {name: [] for name in connections}
    for connection in connections.values():
        for _ in range(WARMUP):
            connection.ask([["EVAL", script, str(len(KEYS)), *KEYS]])
    for _ in range(turns):
        for name, connection in connections.items():
            turn(connection, script, seconds, taken[name])
    return [sorted(latencies) for latencies in taken.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10, metavar="N")
    parser.add_argument("--turn-ms", type=int, default=300, metavar="MS")
    parser.add_argument("--loops", default="0,1", metavar="N,..", help="endless loops beside the servers")
    parser.add_argument("--psp-redis", metavar="PROGRAM", help="by default, that of a release build")
    parser.add_argument("--flags", default="", help="further flags of psp-redis, such as '--topology dedicated'")
    parser.add_argument("--redis-server", metavar="PROGRAM", default="redis-server")
    parser.add_argument("cases", metavar="CASE", nargs="*", help=f"any of {', '.join(CASES)}")
    args = parser.parse_args()
    unknown = set(args.cases) - set(CASES)
    if unknown:
        parser.error(f"no case `{unknown.pop()}`; there are: {', '.join(CASES)}")
    programs = {"psp-redis": (args.psp_redis or built(), shlex.split(args.flags)), "redis": (args.redis_server, [])}
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            connections = {}
            for name, (program, flags) in programs.items():
                own = Path(folder) / name
                own.mkdir()
                process, connections[name] = start(program, str(own), flags)
                processes.append(process)
                fill(connections[name])
            print("| script | loops | p50, psp | redis | x | p99, psp | redis | x |")
            print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
            for count in map(int, args.loops.split(",")):
                loops = [subprocess.Popen(LOOP) for _ in range(count)]
                processes += loops
                for name in args.cases or CASES:
                    both = compare(connections, CASES[name], args.turns, args.turn_ms / 1000)
                    cells = []
                    for percent in (50, 99):
                        psp, redis = (taken[len(taken) * percent // 100] * 1e6 for taken in both)
                        cells.append(f"{psp:.0f} | {redis:.0f} | {psp / redis:.2f}")
                    print(f"| {name} | {count} | {' | '.join(cells)} |", flush=True)
                for loop in loops:
                    loop.kill()
                    loop.wait()
        finally:
            for process in processes:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
