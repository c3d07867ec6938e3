"""The page: each server's figures over time as curves, and the verdict. One file that needs no other."""

import html
import math

WIDTH, HEIGHT = 420, 150
LEFT, RIGHT, TOP, BOTTOM = 58, 8, 8, 22
POINTS_MAX = 600
COLOURS = ["#1f6f8b", "#c05621", "#6b46c1", "#2f855a", "#b83280"]

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1320px; color: #222; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin: 1.6em 0 .3em; }
.good { color: #276749; } .bad { color: #9b2c2c; }
.row { display: flex; flex-wrap: wrap; gap: 10px; } figure { margin: 0; } figcaption { font-size: 12px; color: #555; }
text { font: 10px system-ui, sans-serif; fill: #555; } table { border-collapse: collapse; }
td, th { padding: 2px 10px; text-align: right; } td:first-child, th:first-child { text-align: left; }
"""


def ticks(low, high):
    """About four round numbers."""
    span = high - low or 1
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first = math.ceil(low / step)
    return [step * number for number in range(first, math.floor(high / step) + 1)]


def thinned(points):
    """Of several neighbours the highest, so that no peak is lost."""
    size = -(-len(points) // POINTS_MAX) or 1
    return [max(points[at:at + size], key=lambda point: point[1]) for at in range(0, len(points), size)]


def short(value):
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g}"


def chart(title, curves, seconds, is_log=False):
    """Curves are names with points of seconds and values."""
    curves = [(name, [(at, value) for at, value in points if value is not None]) for name, points in curves]
    values = [value for _, points in curves for _, value in points if value > 0 or not is_log]
    if not values:
        return ""
    if is_log:
        low = math.floor(math.log10(min(values)))
        high = max(math.ceil(math.log10(max(values))), low + 1)
        marks = [(number, short(10 ** number)) for number in range(low, high + 1)]
        scale = lambda value: math.log10(max(value, 10 ** low))
    else:
        low, high = 0, max(values) * 1.05 or 1
        marks = [(number, short(number)) for number in ticks(low, high)]
        scale = lambda value: value
    x = lambda at: LEFT + (WIDTH - LEFT - RIGHT) * at / seconds
    y = lambda value: TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)
    parts = []
    for value, name in marks:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 4}" y="{y(value) + 3:.1f}" text-anchor="end">{name}</text>')
    unit, name = next((pair for pair in ((3600, "h"), (60, "min"), (1, "s")) if seconds >= 2 * pair[0]), (1, "s"))
    for number in ticks(0, seconds / unit):
        parts.append(f'<text x="{x(number * unit):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{number:g} {name}</text>')
    for colour, (_, points) in zip(COLOURS, curves):
        path = " ".join(f"{x(at):.1f},{y(scale(value)):.1f}" for at, value in thinned(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
    legend = " ".join(f'<span style="color:{colour}">{html.escape(name)}</span>'
                      for colour, (name, _) in zip(COLOURS, curves))
    return (f'<figure><figcaption>{html.escape(title)} {legend if len(curves) > 1 else ""}</figcaption>'
            f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg></figure>')


def of_server(name, processes, latencies, seconds):
    """The charts of one server."""
    rows = processes.of(name)
    curve = lambda column, by=1: [(row["time_s"], row[column] / by) for row in rows]
    busy = [(after["time_s"], (after["cpu_s"] - before["cpu_s"]) / max(after["time_s"] - before["time_s"], 1e-9))
            for before, after in zip(rows, rows[1:])]
    charts = [
        chart("memory, MiB", [("rss", curve("rss_kib", 1024))], seconds),
        chart("descriptors", [("descriptors", curve("descriptors")), ("connections", curve("connections"))], seconds),
        chart("threads", [("threads", curve("threads"))], seconds),
    ]
    of_type = {}
    for row in latencies.of(name):
        of_type.setdefault(row["type"], []).append(row)
    for type_name, rows_of_type in of_type.items():
        quantiles = [(label, [(row["time_s"], row[column]) for row in rows_of_type])
                     for label, column in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"))]
        charts.append(chart(f"{type_name}: latency, us", quantiles, seconds, is_log=True))
    charts.append(chart("cores in use", [("cores", busy)], seconds))
    return f"<h2>{html.escape(name)}</h2><div class=row>{''.join(charts)}</div>"


def write(path, outcome, processes, latencies):
    """`outcome` has the verdict and what else is known of the soak as a whole."""
    seconds = max(outcome["seconds"], 1e-9)
    verdict = outcome["verdict"]
    complaints = "".join(f"<li>{html.escape(text)}</li>" for text in outcome["complaints"])
    counts = "".join(
        f"<tr><td>{html.escape(row['server'])}</td><td>{row['completed']:,}</td><td>{row['failed']:,}</td>"
        f"<td>{row['policies']}</td><td>{row['misbehaved']:,}</td></tr>" for row in outcome["servers"])
    charts = "".join(of_server(row["server"], processes, latencies, seconds) for row in outcome["servers"])
    path.write_text(f"""<!doctype html><html lang=en><meta charset=utf-8><title>psp: a soak</title><style>{STYLE}</style>
<h1>A soak of {seconds / 3600:.2f} hours: <span class={'good' if verdict == 'good' else 'bad'}>{verdict}</span></h1>
<p>{html.escape(outcome['conditions'])}</p><ul class=bad>{complaints}</ul>
<table><tr><th>server</th><th>requests answered</th><th>failed</th><th>policies set</th><th>odd and bad clients</th></tr>
{counts}</table>{charts}</html>
""")
