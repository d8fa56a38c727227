//! `limits`: how much is served at once.

use anyhow::bail;
use serde::Deserialize;

/// Upstream's bound: more often, and connections cost more than they carry.
const LARGEST_CHANCE: f64 = 0.02;

/// How much is served at once.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Reading requests at once, watches not counted. Default: 400, as upstream.
    pub(crate) reads_at_once: usize,
    /// Changing requests at once. Default: 200, as upstream.
    pub(crate) writes_at_once: usize,
    /// The part of requests over HTTP/2 after which the connection is closed, so that clients spread
    /// over servers anew. 0 to 0.02. Default: 0.
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
