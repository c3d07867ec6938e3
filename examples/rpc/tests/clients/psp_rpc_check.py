"""Checks psp-rpc with Google's protobuf: psp_rpc_check.py PORT FOLDER_OF_GENERATED_MODULES.

Standard input has frames of psp's own codec, one per line: a message's name and the frame in hexadecimal.
The program parses each frame, rebuilds its message field by field, and prints the frame that Google's library
writes.
"""

import io
import socket
import sys
import threading

from google.protobuf import proto

port, modules = int(sys.argv[1]), sys.argv[2]
sys.path.insert(0, modules)

import psp_rpc_methods_pb2 as methods  # noqa: E402
import psp_rpc_pb2 as rpc  # noqa: E402

DEADLINE_S = 30


def frame(message):
    out = io.BytesIO()
    proto.serialize_length_prefixed(message, out)
    return out.getvalue()


class Client:
    """Requests over one connection or socket; responses in the order of arrival."""

    def __init__(self, kind):
        self.socket = socket.socket(socket.AF_INET, kind)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(("127.0.0.1", port))
        self.is_stream = kind == socket.SOCK_STREAM
        self.stream = self.socket.makefile("rb") if self.is_stream else None
        self.last_id = 0

    def submit(self, method, payload=b"", deadline_us=0):
        self.last_id += 1
        request = rpc.Request(id=self.last_id, method=method, deadline_us=deadline_us, payload=payload)
        self.socket.sendall(frame(request))
        return self.last_id

    def receive(self):
        stream = self.stream if self.is_stream else io.BytesIO(self.socket.recv(65536))
        response = proto.parse_length_prefixed(rpc.Response, stream)
        assert response is not None, "the server has closed the connection"
        return response

    def ask(self, method, payload=b"", deadline_us=0):
        request_id = self.submit(method, payload, deadline_us)
        response = self.receive()
        assert response.id == request_id, (response, request_id)
        return response


def work(duration_us):
    return methods.Work(duration_us=duration_us).SerializeToString()


def check_codec():
    for line in sys.stdin:
        name, encoded = line.split()
        message_type = getattr(rpc, name)
        theirs = bytes.fromhex(encoded)
        read = proto.parse_length_prefixed(message_type, io.BytesIO(theirs))
        made = message_type(**{field.name: value for field, value in read.ListFields()})
        print(frame(made).hex())


def check_methods(client):
    assert client.ask("Echo", b"hello").payload == b"hello"
    numbers = methods.Numbers(values=[5, -7, 2**62, 0])
    response = client.ask("Sort", numbers.SerializeToString())
    assert list(methods.Numbers.FromString(response.payload).values) == [-7, 0, 5, 2**62]
    response = client.ask("Sum", numbers.SerializeToString())
    assert methods.Total.FromString(response.payload).value == 2**62 - 2
    stats = methods.ServerStats.FromString(client.ask("Stats").payload)
    assert stats.policy and {"short", "work-long", "UNKNOWN"} <= {ty.name for ty in stats.types}


def check_failures(client):
    for method, payload, status in [
        ("Nap", b"", rpc.UNIMPLEMENTED),
        ("Spin", b"\x08", rpc.INVALID_ARGUMENT),
        ("Sleep", work(2**64 - 1), rpc.OUT_OF_RANGE),
        ("Sum", methods.Numbers(values=[2**63 - 1] * 2).SerializeToString(), rpc.OUT_OF_RANGE),
    ]:
        response = client.ask(method, payload)
        assert response.status == status and response.error, response
    response = client.ask("Spin", work(9_000_000), deadline_us=2_000)
    assert response.status == rpc.DEADLINE_EXCEEDED, response
    client.socket.sendall(b"\x05\x08\x07\x12\x01\xff")
    response = client.receive()
    assert (response.id, response.status) == (7, rpc.INVALID_ARGUMENT), response
    assert client.ask("Echo").status == rpc.OK


def check_out_of_order(client):
    slow = client.submit("Sleep", work(1_000_000))
    fast = [client.submit("Echo") for _ in range(5)]
    order = [client.receive().id for _ in range(6)]
    assert order[-1] == slow and sorted(order[:-1]) == fast, order


def check_many_in_flight(client, count):
    """Over TCP, submits all requests before it reads the first response; over UDP, 32 at a time."""
    window = count if client.is_stream else 32
    expected = {}

    def read(responses):
        for _ in range(responses):
            response = client.receive()
            assert expected.pop(response.id) == response.payload, response

    for start in range(0, count, window):
        for number in range(start, start + window):
            method, payload = ("Spin", work(200)) if number % 25 == 0 else ("Echo", b"%d" % number)
            request_id = client.submit(method, payload)
            expected[request_id] = b"" if method == "Spin" else payload
        read(window)
    assert not expected


def in_threads(*tasks):
    failures = []

    def run(task, *arguments):
        try:
            task(*arguments)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


check_codec()
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    check_methods(Client(kind))
    check_failures(Client(kind))
check_out_of_order(Client(socket.SOCK_DGRAM))
in_threads(
    *((check_many_in_flight, Client(socket.SOCK_STREAM), 640) for _ in range(4)),
    *((check_many_in_flight, Client(socket.SOCK_DGRAM), 640) for _ in range(2)),
)
print("all checks passed")
