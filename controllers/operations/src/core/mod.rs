//! Core of the operations controller: queue, claims, steps, reports and retention, the same for every action.

pub(crate) mod action_log;
pub(crate) mod claim;
pub(crate) mod context;
pub(crate) mod controller;
pub(crate) mod cordon;
pub(crate) mod decision;
pub(crate) mod events;
pub(crate) mod node_drain;
pub(crate) mod procedure;
pub(crate) mod queue;
pub(crate) mod rejoin;
pub(crate) mod report;
pub(crate) mod restored;
pub(crate) mod retention;
pub(crate) mod run;
pub(crate) mod step_pause;
pub(crate) mod target;
pub(crate) mod volatile_state;
