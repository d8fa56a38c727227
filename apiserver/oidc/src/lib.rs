//! Authentication by JWTs of OpenID Connect issuers, configured by an AuthenticationConfiguration as in Kubernetes.
//!
//! Each issuer publishes its keys. The server verifies a token with them, and maps its claims to a user.

mod algorithm;
mod claims;
mod config;
mod distributed;
mod issuers;
mod keys;
mod mapping;
mod metrics;
mod public_keys;
mod verifier;

pub use algorithm::Algorithm;
pub use config::{Anonymous, Configuration, InvalidConfiguration};
pub use issuers::{IssuerSettings, Issuers};
pub use keys::{KeyCopies, KeyCopy};
pub use metrics::KeyMetrics;
pub use public_keys::{KeyRefusal, PublicKeys};
