//! Authentication and authorization.
//!
//! Authentication turns the credentials of a connection and a request into a [`User`]. Authorization decides whether
//! that user may do what the request asks. Neither knows HTTP routing or kinds.

mod answers;
mod authenticator;
mod authorizer;
mod certificate;
mod certificate_key;
mod clock_correction;
mod in_flight;
mod limits;
mod masters;
mod network;
mod peer;
mod policy;
pub mod rbac;
mod revocation;
#[cfg(test)]
mod testing;
mod token_hash;
mod user;

pub use answers::Answers;
pub use authenticator::{
    Authenticated, Authenticator, CertificateObserver, HostCertificates, Issuer, MachineDirectory,
    RequestHeaders, ReviewFailed, ShownToken, TokenSource, Unauthenticated,
};
pub use authorizer::{Attributes, Authorizer, Chain, Decision, OfRealm, Rule, Rules, Verdict};
pub use certificate::{Clock, PeerCertificate, ReloadablePools};
pub use certificate_key::rsa_key_bits;
pub use clock_correction::{CLOCK, ClockCorrection};
pub use in_flight::{InFlight, InFlightPermit, Overloaded};
pub use limits::{AccessRule, AccessRules, TokenLimits};
pub use masters::SystemMasters;
pub use network::{Network, NotANetwork};
pub use peer::{CertificatePools, Peer, PeerIdentity, PoolError};
pub use policy::{Grant, LocalPolicy};
pub use revocation::{RevocableCertificate, Revocation, Revocations};
pub use token_hash::{TokenHash, TokenHasher};
pub use user::{
    BREAK_GLASS, CREDENTIAL_ID, IDENTITY_STALE, MACHINES, OWN_EXTRA, REALM, Realm, UNSCOPED, UNVERIFIED, User,
};
