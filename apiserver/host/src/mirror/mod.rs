//! Mirror of the host's RBAC: decides about the host's users while the host does not answer.
//!
//! The mirror is a copy, so it is believed for a bounded time, which depends on the class of the request. A refusal is
//! believed at any age. While the host is up, each of its decisions is compared with that of the mirror.

mod authorizer;
mod class;
mod findings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver_access::rbac::Snapshot;
use apiserver_access::{Attributes, Authorizer, Decision, Verdict};
use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use tokio::time::Instant;

pub use authorizer::{Cautious, MirroredAuthorizer};
pub use class::{Bounds, Class};
pub use findings::Disagreement;
use findings::Findings;

use crate::contact::Contact;
use crate::health::{HostHealth, HostState};
use crate::host_status::MirrorFacts;

/// Name of the mirror in the audit log.
const NAME: &str = "HostMirror";

/// Time between the two answers of the host that confirm a disagreement: longer than its decisions are cached, and than
/// its authorizer needs to read a new binding.
const SECOND_ANSWER: Duration = Duration::from_secs(15);

/// Error without a mirror.
const UNKNOWN: &str = "the host cluster does not answer, and its permissions were never read: bind the user in a role of this server";

/// Error of a closed mirror.
const CLOSED: &str = "the host cluster does not answer, and the copy of its permissions is not used, because it \
    would allow what the host denies: see host.mirror in docs/configuration.md";

/// Mirror. Clones share it.
#[derive(Debug, Clone)]
pub struct HostMirror(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    health: HostHealth,
    bounds: Bounds,
    permissions: ArcSwapOption<Snapshot>,
    /// Uids of the host's service accounts, by namespace and name.
    accounts: ArcSwapOption<HashMap<String, String>>,
    /// Last time at which the mirror had all changes of the host.
    contact: Mutex<Contact>,
    findings: Mutex<Findings>,
    /// Questions that are sent a second time, from this time on.
    pending: Mutex<Vec<(Instant, Attributes)>>,
}

/// State of a service account in the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Account {
    /// The service accounts were never read, or too long ago.
    Unread,
    /// There is none of this name.
    Missing,
    /// Its uid.
    Uid(String),
}

impl HostMirror {
    /// Creates an empty mirror. Disagreements with the host before `accepted` do not count.
    pub fn new(health: HostHealth, bounds: Bounds, accepted: Timestamp) -> Self {
        Self(Arc::new(Shared {
            health,
            bounds,
            permissions: ArcSwapOption::empty(),
            accounts: ArcSwapOption::empty(),
            contact: Mutex::new(Contact::never()),
            findings: Mutex::new(Findings::accepting(accepted)),
            pending: Mutex::default(),
        }))
    }

    /// Replaces the permissions.
    pub fn set_permissions(&self, permissions: Snapshot) {
        self.0.permissions.store(Some(Arc::new(permissions)));
    }

    /// Replaces the service accounts: uids by `namespace/name`.
    pub fn set_accounts(&self, accounts: HashMap<String, String>) {
        self.0.accounts.store(Some(Arc::new(accounts)));
    }

    /// Notes that the mirror has all changes of the host now.
    pub fn synchronized(&self) {
        *lock(&self.0.contact) = Contact::now();
        self.report_age();
    }

    /// Sets the last contact from the record of an earlier process, unless this process had one.
    pub fn restore_contact(&self, at: Timestamp) {
        lock(&self.0.contact).restore(at);
    }

    /// Returns the time since the mirror had all changes of the host: the longest time if it never had.
    pub fn age(&self) -> Duration {
        lock(&self.0.contact).age().max(self.0.health.age())
    }

    /// Returns what the mirror of `objects` objects of this name is.
    pub fn copies(&self, name: &'static str, objects: usize) -> MirrorFacts {
        let facts = MirrorFacts::new(name, objects, self.age(), Some(self.0.bounds.longest()));
        MirrorFacts { is_closed: lock(&self.0.findings).is_closed(), ..facts }
    }

    /// Publishes the age in the metrics.
    pub fn report_age(&self) {
        self.0.health.metrics().set_mirror_age("permissions", self.age());
    }

    /// Returns what is known about a service account.
    pub(crate) fn account(&self, namespace: &str, name: &str) -> Account {
        let accounts = self.0.accounts.load();
        let Some(accounts) = accounts.as_ref().filter(|_| self.age() <= self.0.bounds.longest()) else {
            return Account::Unread;
        };
        let uid = accounts.get(&format!("{namespace}/{name}")).cloned();
        uid.map_or(Account::Missing, Account::Uid)
    }

