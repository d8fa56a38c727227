//! Generic API server machinery: decodes, validates, stores, patches, selects and shows objects of any kind.
//!
//! This crate knows no kinds. It works for any kind that a registry describes.

pub use storage_contract::Revision;

pub mod action;
pub mod admission;
pub mod admission_control;
pub mod age;
pub mod continue_token;
pub mod conversion;
pub mod digest;
pub mod discovery;
pub mod encryption;
mod excerpt;
pub mod field_validation;
pub mod json_path;
pub mod lock;
pub mod metadata;
pub mod object;
pub mod open_api;
pub mod patch;
pub mod preview;
pub mod protobuf;
pub mod quota;
pub mod related;
pub mod resource;
pub mod reviews;
pub mod scale;
pub mod selectors;
pub mod status;
pub mod store;
pub mod strategy;
pub mod table;
