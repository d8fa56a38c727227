//! Checks of the running server: its readiness, the host cluster, and its backups.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context;
use jiff::Timestamp;

use super::host::{self, value};
use super::{Finding, Level, Node, PATIENCE};
use crate::pki::{self, Authority};
use crate::serve;

/// User of the command. Its certificate is made for the moment, with the CA of the node.
const USER: &str = "capstan-doctor";

/// Group that may read the metrics and the health checks, by a default binding.
const MONITORING: &str = "system:monitoring";

/// Lifetime of that certificate.
const LIFETIME: std::time::Duration = std::time::Duration::from_secs(300);

/// Age of the newest backup in intervals of the schedule, beyond which one is missing.
const INTERVALS: i64 = 2;

/// Runs the checks.
pub(super) async fn check(node: &Node) -> Vec<Finding> {
    let client = match Client::new(node) {
        Ok(client) => client,
        Err(error) => return vec![Finding::new(Level::Error, "server", format!("{error:#}"))],
    };
    let ready = match client.get("/readyz?verbose").await {
        Ok((code, text)) => readiness(&client.url, code, &text),
        Err(error) => {
            let message = format!("does not answer ({error:#}); is it running? See `journalctl -u capstan`");
            return vec![Finding::new(Level::Error, client.url.clone(), message)];
        }
    };
    let mut findings = ready;
    match client.get("/metrics").await {
        Ok((200, text)) => {
            let now = Timestamp::now().as_second();
            findings.extend(host::judge(&text, node.configuration.host.as_ref(), now));
            findings.extend(metrics(&text, interval(node), now));
        }
        Ok((code, _)) => {
            findings.push(Finding::new(Level::Warning, "metrics", format!("cannot be read: code {code}")));
        }
        Err(error) => {
            findings.push(Finding::new(Level::Warning, "metrics", format!("cannot be read: {error:#}")));
        }
    }
    findings
}

/// Client of the server of this node.
struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    fn new(node: &Node) -> anyhow::Result<Self> {
        let listen = node.configuration.listen.as_deref().unwrap_or(serve::LISTEN);
        let mut address: SocketAddr =
            listen.parse().with_context(|| format!("listen: {listen:?} is not an address with a port"))?;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let pair =
            Authority::of_clients(&node.data)?.client(USER, &[MONITORING.to_owned()], None, LIFETIME)?;
        let identity = reqwest::Identity::from_pem(format!("{}{}", pair.certificate, pair.key).as_bytes())?;
        let ca = reqwest::Certificate::from_pem_bundle(pki::read(&node.data.join("pki/ca.crt"))?.as_bytes())?;
        let builder = reqwest::Client::builder().no_proxy().timeout(PATIENCE).identity(identity);
        // With a certificate of the operator, the address of loopback is not in it. The command runs on the same machine.
        let is_own = node.configuration.tls.is_none();
        let builder = builder.tls_certs_only(ca).tls_danger_accept_invalid_certs(!is_own);
        Ok(Self { http: builder.build()?, url: format!("https://{address}") })
    }

    async fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await.map_err(causes)?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

/// Returns an error with its causes, which the client's own text leaves out.
fn causes(error: reqwest::Error) -> anyhow::Error {
    anyhow::Error::new(error.without_url())
}

/// Judges the response of `/readyz?verbose`. A failed check has a line of its own.
pub(super) fn readiness(url: &str, code: u16, text: &str) -> Vec<Finding> {
    if code == 200 {
        return vec![Finding::new(Level::Ok, url, "is ready")];
    }
    let failed: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("[-]")?.split_whitespace().next()).collect();
    let message = format!("is not ready: {}; see docs/running.md", failed.join(", "));
    vec![Finding::new(Level::Error, url, message)]
}

/// Judges the metrics of the backups.
pub(super) fn metrics(text: &str, interval: Option<i64>, now: i64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(interval) = interval else {
        findings.push(Finding::new(
            Level::Warning,
            "backups",
            "are not scheduled; set backup.schedule in the configuration",
        ));
        return findings;
    };
    let last = value(text, "capstan_backup_last_success_timestamp_seconds").unwrap_or_default();
    findings.push(match last {
        // The leader writes the backups; the other replicas have no time.
        0 => {
            Finding::new(Level::Ok, "backups", "are scheduled; this server has written none since its start")
        }
        last if now - last > INTERVALS * interval => {
            let hours = (now - last) / 3600;
            Finding::new(
                Level::Error,
                "backups",
                format!("the newest one is {hours} h old; see the log of the leader"),
            )
        }
        last => {
            Finding::new(Level::Ok, "backups", format!("the newest one is {} min old", (now - last) / 60))
        }
    });
    findings
}

/// Returns the interval of scheduled backups, in seconds.
fn interval(node: &Node) -> Option<i64> {
    let schedule = node.configuration.backup.schedule.as_ref()?;
    i64::try_from(schedule.interval().ok()?.as_secs()).ok()
}
