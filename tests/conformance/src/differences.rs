//! List of the known differences, each with its reason.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::compare::Difference;

/// The committed list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownDifferences {
    /// Number of entries. It is lowered with every difference that is fixed, and never raised.
    pub ceiling: usize,
    /// The entries.
    pub differences: Vec<KnownDifference>,
}

/// One known difference: one field of one case, in all its steps.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownDifference {
    /// `area/case`, or `area/*` for all cases of an area.
    pub case: String,
    /// The field, or a field above it.
    pub field: String,
    /// True if the difference exists only through a host cluster, which contributes to the response.
    #[serde(default)]
    pub through_host: bool,
    /// Reason for the difference.
    pub reason: String,
}

impl KnownDifferences {
    /// Reads the list.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read, an entry has no reason or occurs twice, or the number of
    /// entries is not the ceiling.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let list: Self =
            serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        for (index, entry) in list.differences.iter().enumerate() {
            if entry.reason.trim().len() < SHORTEST_REASON {
                bail!("{}: {} {}: give a reason", path.display(), entry.case, entry.field);
            }
            let covers = |other: &KnownDifference| {
                other.case == entry.case
                    && other.through_host == entry.through_host
                    && other.covers(&entry.field)
            };
            if list.differences.iter().take(index).any(covers) {
                bail!("{}: {} {} occurs twice", path.display(), entry.case, entry.field);
            }
        }
        if list.differences.len() != list.ceiling {
            bail!(
                "{}: there are {} entries and the ceiling is {}: lower it when a difference is gone; a new one is fixed, not listed",
                path.display(),
                list.differences.len(),
                list.ceiling
            );
        }
        Ok(list)
    }

    /// Removes stale entries from the file, and lowers the ceiling.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or does not have one line per entry.
    pub fn prune(path: &Path, stale: &[KnownDifference]) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let mut kept = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with("ceiling: ")) {
            let one: Option<Vec<KnownDifference>> = serde_saphyr::from_str(line).ok();
            if !one.is_some_and(|one| one.iter().any(|entry| stale.contains(entry))) {
                kept.push(line);
            }
        }
        let ceiling = kept.iter().filter(|line| line.starts_with("- ")).count();
        std::fs::write(path, format!("ceiling: {ceiling}\n{}\n", kept.join("\n")))?;
        Self::load(path).map(|_| ())
    }

    /// Removes the listed differences. Returns the unlisted ones, and the stale entries, which match nothing.
    pub fn partition(
        &self,
        found: Vec<Difference>,
        through_host: bool,
    ) -> (Vec<Difference>, Vec<KnownDifference>) {
        let applicable: Vec<&KnownDifference> =
            self.differences.iter().filter(|entry| through_host || !entry.through_host).collect();
        let covers =
            |entry: &KnownDifference, one: &Difference| entry.is_of(&one.case) && entry.covers(&one.field);
        let stale = applicable.iter().filter(|entry| entry.through_host == through_host);
        let stale = stale.filter(|entry| !found.iter().any(|one| covers(entry, one)));
        let stale = stale.map(|entry| KnownDifference::clone(entry)).collect();
        let unlisted = found.into_iter().filter(|one| !applicable.iter().any(|entry| covers(entry, one)));
        (unlisted.collect(), stale)
    }
}

/// Shortest reason, in bytes; a shorter one explains nothing.
const SHORTEST_REASON: usize = 10;

impl KnownDifference {
    fn is_of(&self, case: &str) -> bool {
        match self.case.strip_suffix('*') {
            Some(area) => case.starts_with(area),
            None => self.case == case,
        }
    }

    fn covers(&self, field: &str) -> bool {
        field.strip_prefix(&self.field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}
