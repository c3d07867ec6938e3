//! Entries that the server sets at the start.

use indicatif::{ProgressBar, ProgressStyle};
use psp_sim::keys::Keyspace;

use crate::engine::{Engine, EngineError};

/// Entries between two steps of the progress bar.
const ENTRIES_PER_STEP: u64 = 1_000;

/// Sets `count` keys, the keys that psp-loadgen uses with `--keys COUNT`, to values of `value_len`
/// bytes. Shows a progress bar on a terminal. The entries survive a crash as far as the engine can
/// ensure it.
///
/// # Errors
/// The store cannot be written.
pub fn preload(engine: &dyn Engine, count: u64, value_len: usize) -> Result<(), EngineError> {
    if count == 0 {
        return Ok(());
    }
    let keyspace = Keyspace::new(count, value_len);
    let bar = ProgressBar::new(count);
    let style = ProgressStyle::with_template("preload {bar:40} {human_pos}/{human_len} {per_sec}")
        .expect("the template is fixed");
    bar.set_style(style);
    let mut key = Vec::new();
    for index in 0..count {
        key.clear();
        keyspace.push_key(index, &mut key);
        engine.fill(&key, keyspace.first_value(index))?;
        if index % ENTRIES_PER_STEP == 0 {
            bar.set_position(index);
        }
    }
    engine.sync()?;
    bar.finish_and_clear();
    tracing::info!(count, value_len, "preloaded");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Memory;

    #[test]
    fn keys_match_the_load_generator() {
        let engine = Memory::default();
        preload(&engine, 2_500, 10).unwrap();
        let mut values = Vec::new();
        for key in ["key:000000000000", "key:000000002499"] {
            let found = &mut |value: &[u8]| values.push(value.len());
            assert_eq!(engine.get(key.as_bytes(), found), Ok(true), "{key}");
        }
        assert_eq!(values, [10, 10]);
        let beyond = b"key:000000002500";
        assert_eq!(engine.get(beyond, &mut |_| ()), Ok(false));
    }
}
