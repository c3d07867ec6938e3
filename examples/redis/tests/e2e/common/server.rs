//! The server process of a test.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use psp_harness::{MemoryGroup, ServerProcess, Start, dereferences, free_port, other_server};

use super::{Connection, TOPOLOGIES};

const UNIX_SOCKET: &str = "redis.sock";
const ACL_FILE: &str = "users.acl";
const CONFIG_FILE: &str = "psp-redis.toml";

/// How to start the server. An option that is not set keeps the server's default.
#[derive(Debug, Default, Clone)]
pub(crate) struct Options {
    /// The address to listen on; 127.0.0.1 by default.
    pub(crate) bind: Option<&'static str>,
    /// Who may run DEBUG; everybody by default.
    pub(crate) debug: Option<&'static str>,
    pub(crate) topology: Option<&'static str>,
    pub(crate) policy: Option<&'static str>,
    pub(crate) workers: Option<usize>,
    pub(crate) requirepass: Option<&'static str>,
    pub(crate) maxclients: Option<usize>,
    /// The server's limit of open files, if not this process's.
    pub(crate) open_files: Option<u32>,
    pub(crate) timeout_s: Option<u32>,
    /// Permissions of a Unix socket in the server's folder. Without them the server has none.
    pub(crate) unixsocketperm: Option<&'static str>,
    /// Lines of the ACL file `users.acl` in the server's folder.
    pub(crate) aclfile: Option<String>,
    /// Where the data set is saved; the server's folder by default.
    pub(crate) dir: Option<PathBuf>,
    /// The save points; none by default.
    pub(crate) save: Option<&'static str>,
    /// `appendfsync` of the append-only file. Without it there is none.
    pub(crate) appendfsync: Option<&'static str>,
    /// More flags that every Redis-compatible server knows.
    pub(crate) flags: Vec<String>,
    /// A program that runs the server, with its arguments.
    pub(crate) under: Vec<String>,
    /// Text of the TOML file for `--config`.
    pub(crate) config: Option<&'static str>,
    /// The control group in which it runs.
    pub(crate) memory_group: Option<Arc<MemoryGroup>>,
}

impl Options {
    fn debug(&self) -> &'static str {
        self.debug.unwrap_or("yes")
    }

    fn bind(&self) -> &'static str {
        self.bind.unwrap_or("127.0.0.1")
    }

    /// Flags that every Redis-compatible server knows.
    fn common_flags(&self, directory: &Path) -> Vec<String> {
        let socket = directory.join(UNIX_SOCKET).display().to_string();
        let mode = self.unixsocketperm;
        let users = self.aclfile.as_ref().map(|lines| {
            let file = directory.join(ACL_FILE);
            fs::write(&file, lines).unwrap();
            file.display().to_string()
        });
        flags([
            ("--aclfile", users),
            ("--unixsocket", mode.map(|_| socket)),
            ("--unixsocketperm", mode.map(str::to_owned)),
            ("--dir", Some(self.dir.as_deref().unwrap_or(directory).display().to_string())),
            ("--save", Some(self.save.unwrap_or_default().to_owned())),
            ("--requirepass", self.requirepass.map(str::to_owned)),
            ("--maxclients", self.maxclients.map(|limit| limit.to_string())),
            ("--timeout", self.timeout_s.map(|limit| limit.to_string())),
            ("--appendonly", self.appendfsync.map(|_| "yes".to_owned())),
            ("--appendfsync", self.appendfsync.map(str::to_owned)),
        ])
        .into_iter()
        .chain(self.flags.clone())
        .collect()
    }

    /// Runs `program`, with as many open files as it may have.
    fn command(&self, program: &OsStr) -> Command {
        if let Some(group) = &self.memory_group {
            return group.command(program);
        }
        if let [outer, args @ ..] = &self.under[..] {
            let mut command = Command::new(outer);
            command.args(args).arg(program);
            return command;
        }
        let Some(limit) = self.open_files else {
            return Command::new(program);
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
        shell.arg(program);
        shell
    }

    /// Flags that only psp-redis knows.
    fn scheduling_flags(&self) -> Vec<String> {
        flags([
            ("--topology", self.topology.map(str::to_owned)),
            ("--policy", self.policy.map(str::to_owned)),
            ("--workers", self.workers.map(|count| count.to_string())),
        ])
    }
}

