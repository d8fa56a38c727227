//! Tests of actions, requested as users do, by controllers that are cut or cancelled at every step, or whose clock is
//! wrong. Nova's action log shows the result.
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
