//! Stranger suite: floods by clients without credentials, and what they cost a client with credentials.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/client.rs"]
mod client;
#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/etcd.rs"]
mod etcd;
#[allow(dead_code, reason = "the suite of processes uses the rest")]
#[path = "../guest/process.rs"]
mod process;

mod attacks;
mod flood;
mod frames;
mod suite;
mod target;