fn flags<const N: usize>(settings: [(&str, Option<String>); N]) -> Vec<String> {
    let set = settings.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    set.flatten().collect()
}

/// A running server. Dropping it kills the process.
pub(crate) struct Server {
    process: ServerProcess,
}

dereferences!(Server => process: ServerProcess);

impl Server {
    /// Starts a server with default options.
    pub(crate) fn start() -> Self {
        Self::start_with(&Options::default())
    }

    /// Starts a server of two workers with this topology.
    pub(crate) fn start_in(topology: &'static str) -> Self {
        Self::start_with(&Options {
            topology: Some(topology),
            workers: Some(2),
            ..Options::default()
        })
    }

    /// Starts a server with this topology and policy.
    pub(crate) fn start_under(topology: &'static str, policy: &'static str, workers: usize) -> Self {
        Self::start_with(&Options {
            topology: Some(topology),
            policy: Some(policy),
            workers: Some(workers),
            ..Options::default()
        })
    }

    /// Starts one server after the other: of two workers, with each of [`TOPOLOGIES`].
    pub(crate) fn start_each() -> impl Iterator<Item = (&'static str, Self)> {
        TOPOLOGIES.into_iter().map(|topology| (topology, Self::start_in(topology)))
    }

    /// Starts a server and waits until it accepts connections.
    pub(crate) fn start_with(options: &Options) -> Self {
        let process = ServerProcess::start(|directory| match other_server() {
            None => psp_redis(options, directory),
            Some(program) => redis_server(&program, options, directory),
        });
        Self { process }
    }

    /// Starts redis-server, whatever the suites run against.
    pub(crate) fn redis_server(options: &Options) -> Self {
        let start = |directory: &Path| redis_server("redis-server".as_ref(), options, directory);
        Self { process: ServerProcess::start(start) }
    }

    /// Whether the suites run against psp-redis. Redis itself does not meet some of the
    /// expectations.
    pub(crate) fn is_psp_redis() -> bool {
        other_server().is_none()
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address())
            .unwrap_or_else(|error| panic!("connect: {error}; the server's log:\n{}", self.log().join("\n")))
    }

    /// Whether the server answers a PING on a new connection.
    pub(crate) fn assert_alive(&self) {
        assert_eq!(self.connect().ask("PING"), "+PONG");
    }

    /// The path of the Unix socket, if the server has one.
    pub(crate) fn unix_socket(&self) -> PathBuf {
        self.directory().join(UNIX_SOCKET)
    }

    /// The file given with `--config`, which contains [`Options::config`].
    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory().join(CONFIG_FILE)
    }
}

fn psp_redis(options: &Options, directory: &Path) -> Start {
    let mut command = options.command(env!("CARGO_BIN_EXE_psp-redis").as_ref());
    command.args(["--bind", options.bind(), "--port", "0"]);
    command.args(["--log-level", "info"]);
    command.args(["--enable-debug-command", options.debug()]);
    command.args(options.common_flags(directory)).args(options.scheduling_flags());
    if let Some(text) = options.config {
        let file = directory.join(CONFIG_FILE);
        fs::write(&file, text).unwrap();
        command.arg("--config").arg(file);
    }
    Start { command, port: None }
}

fn redis_server(program: &OsStr, options: &Options, directory: &Path) -> Start {
    let port = free_port();
    let mut command = options.command(program);
    command.args(["--bind", options.bind(), "--port", &port.to_string()]);
    command.args(["--enable-debug-command", options.debug()]);
    // Without a limit, Redis buffers all replies that a client does not read. With a limit, it
    // closes the connection when the replies exceed it.
    command.args(["--client-output-buffer-limit", "normal 16mb 0 0"]);
    command.args(options.common_flags(directory));
    Start { command, port: Some(port) }
}
