//! What a program prints when it fails.

/// An error and its causes in one text. A cause that is part of the text before it is left out: many errors name
/// their cause themselves.
pub fn explain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use psp_server::RunError;

    use super::*;

    #[test]
    fn each_cause_is_named_once() {
        let name = "psp-worker-3".to_owned();
        let source = io::Error::other("no thread left");
        let error = anyhow::Error::from(RunError::Thread { name, source });
        let error = error.context("cannot start the server");
        let expected = "cannot start the server: cannot start thread psp-worker-3: no thread left";
        assert_eq!(explain(&error), expected);
        assert_eq!(explain(&anyhow::anyhow!("a").context("b")), "b: a");
    }
}
