# Sweeps of the same targets as a markdown table: the highest rate that each target holds, and the conditions
# that the next rate misses.
# Input: an array of reports of `psp-loadgen sweep --output json`.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2] + .[length / 2 - 1]) / 2 end;
def rate: if . == null then "none" else round | tostring end;

# Held rates of a target over all sweeps; 0 if the target does not hold even the first rate.
def held($name): [.[].targets[] | select(.name == $name) | .held_rps // 0];
# The conditions that the first failing rate missed, in the last sweep.
def broken_by($name): .[-1].targets[] | select(.name == $name)
    | ([.points[] | select(.misses != [])][0].misses // ["no rate that was tried"]) | join("; ");

. as $sweeps
| [.[0].targets[].name] as $names
| ($sweeps | held($names[0]) | median) as $base
| "| policy | held, requests/s | / \($names[0]) | each sweep | next rate misses |",
  "| --- | ---: | ---: | --- | --- |",
  ($names[] as $name
    | ($sweeps | held($name)) as $held
    | ($held | median) as $median
    | "| \($name) | \($median | rate) | \(if $base > 0 then ($median / $base * 100 | round / 100) else "-" end) | \($held | map(rate) | join(", ")) | \($sweeps | broken_by($name)) |")
