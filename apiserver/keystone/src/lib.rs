//! Authentication by Keystone: the user of a token, with the projects and roles that Keystone names.
//!
//! The token itself is its own proof: Keystone lets a token validate itself. So Capstan has no credential of its own in
//! Keystone.

mod client;
mod identity;
mod tokens;

pub use client::{KeystoneClient, SetupError};
pub use identity::PREFIX;
pub use tokens::{KeystoneTokens, LONGEST_TTL, SERVICE_TYPE};
