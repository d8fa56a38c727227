//! Settings under `controllers`.

use std::time::Duration;

use anyhow::{anyhow, bail};
use controllers_runtime::ControllerSettings;
use serde::Deserialize;

use crate::cli;

/// Shortest lifetime of a bootstrap token. Each of its three looks at a token costs a call to the workload cluster.
const SHORTEST_TTL: Duration = Duration::from_secs(60);

/// Settings of the controllers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Controllers {
    /// True if this server may be elected to run the controllers. Default: true.
    pub(crate) enabled: bool,
    /// Time for which a bootstrap token is valid after each extension, e.g. `15m`. Default: 15m.
    #[serde(rename = "bootstrapTokenTTL")]
    pub(crate) bootstrap_token_ttl: Option<String>,
}

impl Default for Controllers {
    fn default() -> Self {
        Self { enabled: true, bootstrap_token_ttl: None }
    }
}

impl Controllers {
    /// Returns what the controllers need of the settings.
    pub(crate) fn settings(&self) -> anyhow::Result<ControllerSettings> {
        let Some(text) = &self.bootstrap_token_ttl else { return Ok(ControllerSettings::default()) };
        let field = "controllers.bootstrapTokenTTL";
        let lifetime = cli::duration_or_none(text).map_err(|error| anyhow!("{field}: {error}"))?;
        if lifetime < SHORTEST_TTL {
            bail!("{field}: must be at least {}s, not {text}", SHORTEST_TTL.as_secs());
        }
        Ok(ControllerSettings { bootstrap_token_lifetime: lifetime })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lifetime_of_bootstrap_tokens_is_upstreams_unless_it_is_set() {
        let lifetime = |ttl: Option<&str>| {
            let ttl = ttl.map(str::to_owned);
            let settings = Controllers { bootstrap_token_ttl: ttl, ..Controllers::default() }.settings();
            settings.unwrap().bootstrap_token_lifetime
        };
        assert_eq!(lifetime(None), Duration::from_mins(15));
        assert_eq!(lifetime(Some("2h")), Duration::from_hours(2));
    }
}
