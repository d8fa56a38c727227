//! `shutdown`: how the server ends.

use std::time::Duration;

use anyhow::anyhow;
use serde::Deserialize;

use crate::cli;

/// How long a server goes on that others can take over from. A host looks at us every 30 seconds, and
/// a load balancer more often: after that nobody sends anything new here.
const DELAY: Duration = Duration::from_secs(30);

/// Over how long the ends of watches are spread: some thousand watchers come to another server at a
/// pace that it stands.
const WATCH_GRACE: Duration = Duration::from_secs(10);

/// How the server ends.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Shutdown {
    /// How long everything is served on, with readiness failing. Default: 30s on an etcd, where others
    /// can take over, and 0s on the embedded store, where nobody can.
    pub(crate) delay: Option<String>,
    /// Over how long the ends of watches are spread then. Default: 10s and 0s, likewise.
    pub(crate) watch_grace: Option<String>,
}

impl Shutdown {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.delay(false)?;
        self.watch_grace(false).map(|_| ())
    }

    /// `replaceable`: whether others can take over.
    pub(super) fn delay(&self, replaceable: bool) -> anyhow::Result<Duration> {
        let default = if replaceable { DELAY } else { Duration::ZERO };
        duration("delay", self.delay.as_deref(), default)
    }

    pub(super) fn watch_grace(&self, replaceable: bool) -> anyhow::Result<Duration> {
        let default = if replaceable { WATCH_GRACE } else { Duration::ZERO };
        duration("watchGrace", self.watch_grace.as_deref(), default)
    }
}

fn duration(field: &str, given: Option<&str>, default: Duration) -> anyhow::Result<Duration> {
    let Some(text) = given else { return Ok(default) };
    cli::duration_or_none(text).map_err(|error| anyhow!("shutdown.{field}: {error}"))
}
