//! What several writers, readers and watchers saw across two servers on one etcd while its leader is
//! killed, a server is killed and history is compacted, and whether all of that can have been one
//! history.
//!
//! [`run`] lets them work and records what each was told, and when; [`check()`] looks at the records
//! alone. Nothing that is under test takes part in the judging. A [`Fault`] is planted in a server,
//! below everything that is tested, to see that it would be found.

mod check;
mod client;
mod cost;
mod etcd;
mod fault;
mod laboratory;
mod observer;
mod random;
mod readers;
mod record;
mod replica;
mod truth;
mod violation;
mod watchers;
mod writers;

pub use check::check;
pub use cost::{Cost, sent_for_reads};
pub use fault::{Fault, Faulty};
pub use laboratory::{Plan, run};
pub use record::{Content, Outcome, Read, Records, Seen, Selection, Told, Watcher, Write};
pub use violation::Violation;
