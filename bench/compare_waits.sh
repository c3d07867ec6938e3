#!/usr/bin/env bash
# Measures psp-synthetic with 200 clients whose requests wait 50 ms, under several policies: answers per second
# in a closed loop, and the p99 of short requests beside such requests and alone. A machine's speed drifts, so
# policies take turns round by round. Prints the table of docs/waiting.md and keeps every raw result.
#
#   bench/compare_waits.sh [OUTPUT_DIR]
#
# Takes about 5 minutes besides the build. Needs jq, and a machine with nothing else to do. Settings come from the
# environment; the defaults are below and in bench/servers.sh. Other policies, one a line:
#
#   POLICIES=$'mq\nmq quantum-us=1000' bench/compare_waits.sh

set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${ROUNDS:-5}
DURATION_S=${DURATION_S:-4}
WARMUP_S=${WARMUP_S:-1}
POLICIES=${POLICIES:-$'darc\nc-fcfs\nmq\nmq quantum-us=5'}
WORKERS=${WORKERS:-2}
CLIENTS=${CLIENTS:-200}
# Of both types together; a fifth of it is short.
RATE=${RATE:-4750}
PORT_FIRST=${PORT_FIRST:-7800}

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/compare_waits/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_SYNTHETIC:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release --bin psp-synthetic --bin psp-loadgen
fi
PSP_SYNTHETIC=${PSP_SYNTHETIC:-$target_dir/release/psp-synthetic}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

# type NAME SHARE FIELD..: a type of a workload file.
type() {
    printf '[[type]]\nname = "%s"\nshare = %s\n' "$1" "$2"
    printf '%s\n' "${@:3}"
}
short=("service_us = 5.0")
waits=("service_us = 20.0" "wait_us = 50000.0")
{ type short 0.2 "${short[@]}" && type waits 0.8 "${waits[@]}"; } >"$output/mixed.toml"
type short 1 "${short[@]}" >"$output/short.toml"
type waits 1 "${waits[@]}" >"$output/waits.toml"

# answers PORT: whether a server is bound there.
answers() {
    grep -qi ":$(printf %04x "$1") " /proc/net/udp
}
. bench/servers.sh

mapfile -t policies <<<"$POLICIES"
for policy in "${policies[@]}"; do
    start "$policy" "$PSP_SYNTHETIC" --port '{port}' --workload "$output/mixed.toml" --topology dedicated \
        --workers "$WORKERS" --policy "$policy" --log-level warn
done

# measure WORKLOAD FLAG..: the result of one run against $policy.
measure() {
    "$LOADGEN" run "${calm[@]}" --target "psp://127.0.0.1:${port_of[$policy]}" --workload "$output/$1.toml" \
        --warmup "$WARMUP_S" --duration "$DURATION_S" --output json "${@:2}"
}

for ((round = 1; round <= ROUNDS; round++)); do
    for policy in "${policies[@]}"; do
        raw=$output/${policy// /-}.$round
        measure waits --closed-loop "$CLIENTS" >"$raw.closed.json"
        measure mixed --rate "$RATE" >"$raw.beside.json"
        measure short --rate "$((RATE / 5))" >"$raw.alone.json"
        jq -c --arg policy "$policy" -s 'def p99: first(.types[] | select(.name == "short")) | (.calm_latency_us // .latency_us).p99;
            {$policy, answers: .[0].overall.achieved_rps, beside: (.[1] | p99), alone: (.[2] | p99)}' \
            "$raw.closed.json" "$raw.beside.json" "$raw.alone.json" >>"$output/rounds.jsonl"
    done
done

jq -rsf bench/waits_table.jq "$output/rounds.jsonl" | tee "$output/table.md"
echo "raw results: $output" >&2
