//! Log of the process: level, format and colours.

use std::io::IsTerminal;
use std::str::FromStr;

use anyhow::Context;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::ServerConfiguration;

/// Log targets that are limited at any configured level, because their other lines can have credentials. The name of a
/// target is its begin.
///
/// The OpenStack SDK logs every request with its headers, and the provider logs the calls itself. The client of Kubernetes
/// logs the bodies of errors: those of a webhook can quote the token that it was sent.
const LIMITED: [(&str, LevelFilter); 2] =
    [("openstack_sdk", LevelFilter::WARN), ("kube_client", LevelFilter::INFO)];

/// Starts the log.
///
/// # Errors
/// `logging.level` that is neither a level nor a filter.
pub(super) fn start(configuration: &ServerConfiguration) -> anyhow::Result<()> {
    let level = configuration.logging.level.as_deref().unwrap_or("info");
    let filter = Targets::from_str(level)
        .with_context(|| format!("logging.level: {level:?} is not a level or filter"))?
        .with_targets(LIMITED);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let log = tracing_subscriber::registry().with(filter);
    match configuration.logging.format.as_deref() {
        Some("json") => log.with(lines.json()).init(),
        _ => log.with(lines).init(),
    }
    Ok(())
}
