//! Authentication files, valid and invalid, and the verdicts of a real kube-apiserver about them.
//!
//! `cases/` has the files, grouped by area. `recorded.json` has each file as it was given to the real server, and the
//! errors of that server.

mod cases;
mod live;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

pub use cases::{AuthenticationCase, AuthenticationCases};
pub use live::record;

/// Issuer of the tokens of the server itself, which no file may name.
pub const OWN_ISSUER: &str = "https://kubernetes.default.svc";

/// Command that writes the recording.
const COMMAND: &str = "cargo xtask conformance record-authentication";

/// File as it was given to a kube-apiserver, and the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedFile {
    /// Text of the file.
    pub text: String,
    /// Errors of kube-apiserver. If there are none, it accepts the file.
    pub errors: Vec<String>,
}

/// Recorded files by `area/case`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordedFiles(BTreeMap<String, RecordedFile>);

impl RecordedFiles {
    /// Reads a recording.
    ///
    /// # Errors
    /// Returns an error with the command that writes the recording if the file cannot be read.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read: run `{COMMAND}`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{}: run `{COMMAND}`", path.display()))
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn store(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Returns the record of a case.
    ///
    /// # Errors
    /// Returns an error with the command that writes the recording if the case was not recorded in its present form.
    pub fn of(&self, id: &str, case: &AuthenticationCase) -> anyhow::Result<&RecordedFile> {
        let record = self.0.get(id).with_context(|| format!("{id} was never recorded: run `{COMMAND}`"))?;
        let is_same = record.text == case.text();
        is_same.then_some(record).with_context(|| format!("{id} has changed since: run `{COMMAND}`"))
    }

    /// Returns the number of recorded files.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no file was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
