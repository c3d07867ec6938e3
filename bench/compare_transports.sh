#!/usr/bin/env bash
# Compares round trips and requests per second of psp-synthetic over kernel sockets and over a DPDK memory
# interface, where both ends bypass the kernel. Requests take 0.1 us and use psp's header; closed loops
# have one or many of them outstanding. Server and client have a core each. A machine's speed drifts, so
# transports take turns round by round. Prints a markdown table and keeps every raw result.
#
#   bench/compare_transports.sh [OUTPUT_DIR]
#
# Needs two cores, libdpdk-dev (22.11) and jq. Settings come from the environment; the defaults are below.

set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${ROUNDS:-5}
DURATION_S=${DURATION_S:-3}
WARMUP_S=${WARMUP_S:-1}
OUTSTANDING=${OUTSTANDING:-64}
SERVER_CORE=${SERVER_CORE:-0}
CLIENT_CORE=${CLIENT_CORE:-1}
PORT_FIRST=${PORT_FIRST:-7700}

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/compare_transports/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_SYNTHETIC:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release -p psp-synthetic -p psp-loadgen --features psp-synthetic/dpdk,psp-loadgen/dpdk
fi
PSP_SYNTHETIC=${PSP_SYNTHETIC:-$target_dir/release/psp-synthetic}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

work=$(mktemp -d)
server=
finish() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap finish EXIT

cat >"$work/short.toml" <<'TOML'
[[type]]
name = "short"
share = 1.0
service_us = 0.1
TOML
cat >"$work/polling.toml" <<'TOML'
[server]
spin_us = 1000
TOML
readonly SERVER=("$PSP_SYNTHETIC" --workload "$work/short.toml" --topology inline --workers 1 --policy c-fcfs
    --log-level info)
readonly EAL="--no-huge -m 512 --no-pci --no-shconf --no-telemetry --log-level=*:error"

# serve NAME FLAG...: starts the server on its core and waits until it listens.
serve() {
    local name=$1
    shift
    taskset --cpu-list "$SERVER_CORE" "${SERVER[@]}" "$@" >"$output/$name.log" 2>&1 &
    server=$!
    for _ in {1..100}; do
        grep -q "listening on" "$output/$name.log" && return
        sleep 0.1
    done
    tail "$output/$name.log" >&2
    exit 1
}

# measure NAME ROUND TARGET FLAG...: round trips, then the rate. A memory interface allows one client at a time.
measure() {
    local name=$1 round=$2 target=$3 outstanding
    shift 3
    for outstanding in 1 "$OUTSTANDING"; do
        echo "round $round, $name, $outstanding outstanding" >&2
        taskset --cpu-list "$CLIENT_CORE" "$LOADGEN" run --target "psp://$target" --workload "$work/short.toml" \
            --closed-loop "$outstanding" --warmup "$WARMUP_S" --duration "$DURATION_S" --seed "$round" \
            --output json "$@" 2>>"$output/$name.client.log" |
            jq --arg transport "$name" --argjson outstanding "$outstanding" \
                '{$transport, $outstanding, report: .}' >"$output/$name.$outstanding.$round.json"
    done
    kill "$server"
    wait "$server" || true
    server=
}

for ((round = 1; round <= ROUNDS; round++)); do
    port=$((PORT_FIRST + round))
    serve kernel --port "$port"
    measure kernel "$round" "127.0.0.1:$port"
    serve kernel-polled --port "$port" --config "$work/polling.toml"
    measure kernel-polled "$round" "127.0.0.1:$port" --busy-poll
    wire="socket-abstract=no,socket=$work/memif.$round.sock,id=0"
    # At each end, one queue for the net thread and one for the worker.
    serve memif --port "$port" --transport dpdk --ip 10.78.0.1 --queues 2 --eal "$EAL --vdev=net_memif0,role=server,$wire"
    measure memif "$round" "10.78.0.1:$port" --ip 10.78.0.2 --queues 2 --eal "$EAL --vdev=net_memif0,role=client,$wire"
done

{
    printf '%s, %s rounds of %s s, a core for each end\n\n' "$(uname -sr)" "$ROUNDS" "$DURATION_S"
    cat "$output"/*.*.*.json | jq -rsf bench/transports_table.jq
} | tee "$output/table.md"
echo "raw results: $output" >&2
