# Runs of compare_redis.sh or compare_memcached.sh as a markdown table: GET latencies beside each slow
# command. Each figure is the quantile $quantile over the repeats (0.5: the median). "x alone" divides by
# the same server's figure without the slow command. The last columns divide by the figure of psp's
# server, $psp. Latencies are those of calm requests if the runs distinguish them.

def typical: sort | .[(length - 1) * $quantile | floor];
def rounded: if . < 10 then . * 100 | round / 100 else round end;

# The latency percentiles of GET and the refused or lost requests of all types.
def figures:
  map(.report.types[] | select(.name == "GET") | .calm_latency_us // .latency_us) as $get
  | {
      p50: ($get | map(.p50) | typical),
      p99: ($get | map(.p99) | typical),
      p999: ($get | map(.p999) | typical),
      max: ($get | map(.max) | max),
      failed: (map(.report.types[] | ([.errors[]] | add // 0) + .dropped + .timeouts) | add),
    };

["alone", "KEYS", "LRANGE", "SORT", "ZRANGE", "MGET", "EVAL", "XRANGE", "PUBLISH", "MULTI", "multiget"] as $cases
| (group_by([.case, .server])
   | map({key: (.[0].case + "/" + .[0].server), value: figures}) | from_entries) as $found
| (map(.server) | unique) as $servers
| "| beside | server | GET p50 us | p99 us | p99.9 us | max us | p99 x alone | p99.9 x alone | p99 / \($psp) | p99.9 / \($psp) | failed |",
  "| --- | --- " + ("| ---: " * 9) + "|",
  ($cases[] as $case | $servers[] as $server
   | $found[$case + "/" + $server] as $here
   | select($here)
   | $found["alone/" + $server] as $alone
   | $found[$case + "/" + $psp] as $ours
   | [$case, $server,
      ($here.p50, $here.p99, $here.p999, $here.max,
       $here.p99 / $alone.p99, $here.p999 / $alone.p999,
       $here.p99 / $ours.p99, $here.p999 / $ours.p999 | rounded),
      $here.failed]
   | "| " + (map(tostring) | join(" | ")) + " |")
