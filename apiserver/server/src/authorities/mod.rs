//! The server's own CAs: one signs serving certificates, one those of clients, and one those of machines. Their keys are
//! sealed in the store, so all replicas have the same.
//!
//! A data directory with one CA is taken over: that CA is generation 0 of the first two, until their first rotation ends.

mod command;
mod follow;
mod rotation;
mod state;
mod stored;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::Context;

pub(crate) use command::{finish, promote, signing_clients, start};
pub(crate) use follow::{AuthorityKeeper, IDENTITY, Known, RULES};
use rotation::Rotation;
pub(crate) use state::{AuthorityState, list, status};
pub(crate) use stored::AuthorityStore;
use stored::StoredAuthority;

use crate::pki::Authority;

/// Purpose of a CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Purpose {
    /// The CA of serving certificates
    Serving,
    /// The CA of the certificates of people and programs
    Client,
    /// The CA of the certificates of machines
    Machine,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Serving, Self::Client, Self::Machine];

    /// Returns the name in keys of the store and in commands.
    fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Client => "client",
            Self::Machine => "machine",
        }
    }

    /// Returns the CN of a generation. Certificates name it as their issuer, so each has its own.
    fn common_name(self, number: u64) -> String {
        format!("capstan-{}-ca-{number}", self.name())
    }
}

/// All CAs, as the store has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authorities {
    serving: Generations,
    client: Generations,
    machine: Generations,
}

/// Returns CAs as those of a data directory that was just taken over, for tests.
#[cfg(test)]
pub(crate) fn of_one_ca(ca: &crate::pki::Pair) -> Authorities {
    let one = || Generations {
        rotation: Rotation::of(0),
        trusted: vec![(0, StoredAuthority { certificate: ca.certificate.clone(), key: ca.key.clone() })],
    };
    Authorities { serving: one(), client: one(), machine: one() }
}

/// Generations of one CA.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Generations {
    rotation: Rotation,
    /// Trusted generations, from the oldest to the newest.
    trusted: Vec<(u64, StoredAuthority)>,
}

impl Authorities {
    fn of(&self, purpose: Purpose) -> &Generations {
        match purpose {
            Purpose::Serving => &self.serving,
            Purpose::Client => &self.client,
            Purpose::Machine => &self.machine,
        }
    }

    /// Returns the certificates that are trusted, in PEM.
    pub(crate) fn bundle(&self, purpose: Purpose) -> String {
        self.of(purpose).trusted.iter().map(|(_, ca)| ca.certificate.as_str()).collect()
    }

    /// Returns the CA that signs. Files of it are in `<data>/pki`.
    pub(crate) fn signer(&self, purpose: Purpose, data: &Path) -> anyhow::Result<Authority> {
        let signing = self.signing(purpose)?;
        Authority::from_pem(data, &signing.certificate, &signing.key)
            .with_context(|| format!("the {} CA in the store", purpose.name()))
    }

    /// Returns true if the files `ca.crt` and `ca.key` of a data directory are the CA that signs certificates of clients.
    fn signs_clients_by(&self, data: &Path) -> bool {
        let signing = self.signing(Purpose::Client);
        signing.is_ok_and(|signing| {
            Authority::read(data).is_ok_and(|own| own.certificate().starts_with(&signing.certificate))
        })
    }

    /// Returns the certificate of the CA that signs, in PEM.
    pub(crate) fn signing_certificate(&self, purpose: Purpose) -> Option<&str> {
        Some(self.signing(purpose).ok()?.certificate.as_str())
    }

    fn signing(&self, purpose: Purpose) -> anyhow::Result<&StoredAuthority> {
        let of = self.of(purpose);
        let found = of.trusted.iter().find(|(number, _)| *number == of.rotation.signing);
        let found = found.with_context(|| {
            format!("the {} CA in the store has no generation that signs", purpose.name())
        })?;
        Ok(&found.1)
    }
}
