"""Types into redis-cli on a terminal of its own. Usage: interactive_cli.py PORT [FLAG...]

Reads lines from standard input; types each when the prompt is there, and prints what the terminal
shows in answer, without its control sequences.
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
    """Our side of a terminal: types, and waits for what is shown."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.shown = b""
        self.seen_len = 0

    def type_line(self, line):
        os.write(self.descriptor, line.encode() + b"\r")

    def wait_for(self, text):
        """What is shown after what was waited for before and before `text`, which is awaited."""
        while (found := self.shown.find(text, self.seen_len)) < 0:
            if not self.read_more():
                sys.exit(f"redis-cli ended before {text!r}: {self.shown!r}")
        before = self.shown[self.seen_len : found]
        self.seen_len = found + len(text)
        return CONTROL_SEQUENCES.sub(b"", before).replace(b"\r", b"")

    def read_more(self):
        """Whether there was more to read before the other side closed the terminal."""
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
    # Without a width redis-cli asks the terminal for it.
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
        # The line editor draws the prompt again with each letter; a new line follows the input.
        terminal.wait_for(b"\r\n")
        sys.stdout.buffer.write(terminal.wait_for(prompt))
    terminal.type_line("exit")
    while terminal.read_more():
        pass
    sys.stdout.flush()
    sys.exit(client.wait(DEADLINE_S))


main()
