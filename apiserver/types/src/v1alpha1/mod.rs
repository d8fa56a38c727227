//! Kinds in v1alpha1 that are still served.

mod extension_config;
mod ip_address;
mod ip_address_claim;

pub use extension_config::*;
pub use ip_address::*;
pub use ip_address_claim::*;
