# Runs of client_throughput.sh as a markdown table: medians over the rounds of requests per second and of
# the share of its core that the client used, and psp-loadgen's figures divided by the client's of the
# same round.

def median: sort | if length % 2 == 1 then .[length / 2 | floor]
    else (.[length / 2] + .[length / 2 - 1]) / 2 end;
def hundredths: . * 100 | round / 100;

(map(select(.client == "psp-loadgen")) | map({key: "\(.round)", value: .}) | from_entries) as $psp
| "| client | requests/s | share of its core | requests per core-second | psp-loadgen / client | per core-second |",
  "| --- | ---: | ---: | ---: | ---: | ---: |",
  (group_by(.client)[]
   | [ .[0].client,
       (map(.rps) | median | round),
       (map(.core) | median | hundredths),
       (map(.rps / .core) | median | round),
       (map($psp["\(.round)"].rps / .rps) | median | hundredths),
       (map(($psp["\(.round)"] | .rps / .core) / (.rps / .core)) | median | hundredths) ]
   | "| " + (map(tostring) | join(" | ")) + " |")
