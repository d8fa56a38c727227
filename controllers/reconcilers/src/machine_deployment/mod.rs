//! x
#[allow(dead_code)]
mod rollout;
