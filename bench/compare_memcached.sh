#!/usr/bin/env bash
# Compares psp-memcached with memcached at one, two and four threads: the tail latency of GETs beside
# multigets of 5000 keys, and pipelined single GETs. A machine's speed drifts, so servers take turns in
# several rounds. Prints markdown tables and keeps every raw result.
#
#   bench/compare_memcached.sh [OUTPUT_DIR]
#
# Needs memcached and jq. Settings come from the environment; the defaults are below and in
# bench/servers.sh.

set -euo pipefail
cd "$(dirname "$0")/.."

REPEATS=${REPEATS:-3}
DURATION_S=${DURATION_S:-10}
WARMUP_S=${WARMUP_S:-2}
# A generator that spins takes a core from the server; see docs/loadgen.md.
LOADGEN_FLAGS=${LOADGEN_FLAGS:---spin-us 20}
GET_RATE=${GET_RATE:-10000}
MULTIGET=${MULTIGET:-MGET 5000@10/s}
KEYS=${KEYS:-100000}
CONNECTIONS=${CONNECTIONS:-16}
PIPELINE=${PIPELINE:-16}
# The cases to measure, as a regular expression: alone, multiget, pipelined.
ONLY=${ONLY:-.}
# Keep cores from sleeping (keep_awake in servers.sh); 0 turns it off.
KEEP_AWAKE=${KEEP_AWAKE:-1}
PORT_FIRST=${PORT_FIRST:-7700}
MEMCACHED=${MEMCACHED:-memcached}
MEMCACHED_THREADS=${MEMCACHED_THREADS:-1 2 4}
# Extra flags for psp-memcached, such as "--policy c-fcfs --topology dedicated".
PSP_MEMCACHED_FLAGS=${PSP_MEMCACHED_FLAGS:-}

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/compare_memcached/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_MEMCACHED:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release --bin psp-memcached --bin psp-loadgen
fi
PSP_MEMCACHED=${PSP_MEMCACHED:-$target_dir/release/psp-memcached}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

# answers PORT: whether a memcached listens there.
answers() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$1"
        printf 'mn\r\n' >&3
        read -r -t 1 -n 2 reply <&3
        [[ $reply == MN ]]
    ) 2>/dev/null
}

. bench/servers.sh
readonly COMMON_FLAGS=(-l 127.0.0.1 -p {port} -m 256 -c 1024)

# shellcheck disable=SC2086 # the flags are words
start psp-memcached "$PSP_MEMCACHED" $PSP_MEMCACHED_FLAGS "${COMMON_FLAGS[@]}"
user=()
((EUID)) || user=(-u root)
for threads in $MEMCACHED_THREADS; do
    start "memcached-t$threads" "$MEMCACHED" "${user[@]}" -t "$threads" "${COMMON_FLAGS[@]}"
done

((!KEEP_AWAKE)) || keep_awake

# measure CASE SERVER REPEAT FLAG...: one run of the load generator.
measure() {
    local case=$1 server=$2 repeat=$3
    shift 3
    echo "repeat $repeat, $case, $server" >&2
    # shellcheck disable=SC2086
    "${priority[@]}" "$LOADGEN" run --target "memcached://127.0.0.1:${port_of[$server]}" --keys "$KEYS" \
        --warmup "$WARMUP_S" --duration "$DURATION_S" --seed "$repeat" --output json "$@" |
        jq --arg server "$server" --arg case "$case" --argjson repeat "$repeat" \
            '{$server, $case, $repeat, report: .}' >"$output/$case.$server.$repeat.json"
}

for server in "${servers[@]}"; do
    "$LOADGEN" preload --target "memcached://127.0.0.1:${port_of[$server]}" --keys "$KEYS"
done
# shellcheck disable=SC2086
for ((repeat = 1; repeat <= REPEATS; repeat++)); do
    for server in "${servers[@]}"; do
        [[ alone =~ $ONLY ]] &&
            measure alone "$server" "$repeat" $LOADGEN_FLAGS "${calm[@]}" --mix "GET@$GET_RATE/s"
        [[ multiget =~ $ONLY ]] &&
            measure multiget "$server" "$repeat" $LOADGEN_FLAGS "${calm[@]}" --mix "GET@$GET_RATE/s,$MULTIGET"
        [[ pipelined =~ $ONLY ]] &&
            measure pipelined "$server" "$repeat" --mix GET:1 \
                --closed-loop "$((CONNECTIONS * PIPELINE))" --pipeline "$PIPELINE"
    done
done

# table NAME CASE...: prints the table of these cases if they have runs.
table() {
    local name=$1 case runs=()
    shift
    for case; do
        mapfile -t -O "${#runs[@]}" runs < <(compgen -G "$output/$case.*.json")
    done
    ((${#runs[@]} == 0)) && return
    cat "${runs[@]}" | jq --arg psp psp-memcached --argjson quantile "$QUANTILE" \
        -rsf "bench/${name}_table.jq"
    printf '\n'
}

{
    printf '%s, %s cores, %s repeats of %s s%s\n\n' \
        "$(uname -sr)" "$(nproc)" "$REPEATS" "$DURATION_S" "${calm:+; latencies of calm requests}"
    table latency alone multiget
    table pipelined pipelined
} | tee "$output/tables.md"
echo "raw results: $output" >&2
