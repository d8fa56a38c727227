//! Carries out MachineOperations: one file per verb, with its steps.
//!
//! A pass over an operation has four parts. *Observe* reads the operation, its Machine and what
//! the cloud shows. *Decide* is a pure, total function of that and names one step. *Act* makes
//! that step's one effect. *Report* computes the whole status and writes it once, guarded by the
//! revision the decision was made on.
//!
//! ```text
//!            ┌────────── waits: another goes first, paused, no server yet
//!            ▼
//!  Pending ──────► Running ──────► Complete
//!     │               ├──────────► Failed      what no retry can mend
//!     └───────────────┴──────────► Cancelled   asked for, before the point of no return
//! ```
//!
//! Everything a pass needs is in the operation's status and in the cloud, so a process may end
//! between any two effects and another goes on. What this process remembers beside that
//! (`memory`) only makes it faster: without it a pass waits for a while before it believes that
//! a call it cannot see was never made.

mod core;
mod procedures;

pub use core::context::{Clock, OperationContext, SystemClock};
pub use core::controller::Controller;
pub use core::run::CONTROLLER;
