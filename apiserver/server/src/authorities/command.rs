//! Commands `capstan ca start`, `promote` and `finish`. They read and write the store. Running servers follow it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail};
use jiff::Timestamp;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::rotation::Rotation;
use super::{Authorities, AuthorityStore, Purpose};
use crate::backup::Setup;
use crate::certificate_uses::Use;
use crate::cli::{CaFinishArguments, CaRotationArguments, StoreArguments};
use crate::pki::Authority;
use crate::{key_rotation, output, pki};

/// Time for which a use of a certificate counts, in seconds. Uses are recorded once an hour.
const RECENT: i64 = 25 * 3600;

/// Facts about the certificate of a CA.
pub(super) struct Facts {
    pub(super) common_name: String,
    pub(super) expires: String,
}

impl Facts {
    pub(super) fn read(pem: &str) -> anyhow::Result<Self> {
        let certificates = pki::certificates(pem, "a CA in the store")?;
        let der = certificates.first().context("a CA in the store has no certificate")?;
        let (_, certificate) = X509Certificate::from_der(der).context("a CA in the store cannot be read")?;
        let common_name = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let expires = Timestamp::from_second(certificate.validity().not_after.timestamp())?;
        Ok(Self { common_name: common_name.unwrap_or_default().to_owned(), expires: expires.to_string() })
    }

    /// Returns the users of certificates of this CA that were used a short time ago.
    fn users(&self, uses: &[Use], now: i64) -> Vec<String> {
        users_of(&self.common_name, uses, now)
    }
}

/// Returns the users of certificates of the CA with this name that were used a short time ago.
pub(super) fn users_of(common_name: &str, uses: &[Use], now: i64) -> Vec<String> {
    let is_recent = |used: &&Use| {
        used.issuer == common_name && used.last_used.is_some_and(|at| at > now.saturating_sub(RECENT))
    };
    let mut users: Vec<String> = uses.iter().filter(is_recent).map(|used| used.user.clone()).collect();
    users.dedup();
    users
}

/// Runs `capstan ca start`.
///
/// # Errors
/// The store cannot be changed, or an earlier rotation has not ended.
pub(crate) fn start(arguments: &CaRotationArguments) -> anyhow::Result<()> {
    rotate(
        arguments,
        Rotation::start,
        "trusted from now on beside the old one; it signs nothing yet. Servers publish the \
        certificates in ConfigMap capstan-system/capstan-ca within a minute. Give clients a kubeconfig with them. With a host \
        cluster, apply the output of `capstan host manifests` again, unless host.writeCABundle is set. Then run `capstan ca \
        promote`",
    )
}

/// Runs `capstan ca promote`.
///
/// # Errors
/// The store cannot be changed, or no rotation has been started.
pub(crate) fn promote(arguments: &CaRotationArguments) -> anyhow::Result<()> {
    rotate(
        arguments,
        Rotation::promote,
        "signs from now on. Servers renew their serving certificates within a minute. When no client needs the old CA any \
        more, run `capstan ca finish`",
    )
}

fn rotate(
    arguments: &CaRotationArguments,
    step: fn(&Rotation) -> anyhow::Result<Option<Rotation>>,
    done: &str,
) -> anyhow::Result<()> {
    with_store(&arguments.store, async |store, authorities| {
        let steps = steps(&arguments.ca, &authorities, step)?;
        apply(&store, &authorities, &steps, done).await
    })
}

/// Next state of each CA; `None` if it is there already.
type Steps = Vec<(Purpose, Option<Rotation>)>;

/// Computes all steps before the first one is made: an error changes nothing.
fn steps(
    selected: &[Purpose],
    authorities: &Authorities,
    step: fn(&Rotation) -> anyhow::Result<Option<Rotation>>,
) -> anyhow::Result<Steps> {
    let selected = if selected.is_empty() { &Purpose::ALL[..] } else { selected };
    let step = |purpose: &Purpose| {
        let next = step(&authorities.of(*purpose).rotation);
        Ok((*purpose, next.with_context(|| format!("the {} CA", purpose.name()))?))
    };
    selected.iter().map(step).collect()
}

