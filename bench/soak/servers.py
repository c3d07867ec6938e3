"""The servers, what clients that behave send to each, and which policies each runs in turn."""

import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

PATIENCE_S = 60

DISPATCHED = ["darc", "c-fcfs", "fixed-priority", "sjf", "edf", "drr", "wrr", "stealing", "cscq", "static-partition"]
PREEMPTIVE = ["mq quantum-us=200", "sq quantum-us=200", "jbsq", "synergy", "darc-lending", "darc-distributed"]
DISTRIBUTED = ["d-fcfs", "stealing", "jsq", "synergy", "darc-distributed"]

# A worker starts a thread whenever more of its requests are under way than ever before. With a low bound the number of
# threads is steady after the warm-up, and what grows then is a leak.
RPC = """\
[server]
contexts-per-worker = 16
"""
SYNTHETIC = """\
[[type]]
name = "short"
share = 0.9
service_us = 5.0
[[type]]
name = "long"
share = 0.08
service_us = 2000.0
[[type]]
name = "waits"
share = 0.02
service_us = 20.0
wait_us = 5000.0
"""


@dataclass
class Load:
    """What a run of psp-loadgen sends. `{output}` in the flags is the folder of the output."""
    name: str
    target: str
    flags: list
    rates: dict
    # The share of requests that may get no answer: datagrams get lost where a socket's buffer is full.
    lost_share_max: float = 0.0

    def command(self, server, seconds, seed, rate, output):
        mix = ",".join(f"{item}@{per_s * rate:g}/s" for item, per_s in self.rates.items())
        flags = [flag.format(output=output) for flag in self.flags]
        flags += ["--mix", mix] if "--workload" not in flags else ["--rate", f"{sum(self.rates.values()) * rate:g}"]
        return ["run", "--target", self.target.format(**server.ports), *flags, "--warmup", "0", "--duration", f"{seconds:g}",
                "--seed", str(seed), "--timeout", "30", "--spin-us", "0", "--output", "json"]


@dataclass
class Spec:
    """A server to run."""
    name: str
    protocol: str
    program: str
    flags: list
    policies: list
    loads: list
    preload: list = field(default_factory=list)
    udp: bool = False
    # Threads that a server may start when it first needs them, and keep.
    threads_left_max: int = 24


SPECS = [
    Spec("redis", "redis", "psp-redis", ["--topology", "dedicated", "--workers", "1..3"], DISPATCHED + PREEMPTIVE,
         [Load("redis", "redis://127.0.0.1:{tcp}", ["--keys", "5000", "--value-bytes", "10-2000"],
               {"GET": 150, "SET": 40, "MGET=MGET {keys:100}": 10, "LRANGE=LRANGE biglist 0 -1": 4, "KEYS=KEYS *": 1})],
         ["--keys", "5000", "--value-bytes", "10-2000", "--list", "biglist:5000"]),
    Spec("redis-distributed", "redis", "psp-redis",
         ["--topology", "distributed", "--workers", "2", "--policy", "synergy"], DISTRIBUTED,
         [Load("redis-distributed", "redis://127.0.0.1:{tcp}", ["--keys", "5000"],
               {"GET": 100, "SET": 20, "LRANGE=LRANGE biglist 0 -1": 4})],
         ["--keys", "5000", "--list", "biglist:5000"]),
    Spec("memcached", "memcached", "psp-memcached", ["--topology", "inline", "--workers", "2"], DISPATCHED,
         [Load("memcached", "memcached://127.0.0.1:{tcp}", ["--keys", "5000", "--value-bytes", "10-4000"],
               {"GET": 120, "SET": 20, "MGET 100": 5}),
          Load("memcached-udp", "memcached+udp://127.0.0.1:{udp}", ["--keys", "5000"], {"GET": 40, "SET": 4}, 1e-3)],
         ["--keys", "5000", "--value-bytes", "10-4000"], udp=True),
    Spec("rpc", "rpc", "psp-rpc",
         ["--topology", "dedicated", "--workers", "2", "--preempt", "kernel-thread", "--config", "{output}/rpc.toml"],
         DISPATCHED + PREEMPTIVE,
         [Load("rpc", "protobuf://127.0.0.1:{tcp}", ["--value-bytes", "10-20000"], {"Echo": 150})],
         # The contexts of a worker are threads.
         threads_left_max=128),
    Spec("http", "http", "psp-http", ["--workers", "2", "--topology", "inline"], DISPATCHED,
         [Load("http", "http://127.0.0.1:{tcp}", [], {"fast=GET /fast": 150, "slow=GET /slow?ms=5": 4})]),
    Spec("synthetic", "psp", "psp-synthetic",
         ["--topology", "dedicated", "--workers", "2", "--preempt", "signal", "--workload", "{output}/synthetic.toml"],
         DISPATCHED + PREEMPTIVE,
         [Load("synthetic", "psp://127.0.0.1:{udp}", ["--workload", "{output}/synthetic.toml"], {"all": 100}, 1e-3)]),
    Spec("rocksdb", "kv", "psp-rocksdb",
         ["--topology", "dedicated", "--workers", "2", "--engine", "memory", "--preload", "5000"], DISPATCHED + PREEMPTIVE,
         [Load("rocksdb", "protobuf://127.0.0.1:{tcp}", ["--keys", "5000"],
               {"GET": 80, "PUT": 15, "SCAN 500": 4})],
         ["--keys", "5000"]),
]


