//! What all kinds share: how an object is decoded, validated, stored, patched, selected and shown.
//!
//! This crate does not know any kind; it works for one it has never heard of.

pub mod field_errors;
pub mod status;
