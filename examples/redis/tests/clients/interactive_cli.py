"""Types into redis-cli on its own terminal. Usage: interactive_cli.py PORT [FLAG...]

Reads lines from standard input. Types each line at the prompt, and prints the output of the terminal
without its control sequences.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios

DEADLINE_S = 30
CONTROL_SEQUENCES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Our side of a terminal: types lines and waits for output."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.shown = b""
        self.seen_len = 0

    def type_line(self, line):
        os.write(self.descriptor, line.encode() + b"\r")

    def wait_for(self, text):
        """Waits for `text`. Returns the output between the previous match and `text`."""
        while (found := self.shown.find(text, self.seen_len)) < 0:
            if not self.read_more():
                sys.exit(f"redis-cli ended before {text!r}: {self.shown!r}")
        before = self.shown[self.seen_len : found]
        self.seen_len = found + len(text)
        return CONTROL_SEQUENCES.sub(b"", before).replace(b"\r", b"")

    def read_more(self):
        """Reads more output. Returns false if the other side has closed the terminal."""
        readable, _, _ = select.select([self.descriptor], [], [], DEADLINE_S)
        if not readable:
            sys.exit(f"redis-cli is silent after {self.shown!r}")
        try:
            received = os.read(self.descriptor, 65536)
        except OSError:
            return False
        self.shown += received
        return bool(received)


def main():
    port, flags = sys.argv[1], sys.argv[2:]
    our_side, its_side = pty.openpty()
    # Set a width; without one redis-cli asks the terminal.
    fcntl.ioctl(its_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    client = subprocess.Popen(
        ["redis-cli", "-p", port, *flags],
        stdin=its_side,
        stdout=its_side,
        stderr=its_side,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(its_side)
    prompt = f"127.0.0.1:{port}> ".encode()
    terminal = Terminal(our_side)
    terminal.wait_for(prompt)
    for line in sys.stdin.read().splitlines():
        terminal.type_line(line)
        # The line editor redraws the prompt with each letter; a new line follows the input.
        terminal.wait_for(b"\r\n")
        sys.stdout.buffer.write(terminal.wait_for(prompt))
    terminal.type_line("exit")
    while terminal.read_more():
        pass
    sys.stdout.flush()
    sys.exit(client.wait(DEADLINE_S))


main()
