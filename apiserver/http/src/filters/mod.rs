//! Filters, one file each. Their order is that of the chain, in `chain.rs`.

pub(crate) mod admission;
pub(crate) mod audit_id;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod availability;
pub(crate) mod cross_origin;
pub(crate) mod impersonation;
pub(crate) mod limits;
pub(crate) mod provisional;
pub(crate) mod token_limits;
