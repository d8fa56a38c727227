//! Log of the process: level, format and colours.

use std::io::IsTerminal;
use std::str::FromStr;

use anyhow::Context;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::ServerConfiguration;

/// Log targets that are limited at any configured level. The name of a target is its begin.
///
/// Some lines can have credentials: the OpenStack SDK logs every request with its headers, and the provider logs the calls
/// itself. The client of Kubernetes logs the bodies of errors: those of a webhook can quote the token that it was sent.
/// It also logs each failed connection as an error, without the address: one line per second while a host is down. The
/// callers log the change of the state, and the reason.
const LIMITED: [(&str, LevelFilter); 3] = [
    ("openstack_sdk", LevelFilter::WARN),
    ("kube_client", LevelFilter::INFO),
    ("kube_client::client::builder", LevelFilter::OFF),
];

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
