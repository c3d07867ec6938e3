//! What a user's first build has to build.

use std::collections::BTreeSet;
use std::process::Command;

const README: &str = include_str!("../../../README.md");

/// The number before `crates` in the README's sentence about the first build.
fn promised() -> usize {
    let (before, _) = README.split_once(" crates, some").expect("the README says how many");
    let number = before.rsplit(' ').next().expect("a number");
    number.parse().expect(number)
}

#[test]
fn a_servers_first_build_has_no_more_crates_than_the_readme_says() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "tree",
            "--offline",
            "--locked",
            "-p",
            "psp-server",
            "-e",
            "normal,build",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // A package that was listed before has a mark behind it.
    let crates: BTreeSet<String> = text.lines().map(|line| line.split(' ').take(2).collect()).collect();
    let (count, promised) = (crates.len(), promised());
    assert!(count <= promised && count + 5 > promised, "{count} crates, {promised} in the README");
}
