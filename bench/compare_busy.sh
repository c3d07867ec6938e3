#!/usr/bin/env bash
# Measures psp-redis and redis-server beside other programs that compute all the time: long requests at a low rate, and
# GETs beside them. A machine's speed drifts, so servers take turns in several rounds. Prints a table and keeps every
# raw result.
#
#   bench/compare_busy.sh [OUTPUT_DIR]
#
# Takes about 10 minutes besides the build. Needs redis-server, redis-cli and jq. Settings come from the environment; the
# defaults are below and in bench/servers.sh. Other settings of psp-redis, one a line, a name first:
#
#   VARIANTS=$'psp-redis\nnice-19 --background-nice 19' bench/compare_busy.sh
#
# QUOTA_PERCENT=50 gives the servers half a core in a control group (cgroup v1, as root); the loops stay outside.

set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${ROUNDS:-5}
DURATION_S=${DURATION_S:-5}
WARMUP_S=${WARMUP_S:-1}
# Loops in shells at nice value 0, not pinned.
LOOPS=${LOOPS:-0 1 2 4}
CASES=${CASES:-LRANGE KEYS}
GET_RATE=${GET_RATE:-2000}
KEYS=${KEYS:-100000}
ELEMENTS=${ELEMENTS:-10000}
QUOTA_PERCENT=${QUOTA_PERCENT:-0}
# All threads of the generator have the nice value of the loops.
LOADGEN_FLAGS=${LOADGEN_FLAGS:---spin-us 0 --slow-nice 0}
VARIANTS=${VARIANTS:-psp-redis}
PORT_FIRST=${PORT_FIRST:-7700}
REDIS_SERVER=${REDIS_SERVER:-redis-server}
# Stalls are what is measured here.
CALM=${CALM:-0}

declare -A MIX=(
    [LRANGE]="LRANGE=LRANGE biglist 0 -1@20/s"
    [KEYS]="KEYS=KEYS *@2/s"
    [EVAL]="EVAL=EVAL \"local sum = 0 for term = 1, tonumber(ARGV[1]) do sum = sum + term end return sum\" 0 500000@20/s"
    [SORT]="SORT=SORT biglist@20/s"
)

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/compare_busy/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_REDIS:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release --bin psp-redis --bin psp-loadgen
fi
PSP_REDIS=${PSP_REDIS:-$target_dir/release/psp-redis}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

. bench/redis_servers.sh

while read -r name flags; do
    # shellcheck disable=SC2086 # the flags are words
    start "$name" "$PSP_REDIS" $flags "${ADDRESS[@]}"
done <<<"$VARIANTS"
start redis-server "$REDIS_SERVER" --save "" --dir "$work" "${ADDRESS[@]}"

if ((QUOTA_PERCENT)); then
    mount=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { print $2; exit }' /proc/mounts)
    own=$(awk -F: '$2 ~ /(^|,)cpu(,|$)/ { print $3 }' /proc/self/cgroup)
    group=$mount$own/psp-busy-$$
    if mkdir "$group" 2>/dev/null; then
        trap 'stop_servers; rmdir "$group"' EXIT
        echo 100000 >"$group/cpu.cfs_period_us"
        echo "$((QUOTA_PERCENT * 1000))" >"$group/cpu.cfs_quota_us"
        for pid in "${pids[@]}"; do
            echo "$pid" >"$group/cgroup.procs"
        done
    else
        echo "SKIPPED: QUOTA_PERCENT needs root and the controller cpu of cgroup v1" >&2
        exit 0
    fi
fi

for server in "${servers[@]}"; do
    "$LOADGEN" preload --target "redis://127.0.0.1:${port_of[$server]}" --keys "$KEYS" --list "biglist:$ELEMENTS"
done

# measure LOOPS CASE SERVER ROUND
measure() {
    # shellcheck disable=SC2086 # the flags are words
    "$LOADGEN" run $LOADGEN_FLAGS "${calm[@]}" --target "redis://127.0.0.1:${port_of[$3]}" --keys "$KEYS" \
        --mix "GET@$GET_RATE/s,${MIX[$2]}" --warmup "$WARMUP_S" --duration "$DURATION_S" --seed "$4" --output json |
        jq -c --argjson loops "$1" --arg case "$2" --arg server "$3" '{$loops, $case, $server, types}' \
            >>"$output/rounds.jsonl"
}

for ((round = 1; round <= ROUNDS; round++)); do
    for loops in $LOOPS; do
        others=()
        for ((loop = 0; loop < loops; loop++)); do
            bash -c 'while :; do :; done' &
            others+=($!)
        done
        pids+=("${others[@]}")
        for case in $CASES; do
            for server in "${servers[@]}"; do
                echo "round $round, $loops loops, $case, $server" >&2
                measure "$loops" "$case" "$server" "$round"
            done
        done
        ((!loops)) || kill "${others[@]}"
    done
done

jq -rsf bench/busy_table.jq --argjson quantile "$QUANTILE" "$output/rounds.jsonl" | tee "$output/table.md"
echo "raw results: $output" >&2
