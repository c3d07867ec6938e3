//! Follows `docs/your-protocol.md` to the letter: writes its files, runs its commands, and compares what
//! they print.
//!
//! ```text
//!   ```LANG file=PATH     the file has this content
//!   ```diff file=PATH     the file is changed: lines with `-` give way to lines with `+`
//!   ```console            `$ COMMAND`, and what it prints below; … is a number from 1
//!   ```console any-order  likewise, in whatever order: of replies that come within microseconds
//!   ```console server     likewise, and it goes on running until the next one
//! ```
//!
//! The new crate lies beside a link to this checkout, with the lock file of this one, so that nothing is
//! downloaded; it is built in a folder of its own below the target directory.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};

const PAGE: &str = include_str!("../../docs/your-protocol.md");
/// The port that the page uses; the test takes one that is free.
const PORT: &str = "7171";

/// A block of the page.
struct Block {
    kind: Kind,
    lines: Vec<String>,
}

#[derive(Debug)]
enum Kind {
    File(PathBuf),
    Change(PathBuf),
    Console(Order),
    Server,
}

/// Of the lines that a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    AsWritten,
    Any,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut lines = page.lines();
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let body = lines.by_ref().take_while(|line| *line != "```");
        let lines: Vec<String> = body.map(str::to_owned).collect();
        let kind = match info.split_once(' ').unwrap_or((info, "")) {
            ("console", "") => Kind::Console(Order::AsWritten),
            ("console", "any-order") => Kind::Console(Order::Any),
            ("console", "server") => Kind::Server,
            (language, attribute) => {
                let file = attribute.strip_prefix("file=").expect(info).into();
                match language {
                    "diff" => Kind::Change(file),
                    _ => Kind::File(file),
                }
            }
        };
        blocks.push(Block { kind, lines });
    }
    blocks
}

/// Commands with the lines that they print.
fn commands(lines: &[String]) -> Vec<(&str, Vec<&str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in lines {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command, Vec::new())),
            None => commands.last_mut().expect("a command").1.push(line),
        }
    }
    commands
}

fn assert_line(command: &str, printed: &str, expected: &str) {
    let is_as_expected = match expected.split_once('…') {
        None => printed == expected,
        Some((before, after)) => printed
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: u64| number > 0),
    };
    assert!(
        is_as_expected,
        "{command}\nprints\n{printed}\ninstead of\n{expected}"
    );
}

/// Replaces the lines of a change, which are there once.
fn changed(text: &str, change: &[String]) -> String {
    let side = |other: char| {
        let lines = change.iter().filter(|line| !line.starts_with(other));
        lines
            .map(|line| format!("{}\n", &line[1..]))
            .collect::<String>()
    };
    let (before, after) = (side('+'), side('-'));
    assert_eq!(text.matches(&before).count(), 1, "{before} in\n{text}");
    text.replace(&before, &after)
}

/// Someone who follows the page.
struct Reader {
    folder: PathBuf,
    server: Option<Child>,
}

impl Reader {
    fn shell(&self, command: &str) -> Command {
        let cargo = PathBuf::from(env::var_os("CARGO").expect("cargo runs the tests"));
        let toolchain = cargo.parent().expect("a folder").to_owned();
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([toolchain].into_iter().chain(env::split_paths(&path)));
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .current_dir(&self.folder)
            .env("PATH", path.expect("paths without colons"))
            .env("CARGO_NET_OFFLINE", "true")
            .env(
                "CARGO_TARGET_DIR",
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorial"),
            )
            .stdin(Stdio::null());
        shell
    }

    fn write(&self, file: &Path, lines: &[String]) {
        let file = self.folder.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).unwrap();
        fs::write(file, lines.join("\n") + "\n").unwrap();
    }

    fn change(&self, file: &Path, lines: &[String]) {
        let file = self.folder.join(file);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, changed(&text, lines)).unwrap();
    }

    fn run(&mut self, command: &str, mut expected: Vec<&str>, order: Order) {
        if let Some(folder) = command.strip_prefix("cd ") {
            self.folder.push(folder);
            fs::copy(
                repository().join("Cargo.lock"),
                self.folder.join("Cargo.lock"),
            )
            .unwrap();
            return;
        }
        let output = self.shell(command).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let mut printed: Vec<&str> = printed.lines().collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}\n{errors}");
        assert_eq!(
            printed.len(),
            expected.len(),
            "{command}\n{printed:#?}\n{errors}"
        );
        if order == Order::Any {
            printed.sort_unstable();
            expected.sort_unstable();
        }
        for (printed, expected) in printed.iter().zip(expected) {
            assert_line(command, printed, expected);
        }
    }

    fn serve(&mut self, command: &str, expected: &[&str]) {
        self.stop_server();
        // Without the shell between, signals reach the server: cargo becomes what it runs.
        let mut shell = self.shell(&format!("exec {command}"));
        let mut server = shell.stdout(Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(server.stdout.take().expect("a pipe")).lines();
        self.server = Some(server);
        for expected in expected {
            let line = printed.next().expect("the server says so before it ends");
            assert_line(command, &line.unwrap(), expected);
        }
    }

    fn stop_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
            assert!(server.wait().unwrap().success());
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // There is one left only where the test has failed.
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
}

/// An empty folder outside of the workspace, the same each time: what was built for it stays of use.
fn empty_folder() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    repository().hash(&mut hasher);
    let folder = env::temp_dir().join(format!("psp-tutorial-{:016x}", hasher.finish()));
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn the_tutorial_works_as_it_is_written() {
    let folder = empty_folder();
    std::os::unix::fs::symlink(repository(), folder.join("psp")).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let mut reader = Reader {
        folder: folder.clone(),
        server: None,
    };
    let mut commands_run = 0;
    for Block { kind, lines } in blocks(&PAGE.replace(PORT, &port)) {
        match kind {
            Kind::File(file) => reader.write(&file, &lines),
            Kind::Change(file) => reader.change(&file, &lines),
            Kind::Console(order) => {
                for (command, printed) in commands(&lines) {
                    reader.run(command, printed, order);
                    commands_run += 1;
                }
            }
            Kind::Server => {
                for (command, printed) in commands(&lines) {
                    reader.serve(command, &printed);
                    commands_run += 1;
                }
            }
        }
    }
    reader.stop_server();
    assert!(commands_run >= 10, "{commands_run} commands");
    fs::remove_dir_all(folder).unwrap();
}
