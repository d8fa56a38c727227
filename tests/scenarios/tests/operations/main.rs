//! Tests of actions, requested as users do, that are cancelled at every step, or whose controllers crash at every step
//! or have a wrong clock. Nova's action log shows the result.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod clock;
mod crashes;
mod fallback;
mod late_calls;
mod power;
mod refused;
mod stop;
mod testbed;
mod two;
mod worker;
