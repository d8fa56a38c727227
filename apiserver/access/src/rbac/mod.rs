//! Role-based access control: permissions by Roles and bindings.
//!
//! A binding gives the rules of a role to its subjects: in one namespace, or everywhere. Roles only allow, and never
//! deny. This module knows no stored objects: the server converts them into a [`Policy`].

mod authorizer;
mod coverage;
mod index;
mod policy;
mod reasons;
mod rule;
mod snapshot;
#[cfg(test)]
mod tests;

pub use authorizer::RbacAuthorizer;
pub use coverage::{full_authority, uncovered};
pub use policy::{Binding, Policy, Role, RoleRef, Subject};
pub use snapshot::Snapshot;
