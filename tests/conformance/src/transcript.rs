//! Recorded responses of a server, normalized.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One request and its response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The request line of the case.
    pub request: String,
    /// Status code; 0 for a successful step that only prepares.
    pub status: u16,
    /// Headers that are compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Value>,
    /// The body: JSON unchanged, a stream as a list, anything else as text.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
}

/// Responses of one case.
pub type Transcript = Vec<Exchange>;

/// Responses by `area/case`.
pub type Transcripts = BTreeMap<String, Transcript>;

/// Reads the recorded responses of a directory.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub fn load(directory: &Path) -> anyhow::Result<Transcripts> {
    let mut transcripts = Transcripts::new();
    for entry in
        std::fs::read_dir(directory).with_context(|| format!("{} cannot be read", directory.display()))?
    {
        let path = entry?.path();
        let area = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let cases: Transcripts =
            serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
        transcripts
            .extend(cases.into_iter().map(|(case, transcript)| (format!("{area}/{case}"), transcript)));
    }
    Ok(transcripts)
}

/// Writes recorded responses, one file for each area. Files and cases without a current case are removed.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn store(directory: &Path, transcripts: &Transcripts) -> anyhow::Result<()> {
    let mut areas: BTreeMap<&str, BTreeMap<&str, &Transcript>> = BTreeMap::new();
    for (id, transcript) in transcripts {
        let (area, case) = id.split_once('/').context("an id is area/case")?;
        areas.entry(area).or_default().insert(case, transcript);
    }
    for entry in std::fs::read_dir(directory)? {
        std::fs::remove_file(entry?.path())?;
    }
    for (area, cases) in areas {
        let path = directory.join(format!("{area}.json"));
        // The detour through a Value sorts the keys: the order of fields has no meaning.
        let mut text = serde_json::to_string_pretty(&serde_json::to_value(cases)?)?;
        text.push('\n');
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}
