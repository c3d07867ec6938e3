//! Follows `docs/your-protocol.md` to the letter: writes its files, runs its commands, and compares the output.
//!
//! ```text
//!   ```LANG file=PATH     the file has this content
//!   ```diff file=PATH     the file is changed: lines with `+` replace lines with `-`
//!   ```console            `$ COMMAND`, and its output below; … is a number from 1
//!   ```console any-order  the same, and the lines may come in any order
//!   ```console server     the same, and the program runs until the next one starts
//!   ```console stop       the program gets SIGTERM, prints the lines, and ends
//! ```
//!
//! The new crate lies beside a link to this checkout. Cargo creates it and resolves its dependencies, with the lock
//! file of this workspace. In place of `cargo run`, which would compile psp-server and all that it needs once more,
//! the compiler links the crate's programs with the libraries that this test program is linked with.

use std::io::{BufRead, BufReader, Lines};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::SystemTime;
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};

const PAGE: &str = include_str!("../../../docs/your-protocol.md");
/// The ports that the page uses; the test takes free ones.
const PORTS: [&str; 3] = ["7171", "7172", "7173"];

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
    Stop,
}

/// The order of the lines that a command prints.
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
            ("console", "stop") => Kind::Stop,
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
    assert!(is_as_expected, "{command}\nprints\n{printed}\ninstead of\n{expected}");
}

/// Replaces the lines of a change, which occur once.
fn changed(text: &str, change: &[String]) -> String {
    let side = |other: char| {
        let lines = change.iter().filter(|line| !line.starts_with(other));
        lines.map(|line| format!("{}\n", &line[1..])).collect::<String>()
    };
    let (before, after) = (side('+'), side('-'));
    assert_eq!(text.matches(&before).count(), 1, "{before} in\n{text}");
    text.replace(&before, &after)
}

/// Follows the page.
struct Reader {
    folder: PathBuf,
    server: Option<Served>,
}

/// A running server, and the lines that it will print.
struct Served {
    process: Child,
    printed: Lines<BufReader<ChildStdout>>,
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
            .stdin(Stdio::null());
        shell
    }

    /// The command with the path of a compiled program in place of `cargo run`.
    fn built(&self, command: &str) -> String {
        let Some(rest) = command.strip_prefix("cargo run --quiet") else {
            return command.to_owned();
        };
        let manifest: toml::Table = self.read("Cargo.toml").parse().unwrap();
        let package = &manifest["package"];
        let (name, rest) = match rest.trim_start().strip_prefix("--bin ") {
            Some(named) => named.split_once(' ').unwrap_or((named, "")),
            None => (package["default-run"].as_str().unwrap(), rest),
        };
        let source = match package["name"].as_str() == Some(name) {
            true => "src/main.rs".to_owned(),
            false => format!("src/bin/{name}.rs"),
        };
        let program = self.folder.join("target").join(name);
        if self.has_changed(&source, &program) {
            self.compile(&source, package["edition"].as_str().unwrap(), &program);
        }
        format!("'{}' {rest}", program.display())
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap()
    }

    /// Whether a source is newer than the program, or there is no program. The modules of `source` stand beside it.
    fn has_changed(&self, source: &str, program: &Path) -> bool {
        let folder = self.folder.join(source);
        let modules = fs::read_dir(folder.parent().expect("a folder")).unwrap();
        let files = modules.map(|module| module.unwrap().path());
        let mut written = files.filter(|file| file.is_file()).map(|it| modified(&it));
        !program.exists() || written.any(|written| written >= modified(program))
    }

    /// Compiles a program of the crate, as cargo does by default, with this test's own psp-server.
    fn compile(&self, source: &str, edition: &str, program: &Path) {
        // Resolves the manifest, whose errors `rustc` would not find.
        let tree = self.shell("cargo tree --depth 1 --prefix none").output().unwrap();
        let resolved = String::from_utf8(tree.stdout).unwrap();
        let errors = String::from_utf8_lossy(&tree.stderr);
        assert!(resolved.contains("\npsp-server v"), "{errors}");

        let compiled = env::current_exe().unwrap();
        let compiled = compiled.parent().expect("the folder of compiled crates");
        fs::create_dir_all(program.parent().expect("a folder")).unwrap();
        let manifest: toml::Table = self.read("Cargo.toml").parse().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap().keys();
        let libraries = dependencies.map(|name| {
            let name = name.replace('-', "_");
            let library = newest(compiled, &format!("lib{name}-"), ".rlib");
            format!(" --extern '{name}={}'", library.display())
        });
        let rustc = format!(
            "rustc --edition {edition} {source} -o '{}' -L 'dependency={}'{}",
            program.display(),
            compiled.display(),
            libraries.collect::<String>(),
        );
        let output = self.shell(&rustc).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{rustc}\n{errors}");
        assert!(!errors.contains("warning"), "{rustc}\n{errors}");
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
            fs::copy(repository().join("Cargo.lock"), self.folder.join("Cargo.lock")).unwrap();
            return;
        }
        let output = self.shell(&self.built(command)).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let mut printed: Vec<&str> = printed.lines().collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}\n{errors}");
        assert_eq!(printed.len(), expected.len(), "{command}\n{printed:#?}\n{errors}");
        if order == Order::Any {
            printed.sort_unstable();
            expected.sort_unstable();
        }
        for (printed, expected) in printed.iter().zip(expected) {
            assert_line(command, printed, expected);
        }
    }

    fn serve(&mut self, command: &str, expected: &[&str]) {
        self.stop_server(&[]);
        // The server takes the place of the shell, so that signals reach it.
        let mut shell = self.shell(&format!("exec {}", self.built(command)));
        let mut process = shell.stdout(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        self.server.insert(Served { process, printed }).prints(command, expected);
    }

    /// Stops the server, which prints `expected` before it ends.
    fn stop_server(&mut self, expected: &[&str]) {
        if let Some(mut server) = self.server.take() {
            kill_process(Pid::from_child(&server.process), Signal::TERM).unwrap();
            server.prints("SIGTERM", expected);
            assert!(server.process.wait().unwrap().success());
        }
    }
}

