//! Tries inputs on the target that `CAPSTAN_FUZZ_TARGET` names.
//!
//! With the feature `engine` this is libFuzzer: inputs are made, and arguments are its own. Without,
//! each argument is a file to be tried.
#![cfg_attr(feature = "engine", no_main)]

use tests_fuzz::{Finding, Target};

/// The target that is asked for.
fn target() -> Result<&'static Target, Finding> {
    let name = std::env::var("CAPSTAN_FUZZ_TARGET").unwrap_or_default();
    tests_fuzz::find(&name)
        .ok_or_else(|| Finding(format!("CAPSTAN_FUZZ_TARGET: there is no target {name:?}")))
}

#[cfg(feature = "engine")]
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // Ending badly is how the engine is told, and makes it keep the input.
    if let Err(finding) = target().and_then(|target| target.run(input)) {
        eprintln!("FOUND: {finding}");
        std::process::abort();
    }
});

#[cfg(not(feature = "engine"))]
fn main() -> anyhow::Result<()> {
    use anyhow::Context;

    let target = target()?;
    for path in std::env::args_os().skip(1) {
        let path = std::path::PathBuf::from(path);
        let input = std::fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        target.run(&input).with_context(|| path.display().to_string())?;
        eprintln!("{}: nothing found", path.display());
    }
    Ok(())
}
