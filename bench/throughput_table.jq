# Runs of compare_redis.sh as a markdown table: requests per second by redis-benchmark, the median over the
# repeats, and psp-redis' figure divided by each other server's. Ratios below 1 are bold.

def median: sort | .[(length - 1) / 2 | floor];
def ratio: . * 100 | round / 100 | if . < 1 then "**\(.)**" else tostring end;

(group_by([.test, .pipeline, .server])
 | map({key: "\(.[0].test)/\(.[0].pipeline)/\(.[0].server)", value: (map(.rps) | median)})
 | from_entries) as $found
| (map(.server) | unique - ["psp-redis"]) as $others
| (map(.test) | unique) as $tests
| "| case | pipeline | psp-redis | \($others | map("\(.) | psp-redis / \(.)") | join(" | ")) |",
  "| --- | ---: | ---: | \($others | map("---: | ---:") | join(" | ")) |",
  ($tests[] as $test | (1, 16) as $pipeline
   | $found["\($test)/\($pipeline)/psp-redis"] as $psp
   | [$test, $pipeline, ($psp | round),
      ($others[] as $other | $found["\($test)/\($pipeline)/\($other)"] as $here
       | ($here | round), ($psp / $here | ratio))]
   | "| " + (map(tostring) | join(" | ")) + " |")
