# Rounds of compare_waits.sh as a markdown table: the median of each figure, and its range.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def rounded: if . < 10 then . * 10 | round / 10 else round end | tostring;
def spread: "\(median | rounded) (\(min | rounded) to \(max | rounded))";

. as $rounds
| "| policy | closed loop, answers/s | short requests, p99 beside the others, us | alone, us | ratio in a round |",
  "| --- | ---: | ---: | ---: | ---: |",
  (reduce $rounds[].policy as $policy ([]; if index([$policy]) then . else . + [$policy] end)
   | .[]
   | . as $policy
   | [$rounds[] | select(.policy == $policy)]
   | "| `\($policy)` | \(map(.answers) | spread) | \(map(.beside) | spread) | \(map(.alone) | spread) | \(
       map(.beside / .alone) | spread) |")
