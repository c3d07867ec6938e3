//! Scripts that never end, on every worker at once: the server serves all other requests, and ends when it is asked to.

use psp_server::Policy;

use crate::common::{Connection, Options, Server, encode, wait_until};

/// Calls after which the server knows how long a script takes.
const MEASURED: usize = 40;
/// Ends if it is asked to.
const MAYBE: &str = "if ARGV[1]=='1' then return 1 end while true do end";
/// The same as a function.
const LIBRARY: &str = "#!lua name=endless
    redis.register_function('maybe', function(keys, args) if args[1] == '1' then return 1 end while true do end end)";
/// The same within a coroutine, and by way of commands.
const OTHERS: [&str; 2] = [
    "local f = coroutine.wrap(function() while ARGV[1]~='1' do end return 1 end) return f()",
    "while ARGV[1]~='1' do redis.call('get', 'key') end return 1",
];
/// A drain gives endless scripts up soon, and others wait for one no longer than for a request that is long for a test.
const CONFIG: &str = "[server]
drain-timeout-ms = 500
stuck-after-ms = 50
";
/// Requests whose types are as long as scripts are, with the beginning of the answer.
const LONG: [(&str, &str); 4] = [
    ("LRANGE list 0 -1", "[\"0\""),
    ("SORT list BY nosort LIMIT 0 1", "[\"0\"]"),
    ("FUNCTION LIST", "[["),
    ("KEYS *", "["),
];
/// Values of the list.
const VALUES: usize = 2_000;

/// How a script is called.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The words up to its argument.
    words: [&'static str; 3],
    /// Within a transaction.
    is_queued: bool,
}

impl Call {
    const fn new(words: [&'static str; 3]) -> Self {
        let is_queued = false;
        Self { words, is_queued }
    }

    /// Sends the call, with `argument`.
    fn send(self, client: &mut Connection, argument: &str) {
        self.queue(client, argument);
        self.begin(client, argument);
    }

    /// What comes before a call within a transaction.
    fn queue(self, client: &mut Connection, argument: &str) {
        if self.is_queued {
            assert_eq!(client.ask("MULTI"), "+OK");
            assert_eq!(client.request(&self.words(argument)).to_string(), "+QUEUED");
        }
    }

    /// The request that runs the script.
    fn begin(self, client: &mut Connection, argument: &str) {
        client.send(&match self.is_queued {
            true => encode(&["EXEC"]),
            false => encode(&self.words(argument)),
        });
    }

    fn words(self, argument: &str) -> Vec<&str> {
        [&self.words[..], &[argument]].concat()
    }

    const fn kill(self) -> &'static str {
        match self.words[0].as_bytes() {
            b"FCALL" => "FUNCTION KILL",
            _ => "SCRIPT KILL",
        }
    }
}

const EVAL: Call = Call::new(["EVAL", MAYBE, "0"]);
const CALLS: [Call; 5] = [
    EVAL,
    Call::new(["FCALL", "maybe", "0"]),
    Call::new(["EVAL", OTHERS[0], "0"]),
    Call::new(["EVAL", OTHERS[1], "0"]),
    Call { is_queued: true, ..EVAL },
];

/// Runs `count` endless scripts at once, and kills them when others have been served.
fn others_are_served(server: &Server, script: Call, count: usize, shape: &str) {
    let mut witness = server.connect();
    let mut endless: Vec<Connection> = (0..count).map(|_| server.connect()).collect();
    for client in &mut endless {
        script.queue(client, "2");
    }
    for client in &mut endless {
        script.begin(client, "2");
    }
    for _ in 0..20 {
        assert_eq!(witness.ask("GET key"), "\"value\"", "{shape}");
        assert_eq!(server.connect().ask("PING"), "+PONG", "{shape}");
    }
    for (request, answer) in LONG {
        let reply = witness.ask(request);
        assert!(reply.starts_with(answer), "{shape}, {request}: {reply:.80}");
    }
    assert_eq!(push(&mut witness, "other"), VALUES.to_string(), "{shape}");
    assert_eq!(witness.ask("DEL other"), "1", "{shape}");
    // Some may begin later than others.
    wait_until(shape, || {
        witness.ask(script.kill());
        endless.retain_mut(|client| {
            let is_over = client.has_received();
            if is_over {
                let reply = client.reply().to_string();
                assert!(reply.contains("killed by user"), "{shape}: {reply}");
            }
            !is_over
        });
        endless.is_empty()
    });
}

/// Puts many values in a list at once.
fn push(client: &mut Connection, list: &str) -> String {
    let values: Vec<String> = (0..VALUES).map(|value| value.to_string()).collect();
    let words = ["RPUSH", list].into_iter().chain(values.iter().map(String::as_str));
    client.request(&words.collect::<Vec<_>>()).to_string()
}

