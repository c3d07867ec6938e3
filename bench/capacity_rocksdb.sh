#!/usr/bin/env bash
# Measures the highest rate at which psp-rocksdb keeps p99.9 of every type within 20 times the type's
# latency on an idle server, under DARC, c-FCFS and d-FCFS: half GETs, half SCANs of 5000 entries. A
# machine's speed drifts, so all servers run at once and receive each rate in turn. Prints a markdown
# table and keeps every raw result. docs/rocksdb.md explains how to read it.
#
#   bench/capacity_rocksdb.sh [OUTPUT_DIR]
#
# Needs jq, and librocksdb-dev unless ENGINE=memory. Settings come from the environment; the defaults are
# below and in bench/servers.sh. For the papers' other mix: MIX='GET:99.5,SCAN 1000:0.5' FROM=4000

set -euo pipefail
cd "$(dirname "$0")/.."

MIX=${MIX:-GET:50,SCAN 5000:50}
SLOWDOWN=${SLOWDOWN:-20}
# The latency percentile; p99 needs a tenth of the time. Of calm requests unless CALM=0.
METRIC=${METRIC:-p99_9}
# The type that must keep the slowdown; empty for all types.
SLO_TYPE=${SLO_TYPE:-}
# Conditions in place of the slowdown, such as 'GET.p99_9 <= 1ms,SCAN.p99_9 <= 20ms'.
SLO=${SLO:-}
POLICIES=${POLICIES:-c-fcfs d-fcfs darc}
ENGINE=${ENGINE:-rocksdb}
KEYS=${KEYS:-5000}
# At least one worker for DARC to reserve, and one for the scans.
WORKERS=${WORKERS:-2}
REPEATS=${REPEATS:-3}
DURATION_S=${DURATION_S:-20}
WARMUP_S=${WARMUP_S:-2}
# First rate, factor between successive rates, and precision of the result.
FROM=${FROM:-100}
FACTOR=${FACTOR:-1.3}
PRECISION=${PRECISION:-0.05}
# Most requests of a type in the server at once: enough that none waits in the client.
CONNECTIONS=${CONNECTIONS:-64}
# A generator that spins takes a core from the server; see docs/loadgen.md.
LOADGEN_FLAGS=${LOADGEN_FLAGS:---spin-us 20}
# Extra flags for psp-rocksdb, such as "--preempt none".
PSP_ROCKSDB_FLAGS=${PSP_ROCKSDB_FLAGS:-}
# Keep cores from sleeping (keep_awake in servers.sh); 0 turns it off.
KEEP_AWAKE=${KEEP_AWAKE:-1}
PORT_FIRST=${PORT_FIRST:-7700}
# Location of the databases: a tmpfs, or a directory on the disk to measure.
export TMPDIR=${DATA_PARENT:-/dev/shm}

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/capacity_rocksdb/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_ROCKSDB:-} || -z ${LOADGEN:-} ]]; then
    features=()
    [[ $ENGINE != rocksdb ]] || features=(--features psp-rocksdb/rocksdb)
    cargo build --release -p psp-rocksdb -p psp-loadgen "${features[@]}"
fi
PSP_ROCKSDB=${PSP_ROCKSDB:-$target_dir/release/psp-rocksdb}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

# answers PORT: whether a server listens there.
answers() {
    (: </dev/tcp/127.0.0.1/"$1") 2>/dev/null
}
. bench/servers.sh

# shellcheck disable=SC2086 # the flags and policies are words
for policy in $POLICIES; do
    data=()
    [[ $ENGINE == memory ]] || data=(--data-dir "$work/$policy")
    start "$policy" "$PSP_ROCKSDB" --port '{port}' --engine "$ENGINE" "${data[@]}" --preload "$KEYS" \
        --workers "$WORKERS" --topology dedicated --policy "$policy" --log-level warn $PSP_ROCKSDB_FLAGS
done
((!KEEP_AWAKE)) || keep_awake

# medians_alone REPEAT: measures the latency of each type alone, one request after the other. Prints
# NAME MEDIAN_US for each. Rare requests would find cores asleep, unlike those of a loaded server.
medians_alone() {
    local items item name
    IFS=, read -ra items <<<"$MIX"
    for item in "${items[@]}"; do
        name=${item%% *}
        name=${name%%:*}
        # shellcheck disable=SC2086
        "${priority[@]}" "$LOADGEN" run $LOADGEN_FLAGS --target "protobuf://127.0.0.1:${port_of[${servers[0]}]}" \
            --keys "$KEYS" --mix "${item%:*}:1" --closed-loop 1 --warmup 1 --duration 3 --seed "$1" \
            --output json >"$output/alone.$name.$1.json"
        jq -r --arg name "$name" '"\($name) \(.types[0].latency_us.p50)"' "$output/alone.$name.$1.json"
    done
}

# objective REPEAT: prints the conditions that a rate must meet.
objective() {
    local name median_us
    if [[ -n $SLO ]]; then
        tr , '\n' <<<"$SLO"
        return
    fi
    medians_alone "$1" | while read -r name median_us; do
        [[ -z $SLO_TYPE || $SLO_TYPE == "$name" ]] || continue
        echo "$name.${calm:+calm_}$METRIC <= $(jq -n "$median_us * $SLOWDOWN | round")us"
    done
}

targets=()
for server in "${servers[@]}"; do
    targets+=("$server=protobuf://127.0.0.1:${port_of[$server]}")
done
for ((repeat = 1; repeat <= REPEATS; repeat++)); do
    objective "$repeat" >"$output/objective.$repeat.txt"
    slo=()
    while read -r condition; do
        slo+=(--slo "$condition")
        echo "repeat $repeat: $condition" >&2
    done <"$output/objective.$repeat.txt"
    status=0
    # shellcheck disable=SC2086
    "${priority[@]}" "$LOADGEN" sweep "${targets[@]}" $LOADGEN_FLAGS "${calm[@]}" --keys "$KEYS" --mix "$MIX" "${slo[@]}" \
        --connections "$CONNECTIONS" --from "$FROM" --factor "$FACTOR" --precision "$PRECISION" \
        --warmup "$WARMUP_S" --duration "$DURATION_S" --seed "$repeat" --output json \
        >"$output/sweep.$repeat.json" || status=$?
    # 3: a policy does not hold even the first rate, which is a result.
    ((status == 0 || status == 3)) || exit "$status"
done

{
    printf '%s, %s cores, %s workers, %s repeats of %s s at each rate; %s, %s keys in %s\n' \
        "$(uname -sr)" "$(nproc)" "$WORKERS" "$REPEATS" "$DURATION_S" "$MIX" "$KEYS" "$ENGINE"
    for ((repeat = 1; repeat <= REPEATS; repeat++)); do
        printf 'sweep %s: %s\n' "$repeat" "$(paste -sd ';' "$output/objective.$repeat.txt" | sed 's/;/; /g')"
    done
    printf '\n'
    jq -rsf bench/capacity_table.jq "$output"/sweep.*.json
} | tee "$output/tables.md"
echo "raw results: $output" >&2
