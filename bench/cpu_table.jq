# Runs of compare_cpu.sh as a markdown table: medians (least to most) over the rounds of the processor time of a GET in
# microseconds, user and system together, the part of it that is the system's, and the time divided by that of $base in
# the same round.

def median: sort | if length % 2 == 1 then .[length / 2 | floor]
    else (.[length / 2] + .[length / 2 - 1]) / 2 end;
def rounded($digits): pow(10; $digits) as $factor | . * $factor | round / $factor | tostring;
def spread($digits): "\(median | rounded($digits)) (\(min | rounded($digits)) to \(max | rounded($digits)))";
def time: .user_us + .system_us;

(map(select(.server == $base)) | map({key: "\(.pipeline)/\(.round)", value: time}) | from_entries) as $base_of
| "| server | pipeline | us per GET | of it system | / \($base) | GETs/s |",
  "| --- | ---: | ---: | ---: | ---: | ---: |",
  (group_by([.pipeline, .server])[]
   | [ .[0].server,
       .[0].pipeline,
       (map(time) | spread(2)),
       (map(.system_us) | median | rounded(2)),
       (map(select($base_of["\(.pipeline)/\(.round)"] // 0 > 0) | time / $base_of["\(.pipeline)/\(.round)"])
        | if length > 0 then spread(2) else "" end),
       (map(.rps) | median | round) ]
   | "| " + (map(tostring) | join(" | ")) + " |")
