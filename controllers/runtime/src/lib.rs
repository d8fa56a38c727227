//! What every controller that works in a cloud needs: its surroundings, whose a thing is, what is
//! about to be made, the shared list of servers, Events, the loop over objects with its metrics, and
//! when to look again.

mod backoff;
mod context;
mod credentials;
mod events;
mod journal;
mod mark;
mod next;
mod pace;
mod queues;
mod reconcile_loop;
mod secrets;
mod servers;
mod settled;
mod status;
mod trouble;

pub use context::ControllerContext;
pub use events::{Recorder, Severity};
pub use journal::{ANNOTATION as JOURNAL_ANNOTATION, Entry, Journal};
pub use mark::{Mark, PREFIX as MARK_PREFIX};
pub use next::Next;
pub use pace::Pace;
pub use queues::{Passes, Queue, Queues, Work};
pub use reconcile_loop::ReconcileLoop;
pub use secrets::{ApiSecrets, SecretSource};
pub use servers::ServerLists;

pub use status::{now, paused, write_status};
pub use trouble::Trouble;
