#!/usr/bin/env bash
# Requests per second of one client core: psp-loadgen beside memtier_benchmark and redis-benchmark, with
# pipelined GETs of random keys against one redis-server. Client and server have a core each. A machine's
# speed drifts, so clients take turns in several rounds. Ratios compare clients of one round; the table
# shows their medians.
#
# The keys are few, so that the server has them in its cache and the client is measured. With many keys
# the server's cache misses would be measured. memtier's connections would then all draw the same keys
# one after the other and look faster for it, unless --distinct-client-seed makes each draw its own.
#
#   bench/client_throughput.sh [OUTPUT_DIR]
#
# Needs two cores, redis-server, redis-benchmark, redis-cli and jq. MEMTIER is the program
# memtier_benchmark, built from https://github.com/RedisLabs/memtier_benchmark. Without it, the script
# omits memtier. Settings come from the environment; the defaults are below.

set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${ROUNDS:-5}
DURATION_S=${DURATION_S:-5}
PIPELINE=${PIPELINE:-32}
CONNECTIONS=${CONNECTIONS:-16}
MEMTIER=${MEMTIER:-memtier_benchmark}
SERVER_CORE=${SERVER_CORE:-0}
CLIENT_CORE=${CLIENT_CORE:-1}
PORT=${PORT:-7650}
# Number of keys. Keys have 16 bytes in all clients, values 64.
KEYS=${KEYS:-1000}
# memtier's first key. Its numbers then have as many digits as other clients' with leading zeros.
readonly KEY_FIRST=100000

for program in redis-server redis-benchmark redis-cli jq taskset; do
    command -v "$program" >/dev/null || {
        echo "$program is missing" >&2
        exit 1
    }
done
target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/client_throughput/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${LOADGEN:-} ]]; then
    cargo build --release --bin psp-loadgen
fi
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

clients=(psp-loadgen)
if command -v "$MEMTIER" >/dev/null; then
    clients+=(memtier)
else
    echo "memtier is omitted: $MEMTIER is missing" >&2
fi
clients+=(redis-benchmark)

work=$(mktemp -d)
taskset --cpu-list "$SERVER_CORE" redis-server --bind 127.0.0.1 --port "$PORT" --save "" \
    --dir "$work" >"$output/redis.log" 2>&1 &
server=$!
finish() {
    kill "$server" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT
for _ in {1..100}; do
    [[ $(redis-cli -p "$PORT" ping 2>/dev/null) == PONG ]] && break
    sleep 0.1
done
"$LOADGEN" preload --target "redis://127.0.0.1:$PORT" --keys "$((KEY_FIRST + KEYS))"

# Each function prints requests per second.
run_psp-loadgen() {
    "$LOADGEN" run --target "redis://127.0.0.1:$PORT" --mix GET:1 --keys "$KEYS" --warmup 0 \
        --closed-loop "$((CONNECTIONS * PIPELINE))" --pipeline "$PIPELINE" \
        --duration "$DURATION_S" --output json | jq .overall.achieved_rps
}
run_memtier() {
    local started=$EPOCHREALTIME
    "$MEMTIER" --server 127.0.0.1 --port "$PORT" --threads 1 --clients "$CONNECTIONS" \
        --pipeline "$PIPELINE" --ratio 0:1 --key-prefix key:000000 --key-minimum "$KEY_FIRST" \
        --key-maximum "$((KEY_FIRST + KEYS - 1))" --distinct-client-seed --randomize \
        --test-time "$DURATION_S" --hide-histogram \
        --json-out-file "$work/memtier.json" >/dev/null
    # memtier's own rate divides by the requested time, not by the time it took.
    jq --argjson started "$started" --argjson ended "$EPOCHREALTIME" \
        '."ALL STATS".Gets.Count / ($ended - $started)' "$work/memtier.json"
}
run_redis-benchmark() {
    # redis-benchmark stops after a number of requests, not after a time.
    redis-benchmark -p "$PORT" -t get -r "$KEYS" -c "$CONNECTIONS" -P "$PIPELINE" \
        -n "$((DURATION_S * 600000))" --csv | tail -n 1 | jq -R 'split(",")[1] | fromjson | tonumber'
}

# measure ROUND CLIENT: requests per second, and the share of its core that the client used.
measure() {
    local round=$1 client=$2 rps user_s system_s started=$EPOCHREALTIME ended
    echo "round $round, $client" >&2
    local TIMEFORMAT='%U %S'
    {
        time rps=$(
            exec 2>>"$output/$client.log"
            taskset --cpu-list --pid "$CLIENT_CORE" "$BASHPID" >/dev/null
            "run_$client"
        )
    } 2>"$work/cpu"
    ended=$EPOCHREALTIME
    read -r user_s system_s <"$work/cpu"
    jq -n --arg client "$client" --argjson round "$round" --argjson rps "$rps" \
        --argjson cpu_s "$user_s" --argjson system_s "$system_s" \
        --argjson started "$started" --argjson ended "$ended" \
        '{$client, $round, $rps, core: (($cpu_s + $system_s) / ($ended - $started))}' \
        >"$output/$client.$round.json"
}

for ((round = 1; round <= ROUNDS; round++)); do
    # The first client of this round is the last of the next.
    for ((position = 0; position < ${#clients[@]}; position++)); do
        measure "$round" "${clients[(position + round) % ${#clients[@]}]}"
    done
done

{
    printf '%s, %s rounds of %s s, %s keys, %s connections, pipelines of %s\n\n' \
        "$(uname -sr)" "$ROUNDS" "$DURATION_S" "$KEYS" "$CONNECTIONS" "$PIPELINE"
    cat "$output"/*.*.json | jq -rsf bench/client_table.jq
} | tee "$output/table.md"
echo "raw results: $output" >&2
