# Servers that a comparison starts and stops; for bench/compare_*.sh, which source it. Wants $output (where
# logs go), PORT_FIRST, and a function `answers PORT` that tells whether the server is ready.
# shellcheck shell=bash

# Real-time priority (1 to 99) of servers and generator, which keeps the turns of other programs out of the
# figures; 0 leaves them at ordinary priority. psp's background workers take the batch class as ever.
REALTIME=${REALTIME:-0}

# Which of the rounds' figures the tables of latencies show: the median, or, say, 0.25, the lower quartile. What a
# shared machine takes away is only ever added, so that quieter rounds say more about the servers.
QUANTILE=${QUANTILE:-0.5}

# Latencies of calm requests alone, those in whose time no core of the machine stood still (docs/loadgen.md); takes
# root. 0 shows those of all.
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

# start NAME PROGRAM FLAG...: at the next port, which takes the place of the flag {port}.
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
    echo "$name does not start:" >&2
    tail "$output/$name.log" >&2
    exit 1
}

# A spinner in the idle class on each core: a halted virtual core takes tens of microseconds to wake,
# in the client as in the server, and that would be most of what is measured.
keep_awake() {
    for ((core = 0; core < $(nproc); core++)); do
        chrt --idle 0 taskset --cpu-list "$core" bash -c 'while :; do :; done' &
        pids+=($!)
    done
}
