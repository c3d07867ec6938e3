# A comparison by compare_preemption.sh as markdown tables: latencies of each type, as medians over the
# rounds and as multiples of the first target's in the same round (smallest to greatest), and the 99.9th
# percentile of short requests in every round.

# Figures that a simulation does not count are 0. They are omitted.
def rounded: if . == null or . == 0 then "" elif . < 10 then . * 100 | round / 100 else round end | tostring;
def row: "| " + join(" | ") + " |";
def ruled($texts; $numbers): "|" + (" --- |" * $texts) + (" ---: |" * $numbers);
# The latency of calm requests if the runs distinguish them.
def latency: .calm_latency_us // .latency_us;
def named($name): .[] | select(.name == $name);

.targets as $targets
| $targets[0].name as $first
| (["requests", "server", "replies/s", "failed", "p50 us", "p99 us", "p99.9 us", "p99 x \($first)",
    "p99.9 x \($first)"] | row), ruled(2; 7),
  ("short", "long"
   | . as $type
   | $targets[]
   | (.medians | named($type)) as $here
   | (first(.ratios | named($type)) // null) as $ratio
   | ($here | latency) as $points
   | [$type, .name, ($here.achieved_rps.median | rounded), ($here.failed.median | tostring), ($points.p50.median, $points.p99.median,
       $points.p999.median | rounded),
      (("p99", "p999") as $percentile
       | $ratio.latency[$percentile]
       | if . == null then "" else "\(.median | rounded) (\(.min | rounded) to \(.max | rounded))" end)]
   | row),
  "",
  (["p99.9 of short requests, us"] + [range($targets[0].runs | length) | "round \(. + 1)"] | row),
  ruled(1; $targets[0].runs | length),
  ($targets[]
   | [.name] + [.runs[].types | named("short") | latency.p999 | rounded]
   | row),
  "",
  ($targets[] | .name as $name | .runs | [.[].warnings[]] | unique[] | "- \($name): \(.)")
