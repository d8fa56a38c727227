//! Inputs of a release: the commit, and the files and tools that decide about its programs.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Context;

use super::sums::Sums;
use crate::{image, run};

/// Files that pin the inputs from elsewhere.
const PINS: [&str; 5] = [
    "Cargo.lock",
    "rust-toolchain.toml",
    "hack/tools/etcd/go.mod",
    "hack/tools/etcd/go.sum",
    "hack/tools/zig/requirements.txt",
];

/// Inputs of a release.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) commit: String,
    /// The checkout has changes that are in no commit.
    pub(super) is_modified: bool,
    /// Checksums of the files that pin the inputs from elsewhere.
    pub(super) pins: Sums,
    /// Versions of the compilers, by their names.
    pub(super) tools: BTreeMap<&'static str, String>,
}

impl Source {
    /// Reads the inputs of this checkout.
    pub(super) fn read() -> anyhow::Result<Self> {
        let root = run::root()?;
        let git = |words: &[&str]| run::output(Command::new("git").args(words).current_dir(&root));
        let pin = |name: &str| {
            let content = std::fs::read(root.join(name)).with_context(|| name.to_owned())?;
            anyhow::Ok((name.to_owned(), image::hex(&content)))
        };
        let tool = |(name, words): (&'static str, &[&str])| {
            let output = Command::new(name).args(words).current_dir(&root).output().ok()?;
            let first = String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned();
            Some((name, first))
        };
        // Without Go, etcd is the one in the cache.
        let tools: [(&str, &[&str]); 3] =
            [("rustc", &["--version"]), ("cc", &["--version"]), ("go", &["version"])];
        Ok(Self {
            commit: git(&["rev-parse", "HEAD"])?.trim().to_owned(),
            is_modified: !git(&["status", "--porcelain"])?.is_empty(),
            pins: PINS.into_iter().map(pin).collect::<anyhow::Result<_>>()?,
            tools: tools.into_iter().filter_map(tool).collect(),
        })
    }
}
