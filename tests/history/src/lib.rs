//! Linearizability test of two servers on one etcd: several writers, readers and watchers record their
//! observations, and a checker decides whether one history explains all of them.
//!
//! During the run the etcd leader is killed, a server is killed and history is compacted.
//!
//! [`run`] starts the clients and records each response with its time; [`check()`] reads the records only. No
//! code under test takes part in the check. An [`InjectedBug`] in the store of a server proves that the
//! checker finds real bugs.

mod check;
mod client;
mod cost;
mod etcd;
mod harness;
mod injected_bug;
mod observer;
mod random;
mod readers;
mod record;
mod reference_history;
mod replica;
mod violation;
mod watchers;
mod writers;

pub use check::check;
pub use cost::{ReadCost, sent_for_reads};
pub use harness::{RunPlan, run};
pub use injected_bug::{BuggyStore, InjectedBug};
pub use record::{
    Content, Delivery, ReadRecord, ReadResult, Records, Selection, Watcher, WriteOutcome, WriteRecord,
};
pub use violation::Violation;
