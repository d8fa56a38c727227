//! Builds of the program: static for containers, and for glibc for Debian.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;

use crate::{prerequisites, run};

/// Name of the section of a program with the list of its crates, as in the table of names.
const SECTION: &[u8] = b".dep-v0\0";

/// Architecture of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    /// x86-64.
    Amd64,
    /// AArch64. No program for it was built so far.
    Arm64,
}

impl Architecture {
    /// Returns the architecture of this machine.
    pub(crate) fn of_this_machine() -> anyhow::Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("there is no image for the architecture {other}"),
        }
    }

    /// Returns the name in OCI and Debian.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    const fn musl(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }
}

/// Profile of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Optimised as a whole: many minutes.
    Release,
    /// Without optimisation, for checks.
    Quick,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }
}

/// Builds the static program for an architecture. Without its target, the program of this machine's architecture is for
/// glibc.
pub(crate) fn of_image(architecture: Architecture, profile: Profile) -> anyhow::Result<PathBuf> {
    prerequisites::build()?;
    let musl = architecture.musl();
    let is_own = architecture == Architecture::of_this_machine()?;
    match prerequisites::rust_target(musl) {
        Ok(()) => {}
        Err(error) if is_own => {
            eprintln!("the image is not static: {error:#}");
            return of_package(profile);
        }
        Err(error) => return Err(error),
    }
    let mut command = if is_own { cargo("build", profile, Vec::new())? } else { zig_build(profile)? };
    if is_own && run::is_there("musl-gcc") {
        // Only for C code: as a linker, musl-gcc makes programs that need the loader of musl.
        command.env(format!("CC_{}", musl.replace('-', "_")), "musl-gcc");
    }
    build(command, musl, profile)
}

/// Builds the program for glibc, for this machine.
pub(crate) fn of_package(profile: Profile) -> anyhow::Result<PathBuf> {
    prerequisites::build()?;
    build(cargo("build", profile, Vec::new())?, &run::host()?, profile)
}

/// Returns a command of cargo with these folders in front of PATH. The command for a release writes the list of all crates
/// into the program, so that scanners find those with known vulnerabilities.
fn cargo(subcommand: &str, profile: Profile, mut folders: Vec<PathBuf>) -> anyhow::Result<Command> {
    let mut words = vec![subcommand];
    if profile == Profile::Release {
        folders.push(prerequisites::cargo_auditable()?);
        words.insert(0, "auditable");
    }
    let mut command = run::cargo(&words)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = folders.into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).context("PATH")?);
    Ok(command)
}

/// Returns the command that builds with the compiler and the linker of Zig, which has the C library of each target. It was
/// not used for a release so far: the C code of a dependency may need flags that only a build shows.
fn zig_build(profile: Profile) -> anyhow::Result<Command> {
    cargo("zigbuild", profile, vec![prerequisites::zig()?])
}

/// Builds the program for a target. Neither the time nor the paths of this machine are in it.
fn build(mut command: Command, target: &str, profile: Profile) -> anyhow::Result<PathBuf> {
    command.args(["--profile", profile.name(), "--locked", "--package", "apiserver-server"]);
    command.args(["--bin", "capstan", "--target", target]);
    command.env("SOURCE_DATE_EPOCH", "0").env("CARGO_ENCODED_RUSTFLAGS", remaps()?.join("\u{1f}"));
    let flags: Vec<String> =
        paths()?.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())).collect();
    command.env(format!("CFLAGS_{}", target.replace('-', "_")), flags.join(" "));
    run::shown(&mut command)?;
    let program = run::target()?.join(target).join(profile.name()).join("capstan");
    let bytes = std::fs::read(&program).with_context(|| program.display().to_string())?;
    ensure!(
        profile == Profile::Quick || has_crates(&bytes),
        "{}: the list of crates is missing",
        program.display()
    );
    Ok(program)
}

/// Reports whether a program has the section with the list of its crates, by the name of the section.
fn has_crates(program: &[u8]) -> bool {
    program.windows(SECTION.len()).any(|bytes| bytes == SECTION)
}

/// Returns the paths of this machine that would be in a program, with their replacements.
fn paths() -> anyhow::Result<Vec<(PathBuf, &'static str)>> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    Ok(vec![(run::target()?, "/target"), (run::root()?, "/capstan"), (cargo, "/cargo")])
}

fn remaps() -> anyhow::Result<Vec<String>> {
    let remap =
        |(from, to): (PathBuf, &str)| format!("--remap-path-prefix={}={to}", Path::new(&from).display());
    // The last one that matches counts, and the target directory is often below the checkout.
    Ok(paths()?.into_iter().rev().map(remap).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_auditable_only_with_the_whole_name_of_the_section() {
        assert!(has_crates(b"\0.text\0.dep-v0\0.data\0"));
        assert!(!has_crates(b"\0.text\0.dep-v01\0.data\0"));
    }
}
