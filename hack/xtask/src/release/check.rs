//! Check of a release: a second build in another folder makes the same files.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::{Arguments, sums};
use crate::run;

/// Builds the release again from a clone of the checkout, with another target directory. Only the tools in the cache, with the
/// programs of etcd, are the same.
pub(super) fn run(arguments: &Arguments, output: &Path) -> anyhow::Result<()> {
    let home = std::env::temp_dir().join(format!("capstan-release-{}", std::process::id()));
    let (source, again) = (home.join("source"), home.join("dist"));
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let mut clone = Command::new("git");
    run::shown(clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(run::root()?).arg(&source))?;
    let mut command = run::cargo(&["xtask", "release", "--output"])?;
    command.arg(&again).args(flags(arguments)).current_dir(&source);
    // The manifest directory of this checkout is not that of the clone.
    command.env("CARGO_TARGET_DIR", home.join("target")).env_remove("CARGO_MANIFEST_DIR");
    run::shown(&mut command).context("the second build")?;
    let (first, second) = (sums::read(output)?, sums::read(&again)?);
    let differences = sums::differences(&first, &second);
    ensure!(
        differences.is_empty(),
        "two builds differ, in {} and {}: {}",
        output.display(),
        again.display(),
        differences.join(", ")
    );
    eprintln!("ok      two builds in two folders made the same {} files", first.len());
    std::fs::remove_dir_all(&home).with_context(|| home.display().to_string())
}

/// Returns the flags of the second build.
fn flags(arguments: &Arguments) -> Vec<String> {
    let mut flags: Vec<String> =
        arguments.architecture.iter().map(|it| format!("--architecture={}", it.name())).collect();
    if arguments.quick {
        flags.push("--quick".to_owned());
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::program::Architecture;

    #[test]
    fn the_second_build_has_the_same_flags_and_does_not_check_again() {
        let arguments = Arguments {
            check: true,
            quick: true,
            architecture: vec![Architecture::Amd64, Architecture::Arm64],
            output: None,
        };
        assert_eq!(flags(&arguments), ["--architecture=amd64", "--architecture=arm64", "--quick"]);
    }
}