class Server:
    """A running server."""

    def __init__(self, spec, options):
        self.spec = spec
        self.name = spec.name
        self.log = options.output / f"{spec.name}.log"
        flags = [flag.format(output=options.output) for flag in spec.flags]
        if spec.udp:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind(("127.0.0.1", 0))
                flags += ["--udp-port", str(probe.getsockname()[1])]
        command = [options.programs / spec.program, "--port", "0", "--admin", "0", *flags]
        with self.log.open("w") as log:
            # Ctrl-C is for the soak alone.
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.pid = self.process.pid
        self.policies_set = 0
        self.ports, self.admin = self.wait_until_ready()

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            log = self.log.read_text()
            admin = re.search(r"admin port at (http://\S+?)/?\s", log)
            if admin and self.is_ready(admin[1]):
                return self.ports_in(log), admin[1]
            time.sleep(0.1)
        raise SystemExit(f"{self.name} did not start:\n{self.log.read_text()}")

    @staticmethod
    def ports_in(log):
        """By the log, the first port is that of TCP, and the last that of UDP."""
        ports = re.findall(r"listening on (?:\w+ )?127\.0\.0\.1:(\d+)", log)
        return {"tcp": ports[0], "udp": ports[-1]}

    @staticmethod
    def is_ready(admin):
        try:
            with urllib.request.urlopen(f"{admin}/readyz", timeout=PATIENCE_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    def status(self):
        """What the server tells about itself."""
        with urllib.request.urlopen(f"{self.admin}/status", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def set_policy(self, policy):
        """Changes the policy. Returns why that failed, if it did."""
        request = urllib.request.Request(f"{self.admin}/policy", data=policy.encode(), method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S):
                self.policies_set += 1
                return None
        except urllib.error.HTTPError as error:
            return f"policy {policy!r} refused: {error.read().decode().strip()}"
        except OSError as error:
            return f"policy {policy!r}: {error}"

    def next_policy(self, number):
        return self.spec.policies[number % len(self.spec.policies)]

    def stop(self):
        """Ends the server by a drain. Returns why it ended badly, if it did."""
        if self.process.poll() is not None:
            return f"it ended by itself with status {self.process.returncode}"
        self.process.terminate()
        try:
            status = self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "it did not end after SIGTERM"
        return f"it ended with status {status} after SIGTERM" if status else None
