"""Whether a soak was good: nothing grew, and nothing failed that was not asked to.

What grows is found by the medians of two parts of the run, so that a moment with many connections is no growth: of the
first quarter after the warm-up, and of the last quarter. The warm-up is a tenth of the time and ten minutes at most. In
the end, when all clients are gone, a server has to have as few descriptors and threads as after the start.
"""

from statistics import median

WARMUP_SHARE = 0.1
WARMUP_S_MAX = 600
# Allocators return memory by pages and late, and a server has few megabytes.
RSS_GROWTH_MAX = 0.05
RSS_GROWTH_KIB_MAX = 8 * 1024
DESCRIPTORS_GROWTH_MAX = 16
THREADS_GROWTH_MAX = 8
# After the clients are gone: descriptors that a server makes once, when it first needs them.
DESCRIPTORS_LEFT_MAX = 8
SAMPLES_MIN = 8


def warmup_s(seconds):
    return min(WARMUP_SHARE * seconds, WARMUP_S_MAX)


def growth(rows, column, seconds):
    """The medians of the first and the last quarter after the warm-up; `None` if there are too few samples."""
    rows = [row[column] for row in rows if row["time_s"] >= warmup_s(seconds)]
    quarter = len(rows) // 4
    if quarter < SAMPLES_MIN // 4:
        return None
    return median(rows[:quarter]), median(rows[-quarter:])


def grown(rows, seconds):
    """Complaints about what grew in the rows of one server."""
    complaints = []
    if found := growth(rows, "rss_kib", seconds):
        before, after = found
        if after - before > max(RSS_GROWTH_KIB_MAX, RSS_GROWTH_MAX * before):
            complaints.append(f"memory grew from {before / 1024:.1f} to {after / 1024:.1f} MiB")
    for what, most in (("descriptors", DESCRIPTORS_GROWTH_MAX), ("threads", THREADS_GROWTH_MAX)):
        if found := growth(rows, what, seconds):
            before, after = found
            if after - before > most:
                complaints.append(f"{what} grew from {before:g} to {after:g}")
    return complaints


def left(before, after, threads_left_max):
    """Complaints about what is left of clients that are gone: two samples of one server without clients."""
    complaints = []
    if after["connections"] > before["connections"]:
        complaints.append(f"{after['connections']} connections are open, and no client is")
    if after["buffered_bytes"] > 0:
        complaints.append(f"{after['buffered_bytes']} bytes are held for nobody")
    if after["queued"] > 0:
        complaints.append(f"{after['queued']} requests are queued, and no client waits")
    for what, most in (("descriptors", DESCRIPTORS_LEFT_MAX), ("threads", threads_left_max)):
        if after[what] - before[what] > most:
            complaints.append(f"{before[what]} {what} after the start, and {after[what]} in the end")
    return complaints