    /// Decides about a request by the mirror alone.
    fn decide(&self, attributes: &Attributes) -> Verdict {
        let error = |text: String| Verdict::new((Decision::Error(text), String::new()), NAME);
        if self.0.health.state() == HostState::Other {
            return error("another host cluster answers".to_owned());
        }
        let age = self.age();
        let permissions = self.0.permissions.load();
        let Some(permissions) = permissions.as_ref().filter(|_| age != Duration::MAX) else {
            return error(UNKNOWN.to_owned());
        };
        if lock(&self.0.findings).is_closed() {
            return error(CLOSED.to_owned());
        }
        let (decision, reason) = permissions.decide(attributes);
        if decision != Decision::Allow {
            let mut text = format!("by the permissions that the host cluster had {} s ago", age.as_secs());
            if let Decision::NoOpinion(reason) = decision
                && !reason.is_empty()
            {
                text = format!("{reason}, {text}");
            }
            return Verdict {
                age: Some(age),
                ..Verdict::new((Decision::NoOpinion(text), String::new()), NAME)
            };
        }
        match self.bounded(permissions, attributes, age) {
            Ok(class) => {
                self.0.health.metrics().count_stale(class.name());
                Verdict { age: Some(age), ..Verdict::new((Decision::Allow, reason), NAME) }
            }
            Err(why) => Verdict { age: Some(age), ..error(why) },
        }
    }

    /// Returns the class of an allowed request, if permissions of this age may allow it.
    fn bounded(
        &self,
        permissions: &Snapshot,
        attributes: &Attributes,
        age: Duration,
    ) -> Result<Class, String> {
        // A rule about all groups was not written with ours in mind.
        let is_named = permissions.decide_by_named_group(attributes).0 == Decision::Allow;
        let class = if is_named { Class::of(attributes) } else { Class::Sensitive };
        let name = class.name();
        if !self.0.bounds.allow(class, age) {
            return Err(format!(
                "the host cluster does not answer, and its permissions of {} s ago do not count for requests of the \
                 class {name}; bind the user in a role of this server",
                age.as_secs()
            ));
        }
        let is_closed = lock(&self.0.findings).suspects(&attributes.user.name, class, Timestamp::now());
        if is_closed { Err(CLOSED.to_owned()) } else { Ok(class) }
    }

    /// Compares a decision of the host with that of the mirror. The decision of a host that is not up says nothing.
    fn compare(&self, attributes: &Attributes, decision: &Decision) {
        let Some(allows) = self.allows(attributes) else { return };
        match decision {
            Decision::Allow if !allows => self.0.health.metrics().count_disagreement("narrower"),
            Decision::Deny(_) | Decision::NoOpinion(_)
                if allows && lock(&self.0.findings).begin(attributes, Timestamp::now()) =>
            {
                lock(&self.0.pending).push((Instant::now() + SECOND_ANSWER, attributes.clone()));
            }
            _ => {}
        }
    }

    /// Returns true if the mirror allows a request; `None` if the mirror or the host is not of this moment.
    fn allows(&self, attributes: &Attributes) -> Option<bool> {
        let is_current = self.0.health.state() == HostState::Up && self.age() < SECOND_ANSWER;
        let permissions = self.0.permissions.load_full().filter(|_| is_current)?;
        Some(permissions.decide(attributes).0 == Decision::Allow)
    }

    /// Asks the host a second time about what it has denied and the mirror would allow. Returns the disagreements that
    /// are confirmed, to be kept in the store.
    pub async fn confirm(&self, host: &dyn Authorizer) -> Vec<Disagreement> {
        let mut confirmed = Vec::new();
        while let Some(attributes) = self.due() {
            // It was closed after the question.
            if lock(&self.0.findings).is_closed() {
                lock(&self.0.findings).end(&attributes, false, Timestamp::now());
                continue;
            }
            let decision = host.authorize(&attributes).await;
            let is_denied = matches!(decision, Decision::Deny(_) | Decision::NoOpinion(_));
            let is_confirmed = is_denied && self.allows(&attributes) == Some(true);
            let found = lock(&self.0.findings).end(&attributes, is_confirmed, Timestamp::now());
            if let Some(found) = found {
                self.report(&found);
                self.add(found.clone());
                confirmed.push(found);
            }
        }
        confirmed
    }

    /// Returns the next question whose time has come.
    fn due(&self) -> Option<Attributes> {
        let mut pending = lock(&self.0.pending);
        let now = Instant::now();
        let index = pending.iter().position(|(at, _)| *at <= now)?;
        Some(pending.swap_remove(index).1)
    }

    fn report(&self, found: &Disagreement) {
        self.0.health.metrics().count_disagreement("wider");
        tracing::error!(
            question = found.question,
            "the host cluster denies what its RBAC allows, so it has another authorizer: the copy of its RBAC does not \
             decide about this user and class for 24 hours"
        );
    }

    /// Returns the names of those disagreements in the store that close nothing any more.
    pub fn expired(&self, kept: &HashMap<String, Disagreement>) -> Vec<String> {
        lock(&self.0.findings).expired(kept, Timestamp::now())
    }

    /// Adds a disagreement that this or another replica has confirmed.
    pub fn add(&self, found: Disagreement) {
        let mut findings = lock(&self.0.findings);
        let was_closed = findings.is_closed();
        findings.add(found);
        if !was_closed && findings.is_closed() {
            tracing::error!(
                "the copy of the host cluster's RBAC is switched off: it would allow too much that the host denies. Bind \
                 users in roles of this server, or set host.mirror.acceptedAt to now if the host's other authorizer is gone"
            );
        }
    }
}

// Only plain assignments happen under the locks, so a panic leaves no half state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
