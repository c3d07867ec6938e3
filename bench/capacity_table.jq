# Sweeps of the same targets as a markdown table: the rate that each holds, and what broke the next.
# Input: an array of reports of `psp-loadgen sweep --output json`.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2] + .[length / 2 - 1]) / 2 end;
def rate: if . == null then "none" else round | tostring end;

# Held rates of a target over all sweeps; 0 where not even the first rate was held.
def held($name): [.[].targets[] | select(.name == $name) | .held_rps // 0];
# What the first rate beyond that missed, in the last sweep.
def broken_by($name): .[-1].targets[] | select(.name == $name)
    | ([.points[] | select(.misses != [])][0].misses // ["nothing that was tried"]) | join("; ");

. as $sweeps
| [.[0].targets[].name] as $names
| ($sweeps | held($names[0]) | median) as $base
| "| policy | held, requests/s | of \($names[0])'s | each sweep | broken by |",
  "| --- | ---: | ---: | --- | --- |",
  ($names[] as $name
    | ($sweeps | held($name)) as $held
    | ($held | median) as $median
    | "| \($name) | \($median | rate) | \(if $base > 0 then ($median / $base * 100 | round / 100) else "-" end) | \($held | map(rate) | join(", ")) | \($sweeps | broken_by($name)) |")
