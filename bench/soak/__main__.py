"""Runs servers under clients for hours: bench/soak.sh says what, and how it is called."""

import argparse
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import clients
import page
import sampling
import verdict
from servers import RPC, SPECS, SYNTHETIC, Server

SAMPLE_S = 5
SLICE_S = 10
POLICY_S = 7
QUIET_S = 30
FAILURES_SHOWN = 20


class Soak:
    """One soak, from the start of the servers to the page."""

    def __init__(self, options):
        self.options = options
        self.stop = threading.Event()
        self.processes = sampling.processes(options.output)
        self.latencies = sampling.latencies(options.output)
        self.lock = threading.Lock()
        self.complaints = []
        self.answered, self.failed, self.lost = {}, {}, {}
        self.servers, self.clients, self.loads = [], [], []
        self.started = self.ended = time.monotonic()

    def now_s(self):
        return time.monotonic() - self.started

    def complain(self, text):
        with self.lock:
            self.complaints.append(text)
        self.say(text)

    def say(self, text):
        line = f"{self.now_s():8.1f} s  {text}"
        print(line, flush=True)

    def loadgen(self, *arguments):
        return subprocess.Popen([self.options.programs / "psp-loadgen", *arguments], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True)

    def start(self):
        wanted = self.options.servers.split(",") if self.options.servers else None
        for spec in SPECS:
            if wanted and spec.name not in wanted:
                continue
            server = Server(spec, self.options)
            self.servers.append(server)
            if spec.preload:
                target = spec.loads[0].target.format(**server.ports)
                preload = self.loadgen("preload", "--target", target, *spec.preload)
                _, errors = preload.communicate()
                if preload.returncode:
                    raise SystemExit(f"preload of {spec.name}: {errors}")
        if not self.servers:
            raise SystemExit(f"there are these servers: {', '.join(spec.name for spec in SPECS)}")
        self.before = {server.name: self.look(server) for server in self.servers}
        self.started = time.monotonic()
        self.clients = clients.clients(self.servers, self.options.seed, self.stop)
        self.loads = [threading.Thread(target=self.load, args=(server, load), daemon=True)
                      for server in self.servers for load in server.spec.loads]
        for thread in self.clients + self.loads:
            thread.start()

    def look(self, server):
        return sampling.process(server) | sampling.told(server)

    def load(self, server, load):
        """Sends what clients that behave send, in runs of some seconds each."""
        for number in itertools.count():
            if self.stop.is_set():
                return
            at_s = self.now_s()
            run = self.loadgen(*load.command(server, SLICE_S, self.options.seed + number, self.options.rate,
                                             self.options.output))
            while run.poll() is None and not self.stop.wait(0.2):
                pass
            # Ends it with the requests that are in flight.
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
            text, errors = run.communicate()
            if run.returncode and not self.stop.is_set():
                self.complain(f"{load.name}: psp-loadgen ended with status {run.returncode}: {errors.strip()[-300:]}")
                self.stop.wait(1)
                continue
            if text.strip():
                self.note(server, load, at_s, json.loads(text))

    def note(self, server, load, at_s, report):
        for kind in report["types"]:
            latency = kind["latency_us"] or {}
            reasons = sampling.failed(kind)
            if report["interrupted"]:
                reasons.pop("unfinished", None)
            count = sum(reasons.values())
            with self.lock:
                counted = self.lost if load.lost_share_max else self.failed
                counted[load.name] = counted.get(load.name, 0) + count
                self.answered[load.name] = self.answered.get(load.name, 0) + kind["completed"]
                self.latencies.add(
                    time_s=round(at_s, 1), server=server.name, type=f"{load.name} {kind['name']}",
                    completed=kind["completed"], failed=count,
                    p50_us=latency.get("p50"), p99_us=latency.get("p99"), p999_us=latency.get("p999"))
            if reasons and not load.lost_share_max:
                self.complain(f"{load.name}: {kind['name']} failed: {reasons}")

    def run(self):
        """Samples and changes policies until the time is over."""
        seconds = self.options.hours * 3600
        policy_at_s, policies = POLICY_S, 0
        sample_at_s = 0
        while self.now_s() < seconds and not self.stop.is_set():
            if self.now_s() >= sample_at_s:
                self.sample()
                sample_at_s += SAMPLE_S
            if self.now_s() >= policy_at_s:
                for server in self.servers:
                    if reason := server.set_policy(server.next_policy(policies)):
                        self.complain(f"{server.name}: {reason}")
                policies, policy_at_s = policies + 1, policy_at_s + POLICY_S
            self.stop.wait(max(0.05, min(sample_at_s, policy_at_s, seconds) - self.now_s()))
        self.ended = time.monotonic()

    def sample(self):
        for server in self.servers:
            try:
                self.processes.add(time_s=round(self.now_s(), 1), server=server.name, **self.look(server))
            except (OSError, KeyError, ValueError) as error:
                self.complain(f"{server.name}: no sample: {error}")
                if server.process.poll() is not None:
                    self.stop.set()

    def finish(self):
        """Ends the clients, looks at what they leave behind, and ends the servers."""
        seconds = self.ended - self.started
        self.say("the clients end")
        self.stop.set()
        for thread in self.clients + self.loads:
            thread.join(timeout=2 * QUIET_S)
        for server in self.servers:
            if server.process.poll() is None:
                for complaint in self.what_is_left(server):
                    self.complain(f"{server.name}: {complaint}")
            if complaint := server.stop():
                self.complain(f"{server.name}: {complaint}")
            for complaint in verdict.grown(self.processes.of(server.name), seconds):
                self.complain(f"{server.name}: {complaint}")
        for client in self.clients:
            for _, failure in client.failures[:FAILURES_SHOWN]:
                self.complain(failure)
        for server in self.servers:
            for load in server.spec.loads:
                lost, answered = self.lost.get(load.name, 0), self.answered.get(load.name, 0)
                if lost > load.lost_share_max * (lost + answered) + 1:
                    self.complain(f"{load.name}: {lost} datagrams of {lost + answered} were lost")
                if answered == 0 and seconds > 2 * SLICE_S:
                    self.complain(f"{load.name}: nothing was answered")
        return self.outcome(seconds)

    def what_is_left(self, server):
        """Waits until nothing is left of the clients, and returns complaints if something stays."""
        deadline = time.monotonic() + QUIET_S
        while True:
            try:
                complaints = verdict.left(
                    self.before[server.name], self.look(server), server.spec.threads_left_max)
            except OSError as error:
                complaints = [f"no sample: {error}"]
            if not complaints or time.monotonic() > deadline:
                return complaints
            time.sleep(0.5)

    def outcome(self, seconds):
        done = {client.server.name: sum(client.done.values()) for client in self.clients}
        is_early = seconds < self.options.hours * 3600 - SAMPLE_S
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        rows = [{
            "server": server.name,
            "completed": sum(self.answered.get(load.name, 0) for load in server.spec.loads),
            "failed": sum(self.failed.get(load.name, 0) + self.lost.get(load.name, 0) for load in server.spec.loads)
            + sum(len(client.failures) for client in self.clients if client.server is server),
            "policies": server.policies_set,
            "misbehaved": done.get(server.name, 0),
        } for server in self.servers]
        outcome = {
            "verdict": "bad" if self.complaints else "good",
            "seconds": seconds,
            "ended_early": is_early,
            "complaints": self.complaints,
            "servers": rows,
            "conditions": f"Commit {commit}, {os.cpu_count()} cores, Linux {platform.release()}, seed {self.options.seed}, "
            f"rate {self.options.rate:g}, started {time.strftime('%Y-%m-%d %H:%M', time.localtime(time.time() - self.now_s()))}"
            + (", ended early" if is_early else "") + ".",
        }
        (self.options.output / "outcome.json").write_text(json.dumps(outcome, indent=1))
        page.write(self.options.output / "soak.html", outcome, self.processes, self.latencies)
        return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "synthetic.toml").write_text(SYNTHETIC)
    (options.output / "rpc.toml").write_text(RPC)

    soak = Soak(options)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: soak.stop.set())
    outcome = None
    try:
        soak.start()
        soak.run()
        outcome = soak.finish()
    finally:
        for server in soak.servers:
            if server.process.poll() is None:
                server.process.kill()
    for row in outcome["servers"]:
        print(f"{row['server']:>18}: {row['completed']:>10,} answered, {row['failed']} failed, "
              f"{row['misbehaved']:,} odd and bad clients, {row['policies']} policies")
    print(f"{outcome['verdict']}: {options.output / 'soak.html'}")
    sys.exit(0 if outcome["verdict"] == "good" else 1)


main()
