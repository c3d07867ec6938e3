# Starts and stops the servers of a comparison. bench/compare_*.sh and bench/capacity_*.sh source it. Needs
# $output (the directory for logs), PORT_FIRST, and a function `answers PORT` that tests for readiness.
# shellcheck shell=bash

# Real-time priority (1 to 99) of servers and generator, which keeps other programs' turns out of the
# figures. 0 leaves ordinary priority. psp's background workers keep the batch class in any case.
REALTIME=${REALTIME:-0}

# The quantile over the rounds that tables of latencies show: the median, or 0.25, say, the lower quartile.
# A shared machine only ever adds latency, so quieter rounds say more about the servers.
QUANTILE=${QUANTILE:-0.5}

# 1 shows latencies of calm requests only: no core of the machine stood still during them (docs/loadgen.md).
# Needs root. 0 shows latencies of all requests.
CALM=${CALM:-$((EUID == 0))}
calm=()
((!CALM)) || calm=(--calm)

priority=()
((!REALTIME)) || priority=(chrt --fifo "$REALTIME")

servers=()
declare -A port_of
pids=()
work=$(mktemp -d)

stop_servers() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$work"
}
trap stop_servers EXIT

# start NAME PROGRAM FLAG...: starts a server at the next port. The port replaces {port} in the flags.
start() {
    local name=$1 port=$((PORT_FIRST + ${#servers[@]}))
    shift
    "${priority[@]}" "${@//\{port\}/$port}" >"$output/$name.log" 2>&1 &
    pids+=($!)
    for _ in {1..100}; do
        if answers "$port"; then
            servers+=("$name")
            port_of[$name]=$port
            return
        fi
        sleep 0.1
    done
    echo "$name did not start:" >&2
    tail "$output/$name.log" >&2
    exit 1
}

# Runs a spinner in the idle class on each core. A halted virtual core takes tens of microseconds to wake,
# in the client as in the server. That time would dominate the figures.
keep_awake() {
    for ((core = 0; core < $(nproc); core++)); do
        chrt --idle 0 taskset --cpu-list "$core" bash -c 'while :; do :; done' &
        pids+=($!)
    done
}