async fn apply(
    store: &AuthorityStore,
    authorities: &Authorities,
    steps: &Steps,
    done: &str,
) -> anyhow::Result<String> {
    let mut text = String::new();
    for (purpose, next) in steps {
        let _ = match next {
            None => writeln!(text, "{} CA: nothing to do", purpose.name()),
            Some(next) => {
                store.change(*purpose, &authorities.of(*purpose).rotation, next).await?;
                let newest = next.trusted.last().copied().unwrap_or(next.signing);
                writeln!(text, "{} CA: generation {newest} {done}", purpose.name())
            }
        };
    }
    Ok(text)
}

/// Runs `capstan ca finish`.
///
/// # Errors
/// The store cannot be changed, the new CA does not sign yet, or certificates of the old one are in use.
pub(crate) fn finish(arguments: &CaFinishArguments) -> anyhow::Result<()> {
    let CaFinishArguments { rotation, force } = arguments;
    with_store(&rotation.store, async |store, authorities| {
        let steps = steps(&rotation.ca, &authorities, Rotation::finish)?;
        let users = users_of_old(&authorities, &steps, &store.uses().await?, Timestamp::now().as_second())?;
        if !users.is_empty() && !force {
            bail!(
                "these users have used certificates of an old CA in the last 24 hours: {}. Give them new ones, or end \
                 their access with --force",
                users.join(", ")
            );
        }
        let mut text = apply(&store, &authorities, &steps, "is the only one that is trusted").await?;
        if !users.is_empty() {
            let _ =
                writeln!(text, "certificates of these users are refused from now on: {}", users.join(", "));
        }
        Ok(text)
    })
}

/// Returns the users of certificates of the old generations.
fn users_of_old(
    authorities: &Authorities,
    steps: &Steps,
    uses: &[Use],
    now: i64,
) -> anyhow::Result<Vec<String>> {
    let mut users = Vec::new();
    for (purpose, next) in steps {
        if *purpose == Purpose::Serving || next.is_none() {
            continue;
        }
        let of = authorities.of(*purpose);
        for old in of.rotation.old() {
            for (_, ca) in of.trusted.iter().filter(|(number, _)| *number == old) {
                users.extend(Facts::read(&ca.certificate)?.users(uses, now));
            }
        }
    }
    Ok(users)
}

/// Opens the store, calls `act` with it and its CAs, and prints the result.
fn with_store(
    arguments: &StoreArguments,
    act: impl AsyncFnOnce(AuthorityStore, Authorities) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let setup = Setup::load(arguments)?;
    let text = crate::backup::block_on(async {
        let store = open(&setup).await?;
        let authorities = store.load().await?;
        let authorities = authorities.context("the store has no CA yet: start `capstan serve` once")?;
        act(store, authorities).await
    })?;
    Ok(output::print(&text)?)
}

/// Returns the CA that signs certificates of clients, and the certificates of the CAs of servers.
///
/// # Errors
/// The store cannot be read, or has no CA yet.
pub(crate) async fn signing_clients(
    setup: &Setup,
    data: &Path,
) -> anyhow::Result<(Authority, String, AuthorityStore)> {
    let store = open(setup).await?;
    let found = store.load().await?.context("the store has no CA yet: start `capstan serve` once")?;
    Ok((found.signer(Purpose::Client, data)?, found.bundle(Purpose::Serving), store))
}

/// Opens the CAs of the store that the server uses.
async fn open(setup: &Setup) -> anyhow::Result<AuthorityStore> {
    let (path, encryption) = setup.encryption()?;
    let encryption = encryption.with_context(|| format!("{}: there is no encryption key", path.display()))?;
    let store: std::sync::Arc<dyn storage_contract::Store> = setup.open().await?.into();
    // A value that an old key seals would need that key for ever.
    key_rotation::apply(store.as_ref(), &encryption).await?;
    Ok(AuthorityStore::new(store, encryption))
}
