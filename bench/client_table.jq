# Runs of client_throughput.sh to a markdown table: medians over the rounds of requests per second and
# of the part of its core that the client used, and how many times psp-loadgen's figures of the same
# round are the client's.

def median: sort | if length % 2 == 1 then .[length / 2 | floor]
    else (.[length / 2] + .[length / 2 - 1]) / 2 end;
def hundredths: . * 100 | round / 100;

(map(select(.client == "psp-loadgen")) | map({key: "\(.round)", value: .}) | from_entries) as $psp
| "| client | requests/s | of its core | per second of its core | psp-loadgen / client | per second of core |",
  "| --- | ---: | ---: | ---: | ---: | ---: |",
  (group_by(.client)[]
   | [ .[0].client,
       (map(.rps) | median | round),
       (map(.core) | median | hundredths),
       (map(.rps / .core) | median | round),
       (map($psp["\(.round)"].rps / .rps) | median | hundredths),
       (map(($psp["\(.round)"] | .rps / .core) / (.rps / .core)) | median | hundredths) ]
   | "| " + (map(tostring) | join(" | ")) + " |")
