//! Settings under `limits`: concurrency limits and the GOAWAY chance.

use anyhow::bail;
use serde::Deserialize;

/// Largest `goawayChance`, as upstream. Above it, opening connections costs more than their requests.
const LARGEST_CHANCE: f64 = 0.02;

/// Limits on concurrent requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Read requests in flight, without watches. Default: 400, as upstream.
    pub(crate) reads_at_once: usize,
    /// Write requests in flight. Default: 200, as upstream.
    pub(crate) writes_at_once: usize,
    /// Probability that the server closes the HTTP/2 connection after a request, so that clients are rebalanced over
    /// the servers. Range: 0 to 0.02. Default: 0.
    pub(crate) goaway_chance: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reads_at_once: 400, writes_at_once: 200, goaway_chance: 0.0 }
    }
}

impl Limits {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for (field, value) in [("readsAtOnce", self.reads_at_once), ("writesAtOnce", self.writes_at_once)] {
            if value == 0 {
                bail!("limits.{field}: must be at least 1");
            }
        }
        if !(0.0..=LARGEST_CHANCE).contains(&self.goaway_chance) {
            bail!("limits.goawayChance: must be between 0 and {LARGEST_CHANCE}, not {}", self.goaway_chance);
        }
        Ok(())
    }
}
