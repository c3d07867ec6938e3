#!/usr/bin/env bash
# Runs all servers for hours under clients that behave and clients that do not, while policies change. Every few
# seconds it samples memory, descriptors, threads and latency; at the end it draws them on one page and says whether
# anything grew or failed.
#
#   bench/soak.sh HOURS [OUTPUT_DIR]
#
# Ctrl-C and SIGTERM end it early, with the page so far. The exit status is 0 if the verdict is good. Needs Python 3.10;
# docs/testing.md describes what runs and what the bounds are. Settings come from the environment:
#
#   RATE=2 bench/soak.sh 2          twice the requests of the clients that behave
#   SERVERS=redis,http bench/soak.sh 0.1
#   SEED=7 bench/soak.sh 0.1        the same misbehaviour again, at other moments
#   PROGRAMS=DIR bench/soak.sh 2    programs that are built already

set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -lt 1 || $# -gt 2 ]]; then
    sed -n '/^#   bench/s/^# *//p' "$0" >&2
    exit 2
fi

target_dir=$(cargo metadata --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
if [[ -z ${PROGRAMS:-} ]]; then
    bins=(psp-redis psp-memcached psp-rpc psp-http psp-synthetic psp-rocksdb psp-loadgen)
    cargo build --release "${bins[@]/#/--bin=}"
    PROGRAMS=$target_dir/release
fi
output=${2:-$target_dir/soak/$(date +%Y%m%d-%H%M%S)}

exec python3 bench/soak --hours "$1" --output "$output" --programs "$PROGRAMS" \
    --rate "${RATE:-1}" --seed "${SEED:-1}" ${SERVERS:+--servers "$SERVERS"}
