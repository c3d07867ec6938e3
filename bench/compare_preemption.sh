#!/usr/bin/env bash
# Compares how long requests of 1 us wait behind requests of 500 us under c-FCFS and under policies that
# preempt, by each mechanism. psp-synthetic spins on real cores, without dilated time. A machine's
# speed drifts, so servers take turns round by round. Prints markdown tables, writes an HTML page and
# keeps every raw result.
#
#   bench/compare_preemption.sh [OUTPUT_DIR]
#
# Takes about 5 minutes besides the build. Needs jq. The client runs at real-time priority if that is
# permitted; otherwise, on few cores, it would wait behind the servers that it measures. Settings come
# from the environment; the defaults are below and in bench/servers.sh.

set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${RUNS:-7}
DURATION_S=${DURATION_S:-7}
WARMUP_S=${WARMUP_S:-1}
# For both types together. 500 long requests per second keep a worker busy for a quarter of its time.
RATE=${RATE:-5000}
LONG_SHARE=${LONG_SHARE:-0.1}
# Quanta in microseconds that each mechanism can sustain. With 50 us, signals leave a worker too little time.
QUANTUM_US=${QUANTUM_US:-20}
QUANTUM_SIGNAL_US=${QUANTUM_SIGNAL_US:-200}
QUANTUM_THREAD_US=${QUANTUM_THREAD_US:-200}
WORKERS=${WORKERS:-1}
# A generator that spins takes a core from the server; see docs/loadgen.md.
LOADGEN_FLAGS=${LOADGEN_FLAGS:---spin-us 10}
# Keep cores from sleeping (keep_awake in servers.sh); 0 turns it off.
KEEP_AWAKE=${KEEP_AWAKE:-1}
PORT_FIRST=${PORT_FIRST:-7700}

target_dir=$(cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
output=${1:-$target_dir/compare_preemption/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$output"
if [[ -z ${PSP_SYNTHETIC:-} || -z ${LOADGEN:-} ]]; then
    cargo build --release --bin psp-synthetic --bin psp-loadgen
fi
PSP_SYNTHETIC=${PSP_SYNTHETIC:-$target_dir/release/psp-synthetic}
LOADGEN=${LOADGEN:-$target_dir/release/psp-loadgen}

# The types and their shares for client, servers and simulation.
workload=$output/workload.toml
cat >"$workload" <<TOML
[[type]]
name = "short"
share = $(jq -n "1 - $LONG_SHARE")
service_us = 1.0

[[type]]
name = "long"
share = $LONG_SHARE
service_us = 500.0
TOML

# answers PORT: whether a server is bound there.
answers() {
    grep -qi ":$(printf %04x "$1") " /proc/net/udp
}
. bench/servers.sh

# NAME, mechanism, policy.
contestants=(
    "c-fcfs|none|c-fcfs"
    "mq-cooperative|cooperative|mq quantum-us=$QUANTUM_US"
    "mq-kernel-thread|kernel-thread|mq quantum-us=$QUANTUM_THREAD_US"
    "mq-signal|signal|mq quantum-us=$QUANTUM_SIGNAL_US"
    "lending|cooperative|darc-lending"
)
# A simulated c-FCFS server without costs of preemption or messages gives the expected result.
targets=()
for contestant in "${contestants[@]}"; do
    IFS='|' read -r name preempt policy <<<"$contestant"
    start "$name" "$PSP_SYNTHETIC" --port '{port}' --workload "$workload" --hints \
        --topology dedicated --workers "$WORKERS" --policy "$policy" --preempt "$preempt" --log-level warn
    targets+=("$name=psp://127.0.0.1:${port_of[$name]}")
done
targets+=("c-fcfs-simulated=sim:c-fcfs?workers=$WORKERS")
((!KEEP_AWAKE)) || keep_awake

# The client's priority is above the servers'. Its threads must inherit it, so --reset-on-fork is not
# set; the client starts no other program.
client=(chrt --fifo $((REALTIME + 10)))
if ! "${client[@]}" true 2>/dev/null; then
    echo "the client has no real-time priority" >&2
    client=()
fi
# shellcheck disable=SC2086 # the flags are words
"${client[@]}" "$LOADGEN" compare $LOADGEN_FLAGS "${calm[@]}" "${targets[@]}" --workload "$workload" --rate "$RATE" --runs "$RUNS" \
    --warmup "$WARMUP_S" --duration "$DURATION_S" --output json --html "$output/compare.html" \
    >"$output/compare.json"

{
    printf '%s, %s cores, %s rounds of %s s, %s requests/s, client %s\n\n' "$(uname -sr)" "$(nproc)" \
        "$RUNS" "$DURATION_S" "$RATE" "${client[*]:-of ordinary priority}"
    jq -rf bench/preemption_table.jq "$output/compare.json"
} | tee "$output/tables.md"
echo "raw results: $output" >&2
