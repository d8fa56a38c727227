//! Kubernetes API over HTTP: TLS, the filter chain, paths, negotiation, watch streams, documents.
//!
//! This crate serves a list of kinds that it is given, and knows none of them. A request passes `chain`, one list of
//! filters in execution order, and ends in a handler: one file of `handlers` per verb, named as in the generic store.

mod chain;
mod connection;
mod documents;
mod download_endpoint;
mod filters;
mod flow_control;
mod handlers;
mod in_process;
mod known_host;
mod lifecycle;
mod observe;
mod request;
mod response;
mod settings;
mod state;
mod token_endpoint;

pub use apiserver_executor::Supervisor;
pub use chain::handle;
pub use connection::handshake_budget::HandshakeBudget;
pub use connection::listener::serve;
pub use connection::tls::{NamedCertificate, ReloadableTls, TlsMaterial};
pub use documents::{Identity, IssuerDocuments};
pub use download_endpoint::{Download, DownloadEndpoint};
pub use in_process::InProcess;
pub use known_host::KnownHost;
pub use observe::audit::{
    AuditBackend, AuditChain, AuditFile, AuditLog, ChainKey, ChainLink, ChainedLine, CheckpointSink, Level,
    Policy, QueueRoom, RoomPart, Stage, is_flushed,
};
pub use request::connection::Connection;
pub use request::request_info::{RequestInfo, Subject};
pub use response::body::ResponseBody;
pub use settings::{CheckReason, Settings};
pub use state::{ApiServer, Check, Parts};
pub use token_endpoint::TokenEndpoint;
