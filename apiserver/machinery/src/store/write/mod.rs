//! Writes: create, update, patch, apply and delete. Each is one compare-and-swap of a key's revision.

pub(crate) mod admission;
pub(crate) mod apply;
pub(crate) mod create;
pub(crate) mod current_object;
mod decision;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod delete_options;
pub(crate) mod field_managers;
pub(crate) mod identity;
pub(crate) mod immutable_parts;
pub(crate) mod insert;
pub(crate) mod lock;
pub(crate) mod metadata_rules;
pub(crate) mod namespaces;
pub(crate) mod outcome;
mod previewed;
pub(crate) mod quota;
mod quota_usage;
pub(crate) mod related_objects;
pub(crate) mod replacement;
pub(crate) mod scale;
pub(crate) mod strict_decoding;
pub(crate) mod swap;
pub(crate) mod unknown_outcome;
pub(crate) mod update;
pub(crate) mod used_objects;
