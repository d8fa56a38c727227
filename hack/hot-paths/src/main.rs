//! Program `hot-paths`: repeats the most frequent requests of an API server, while callgrind counts their
//! instructions.
//!
//! Each path runs in a function of its own, `measured_*`. Callgrind counts only while such a function runs,
//! and only on its thread, and writes the counts when the function returns. `cargo xtask bench --guard`
//! compares them with the recorded numbers.

mod paths;
mod runner;
mod server;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hot-paths: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut runner = runner::PathRunner::start()?;
    for &(name, path, measured) in paths::ALL {
        // The first request also creates what is kept, such as a compiled schema. That is not measured.
        runner.once(path)?;
        measured(&mut runner)?;
        writeln!(std::io::stdout(), "{name} {}", runner::REPETITIONS)?;
    }
    Ok(())
}