impl Served {
    fn prints(&mut self, command: &str, expected: &[&str]) {
        for expected in expected {
            let line = self.printed.next();
            let line = line.expect("the server prints the line before it ends");
            assert_line(command, &line.unwrap(), expected);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A server is left only if the test has failed.
        if let Some(Served { process, .. }) = &mut self.server {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// The file of the folder with the newest content, whose name begins and ends so.
fn newest(folder: &Path, begins: &str, ends: &str) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let named = files.filter(|file| {
        let name = file.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(begins) && name.ends_with(ends))
    });
    let newest = named.max_by_key(|file| modified(file));
    newest.unwrap_or_else(|| panic!("no {begins}*{ends} in {}", folder.display()))
}

fn modified(file: &Path) -> SystemTime {
    fs::metadata(file).unwrap().modified().unwrap()
}

#[test]
fn the_tutorial_works_as_it_is_written() {
    if cfg!(not(feature = "tls")) {
        return psp_skip::skip("the page needs the feature tls");
    }
    for program in ["openssl", "curl"] {
        if Command::new(program).arg("--version").output().is_err() {
            return psp_skip::skip(&format!("the page needs {program}"));
        }
    }
    // Outside of the workspace, as the new crate is none of its members.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(repository(), folder.path().join("psp")).unwrap();
    let listeners = PORTS.map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    let mut page = PAGE.to_owned();
    for (port, listener) in PORTS.iter().zip(&listeners) {
        page = page.replace(port, &listener.local_addr().unwrap().port().to_string());
    }
    drop(listeners);
    let mut reader = Reader { folder: folder.path().to_owned(), server: None };
    let mut commands_run = 0;
    for Block { kind, lines } in blocks(&page) {
        match kind {
            Kind::File(file) => reader.write(&file, &lines),
            Kind::Change(file) => reader.change(&file, &lines),
            Kind::Console(order) => {
                for (command, printed) in commands(&lines) {
                    reader.run(command, printed, order);
                    commands_run += 1;
                }
            }
            Kind::Stop => {
                for (_kill, printed) in commands(&lines) {
                    reader.stop_server(&printed);
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
    reader.stop_server(&[]);
    assert!(commands_run >= 20, "{commands_run} commands");
}
