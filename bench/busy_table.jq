# Rounds of compare_busy.sh as a markdown table. Each figure is the quantile $quantile over the rounds (0.5: the median);
# answered requests are those of all rounds.

def typical: sort | .[(length - 1) * $quantile | floor];
def ms: . / 10 | round / 100;

"| beside | loops | server | long p50 ms | long p99 ms | answered | GET p50 ms | GET p99 ms |",
"| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
(group_by([.case, .loops, .server])[]
 | .[0] as $here
 | map(.types[] | select(.name == "GET")) as $get
 | map(.types[] | select(.name != "GET")) as $long
 | [$here.case, $here.loops, $here.server,
    ($long | map(.latency_us.p50 // 0) | typical | ms), ($long | map(.latency_us.p99 // 0) | typical | ms),
    "\($long | map(.completed) | add) of \($long | map(.scheduled) | add)",
    ($get | map(.latency_us.p50 // 0) | typical | ms), ($get | map(.latency_us.p99 // 0) | typical | ms)]
 | "| " + (map(tostring) | join(" | ")) + " |")
