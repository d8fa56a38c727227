//! The API over HTTP: TLS, the filter chain, paths, negotiation, watch streams, documents.
//!
//! This crate serves a list of kinds it is given and knows none of them. A request passes
//! `chain`, which is one list in execution order, and ends in one file of `verbs`, named as
//! the generic store names it.

mod audit;
mod body;
mod chain;
mod chunked;
mod compression;
mod connection;
mod documents;
mod encoding;
mod exchange;
mod fairness;
mod filters;
mod gathered;
mod giving_way;
mod health;
mod in_process;
mod indented;
mod index;
mod items;
mod json;
mod lifecycle;
mod listener;
mod malformed;
mod metadata_items;
mod metrics;
mod multiplexed;
mod negotiation;
mod query;
mod request;
mod request_info;
mod response;
mod server;
mod settings;
mod socket;
mod storage_health;
mod table_rows;
mod tls;
mod underway;
mod unread;
mod verbs;
mod well_formed;
mod yaml;

pub use audit::{AuditFile, AuditLog, Stage};
pub use body::ResponseBody;
pub use connection::Connection;
pub use health::Check;
pub use in_process::InProcess;
pub use listener::serve;
pub use request_info::{RequestInfo, Subject};
pub use server::{ApiServer, Identity, Parts};
pub use settings::Settings;
pub use tls::{NamedCertificate, ReloadableTls, TlsMaterial};
