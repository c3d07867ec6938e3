#!/usr/bin/env bash
# Measures one service of axum in several ways: plain, with spawn_blocking, with a pool at nice value 19, and in
# psp-tower's layer. The ways take turns round by round, and clients send at fixed times (psp-loadgen compare). Prints a
# table for each load, with medians over the rounds, and writes a page of plots for each.
#
#   bench/tokio_services.sh [OUTPUT_DIR]
#
# endpoint: /fast at 2000 a second beside a /slow that takes 5 ms: some 60 % of two cores, with the clients.
# argument: /rows?n= at the same rates, whose cost is 10 us or 5 ms, by its argument.
#
# Takes about 10 minutes besides the build. Needs jq, and a machine with nothing else to do. Settings come from the
# environment; the defaults are below.

set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${ROUNDS:-5}
DURATION_S=${DURATION_S:-6}
WARMUP_S=${WARMUP_S:-2}
FAST_RATE=${FAST_RATE:-2000}
SLOW_RATE=${SLOW_RATE:-140}
# The last one may leave work behind, which it does while the next way is measured.
WAYS=${WAYS:-plain blocking-slow blocking-all nice-pool-slow psp psp-no-hand-off psp-by-argument nice-pool-all}
# 1 shows latencies of calm requests only: no core of the machine stood still during them (docs/loadgen.md).
# Needs root. 0 shows latencies of all requests.
CALM=${CALM:-$((EUID == 0))}

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/tokio_services/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${VARIANTS:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release -p psp-axum --example variants
    cargo build --release -p psp-loadgen --bin psp-loadgen
fi
VARIANTS=${VARIANTS:-$target_dir/release/examples/variants}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

calm=()
((!CALM)) || calm=(--calm)
starts=()
for way in $WAYS; do
    starts+=(--start "$way=$VARIANTS {port} $way" "$way=http://127.0.0.1:{port}")
done

# compare LOAD MIX
compare() {
    printf '\n%s: %s\n' "$1" "$2"
    "$LOADGEN" compare "${calm[@]}" "${starts[@]}" --mix "$2" --runs "$ROUNDS" --duration "$DURATION_S" \
        --warmup "$WARMUP_S" --html "$output/$1.html" | tee "$output/$1.txt"
}
compare endpoint "fast=GET /fast@$FAST_RATE/s,slow=GET /slow?us=5000@$SLOW_RATE/s"
compare argument "cheap=GET /rows?n=1000@$FAST_RATE/s,costly=GET /rows?n=500000@$SLOW_RATE/s"
echo "tables and pages: $output" >&2
