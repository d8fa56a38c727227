//! The store on real etcds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod batches;
mod cluster;
mod outage;
mod proxy;
mod server;
mod suite;
mod tls;
