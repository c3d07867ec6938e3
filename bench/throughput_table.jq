# Runs of compare_redis.sh as a markdown table: requests per second by redis-benchmark, the mean over the
# repeats, and psp-redis' figure divided by the server's.

def mean: add / length;

(group_by([.test, .pipeline, .server])
 | map({key: "\(.[0].test)/\(.[0].pipeline)/\(.[0].server)", value: (map(.rps) | mean)})
 | from_entries) as $found
| (map(.server) | unique) as $servers
| "| test | pipeline | server | requests/s | psp-redis / server |",
  "| --- | ---: | --- | ---: | ---: |",
  (("GET", "SET") as $test | (1, 16) as $pipeline | $servers[] as $server
   | $found["\($test)/\($pipeline)/\($server)"] as $here
   | $found["\($test)/\($pipeline)/psp-redis"] as $psp
   | [$test, $pipeline, $server, ($here | round), ($psp / $here * 100 | round / 100)]
   | "| " + (map(tostring) | join(" | ")) + " |")
