# Closed-loop runs of compare_memcached.sh as a markdown table: GETs per second, the median over the
# repeats, and the rate of psp's server, $psp, divided by the server's.

def median: sort | .[(length - 1) / 2 | floor];

(group_by(.server)
 | map({key: .[0].server, value: (map(.report.overall.achieved_rps) | median)}) | from_entries) as $found
| "| server | pipelined GETs/s | \($psp) / server |",
  "| --- | ---: | ---: |",
  ($found | keys[] as $server
   | "| \($server) | \($found[$server] | round) | \($found[$psp] / $found[$server] * 100 | round / 100) |")
