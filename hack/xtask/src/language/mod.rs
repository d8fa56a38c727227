//! Language check: banned file names and words, each with its replacement and the reason.
//!
//! The lists are short on purpose. Each entry stands for a word that readers of the code had to look up.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, bail};

use crate::run;

mod prose;
mod rules;

use prose::Finding;
use rules::FILE_NAMES;

/// Maximum number of findings of one file that are printed: the first ones suffice to understand the rule.
const SHOWN: usize = 5;

/// Checks the names of all files, and the prose in them.
///
/// # Errors
/// Names each banned file name, and each file with a banned word.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut errors = banned_file_names()?;
    errors.extend(findings()?.iter().map(|(path, findings)| describe(path, findings)));
    if errors.is_empty() { Ok(()) } else { bail!("{}", errors.join("\n")) }
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

fn describe(path: &str, findings: &[Finding]) -> String {
    let mut text = format!("{path}: {} findings", findings.len());
    for Finding { line, problem } in findings.iter().take(SHOWN) {
        let _ = write!(text, "\n  {path}:{line}: {problem}");
    }
    text
}
