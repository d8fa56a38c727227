//! Runtime of the controllers: context, ownership tag, journal, lists of projects, Events, the reconcile loop with its
//! metrics, and the requeue.

mod after_restore;
mod backoff;
mod clock;
mod context;
mod controller;
mod credential_changes;
mod credentials;
mod dedup;
mod drain;
mod error;
mod event_holds;
mod events;
mod in_progress;
mod journal;
mod long_wait;
mod namespace_weights;
mod ownership_tag;
mod queues;
mod reconcile_loop;
mod requeue;
mod rest;
mod schedule;
mod secrets;
mod servers;
mod settings;
mod slots;
mod status;
mod term_start;
mod user_data_source;
mod without_managed_fields;

pub use after_restore::AFTER_RESTORE_REASON;
pub use backoff::Backoff;
pub use clock::SteadyClock;
pub use context::ControllerContext;
pub use controller::{ControllerSpec, PolicyRule, ServedKind};
pub use credential_changes::CredentialChange;
pub use credentials::read_credentials;
pub use event_holds::{EventHolds, NoEventHolds};
pub use events::{Recorder, Severity};
pub use journal::{ANNOTATION as JOURNAL_ANNOTATION, Entry, Journal};
pub use long_wait::without_slot;
pub use namespace_weights::NamespaceWeights;
pub use ownership_tag::OwnershipTag;
pub use queues::{Passes, Queue, Queues, Work};
pub use reconcile_loop::ReconcileLoop;
pub use requeue::{Requeue, RequeuePolicy};
pub use secrets::{ApiSecrets, SecretSource, is_object_name};
pub use servers::ServerLists;
pub use settings::{ControllerSettings, Patterns, RestoreRecord};

pub use error::{ReconcileError, api_text};
pub use status::{now, paused, write_status};
pub use term_start::TermStart;
pub use user_data_source::UserDataSource;
pub use without_managed_fields::WithoutManagedFields;
