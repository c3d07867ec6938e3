//! Tests that need a right or a program which a machine may lack.
//!
//! Such a test calls [`skip`] and returns. The test runner counts it as passed, so the line that `skip`
//! writes is what tells. Where every test can run, such as in continuous integration, the variable
//! [`REQUIRE_ALL`] turns each skipped test into a failure.
//!
//! ```
//! if std::fs::metadata("/dev/null").is_err() {
//!     return psp_skip::skip("there is no /dev/null");
//! }
//! ```

use std::io::Write as _;

/// Environment variable: when it is set and not empty, a skipped test fails.
pub const REQUIRE_ALL: &str = "PSP_TEST_REQUIRE_ALL";

/// Writes `skipped: TEST: REASON` to the process' standard error, past the test runner's capture.
///
/// # Panics
/// When [`REQUIRE_ALL`] is set.
#[track_caller]
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    if std::env::var_os(REQUIRE_ALL).is_some_and(|value| !value.is_empty()) {
        panic!("{test} was skipped, and {REQUIRE_ALL} is set: {reason}");
    }
    say(test, reason);
}

/// Like [`skip`], for what the machines of continuous integration lack, too, and no package could add: such as a
/// kernel's feature. The test does not fail there, so say in its documentation where it runs.
pub fn skip_here_and_in_ci(reason: &str) {
    let thread = std::thread::current();
    say(thread.name().unwrap_or("a test"), reason);
}

fn say(test: &str, reason: &str) {
    // `eprintln!` would be captured. A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::REQUIRE_ALL;

    /// Not a test by itself: the test below runs it in a process of its own.
    #[test]
    #[ignore = "run by another test"]
    fn skips() {
        super::skip("for the sake of the argument");
    }

    fn run(require_all: &str) -> std::process::Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::skips", "--ignored"])
            .env(REQUIRE_ALL, require_all)
            .output()
            .unwrap()
    }

    #[test]
    fn a_skipped_test_says_so_and_fails_where_all_tests_are_required() {
        let allowed = run("");
        assert!(allowed.status.success());
        let told = String::from_utf8_lossy(&allowed.stderr);
        assert!(told.contains("skipped: tests::skips: for the sake of the argument"), "{told}");
        assert!(!run("1").status.success());
    }
}
