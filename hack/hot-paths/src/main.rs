//! `hot-paths`: does what an API server does most, a number of times, for callgrind to count the instructions of.
//!
//! Each path is walked within a function of its own, `measured_*`: callgrind counts while such a function runs, on
//! its thread alone, and writes down what it has counted when the function returns. `cargo xtask bench --guard` reads
//! that and holds it against the numbers that are kept.

mod paths;
mod server;
mod world;

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
    let mut world = world::World::start()?;
    for &(name, path, measured) in paths::ALL {
        // What is made at the first time, such as a compiled schema, is not what is measured.
        world.once(path)?;
        measured(&mut world)?;
        writeln!(std::io::stdout(), "{name} {}", world::TIMES)?;
    }
    Ok(())
}
