//! Reboots and upgrades, asked for as users ask, by controllers that die at every step, are told to
//! stop at every step, and are told the wrong time. What happened is read in the cloud's own log.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod clock;
mod cuts;
mod fallback;
mod power;
mod refused;
mod stop;
mod testbed;
mod two;
mod worker;
