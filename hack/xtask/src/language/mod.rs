//! Language check: banned file names and words, each with its replacement and the reason.
//!
//! The lists are short on purpose. Each entry stands for a word that readers of the code had to look up. Text from before
//! the check is counted in a baseline, file by file; a count may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use crate::run;

mod prose;
mod rules;

use prose::Finding;
use rules::FILE_NAMES;

/// The counts of findings that are there already.
const BASELINE: &str = "hack/xtask/language.baseline";

/// Most findings of one file that are printed: the first ones show what is meant.
const SHOWN: usize = 5;

/// Compares the findings of every file with the baseline.
///
/// # Errors
/// Names each file that is named by a banned word, or that has more findings than the baseline allows.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut errors = banned_file_names()?;
    let allowed = baseline()?;
    let found = findings()?;
    for (path, findings) in &found {
        let allowed = allowed.get(path).copied().unwrap_or_default();
        if findings.len() > allowed {
            errors.push(describe(path, findings, allowed));
        }
    }
    for (path, allowed) in &allowed {
        let now = found.get(path).map_or(0, Vec::len);
        if now < *allowed {
            errors.push(format!(
                "{BASELINE}: {path} allows {allowed} findings and has {now}: lower the number"
            ));
        }
    }
    if errors.is_empty() { Ok(()) } else { bail!("{}", errors.join("\n")) }
}

/// Lowers the counts of the baseline to what is there now. It never raises one.
pub(crate) fn generate() -> anyhow::Result<()> {
    let allowed = baseline()?;
    let is_first = allowed.is_empty();
    let mut text = String::new();
    for (path, findings) in findings()? {
        let now = if is_first {
            findings.len()
        } else {
            findings.len().min(allowed.get(&path).copied().unwrap_or(0))
        };
        if now > 0 {
            let _ = writeln!(text, "{now:>4} {path}");
        }
    }
    std::fs::write(baseline_path()?, text).with_context(|| format!("{BASELINE}: cannot be written"))
}

fn baseline_path() -> anyhow::Result<PathBuf> {
    Ok(run::root()?.join(BASELINE))
}

fn baseline() -> anyhow::Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(baseline_path()?).unwrap_or_default();
    text.lines()
        .map(|line| {
            let (count, path) =
                line.trim().split_once(' ').with_context(|| format!("{BASELINE}: {line:?}"))?;
            Ok((path.to_owned(), count.parse().with_context(|| format!("{BASELINE}: {line:?}"))?))
        })
        .collect()
}

fn files(pattern: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut git = Command::new("git");
    let list = git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--"]).args(pattern);
    let list = run::output(list.current_dir(run::root()?))?;
    let root = run::root()?;
    Ok(list.lines().filter(|path| root.join(path).is_file()).map(str::to_owned).collect())
}

fn banned_file_names() -> anyhow::Result<Vec<String>> {
    let mut errors = Vec::new();
    for path in files(&["*.rs", "*.md"])? {
        for part in path.split('/') {
            let stem = part.split_once('.').map_or(part, |(stem, _)| stem);
            for (banned, instead, reason) in FILE_NAMES {
                // Faults are injected into tests: there the word is the field's own.
                let is_injection = stem.starts_with("fault") && path.starts_with("tests/");
                if stem == *banned && !is_injection {
                    errors.push(format!("{path}: {stem:?} says too little; better {instead} ({reason})"));
                }
            }
        }
    }
    Ok(errors)
}

fn findings() -> anyhow::Result<BTreeMap<String, Vec<Finding>>> {
    let root = run::root()?;
    let mut all = BTreeMap::new();
    for path in files(&["*.rs", "*.md"])? {
        // The lists themselves name what they ban.
        if path.starts_with("hack/xtask/src/language/") || path == "docs/glossary.md" {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        let found = if path.ends_with(".md") { prose::of_page(&text) } else { prose::of_code(&text) };
        if !found.is_empty() {
            all.insert(path, found);
        }
    }
    Ok(all)
}

fn describe(path: &str, findings: &[Finding], allowed: usize) -> String {
    let mut text = format!("{path}: {} findings, {allowed} are allowed", findings.len());
    for Finding { line, problem } in findings.iter().take(SHOWN) {
        let _ = write!(text, "\n  {path}:{line}: {problem}");
    }
    text
}
