"""Servers that speak Redis's protocol, as processes, and connections to them: for scripts that compare servers."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.stream = self.socket.makefile("rb")

    def ask(self, batch):
        """The first lines of the replies."""
        request = bytearray()
        for words in batch:
            request += b"*%d\r\n" % len(words)
            for word in words:
                word = word.encode()
                request += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(request)
        return [self.reply() for _ in batch]

    def reply(self):
        line = self.stream.readline().rstrip()
        if line.startswith(b"-"):
            sys.exit(f"the server refused: {line.decode()}")
        if line == b"$-1":
            return None
        if line.startswith(b"$"):
            return self.stream.read(int(line[1:]) + 2)[:-2]
        return line


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def start(program, folder, flags=()):
    """A server with its files in `folder`, as a process, and a connection to it."""
    port = free_port()
    own = ["--save", "", "--dir", folder] if "redis-server" in program else ["--log-level", "warn"]
    command = [program, "--bind", "127.0.0.1", "--port", str(port), *own, *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    for _ in range(300):
        try:
            return process, Connection(port)
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f"{program} does not listen")


def built(program="psp-redis"):
    """A program of a release build."""
    metadata = subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT)
    return str(Path(json.loads(metadata)["target_directory"]) / "release" / program)
