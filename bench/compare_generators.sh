#!/usr/bin/env bash
# What load generators say of a server that stands still for a second of ten: psp-http and psp-redis are stopped in the
# middle of each run. Each generator sends 500 requests a second over ten connections if it can be told a rate, and as many
# as it can otherwise. Prints a line for each generator that is installed: requests, p50, p99 and the maximum in ms.
#
#   bench/compare_generators.sh
#
# Takes two minutes besides the build. wrk, hey, ab, redis-benchmark and memtier_benchmark are optional.

set -euo pipefail
cd "$(dirname "$0")/.."

SECONDS_EACH=${SECONDS_EACH:-10}
RATE=${RATE:-500}
if [[ -z ${PROGRAMS:-} ]]; then
    cargo build --release -p psp-http -p psp-redis -p psp-loadgen --bins
    PROGRAMS=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)/release
fi
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
readonly HTTP_PORT=18080 REDIS_PORT=16379
readonly PAGE=http://127.0.0.1:$HTTP_PORT/fast
"$PROGRAMS/psp-http" --port $HTTP_PORT >"$work/http.log" 2>&1 &
http=$!
"$PROGRAMS/psp-redis" --port $REDIS_PORT >"$work/redis.log" 2>&1 &
redis=$!
sleep 1

# row NAME SERVER COMMAND..: runs a command beside a stop of the server. Its output is in $work/out.
row() {
    local name=$1 server=$2
    shift 2
    command -v "$1" >/dev/null || return 0
    ({ sleep "$((SECONDS_EACH / 2))"; kill -STOP "$server"; sleep 1; kill -CONT "$server"; } &)
    "$@" >"$work/out" 2>&1 || true
    printf '%-46s %s\n' "$name" "$("figures_of_${1##*/}" <"$work/out" 2>/dev/null || echo '? ? ? ?')"
}

figures_of_psp-loadgen() {
    jq -r '.overall | [.completed, .latency_us.p50 / 1000, .latency_us.p99 / 1000, .latency_us.max / 1000] | @tsv'
}
figures_of_wrk() {
    awk '/50%/ {p50 = $2} /99%/ {p99 = $2} /Latency  / {max = $4} /requests in/ {n = $1} END {print n, p50, p99, max}'
}
figures_of_hey() {
    awk '/50% in/ {p50 = $3 * 1000} /99% in/ {p99 = $3 * 1000} /Slowest/ {max = $2 * 1000} /\[200\]/ {n = $2}
        END {print n, p50, p99, max}'
}
figures_of_ab() {
    awk '/ 50%/ {p50 = $2} / 99%/ {p99 = $2} /100%/ {max = $2} /Complete requests/ {n = $3} END {print n, p50, p99, max}'
}
figures_of_redis-benchmark() {
    tr -d '"' | awk -F, '/^GET/ {print "-", $5, $7, $8}'
}
figures_of_memtier_benchmark() {
    awk '/^Totals/ {print "-", $6, $7, "-"}'
}

echo "generator                                      requests p50 p99 max (ms)"
row "psp-loadgen, open loop" $http "$PROGRAMS/psp-loadgen" "$PAGE" -c 10 -r "$RATE" -d "${SECONDS_EACH}s" --warmup 0 \
    --output json
row "psp-loadgen --closed-loop 10" $http "$PROGRAMS/psp-loadgen" run --target "$PAGE" --mix 'GET /fast:1' \
    --closed-loop 10 --think-us 20000 --duration "$SECONDS_EACH" --warmup 0 --output json
row "wrk, as fast as it can" $http wrk -t1 -c10 -d"$SECONDS_EACH" --latency "$PAGE"
row "hey, 50 a second for each of 10" $http hey -c 10 -q "$((RATE / 10))" -z "${SECONDS_EACH}s" "$PAGE"
row "ab, as fast as it can" $http ab -k -c 10 -t "$SECONDS_EACH" -n 100000000 "$PAGE"
row "psp-loadgen, open loop (Redis)" $redis "$PROGRAMS/psp-loadgen" run --target redis://127.0.0.1:$REDIS_PORT \
    --mix "GET@$RATE/s" --connections 10 --duration "$SECONDS_EACH" --warmup 0 --output json
row "redis-benchmark, as fast as it can" $redis redis-benchmark -p $REDIS_PORT -c 10 -t get --csv \
    -n "${REDIS_REQUESTS:-400000}"
row "memtier_benchmark, 50 a second for each of 10" $redis memtier_benchmark -p $REDIS_PORT -t 1 -c 10 \
    --rate-limiting="$((RATE / 10))" --test-time="$SECONDS_EACH" --ratio 0:1
