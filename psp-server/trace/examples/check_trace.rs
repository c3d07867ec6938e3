//! Checks trace files of a server or of the simulator, and says what is in them.
//!
//! ```sh
//! cargo run -p psp-trace --example check_trace -- FILE..
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("which files?");
        return ExitCode::from(2);
    }
    let mut code = ExitCode::SUCCESS;
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        let checked = text.and_then(|text| psp_trace::check(&text).map_err(|error| error.to_string()));
        match checked {
            Ok(checked) => println!("{file}: {checked}"),
            Err(error) => {
                eprintln!("{file}: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
