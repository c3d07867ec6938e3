//! Real clients with their defaults: redis-cli, redis-benchmark, redis-py, ioredis, node-redis, the job queues rq and
//! BullMQ, and twemproxy in front of two servers.
//!
//! These tests are ignored by default because they need those programs. `.ci/run` installs the
//! programs and runs this suite. `PSP_TEST_PYTHON` names a Python that has redis-py and rq; `NODE_PATH`
//! names the folder with ioredis, node-redis and bullmq.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{Connection, Options, Server, run_program};
use psp_harness::{Protocol, start_twemproxy};

const PASSWORD: &str = "secret";
/// Requests of each test of redis-benchmark.
const BENCHMARK_REQUESTS: &str = "3000";
const MASS_INSERT_KEYS: usize = 10_000;

fn redis_cli(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &server.port()]).args(arguments);
    command
}

fn cli(server: &Server, arguments: &[&str]) -> String {
    run_program(&mut redis_cli(server, arguments), "")
}

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "clients", name].iter().collect()
}

fn python(script_name: &str) -> Command {
    let program = env::var_os("PSP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(program);
    command.arg(script(script_name));
    command
}

fn start_with_password() -> Server {
    Server::start_with(&Options {
        requirepass: Some(PASSWORD),
        unixsocketperm: Some("700"),
        ..Options::default()
    })
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_cli_one_shot() {
    let server = Server::start();
    let expectations: &[(&[&str], &str)] = &[
        (&["ping"], "PONG\n"),
        (&["set", "key", "two words"], "OK\n"),
        (&["get", "key"], "two words\n"),
        (&["--no-raw", "get", "key"], "\"two words\"\n"),
        (&["--no-raw", "get", "nosuch"], "(nil)\n"),
        (&["--no-raw", "rpush", "list", "a", "b"], "(integer) 2\n"),
        (&["--no-raw", "lrange", "list", "0", "-1"], "1) \"a\"\n2) \"b\"\n"),
        (&["--csv", "lrange", "list", "0", "-1"], "\"a\",\"b\"\n"),
        (&["hset", "hash", "field", "value"], "1\n"),
        (&["zadd", "zset", "1.5", "member"], "1\n"),
        (&["-3", "--no-raw", "hgetall", "hash"], "1# \"field\" => \"value\"\n"),
        (&["-3", "--no-raw", "zscore", "zset", "member"], "(double) 1.5\n"),
        (
            &["-3", "--no-raw", "zrange", "zset", "0", "-1", "withscores"],
            "1) 1) \"member\"\n   2) (double) 1.5\n",
        ),
        (&["-3", "--no-raw", "get", "nosuch"], "(nil)\n"),
        (&["-n", "0", "exists", "key"], "1\n"),
        (&["-r", "3", "incr", "counter"], "1\n2\n3\n"),
        (
            &["lpush", "key", "x"],
            "WRONGTYPE Operation against a key holding the wrong kind of value\n\n",
        ),
    ];
    for (arguments, expected) in expectations {
        assert_eq!(&cli(&server, arguments), expected, "redis-cli {arguments:?}");
    }
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_cli_on_a_unix_socket() {
    let server = start_with_password();
    let mut local = Command::new("redis-cli");
    local.arg("-s").arg(server.unix_socket());
    local.args(["-a", PASSWORD, "--no-auth-warning"]);
    let output = run_program(&mut local, "set key value\nget key\n");
    assert_eq!(output, "OK\nvalue\n");
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_cli_logs_in_as_a_user() {
    let server = Server::start();
    server.connect().ask("ACL SETUSER alice on >pw +acl|whoami +get ~*");
    let login = ["--user", "alice", "--pass", "pw", "--no-auth-warning"];
    let output = run_program(&mut redis_cli(&server, &login), "ACL WHOAMI\nSET a b\n");
    assert_eq!(output, "alice\nNOPERM this user has no permissions to run the 'set' command\n\n");
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_cli_reads_commands_from_a_pipe() {
    let server = Server::start();
    for protocol in ["-2", "-3"] {
        let output = run_program(
            &mut redis_cli(&server, &[protocol]),
            "flushall\nset key \"two words\"\nget key\nincr key\nlrange nosuch 0 -1\ndbsize\n",
        );
        assert_eq!(output, "OK\nOK\ntwo words\nERR value is not an integer or out of range\n\n\n1\n");
    }
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_cli_on_a_terminal() {
    let server = Server::start();
    let input = "set key \"two words\"\nget key\nnosuch x\nhset hash f v\nhgetall hash\n";
    for (protocol, added, hash) in [("-2", 1, "1) \"f\"\n2) \"v\"\n"), ("-3", 0, "1# \"f\" => \"v\"\n")] {
        let output = run_program(python("interactive_cli.py").args([&server.port(), protocol]), input);
        let unknown = "(error) ERR unknown command 'nosuch', with args beginning with: 'x' ";
        assert_eq!(output, format!("OK\n\"two words\"\n{unknown}\n(integer) {added}\n{hash}"), "{protocol}");
    }
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_cli_inserts_scans_and_measures() {
    let server = Server::start();
    let commands: String = (0..MASS_INSERT_KEYS).map(|index| format!("SET key:{index} {index}\r\n")).collect();
    let inserted = run_program(&mut redis_cli(&server, &["--pipe"]), &commands);
    assert!(inserted.ends_with(&format!("errors: 0, replies: {MASS_INSERT_KEYS}\n")), "{inserted}");

    let scanned = cli(&server, &["--scan", "--pattern", "key:*"]);
    let mut keys: Vec<&str> = scanned.lines().collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), MASS_INSERT_KEYS);

    assert_eq!(cli(&server, &["rpush", "list", "a", "b", "c"]), "3\n");
    let biggest = cli(&server, &["--bigkeys"]);
    assert!(biggest.contains("Biggest   list found '\"list\"' has 3 items"), "{biggest}");

    // Without a terminal it samples for one interval and prints minimum, maximum, mean and count.
    let latency = cli(&server, &["--latency", "-i", "0.2"]);
    let figures: Vec<f64> = latency.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    assert_eq!(figures.len(), 4, "{latency}");
    assert!(figures[3] >= 1.0, "{latency}");
}

fn benchmark(pipeline: &str) {
    let server = Server::start();
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &server.port(), "-t", "get,set,lpush,lrange", "-P", pipeline]);
    command.args(["-n", BENCHMARK_REQUESTS, "-c", "50", "--csv"]);
    let output = run_program(&mut command, "");
    let rows: Vec<Vec<&str>> = output
        .lines()
        .skip(1)
        .map(|line| line.split("\",\"").map(|cell| cell.trim_matches('"')).collect())
        .collect();
    let names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let expected = [
        "SET",
        "GET",
        "LPUSH",
        "LPUSH (needed to benchmark LRANGE)",
        "LRANGE_100 (first 100 elements)",
        "LRANGE_300 (first 300 elements)",
        "LRANGE_500 (first 500 elements)",
        "LRANGE_600 (first 600 elements)",
    ];
    assert_eq!(names, expected, "{output}");
    for row in &rows {
        assert!(row[1].parse::<f64>().unwrap() > 0.0, "{row:?}");
    }
    let lengths = 2 * BENCHMARK_REQUESTS.parse::<usize>().unwrap();
    let length: usize = cli(&server, &["llen", "mylist"]).trim().parse().unwrap();
    // The last pipelines may add a few requests beyond the requested number.
    assert!((lengths..lengths + 2 * 50 * 16).contains(&length), "{length} elements");
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_benchmark() {
    benchmark("1");
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_benchmark_pipelined() {
    benchmark("16");
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_py() {
    let server = start_with_password();
    let mut python = python("redis_py.py");
    python.args([&server.port(), PASSWORD]).arg(server.unix_socket());
    let output = run_program(&mut python, "");
    assert!(output.ends_with("all checks passed\n"), "{output}");
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn redis_py_with_a_cache() {
    let server = Server::start();
    let output = run_program(python("redis_py_cache.py").arg(server.port()), "");
    assert!(output.ends_with("all checks passed\n"), "{output}");
}

#[test]
#[ignore = "needs redis-tools, redis-py, ioredis; run by .ci/run"]
fn ioredis() {
    drives_with_node("ioredis.mjs");
}

#[test]
#[ignore = "needs node-redis; run by .ci/run"]
fn node_redis() {
    drives_with_node("node_redis.mjs");
}

/// Runs a script of Node.js against a server that asks for a password.
fn drives_with_node(name: &str) {
    let server = start_with_password();
    let mut node = Command::new("node");
    node.arg(script(name)).args([&server.port(), PASSWORD]);
    let output = run_program(&mut node, "");
    assert!(output.ends_with("all checks passed\n"), "{output}");
}

/// Runs a script of Python against a server of its own.
fn passes(script: &str) {
    let server = Server::start();
    let output = run_program(python(script).arg(server.port()), "");
    assert!(output.ends_with("all checks passed\n"), "{output}");
}

#[test]
#[ignore = "needs rq; run by .ci/run"]
fn rq() {
    passes("rq_jobs.py");
}

#[test]
#[ignore = "needs celery; run by .ci/run"]
fn celery() {
    passes("celery_tasks.py");
}

#[test]
#[ignore = "needs django-redis; run by .ci/run"]
fn django_redis() {
    passes("django_cache.py");
}

#[test]
#[ignore = "needs BullMQ; run by .ci/run"]
fn bullmq() {
    let server = Server::start();
    let mut node = Command::new("node");
    node.arg(script("bullmq.mjs")).arg(server.port());
    let output = run_program(&mut node, "");
    assert!(output.ends_with("all checks passed\n"), "{output}");
}

#[test]
#[ignore = "needs nutcracker; run by .ci/run"]
fn twemproxy_in_front_of_two_servers() {
    let servers = [Server::start(), Server::start()];
    let ports = servers.each_ref().map(|server| server.port());
    let proxy = start_twemproxy(ports, Protocol::Redis);
    let mut client = Connection::open(proxy.address()).unwrap();
    for index in 0..200 {
        assert_eq!(client.ask(&format!("SET key{index} {index}")), "+OK");
    }
    let keys: String = (0..200).map(|index| format!(" key{index}")).collect();
    let values = client.ask(&format!("MGET{keys}"));
    let expected: Vec<String> = (0..200).map(|index| format!("\"{index}\"")).collect();
    assert_eq!(values, format!("[{}]", expected.join(", ")));
    assert_eq!(client.ask("INCR key41"), "42");
    assert_eq!(client.ask("LPUSH list a b"), "2");
    assert_eq!(client.ask("LRANGE list 0 -1"), "[\"b\", \"a\"]");
    assert_eq!(client.ask(&format!("DEL{keys}")), "200");
    for server in &servers {
        let info = server.connect().info("commandstats");
        let sets = info.lines().find_map(|line| {
            let calls = line.strip_prefix("cmdstat_set:calls=")?.split(',').next()?;
            calls.parse::<u32>().ok()
        });
        assert!(sets.is_some_and(|sets| (20..180).contains(&sets)), "{sets:?} of 200 keys on one server");
    }
}
