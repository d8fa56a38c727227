//! Recorder: a running kube-apiserver reloads each file, and its log has the verdict.
//!
//! kube-apiserver validates a changed file, and then connects to the issuers before it applies the file. These issuers
//! do not exist. But `anonymous` must not change while a server runs, and this is one of the validation errors. Each
//! file differs in `anonymous` from the first one, so each validation ends with this error, and no issuer is contacted.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{AuthenticationCases, RecordedFile, RecordedFiles};

/// Error about `anonymous`, which each file gets.
const CHANGED: &str = "anonymous: Forbidden: changed from initial configuration file";

/// Longest wait for a verdict. Without notifications of the file system, kube-apiserver reads its file each minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// Pause between two looks at the log.
const PAUSE: Duration = Duration::from_millis(20);

/// Gives all files to a kube-apiserver, one after the other. `file` is its `--authentication-config`, and `log` is its
/// log in JSON. The first file must have an `anonymous` that no case has.
///
/// # Errors
/// Returns an error if the server does not report a verdict, or if it applies a file.
pub fn record(cases: &AuthenticationCases, file: &Path, log: &Path) -> anyhow::Result<RecordedFiles> {
    let mut log = Log::open(log)?;
    let mut recorded = RecordedFiles::default();
    for (id, case) in cases {
        let text = case.text();
        replace(file, &text)?;
        let errors = log.verdict().with_context(|| id.clone())?;
        recorded.0.insert(id.clone(), RecordedFile { text, errors });
    }
    Ok(recorded)
}

/// Replaces the file in one step, so that the server never reads a part of it.
fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, text).with_context(|| format!("{} cannot be written", new.display()))?;
    std::fs::rename(&new, file).with_context(|| format!("{} cannot be replaced", file.display()))
}

/// Log of the server, read while it grows.
struct Log {
    lines: BufReader<File>,
    /// Begin of a line whose end is not written yet.
    part: String,
}

impl Log {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(Self { lines: BufReader::new(file), part: String::new() })
    }

    /// Waits for the next verdict.
    fn verdict(&mut self) -> anyhow::Result<Vec<String>> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            match self.line()? {
                None => std::thread::sleep(PAUSE),
                Some(line) => {
                    if let Some(errors) = errors(&line)? {
                        return Ok(errors);
                    }
                }
            }
        }
        bail!("kube-apiserver has no verdict after {} s", PATIENCE.as_secs())
    }

    /// Returns the next line, if its end is written.
    fn line(&mut self) -> anyhow::Result<Option<String>> {
        self.lines.read_line(&mut self.part)?;
        Ok(self.part.ends_with('\n').then(|| std::mem::take(&mut self.part)))
    }
}

/// Returns the errors of a file, if a line of the log has a verdict.
fn errors(line: &str) -> anyhow::Result<Option<Vec<String>>> {
    // Before the server has read its options, its log has another form.
    let Ok(entry) = serde_json::from_str::<Value>(line) else { return Ok(None) };
    match entry["msg"].as_str() {
        Some("failed to load authentication config") => {
            let error = entry["err"].as_str().with_context(|| format!("no error: {line}"))?;
            Ok(Some(vec![error.to_owned()]))
        }
        Some("failed to validate authentication config") => {
            let causes = entry["errCauses"].as_array().into_iter().flatten();
            let mut errors: Vec<String> =
                causes.filter_map(|cause| cause["error"].as_str().map(str::to_owned)).collect();
            let all = errors.len();
            errors.retain(|error| error != CHANGED);
            ensure!(errors.len() + 1 == all, "the verdict has no error about `anonymous`: {line}");
            Ok(Some(errors))
        }
        Some("reloaded authentication config" | "failed to update authentication config") => {
            bail!("kube-apiserver has applied the file: {line}")
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_from_the_log() {
        let validation = |causes: &str| {
            format!(
                r#"{{"msg":"failed to validate authentication config","err":"e","errCauses":[{causes}]}}"#
            )
        };
        let changed = format!(r#"{{"error":"{CHANGED}"}}"#);
        let required = r#"{"error":"jwt[0].issuer.url: Required value"}"#;
        for (line, expected) in [
            ("I0101 a text".to_owned(), None),
            (r#"{"msg":"Serving securely"}"#.to_owned(), None),
            (validation(&changed), Some(vec![])),
            (validation(&format!("{required},{changed}")), Some(vec!["jwt[0].issuer.url: Required value"])),
            (r#"{"msg":"failed to load authentication config","err":"e"}"#.to_owned(), Some(vec!["e"])),
        ] {
            let expected = expected.map(|errors| errors.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(errors(&line).unwrap(), expected, "{line}");
        }
        assert!(errors(&validation(required)).is_err());
        assert!(errors(r#"{"msg":"reloaded authentication config"}"#).is_err());
    }

    #[test]
    fn a_line_is_read_once_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "one\ntw").unwrap();
        let mut log = Log::open(&path).unwrap();
        assert_eq!(log.line().unwrap().as_deref(), Some("one\n"));
        assert_eq!(log.line().unwrap(), None);
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(log.line().unwrap().as_deref(), Some("two\n"));
    }
}
