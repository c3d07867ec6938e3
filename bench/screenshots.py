#!/usr/bin/env python3
"""Takes the screenshot of docs/operations.md: the live page of psp-redis under GETs with KEYS and LRANGE beside them.

    bench/screenshots.py [--psp-redis PROGRAM] [--loadgen PROGRAM] [--chromium PROGRAM] [--seconds S]

Without programs it builds release ones. The page shows two minutes, and so long it takes.
"""

import argparse
import base64
import itertools
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/figures/live-page.png"
MIX = "GET@4000/s,SET@1000/s,MGET=MGET {keys:100}@100/s,KEYS=KEYS *@4/s,LRANGE=LRANGE biglist 0 -1@20/s"
SIZE = (1280, 680)


class Browser:
    """Chromium, controlled through its pipe: messages of JSON that end with a zero byte."""

    def __init__(self, program, folder):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.numbers = itertools.count(1)
        self.pending = b""

        def fds():
            # The fixed descriptors of the protocol. Copies, since one of the pipes may have these numbers.
            copies = os.dup(commands), os.dup(answers)
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             f"--window-size={SIZE[0]},{SIZE[1]}", f"--user-data-dir={folder}/browser", "--remote-debugging-pipe"],
            preexec_fn=fds, close_fds=False, stderr=subprocess.DEVNULL)

    def call(self, method, session=None, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.pending:
                self.pending += os.read(self.answers, 1 << 20)
            answer, _, self.pending = self.pending.partition(b"\0")
            answer = json.loads(answer)
            if answer.get("id") == number:
                return answer["result"]

    def picture_after(self, url, seconds):
        target = self.call("Target.createTarget", url=url)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        time.sleep(seconds)
        return base64.b64decode(self.call("Page.captureScreenshot", session, format="png")["data"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for program in ("--psp-redis", "--loadgen"):
        parser.add_argument(program)
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("--seconds", type=int, default=125)
    options = parser.parse_args()
    release = ROOT / "target/release"
    if not (options.psp_redis and options.loadgen):
        subprocess.run(["cargo", "build", "--release", "--bin", "psp-redis", "--bin", "psp-loadgen"], cwd=ROOT, check=True)
    loadgen = options.loadgen or release / "psp-loadgen"

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        with log.open("w") as out:
            server = subprocess.Popen(
                [options.psp_redis or release / "psp-redis", "--port", "0", "--admin", "0"], stderr=out, stdout=out)
        running = [server]
        try:
            while not (found := re.search(r"listening on (\S+)[\s\S]*admin port at (\S+)", log.read_text())):
                time.sleep(0.1)
            target = f"redis://{found[1]}"
            subprocess.run(
                [loadgen, "preload", "--target", target, "--keys", "20000", "--list", "biglist:5000"], check=True)
            load = ["run", "--target", target, "--keys", "20000", "--mix", MIX, "--duration", str(options.seconds + 30)]
            running.append(subprocess.Popen([loadgen, *load], stdout=subprocess.DEVNULL))
            browser = Browser(options.chromium, folder)
            running.append(browser.process)
            PICTURE.write_bytes(browser.picture_after(found[2], options.seconds))
            print(PICTURE)
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()


main()
