#!/usr/bin/env bash
# Compares how long requests of 1 us wait behind requests of 500 us under c-FCFS, and under policies that
# preempt, by each mechanism: psp-synthetic spins on the cores of this machine, undilated. Servers take
# turns, round by round, because a machine's speed drifts. Prints tables; keeps them and a page.
#
#   bench/compare_preemption.sh [OUTPUT_DIR]
#
# Settings come from the environment; the defaults are below.

set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${RUNS:-7}
DURATION_S=${DURATION_S:-4}
RATE=${RATE:-2500}
LONG_SHARE=${LONG_SHARE:-0.2}
# Microseconds: what the mechanism bears.
QUANTUM_US=${QUANTUM_US:-20}
WORKERS=${WORKERS:-1}

target_dir=$(cargo metadata --no-deps --format-version 1 | python3 -c \
    'import json, sys; print(json.load(sys.stdin)["target_directory"])')
output=${1:-$target_dir/compare_preemption/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_SYNTHETIC:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release --bin psp-synthetic --bin psp-loadgen
fi
PSP_SYNTHETIC=${PSP_SYNTHETIC:-$target_dir/release/psp-synthetic}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

cat >"$output/workload.toml" <<TOML
[[type]]
name = "short"
share = $(python3 -c "print(1 - $LONG_SHARE)")
service_us = 1.0

[[type]]
name = "long"
share = $LONG_SHARE
service_us = 500.0
TOML

# NAME, policy, mechanism.
contestants=(
    "c-fcfs|c-fcfs|none"
    "mq-cooperative|mq quantum-us=$QUANTUM_US|cooperative"
    "mq-kernel-thread|mq quantum-us=$QUANTUM_US|kernel-thread"
    "mq-signal|mq quantum-us=$QUANTUM_US|signal"
    "lending|darc-lending|cooperative"
)
arguments=()
for contestant in "${contestants[@]}"; do
    IFS='|' read -r name policy preempt <<<"$contestant"
    arguments+=(--start "$name=$PSP_SYNTHETIC --port {port} --workload extreme-bimodal --hints
        --topology dedicated --workers $WORKERS --policy '$policy' --preempt $preempt --log-level warn"
        "$name=psp://127.0.0.1:{port}")
done
"$LOADGEN" compare "${arguments[@]}" --workload "$output/workload.toml" --rate "$RATE" --runs "$RUNS" \
    --warmup 1 --duration "$DURATION_S" --html "$output/compare.html" | tee "$output/compare.txt"
