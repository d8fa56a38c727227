//! Random policies of RBAC with requests, and the verdicts of a real kube-apiserver about them.
//!
//! A seed makes the same policies and requests on every run. So the recording has only verdicts.

mod generator;
mod live;
mod random;

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

pub use generator::{World, Write};
pub use live::{answer, establish};

/// Number of policies. Each has names of its own, so that all of them fit into one server.
pub const WORLDS: u32 = 25;

/// Verdicts of a real kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Seed of all policies.
    pub seed: u64,
    /// Verdicts about each policy.
    pub worlds: Vec<Verdicts>,
}

/// Verdicts about the requests of one policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// One character for each question: `1` if the request is allowed, else `0`.
    pub decisions: String,
    /// Status code of each write of a role or a binding.
    pub writes: Vec<u16>,
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn store(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
    }
}
