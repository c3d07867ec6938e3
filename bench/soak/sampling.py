"""Samples of processes and of latencies, as rows that are kept and written to CSV files at once."""

import csv
import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Table:
    """Rows of named figures, in memory and in a file."""

    def __init__(self, path, columns):
        self.rows = []
        self.file = path.open("w", newline="")
        self.writer = csv.DictWriter(self.file, columns)
        self.writer.writeheader()

    def add(self, **row):
        self.rows.append(row)
        self.writer.writerow(row)
        self.file.flush()

    def of(self, server):
        return [row for row in self.rows if row["server"] == server]


def processes(output):
    return Table(output / "processes.csv", [
        "time_s", "server", "rss_kib", "descriptors", "threads", "cpu_s", "connections", "buffered_bytes", "queued"])


def latencies(output):
    return Table(output / "latencies.csv", [
        "time_s", "server", "type", "completed", "failed", "p50_us", "p99_us", "p999_us"])


def process(server):
    """What the system tells about a server's process."""
    folder = Path(f"/proc/{server.pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    times = (folder / "stat").read_text().rpartition(")")[2].split()
    return {
        "rss_kib": int(status["VmRSS"].split()[0]),
        "descriptors": len(os.listdir(folder / "fd")),
        "threads": int(status["Threads"]),
        "cpu_s": (int(times[11]) + int(times[12])) / TICKS_PER_S,
    }


def told(server):
    """What a server tells about itself."""
    status = server.status()
    net = status["net"]
    return {
        "connections": net["connections_open"],
        "buffered_bytes": net["buffered_bytes"],
        "queued": sum(row["queued"] for row in status["types"]),
    }


def failed(summary):
    """Requests of a report of psp-loadgen that got no reply, or an error, by reason."""
    reasons = {name: summary[name] for name in ("timeouts", "dropped", "unfinished") if summary[name]}
    return reasons | {kind: count for kind, count in summary["errors"].items() if count}
