//! Settings under `shutdown`: timing of a graceful shutdown.

use std::time::Duration;

use anyhow::anyhow;
use serde::Deserialize;

use crate::cli;

/// Default delay of a server that other replicas can replace. A host cluster checks the server every 30 seconds, and a
/// load balancer checks it more often. After that time no client sends new requests here.
const DELAY: Duration = Duration::from_secs(30);

/// Default time over which watches end. Some thousand watchers reconnect to another server at a rate that it can
/// handle.
const WATCH_GRACE: Duration = Duration::from_secs(10);

/// Timing of a graceful shutdown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Shutdown {
    /// Time for which the server keeps serving while it reports not ready. Default: 30s on an etcd, where another
    /// replica can take over, and 0s on the embedded store, where no replica can.
    pub(crate) delay: Option<String>,
    /// Time over which watches end after that. Default: 10s on an etcd, and 0s on the embedded store.
    pub(crate) watch_grace: Option<String>,
}

impl Shutdown {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.delay(false)?;
        self.watch_grace(false).map(|_| ())
    }

    /// Returns the delay. `replaceable`: another replica can take over.
    pub(super) fn delay(&self, replaceable: bool) -> anyhow::Result<Duration> {
        let default = if replaceable { DELAY } else { Duration::ZERO };
        duration("delay", self.delay.as_deref(), default)
    }

    /// Returns the time over which watches end. `replaceable`: another replica can take over.
    pub(super) fn watch_grace(&self, replaceable: bool) -> anyhow::Result<Duration> {
        let default = if replaceable { WATCH_GRACE } else { Duration::ZERO };
        duration("watchGrace", self.watch_grace.as_deref(), default)
    }
}

fn duration(field: &str, given: Option<&str>, default: Duration) -> anyhow::Result<Duration> {
    let Some(text) = given else { return Ok(default) };
    cli::duration_or_none(text).map_err(|error| anyhow!("shutdown.{field}: {error}"))
}
