#!/usr/bin/env python3
"""Clients that keep a Redis server busy beside a measurement, for as long as this program runs.

    bench/beside.py PORT subscribers COUNT           COUNT clients that read one channel, `news`
    bench/beside.py PORT transactions COMMANDS RATE  RATE transactions a second of COMMANDS commands each

It prints `ready` once the clients are connected.
"""

import argparse
import resource
import selectors
import socket
import sys
import time

CHUNK_BYTES = 1 << 16


def command(*words):
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def subscribers(port, count):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sockets = selectors.DefaultSelector()
    for _ in range(count):
        connection = connect(port)
        connection.sendall(command("SUBSCRIBE", "news"))
        assert connection.recv(CHUNK_BYTES).startswith((b"*3", b">3")), "the server refused SUBSCRIBE"
        connection.setblocking(False)
        sockets.register(connection, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in sockets.select():
            if not key.fileobj.recv(CHUNK_BYTES):
                sys.exit("the server closed a subscriber")


def transactions(port, commands, rate):
    # Ten commands write each key.
    writes = [command("SET", f"transaction:{index // 10}", index) for index in range(commands)]
    request = command("MULTI") + b"".join(writes) + command("EXEC")
    expected = len(b"+OK\r\n") + commands * len(b"+QUEUED\r\n") + len(b"*%d\r\n" % commands) + commands * len(b"+OK\r\n")
    connection = connect(port)
    print("ready", flush=True)
    due = time.monotonic()
    while True:
        time.sleep(max(0, due - time.monotonic()))
        due += 1 / rate
        connection.sendall(request)
        left = expected
        while left > 0:
            received = connection.recv(min(left, CHUNK_BYTES))
            if not received:
                sys.exit("the server closed the connection")
            left -= len(received)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    what = parser.add_subparsers(required=True)
    parts = what.add_parser("subscribers")
    parts.add_argument("count", type=int)
    parts.set_defaults(run=lambda args: subscribers(args.port, args.count))
    parts = what.add_parser("transactions")
    parts.add_argument("commands", type=int)
    parts.add_argument("rate", type=float)
    parts.set_defaults(run=lambda args: transactions(args.port, args.commands, args.rate))
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
