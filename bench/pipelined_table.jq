# Closed-loop runs of compare_memcached.sh to a markdown table: GETs per second, the median over the
# repeats, and how many times psp's server, $psp, has the server's.

def median: sort | .[(length - 1) / 2 | floor];

(group_by(.server)
 | map({key: .[0].server, value: (map(.report.overall.achieved_rps) | median)}) | from_entries) as $found
| "| server | pipelined GETs/s | \($psp) has |",
  "| --- | ---: | ---: |",
  ($found | keys[] as $server
   | "| \($server) | \($found[$server] | round) | \($found[$psp] / $found[$server] * 100 | round / 100) x |")
