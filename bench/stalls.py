#!/usr/bin/env python3
"""Compares what large and hostile requests cost other clients of psp-redis and redis-server.

    bench/stalls.py [--rounds N] [--psp-redis PROGRAM] [--flags FLAGS] [--redis-server PROGRAM] [CASE..]

Each round starts a new server of each kind for each case. Another process sends a GET each millisecond, one after the
other, while the case runs. The table, in markdown, has medians over the rounds: how long the case took, the longest
and the 99th percentile of the GETs' latencies, and what the case itself looks at, in milliseconds.
"""

import argparse
import multiprocessing
import shlex
import socket
import statistics
import tempfile
import threading
import time

from redis_process import Connection, built, start

PACE_S = 0.001
# What a client waits for a reply that may not come.
PATIENCE_S = 20
# How long a hostile client goes on.
ATTACK_S = 3
MB = 1 << 20
LOOP = "if ARGV[1] == '1' then return 1 end while true do end"


def probe(port, ready, done, latencies):
    """Sends GETs until the case is done, and returns their latencies in seconds."""
    connection = Connection(port)
    connection.ask([["SET", "probe", "x"]])
    ready.set()
    taken = []
    while not done.is_set():
        began = time.monotonic()
        connection.ask([["GET", "probe"]])
        taken.append(time.monotonic() - began)
        time.sleep(max(0, began + PACE_S - time.monotonic()))
    latencies.send(taken)


