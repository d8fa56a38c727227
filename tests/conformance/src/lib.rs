//! Differential suite: requests whose responses, and whose audit events, are compared with those of a real
//! kube-apiserver.
//!
//! `cases/` has the requests, `goldens/` the responses of the real server, `differences.yaml` the known
//! differences of Capstan with their reasons. See `docs/conformance.md`.

mod audit;
pub mod authentication;
mod case;
mod client;
mod compare;
mod crds;
mod differences;
mod normalizer;
pub mod rbac;
mod runner;
mod serve;
mod transcript;

pub use case::{Area, RequestStep, SuiteCase};
pub use client::{Client, ReceivedResponse};
pub use compare::{Difference, compare, report};
pub use crds::establish;
pub use differences::{KnownDifference, KnownDifferences};
pub use runner::ServerUnderTest;
pub use serve::{ServeArguments, capstan, mint, serve};
pub use transcript::{Exchange, Transcript, Transcripts, load, store};
