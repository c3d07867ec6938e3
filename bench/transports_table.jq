# Runs of compare_transports.sh as a markdown table: medians over the rounds.

def median: sort | .[(length - 1) / 2 | floor];
def rounded: if . < 100 then . * 10 | round / 10 else round end;

"| transport | requests outstanding | requests/s | p50 us | p99 us | p99.9 us | failed |",
"| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
(group_by([.transport, .outstanding])[]
 | map(.report.overall) as $runs
 | [ .[0].transport, .[0].outstanding,
     ($runs | map(.achieved_rps) | median | round),
     ($runs | map(.latency_us.p50) | median | rounded),
     ($runs | map(.latency_us.p99) | median | rounded),
     ($runs | map(.latency_us.p999) | median | rounded),
     ($runs | map(([.errors[]] | add // 0) + .dropped + .timeouts) | add) ]
 | "| " + (map(tostring) | join(" | ")) + " |")
