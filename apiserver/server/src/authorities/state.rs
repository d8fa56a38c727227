//! State of the CAs and of client certificates for people: commands `capstan ca status` and `capstan certificates list`.

use std::fmt::Write as _;

use anyhow::bail;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::command::{Facts, users_of};
use super::{Authorities, AuthorityStore, Purpose};
use crate::backup::{self, Setup};
use crate::certificate_uses::Use;
use crate::cli::StoreArguments;
use crate::output;
use crate::report::report;

/// Trusted generation of a CA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuthorityState {
    /// Purpose: `serving`, `client` or `machine`.
    pub(crate) ca: String,
    /// Phase of its rotation.
    pub(crate) phase: String,
    /// Number of the generation.
    pub(crate) number: u64,
    /// `old`, `signs` or `new`.
    pub(crate) role: String,
    /// CN of the certificate, which certificates name as their issuer.
    pub(crate) common_name: String,
    /// End of the certificate.
    pub(crate) expires: String,
}

impl AuthorityStore {
    /// Returns the trusted generations of all CAs; none before the first start of a server.
    ///
    /// # Errors
    /// The store does not answer, or a CA in it cannot be opened.
    pub(crate) async fn states(&self) -> anyhow::Result<Vec<AuthorityState>> {
        let Some(authorities) = self.load().await? else { return Ok(Vec::new()) };
        states(&authorities)
    }
}

fn states(authorities: &Authorities) -> anyhow::Result<Vec<AuthorityState>> {
    let of = |purpose: Purpose| {
        let generations = authorities.of(purpose);
        generations.trusted.iter().map(move |(number, ca)| {
            let role = match number.cmp(&generations.rotation.signing) {
                std::cmp::Ordering::Less => "old",
                std::cmp::Ordering::Equal => "signs",
                std::cmp::Ordering::Greater => "new",
            };
            let facts = Facts::read(&ca.certificate)?;
            anyhow::Ok(AuthorityState {
                ca: purpose.name().to_owned(),
                phase: generations.rotation.phase().name().to_owned(),
                number: *number,
                role: role.to_owned(),
                common_name: facts.common_name,
                expires: facts.expires,
            })
        })
    };
    Purpose::ALL.into_iter().flat_map(of).collect()
}

/// Runs `capstan ca status`.
///
/// # Errors
/// The store cannot be read and the running server does not answer, or the store has no CA yet.
pub(crate) fn status(arguments: &StoreArguments) -> anyhow::Result<()> {
    let setup = Setup::load(arguments)?;
    let report = backup::block_on(report(&setup))?;
    if report.authorities.is_empty() {
        bail!("the store has no CA yet: start `capstan serve` once");
    }
    let now = Timestamp::now().as_second();
    Ok(output::print(&status_table(&report.authorities, &report.certificates, now))?)
}

fn status_table(states: &[AuthorityState], uses: &[Use], now: i64) -> String {
    let mut text =
        format!("{:<8} {:<9} {:<4} {:<8} {:<21} USERS IN 24 H\n", "CA", "PHASE", "NO.", "ROLE", "EXPIRES");
    for AuthorityState { ca, phase, number, role, common_name, expires } in states {
        let is_serving = ca == Purpose::Serving.name();
        let users = if is_serving { "-".to_owned() } else { users_of(common_name, uses, now).join(", ") };
        let _ = writeln!(text, "{ca:<8} {phase:<9} {number:<4} {role:<8} {expires:<21} {users}");
    }
    text
}

/// Runs `capstan certificates list`.
///
/// # Errors
/// The store cannot be read, and the running server does not answer.
pub(crate) fn list(arguments: &StoreArguments) -> anyhow::Result<()> {
    let setup = Setup::load(arguments)?;
    let report = backup::block_on(report(&setup))?;
    Ok(output::print(&certificates_table(&report.certificates))?)
}

fn certificates_table(uses: &[Use]) -> String {
    let time = |at: i64| Timestamp::from_second(at).map(|time| time.to_string()).unwrap_or_default();
    let mut text = format!(
        "{:<20} {:<24} {:<21} {:<21} {:<18} SERIAL\n",
        "USER", "GROUPS", "UNTIL", "LAST USED", "ISSUER"
    );
    for used in uses {
        let Use { user, groups, until, last_used, issuer, serial, .. } = used;
        let (groups, last) = (groups.join(","), last_used.map(time).unwrap_or_else(|| "never".to_owned()));
        let reason = used.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{user:<20} {groups:<24} {:<21} {last:<21} {issuer:<18} {serial}{reason}",
            time(*until)
        );
    }
    text
}