def encoded(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def send(connection, *commands):
    """Sends all commands, then reads all replies. Returns the time of the last one since the first byte, in seconds."""
    began = time.monotonic()
    connection.socket.sendall(b"".join(encoded(*words) for words in commands))
    for _ in commands:
        connection.read_whole()
    return time.monotonic() - began


def filled(connection, name, key, count, *element):
    for first in range(0, count, 1000):
        words = (word.format(index) for index in range(first, first + 1000) for word in element)
        send(connection, [name, key, *words])


def pipeline_before_reading(connection):
    """2000 GETs of 10 KB and SETs of 5 KB, written before a reply is read"""
    send(connection, ["SET", "large", b"x" * 10_000])
    connection.socket.settimeout(PATIENCE_S)
    yield
    commands = [["GET", "large"], ["SET", "other", b"y" * 5_000]] * 2000
    try:
        send(connection, *commands)
    except TimeoutError:
        yield float("inf")


def large_body(megabytes):
    def case(connection):
        body = bytes(megabytes * MB)
        yield
        send(connection, ["SET", "large", body])
    case.__doc__ = f"a SET of {megabytes} MB"
    return case


def three_bodies(connection):
    """three SETs of 500 MB at once"""
    body = bytes(500 * MB)
    others = [Sized(connection.port) for _ in range(3)]
    for other in others:
        other.socket.settimeout(60)
    yield
    threads = [
        threading.Thread(target=send, args=(other, ["SET", f"large {number}", body]))
        for number, other in enumerate(others)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def appends(connection):
    """MULTI, 8 times APPEND of a byte to 100 MB, EXEC"""
    send(connection, ["SET", "large", bytes(100 * MB)])
    yield
    send(connection, ["MULTI"], *[["APPEND", "large", "x"]] * 8, ["EXEC"])


def union(connection):
    """ZUNIONSTORE of two times 200 000 members"""
    for key in "ab":
        filled(connection, "ZADD", key, 200_000, "{0}", key + "{0}")
    yield
    send(connection, ["ZUNIONSTORE", "result", 2, "a", "b"])


def sorting_script(connection):
    """a script that was short forty times, and then sorts 400 000 elements"""
    script = "return #redis.call('SORT', KEYS[1])"
    filled(connection, "RPUSH", "short", 1_000, "{0}")
    filled(connection, "RPUSH", "long", 400_000, "{0}")
    for _ in range(40):
        send(connection, ["EVAL", script, 1, "nothing"])
    yield
    send(connection, ["EVAL", script, 1, "long"])


def endless_script(connection):
    """an endless script that was short forty times: PING and SCRIPT KILL after a second"""
    for _ in range(40):
        send(connection, ["EVAL", LOOP, 0, 1])
    other = Sized(connection.port)
    other.socket.settimeout(PATIENCE_S)
    yield
    connection.socket.sendall(encoded("EVAL", LOOP, 0, 2))
    time.sleep(1)
    try:
        yield send(other, ["PING"]) + send(other, ["SCRIPT", "KILL"])
    except TimeoutError:
        yield float("inf")


def nothing(connection):
    """nothing"""
    yield
    time.sleep(ATTACK_S)


def unpacking(connection):
    """scripts that unpack 2^31 values"""
    yield
    repeated(connection, ["EVAL", "return {pcall(unpack, {1, 2, 3}, 0, 2147483647)}", 0])


def searching(connection):
    """scripts with a pattern that is tried at every place of a long text"""
    yield
    repeated(connection, ["EVAL", "return {pcall(string.find, ('a'):rep(200), '.-.-.-b')}", 0])


def colliding(connection):
    """scripts that read 60 000 strings of one hash value in Lua 5.1"""
    # Of 64 bytes, that hash reads each third from the end.
    texts = ("".join(str(index >> bit & 1) + "xx" for bit in range(21))[:64] for index in range(60_000))
    texts = [text.ljust(64, "x") for text in texts]
    for first in range(0, len(texts), 1000):
        send(connection, ["RPUSH", "texts", *texts[first : first + 1000]])
    yield
    repeated(connection, ["EVAL", "return #redis.call('LRANGE', 'texts', 0, -1)", 0])


def starry(connection):
    """CONFIG GET with 60 000 stars"""
    yield
    repeated(connection, ["CONFIG", "GET", "*" * 60_000 + "x"])


def starry_events(connection):
    """SETs whose events 100 subscribers look for by 60 000 stars each"""
    subscriber = Sized(connection.port)
    send(connection, ["CONFIG", "SET", "notify-keyspace-events", "KEA"])
    for index in range(100):
        send(subscriber, ["PSUBSCRIBE", "*" * 60_000 + f"x{index}"])
    yield
    repeated(connection, ["SET", "key", "value"])


def unfinished(connection):
    """500 connections with half a value of 990 KB"""
    half = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$990000\r\n" + bytes(495_000)
    yield
    others = []
    for _ in range(500):
        others.append(Connection(connection.port))
        others[-1].socket.sendall(half)
    time.sleep(1)


def silent_subscribers(connection):
    """1200 messages of 4 KB to 20 subscribers, beside 500 that never read: the longest until the 20 have one"""
    subscribers = [Sized(connection.port) for _ in range(520)]
    for subscriber in subscribers:
        send(subscriber, ["SUBSCRIBE", "channel"])
    reading, silent = subscribers[:20], subscribers[20:]
    for subscriber in silent:
        subscriber.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    yield
    longest = 0
    for _ in range(1200):
        began = time.monotonic()
        send(connection, ["PUBLISH", "channel", "m" * 4096])
        for subscriber in reading:
            subscriber.read_whole()
        longest = max(longest, time.monotonic() - began)
    yield longest


def repeated(connection, words):
    """Sends a command again and again."""
    ends = time.monotonic() + ATTACK_S
    while time.monotonic() < ends:
        send(connection, words)


CASES = {
    "alone": nothing,
    "pipeline": pipeline_before_reading,
    "set-8": large_body(8),
    "set-100": large_body(100),
    "set-500": large_body(500),
    "three-500": three_bodies,
    "append": appends,
    "zunionstore": union,
    "script": sorting_script,
    "endless": endless_script,
    "unpack": unpacking,
    "search": searching,
    "collide": colliding,
    "stars": starry,
    "events": starry_events,
    "unfinished": unfinished,
    "subscribers": silent_subscribers,
}


class Sized(Connection):
    """A connection that reads replies of any kind."""

    def __init__(self, port):
        super().__init__(port)
        self.port = port

    def read_whole(self):
        line = self.stream.readline()
        if not line:
            raise ConnectionError("the server closed the connection")
        if line[:1] == b"$" and line[1:2] != b"-":
            self.stream.read(int(line[1:]) + 2)
        if line[:1] == b"*":
            for _ in range(int(line[1:])):
                self.read_whole()


def measure(program, flags, case):
    """Seconds that the case took, the GETs' maximum and 99th percentile, and what the case itself looks at."""
    with tempfile.TemporaryDirectory() as folder:
        process, first = start(program, folder, flags)
        try:
            port = first.socket.getpeername()[1]
            steps = case(Sized(port))
            next(steps)
            ready, done = multiprocessing.Event(), multiprocessing.Event()
            latencies, there = multiprocessing.Pipe(duplex=False)
            prober = multiprocessing.Process(target=probe, args=(port, ready, done, there), daemon=True)
            prober.start()
            ready.wait()
            time.sleep(0.2)
            began = time.monotonic()
            seen = next(steps, None)
            took = time.monotonic() - began
            done.set()
            if not latencies.poll(PATIENCE_S):
                prober.kill()
                return took, float("inf"), float("inf"), seen
            gets = sorted(latencies.recv())
            return took, gets[-1], gets[len(gets) * 99 // 100], seen
        finally:
            process.kill()
            process.wait()


def cell(figures):
    figures = [figure for figure in figures if figure is not None]
    return f"{statistics.median(figures) * 1000:.1f}" if figures else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--psp-redis", metavar="PROGRAM", help="by default, that of a release build")
    parser.add_argument("--flags", default="", help="further flags of psp-redis, such as '--topology dedicated'")
    parser.add_argument("--redis-server", metavar="PROGRAM", default="redis-server")
    names = "; ".join(f"{name}: {case.__doc__}" for name, case in CASES.items())
    parser.add_argument("cases", metavar="CASE", nargs="*", help=names)
    args = parser.parse_args()
    unknown = set(args.cases) - set(CASES)
    if unknown:
        parser.error(f"no case `{unknown.pop()}`; there are: {'; '.join(CASES)}")
    programs = {
        "psp-redis": (args.psp_redis or built(), shlex.split(args.flags)),
        "redis-server": (args.redis_server, []),
    }
    print("| case | server | took, ms | GET max | GET p99 | seen |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name in args.cases or CASES:
        rounds = {server: [] for server in programs}
        for _ in range(args.rounds):
            for server, (program, flags) in programs.items():
                rounds[server].append(measure(program, flags, CASES[name]))
        for server, figures in rounds.items():
            cells = " | ".join(cell(column) for column in zip(*figures))
            print(f"| {CASES[name].__doc__} | {server} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
