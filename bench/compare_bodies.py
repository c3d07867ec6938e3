#!/usr/bin/env python3
"""GETs beside requests with large bodies, on servers that take turns.

    bench/compare_bodies.py [--rounds N] [--only CASE] SERVER..

SERVER is a command that starts a Redis-compatible server and takes `--port PORT`. A client sends 1000 GETs a second; others
send the requests of a case. Prints the medians over the rounds as a table.
"""

import argparse
import multiprocessing
import os
import shlex
import socket
import statistics
import subprocess
import tempfile
import time

GETS_PER_S = 1000
CHUNK_BYTES = 1 << 16
MB = 1_000_000


def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection, request, end=b"\r\n", lines=1):
    connection.sendall(request)
    reply = b""
    while not (reply.endswith(end) and reply.count(end) >= lines):
        part = connection.recv(CHUNK_BYTES)
        if not part:
            return reply or b"-closed"
        reply += part
        if reply.startswith(b"-") and reply.endswith(b"\r\n"):
            break
    return reply


def send_sets(port, key, size, count, begin, done):
    connection = connect(port)
    request = command("SET", key, b"x" * size)
    begin.wait()
    for _ in range(count):
        started = time.monotonic()
        try:
            reply = ask(connection, request)
        except OSError as error:
            reply = b"-" + str(error).encode()
        done.put((time.monotonic() - started, reply == b"+OK\r\n"))
        if reply != b"+OK\r\n":
            connection = connect(port)
        time.sleep(0.05)


def send_appends(port, key, size, count, begin, done):
    connection = connect(port)
    ask(connection, command("SET", key, b"x" * size))
    request = command("MULTI") + 8 * command("APPEND", key, "x") + command("EXEC")
    begin.wait()
    for _ in range(count):
        started = time.monotonic()
        # +OK, eight +QUEUED, *8, eight numbers
        reply = ask(connection, request, lines=18)
        done.put((time.monotonic() - started, b"-" not in reply))
        time.sleep(0.05)


# The requests, bytes, clients, and requests of each.
CASES = {
    "SET of 8 MB": (send_sets, 8 * MB, 1, 20),
    "SET of 100 MB": (send_sets, 100 * MB, 1, 6),
    "SET of 500 MB": (send_sets, 500 * MB, 1, 3),
    "SET of 500 MB by three": (send_sets, 500 * MB, 3, 1),
    "MULTI, 8 APPEND to 100 MB, EXEC": (send_appends, 100 * MB, 1, 6),
}


def send_gets(port, stop, out):
    connection = connect(port)
    ask(connection, command("SET", "small", "value"))
    request = command("GET", "small")
    latencies = []
    due = time.monotonic()
    while not stop.is_set():
        time.sleep(max(0, due - time.monotonic()))
        started = max(due, time.monotonic() - 1 / GETS_PER_S)
        ask(connection, request, lines=2)
        now = time.monotonic()
        latencies.append(now - started)
        due = max(due + 1 / GETS_PER_S, now)
    out.put(latencies)


def realtime():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
    except PermissionError:
        pass


def measured_gets(*args):
    realtime()
    send_gets(*args)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        try:
            return connect(port).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not listen")


def measure(server, case):
    send, size, clients, count = CASES[case]
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        log = open(os.path.join(directory, "log"), "wb")
        process = subprocess.Popen(
            shlex.split(server) + ["--port", str(port)], cwd=directory, stdout=log, stderr=log
        )
        try:
            wait_for(port)
            stop, begin = multiprocessing.Event(), multiprocessing.Event()
            done, out = multiprocessing.Queue(), multiprocessing.Queue()
            senders = [
                multiprocessing.Process(target=send, args=(port, f"body:{index}", size, count, begin, done))
                for index in range(clients)
            ]
            for sender in senders:
                sender.start()
            time.sleep(1 + size / (200 * MB))
            gets = multiprocessing.Process(target=measured_gets, args=(port, stop, out))
            gets.start()
            time.sleep(0.2)
            begin.set()
            outcomes = [done.get(timeout=120) for _ in range(clients * count)]
            time.sleep(0.2)
            stop.set()
            latencies = sorted(out.get(timeout=60))
            for child in [gets, *senders]:
                child.join()
        finally:
            process.kill()
            process.wait()
    return {
        "p99": latencies[len(latencies) * 99 // 100] * 1e3,
        "max": latencies[-1] * 1e3,
        "seconds": max(seconds for seconds, _ in outcomes),
        "refused": sum(not is_done for _, is_done in outcomes),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("servers", nargs="+")
    args = parser.parse_args()
    cases = [args.only] if args.only else list(CASES)
    print("| beside | server | GET p99, ms | max, ms, of each round | longest request, s | refused |")
    print("| --- | --- | --- | --- | --- | --- |")
    for case in cases:
        rounds = {server: [] for server in args.servers}
        for _ in range(args.rounds):
            for server in args.servers:
                rounds[server].append(measure(server, case))
        for server, runs in rounds.items():
            name = os.path.basename(shlex.split(server)[0])
            p99 = statistics.median(run["p99"] for run in runs)
            longest = ", ".join(f"{run['max']:.1f}" for run in runs)
            seconds = statistics.median(run["seconds"] for run in runs)
            refused = sum(run["refused"] for run in runs)
            print(f"| {case} | {name} | {p99:.2f} | {longest} | {seconds:.2f} | {refused} |", flush=True)


if __name__ == "__main__":
    main()
