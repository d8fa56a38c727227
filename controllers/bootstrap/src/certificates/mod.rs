//! Certificates and keys of a workload cluster, as kubeadm expects them on its control plane nodes.
//!
//! Every function takes the current time as an argument. Only the keys are random.

mod authority;
mod error;
mod key;
mod kubeconfig;
mod purpose;
mod read;
#[cfg(test)]
mod tests;
mod upload;

use std::fmt::{Debug, Formatter};

pub use authority::{certificate_authority, client_certificate, service_account_keys};
pub use error::CertificateError;
pub use key::KeyAlgorithm;
pub use kubeconfig::kubeconfig;
pub use purpose::Purpose;
pub use read::{ca_certificate_hashes, expiry, expiry_of, matches, usable};
pub use upload::CertificateKey;

/// A certificate and its private key, in PEM. `Debug` does not print the key.
#[derive(Clone, PartialEq, Eq)]
pub struct PemPair {
    /// Certificate, or a bundle of certificates. The service account pair has its public key here.
    pub certificate: String,
    /// Private key.
    pub key: String,
}

impl Debug for PemPair {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PemPair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}
