//! Operations controller: carries out MachineOperations, with one procedure per action.
//!
//! A pass over an operation has four parts. *Observe* reads the operation, its Machine and what
//! the cloud shows. *Decide* is a pure, total function of that and names one step. *Act* makes
//! that step's one effect. *Report* computes the whole status and writes it once. The revision that
//! the decision was made on guards the write.
//!
//! ```text
//!            ┌────────── waits: another is first, paused, no server yet
//!            ▼
//!  Pending ──────► Running ──────► Complete
//!     │               ├──────────► Failed      no retry can help
//!     └───────────────┴──────────► Cancelled   by request, before the point of no return
//! ```
//!
//! Everything that a pass needs is in the operation's status and in the cloud. So a process may end
//! between any two effects, and another continues. The process's own memory (`volatile_state`) only
//! makes it faster: without it, a pass waits before it takes a call of which it finds no trace for one
//! that was never made.

mod core;
mod procedures;

pub use core::context::{Clock, OperationContext, SystemClock};
pub use core::controller::Controller;
pub use core::run::CONTROLLER;
