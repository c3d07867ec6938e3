"""Clients that misbehave, and clients that are merely odd: a reply that was promised to an odd one has to come.

Each client is a thread that does one thing after the other to one server, drawn from a seed. What it does:

    half        sends a part of a request, waits, and leaves
    reset       resets its connection in the middle of pipelined requests
    slow reader asks for many long replies, reads a few bytes of them now and then, and resets
    flood       opens many connections at once, some of which send something, and closes them
    invalid     sends bytes that are no request
    patient     sends a request byte by byte; the reply has to come
    half close  ends its side behind its requests; all replies and the end have to come
    long        sends requests that take long, and reads their replies
"""

import random
import socket
import struct
import threading
import time

import dialects

TIMEOUT_S = 60
FLOOD = 150
PAUSES_S = (0.01, 0.5)


class Failed(Exception):
    """A reply that had to come did not."""


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read_exactly(connection, expected, what):
    """Reads until `expected` says that everything has come."""
    received = bytearray()
    while not expected(received):
        try:
            chunk = connection.recv(1 << 16)
        except OSError as error:
            raise Failed(f"{what}: {error} after {bytes(received[:80])!r}") from error
        if not chunk:
            raise Failed(f"{what}: the connection ended after {len(received)} bytes, {bytes(received[:80])!r}")
        received += chunk
    return received


def send_in_vain(connection, data):
    """Sends what the server may refuse at any byte."""
    try:
        connection.sendall(data)
    except OSError:
        pass


class Client(threading.Thread):
    """See the module."""

    def __init__(self, server, dialect, seed, stop):
        super().__init__(name=f"client of {server.name}", daemon=True)
        self.server, self.dialect, self.stop_event = server, dialect, stop
        self.port = int(server.ports["tcp"])
        self.random = random.Random(f"{seed} {server.name}")
        self.done = dict.fromkeys(["half", "reset", "slow reader", "flood", "invalid", "patient", "half close", "long"], 0)
        self.failures = []

    def run(self):
        while not self.stop_event.is_set():
            what = self.random.choice(list(self.done))
            try:
                getattr(self, what.replace(" ", "_"))()
            except Failed as failure:
                self.fail(str(failure))
            except (OSError, ValueError) as error:
                self.fail(f"{what}: {error}")
            self.done[what] += 1
            self.stop_event.wait(self.random.uniform(*PAUSES_S))

    def fail(self, text):
        if not self.server_is_stopping():
            self.failures.append((time.time(), f"{self.server.name}: {text}"))

    def server_is_stopping(self):
        return self.stop_event.is_set() and self.server.process.poll() is not None

    def half(self):
        request = self.dialect.request(self.random)
        connection = connect(self.port)
        connection.sendall(request[:self.random.randrange(1, len(request))])
        self.stop_event.wait(self.random.uniform(0, 3))
        self.random.choice([reset, socket.socket.close])(connection)

    def reset(self):
        connection = connect(self.port)
        requests = [self.dialect.request(self.random) for _ in range(self.random.randrange(1, 100))]
        send_in_vain(connection, b"".join(requests))
        if self.random.random() < 0.5:
            self.stop_event.wait(self.random.uniform(0, 0.02))
        reset(connection)

    def slow_reader(self):
        with_room = socket.socket()
        with_room.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with_room.settimeout(TIMEOUT_S)
        with_room.connect(("127.0.0.1", self.port))
        # The server stops reading when nobody reads its replies.
        with_room.settimeout(0.5)
        send_in_vain(with_room, self.dialect.long_reply() * 40)
        with_room.settimeout(TIMEOUT_S)
        try:
            for _ in range(self.random.randrange(1, 60)):
                if not with_room.recv(2000) or self.stop_event.wait(0.1):
                    break
        except OSError:
            # The server may lose patience.
            pass
        reset(with_room)

    def flood(self):
        connections = []
        try:
            for _ in range(FLOOD):
                connection = connect(self.port)
                connections.append(connection)
                if self.random.random() < 0.5:
                    send_in_vain(connection, self.dialect.request(self.random))
        finally:
            for connection in connections:
                self.random.choice([reset, socket.socket.close])(connection)

    def invalid(self):
        connection = connect(self.port)
        length = self.random.randrange(1, 5000)
        garbage = self.random.choice([self.random.randbytes(length), self.dialect.garbage()])
        send_in_vain(connection, garbage)
        connection.settimeout(1)
        try:
            while connection.recv(1 << 16):
                pass
        except OSError:
            pass
        connection.close()

    def patient(self):
        request, expected = self.dialect.asked(self.random, 1)
        with connect(self.port) as connection:
            for at in range(len(request)):
                connection.sendall(request[at:at + 1])
                time.sleep(0.002)
            read_exactly(connection, expected, "patient")

    def half_close(self):
        request, expected = self.dialect.asked(self.random, self.random.randrange(1, 40))
        with connect(self.port) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            received = read_exactly(connection, expected, "half close")
            if rest := connection.recv(1):
                raise Failed(f"half close: {rest!r} behind {bytes(received[-80:])!r}")

    def long(self):
        request, expected = self.dialect.long(self.random)
        with connect(self.port) as connection:
            connection.sendall(request)
            read_exactly(connection, expected, "long")


def clients(servers, seed, stop):
    """A client for each server that has connections."""
    return [Client(server, dialects.DIALECTS[server.spec.protocol], seed, stop)
            for server in servers if server.spec.protocol in dialects.DIALECTS]
