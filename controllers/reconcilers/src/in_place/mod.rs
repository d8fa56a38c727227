//! Updates of Machines in place by extension servers: what all controllers share.
//!
//! The owner of a Machine calls a server, which says whether it can make a change. Then the owner marks the Machine and its
//! objects. The controller of Machines has the server make the change, and removes the marks. Marks are upstream's.
//!
//! A MachineDeployment has Machines moved from an old MachineSet to the present one. Both sets name each other first. A moved
//! Machine counts in the present set only once the MachineDeployment has acknowledged it, so that it counts once.

mod compare;
mod markers;
mod servers;

pub(crate) use compare::{Change, MACHINE_FIELDS};
pub(crate) use markers::{
    ACKNOWLEDGED, MOVE_TO, PENDING_ACKNOWLEDGE, PENDING_HOOKS, RECEIVE_FROM, is_pending, is_updating, joined,
    listed, with_hook, without_hook, without_marks,
};
pub(crate) use servers::{Answered, Failures, answered, fingerprint, only_handler};
