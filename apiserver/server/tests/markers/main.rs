//! Marker suite: secrets of a known text in every place that takes secrets, and a search for them in all outputs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/client.rs"]
mod client;
#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/collector.rs"]
mod collector;
#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/etcd.rs"]
mod etcd;
#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/process.rs"]
mod process;
#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/webhook_server.rs"]
mod webhook_server;

mod caller;
mod clouds;
mod encodings;
mod objects;
mod outputs;
mod refused_starts;
mod scan;
mod scene;
mod suite;
mod tokens;
