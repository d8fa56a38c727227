//! Runner of the target that `CAPSTAN_FUZZ_TARGET` names.
//!
//! With the feature `engine` this program is libFuzzer: it creates inputs, and has libFuzzer's arguments.
//! Without the feature, each argument is a file with an input.
#![cfg_attr(feature = "engine", no_main)]

use tests_fuzz::{Finding, FuzzTarget};

/// Returns the requested target.
fn target() -> Result<&'static FuzzTarget, Finding> {
    let name = std::env::var("CAPSTAN_FUZZ_TARGET").unwrap_or_default();
    tests_fuzz::find(&name)
        .ok_or_else(|| Finding(format!("CAPSTAN_FUZZ_TARGET: there is no target {name:?}")))
}

#[cfg(feature = "engine")]
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // An abort reports the finding to the engine, which then keeps the input.
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
