//! The server as a program.

use std::process::ExitCode;

use psp_synthetic::config::Config;
use psp_synthetic::startup;

fn main() -> ExitCode {
    psp_program::main::<Config>(|program| {
        let server = startup::build(program.config.clone())?;
        let handle = server.handle();
        program.serve(server)?;
        for ty in handle.snapshot().types {
            tracing::info!(
                ty.name,
                ty.completions,
                ty.rejections,
                ty.abandoned,
                ty.expired,
                ty.turns.turns,
                ty.turns.preemptions_asked,
                ty.turns.preemptions_honoured,
                ty.turns.preemptions_late,
                "served"
            );
        }
        Ok(())
    })
}