/// `endless` says how many scripts run at once beside which the others are served.
fn endless_scripts(topology: &'static str, policy: &'static str, workers: usize, endless: usize) {
    let mut server = Server::start_with(&Options {
        topology: Some(topology),
        policy: Some(policy),
        workers: Some(workers),
        config: Some(CONFIG),
        ..Options::default()
    });
    let shape = format!("{topology}, {policy}, {workers} workers");
    let mut client = server.connect();
    assert_eq!(client.ask("SET key value"), "+OK");
    assert_eq!(push(&mut client, "list"), VALUES.to_string());
    let loaded = client.request(&["FUNCTION", "LOAD", LIBRARY]);
    assert_eq!(loaded.to_string(), "\"endless\"");
    // Of a script that was never measured.
    others_are_served(&server, EVAL, endless, &format!("{shape}, untrained"));
    for script in CALLS {
        for _ in 0..MEASURED {
            script.send(&mut client, "1");
            let reply = client.reply().to_string();
            assert_eq!(reply.trim_matches(['[', ']']), "1", "{shape}");
        }
        others_are_served(&server, script, endless, &format!("{shape}, {script:?}"));
    }
    let mut last: Vec<Connection> = (0..endless).map(|_| server.connect()).collect();
    for client in &mut last {
        EVAL.send(client, "2");
    }
    assert_eq!(client.ask("GET key"), "\"value\"", "{shape}");
    server.terminate();
    assert!(server.wait_for_exit().success(), "{shape}");
}

fn all(topology: &'static str, policies: &[&'static str], workers: &[usize], endless: impl Fn(usize) -> usize) {
    psp_harness::only_psp!();
    for &policy in policies {
        let settings: Policy = policy.parse().expect("a policy's name");
        let fits = |workers: &&usize| settings.validate(**workers).is_ok();
        for &workers in workers.iter().filter(fits) {
            endless_scripts(topology, policy, workers, endless(workers));
        }
    }
}

/// One more than there are workers.
#[test]
fn inline() {
    all("inline", &["c-fcfs", "darc", "sjf"], &[1, 2], |workers| workers + 1);
}

/// As many as there are workers.
#[test]
fn distributed() {
    let policies = ["d-fcfs", "stealing", "jsq", "darc-distributed"];
    all("distributed", &policies, &[1, 2], |workers| workers);
}

/// Policies that preempt.
#[test]
fn preempted() {
    all("dedicated", &["sq"], &[1, 2], |workers| workers + 1);
    all("distributed", &["synergy"], &[1, 2], |workers| workers + 1);
}

/// Other policies run requests to their ends.
#[test]
fn dedicated() {
    all("dedicated", &["c-fcfs", "darc"], &[1, 2], |workers| workers + 1);
}

/// A drain gives up a script on the only worker.
#[test]
fn a_server_ends_beside_an_endless_script_on_its_only_worker() {
    psp_harness::only_psp!();
    for topology in ["inline", "dedicated", "distributed"] {
        let mut server = Server::start_with(&Options {
            topology: Some(topology),
            policy: (topology == "distributed").then_some("d-fcfs"),
            workers: Some(1),
            config: Some(CONFIG),
            ..Options::default()
        });
        let mut client = server.connect();
        assert_eq!(client.ask("PING"), "+PONG");
        EVAL.send(&mut client, "2");
        server.terminate();
        assert!(server.wait_for_exit().success(), "{topology}");
    }
}

/// Nor does it wait for a script that has run for `busy-reply-threshold`.
#[test]
fn a_drain_stops_scripts_without_an_end() {
    psp_harness::only_psp!();
    for topology in ["inline", "dedicated", "distributed"] {
        for workers in [1, 2] {
            let mut server = Server::start_with(&Options {
                topology: Some(topology),
                policy: (topology == "distributed").then_some("d-fcfs"),
                workers: Some(workers),
                config: Some("[server]\ndrain-timeout-ms = 60000\n"),
                ..Options::default()
            });
            let mut client = server.connect();
            assert_eq!(client.ask("CONFIG SET busy-reply-threshold 50"), "+OK");
            let mut endless = [server.connect(), server.connect()];
            for client in &mut endless {
                EVAL.send(client, "2");
            }
            assert_eq!(client.ask("PING"), "+PONG");
            server.terminate();
            for client in &mut endless {
                let reply = client.reply().to_string();
                assert!(reply.contains("the server shuts down"), "{topology}: {reply}");
            }
            assert!(server.wait_for_exit().success(), "{topology}");
        }
    }
}
