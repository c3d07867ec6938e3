#!/usr/bin/env python3
"""Compares psp-redis and redis-server while keys are evicted: SETs per second, keys held, and hit ratios.

    bench/compare_eviction.py [--psp-redis PROGRAM] [--redis-server PROGRAM] [--rounds N] [--accesses N] [--policies ..]

Both servers have the same `maxmemory`. redis-benchmark fills each until keys go, and then times SETs of new keys. For
the hit ratio, one client follows a trace: it reads keys whose popularity is Zipf's, and stores those that are missing.
The trace is the same for both servers, and is read in batches of GETs.

Each round measures the rates of one server after the other; the table, in markdown, has the best of all rounds. Hit ratios,
which depend little on how fast a server is, are measured once, and count from the middle of the trace on.
"""

import argparse
import itertools
import random
import subprocess
import tempfile

from redis_process import built, start

MAXMEMORY_MB = 50
POLICIES = ["allkeys-lru", "allkeys-lfu"]
# Requests that a client of redis-benchmark sends at once, and SETs that are timed.
PIPELINES = {16: 1_000_000, 1: 200_000}
FILLING_SETS = 500_000
SET_VALUE_BYTES = 100
VALUE_BYTES = [32, 100, 1000]
BATCH = 200
# The trace has so many times the keys that fit, if a key takes so many bytes beside its value.
KEYS_THAT_FIT = 4
KEY_BYTES = 100
ZIPF_EXPONENT = 0.9


def set_rate(port, pipeline, requests):
    """SETs per second of keys that are new, nearly all."""
    command = ["redis-benchmark", "-p", str(port), "-t", "set", "-r", "10000000", "-d", str(SET_VALUE_BYTES),
               "-P", str(pipeline), "-n", str(requests), "--csv"]
    [line] = [line for line in subprocess.check_output(command, text=True).splitlines() if line.startswith('"SET"')]
    return float(line.split(",")[1].strip('"'))


def trace(value_bytes, accesses):
    """The same keys whenever it is called."""
    keys = KEYS_THAT_FIT * MAXMEMORY_MB * 1_000_000 // (KEY_BYTES + value_bytes)
    weights = itertools.accumulate((rank + 1) ** -ZIPF_EXPONENT for rank in range(keys))
    return random.Random(1).choices(range(keys), cum_weights=list(weights), k=accesses)


def hit_ratio(connection, keys, value_bytes):
    """The part of the second half of the trace that was found."""
    value, hits = "v" * value_bytes, 0
    for first in range(0, len(keys), BATCH):
        batch = [f"key:{key:012}" for key in keys[first:first + BATCH]]
        replies = connection.ask([["GET", key] for key in batch])
        missing = dict.fromkeys(key for key, reply in zip(batch, replies) if reply is None)
        if missing:
            connection.ask([["SET", key, value] for key in missing])
        if first >= len(keys) // 2:
            hits += sum(reply is not None for reply in replies)
    return hits / (len(keys) - len(keys) // 2)


def held_keys(connection):
    return int(connection.ask([["DBSIZE"]])[0].lstrip(b":"))


def with_server(program, policy, measure):
    flags = ["--maxmemory", f"{MAXMEMORY_MB}mb", "--maxmemory-policy", policy]
    with tempfile.TemporaryDirectory() as folder:
        process, connection = start(program, folder, flags)
        try:
            return measure(connection)
        finally:
            process.kill()
            process.wait()


def measure_rates(connection):
    """SETs per second by pipeline, and keys held in the end."""
    port = connection.socket.getpeername()[1]
    set_rate(port, 16, FILLING_SETS)
    rates = [set_rate(port, pipeline, requests) for pipeline, requests in PIPELINES.items()]
    return [*rates, held_keys(connection)]


def measure_hits(keys, value_bytes):
    return lambda connection: [hit_ratio(connection, keys, value_bytes), held_keys(connection)]


def best(programs, rounds, policy, measure):
    """For each program, the most of each figure that `measure` found in all rounds."""
    found = [[] for _ in programs]
    for _ in range(rounds):
        for program, rows in zip(programs, found):
            rows.append(with_server(program, policy, measure))
    return [[max(column) for column in zip(*rows)] for rows in found]


def row(case, form, ours, theirs):
    print(f"| {case} | {ours:{form}} | {theirs:{form}} | {ours / theirs:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--psp-redis", metavar="PROGRAM", help="by default, that of a release build")
    parser.add_argument("--redis-server", metavar="PROGRAM", default="redis-server")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--accesses", type=int, default=1_500_000)
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--values", nargs="+", type=int, default=VALUE_BYTES, metavar="BYTES")
    args = parser.parse_args()
    programs = [args.psp_redis or built(), args.redis_server]
    print("| case | psp-redis | redis-server | ratio |\n| --- | ---: | ---: | ---: |")
    for policy in args.policies:
        ours, theirs = best(programs, args.rounds, policy, measure_rates)
        cases = [f"SETs/s, {pipeline} at once" for pipeline in PIPELINES] + [f"keys of {SET_VALUE_BYTES} bytes"]
        for case, *figures in zip(cases, ours, theirs):
            row(f"{policy}: {case}", ",.0f", *figures)
    for value_bytes in args.values:
        keys = trace(value_bytes, args.accesses)
        for policy in args.policies:
            ours, theirs = best(programs, 1, policy, measure_hits(keys, value_bytes))
            row(f"{policy}, values of {value_bytes} bytes: hit ratio", ".4f", ours[0], theirs[0])
            row(f"{policy}, values of {value_bytes} bytes: keys", ",.0f", ours[1], theirs[1])


if __name__ == "__main__":
    main()
