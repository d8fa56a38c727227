//! Tests of the store on real etcds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod batches;
mod cluster;
mod compression;
mod form;
mod history;
mod outage;
mod proxy;
mod server;
mod snapshot;
mod suite;
mod tls;

/// A value of so many bytes that compression makes no shorter.
fn noise(size: usize) -> bytes::Bytes {
    // The constants of Knuth's MMIX; the high bits are the good ones.
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}
