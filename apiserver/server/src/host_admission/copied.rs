//! Copies of objects of the host cluster that decide about writes, with their age.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_admission::HostContact;
use apiserver_host::{Contact, HostHealth, HostState, MirrorFacts};
use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use crate::host_mirror::Copies;
use crate::host_watch::OnEnd;

/// Longest age of copies that decide. The host may have removed older ones long ago.
const BOUND: Duration = Duration::from_hours(24);

/// Interval at which the age of the copies is noted.
pub(super) const TICK: Duration = Duration::from_secs(2);

/// Copies of one sort, and what decides: `T` is computed from the objects.
#[derive(Debug)]
pub(super) struct Copied<T> {
    /// Name of the copies in the store, in the metrics and in HostStatus.
    name: &'static str,
    health: HostHealth,
    compute: fn(&HashMap<String, Value>) -> T,
    /// The newest objects; `None` if they have never been read.
    read: ArcSwapOption<Read<T>>,
    /// True while the copies have all changes of the host.
    is_current: AtomicBool,
    /// Last time at which they had.
    contact: Mutex<Contact>,
    /// Notified after each change, for the keeper of the copies.
    changes: watch::Sender<u64>,
}

/// Objects with what decides.
#[derive(Debug)]
pub(super) struct Read<T> {
    objects: Copies<Value>,
    pub(super) deciding: T,
}

/// Copies of one sort, as the leader keeps them in the store.
pub(crate) struct CopiesToKeep {
    pub(crate) name: &'static str,
    /// True if the copies have all changes of the host.
    pub(crate) are_synchronized: bool,
    pub(crate) objects: Copies<Value>,
}

impl<T> Copied<T> {
    pub(super) fn new(
        name: &'static str,
        health: HostHealth,
        changes: watch::Sender<u64>,
        compute: fn(&HashMap<String, Value>) -> T,
    ) -> Self {
        let (is_current, contact) = (AtomicBool::default(), Mutex::new(Contact::never()));
        Self { name, health, compute, read: ArcSwapOption::empty(), is_current, contact, changes }
    }

    /// Returns the newest objects; `None` if they have never been read.
    pub(super) fn read(&self) -> Option<Arc<Read<T>>> {
        self.read.load_full()
    }

    /// Returns the copies as they are kept.
    pub(super) fn to_keep(&self) -> CopiesToKeep {
        let objects = self.read().map(|read| Arc::clone(&read.objects)).unwrap_or_default();
        CopiesToKeep { name: self.name, are_synchronized: self.is_synchronized(), objects }
    }

    /// Returns what people see of the copies.
    pub(super) fn facts(&self) -> MirrorFacts {
        let objects = self.read().map_or(0, |read| read.objects.len());
        MirrorFacts::new(self.name, objects, self.age(), Some(BOUND))
    }

    /// Returns what is known about the host, as far as it concerns these copies.
    pub(super) fn contact(&self) -> HostContact {
        let state = self.health.state();
        if state == HostState::Other {
            return HostContact::Unusable("another cluster answers at the address of the host".to_owned());
        }
        let age = self.age();
        if self.read.load().is_some() && age > BOUND {
            let hours = age.as_secs() / 3600;
            return HostContact::Unusable(format!(
                "it is as it was {hours} hours ago, and copies decide for at most 24 hours"
            ));
        }
        if state == HostState::Down { HostContact::Down } else { HostContact::Up }
    }

    /// Applies the copies of an earlier process, unless this one has read the host itself: the store may answer late.
    /// Returns true if they are new.
    pub(super) fn restore(&self, objects: HashMap<String, Value>, contact: Option<Timestamp>) -> bool {
        // Without a heartbeat the copies may be half-written.
        let Some(contact) = contact.filter(|_| self.read.load().is_none()) else { return false };
        self.contact.lock().unwrap_or_else(PoisonError::into_inner).restore(contact);
        self.set(objects)
    }

    /// Sets the objects. Returns true if they are new.
    pub(super) fn set(&self, objects: HashMap<String, Value>) -> bool {
        if self.read.load().as_ref().is_some_and(|read| *read.objects == objects) {
            return false;
        }
        let deciding = (self.compute)(&objects);
        self.read.store(Some(Arc::new(Read { objects: Arc::new(objects), deciding })));
        self.changed();
        true
    }

    /// Sets whether the copies have all changes of the host, until the next call.
    pub(super) fn set_current(&self, is_current: bool) {
        self.is_current.store(is_current, Ordering::Release);
        self.note_age();
    }

    /// Returns a guard that ends the contact when the watches end.
    pub(super) fn until_end(&self) -> OnEnd<'_> {
        OnEnd(&self.is_current)
    }

    /// Notes the time of this moment, if the copies have all changes of the host.
    pub(super) fn note_age(&self) {
        self.health.report_mirror_age(self.name, self.age());
        if self.health.age().is_zero() && self.is_current.load(Ordering::Acquire) {
            let is_first = !self.is_synchronized();
            *self.contact.lock().unwrap_or_else(PoisonError::into_inner) = Contact::now();
            if is_first {
                self.changed();
            }
        }
    }

    fn is_synchronized(&self) -> bool {
        self.age() < TICK * 3
    }

    fn age(&self) -> Duration {
        let contact = *self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        contact.age().max(self.health.age())
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

/// Returns true if the copies are small enough. Otherwise they are not replaced, and get older until their bound.
pub(super) fn fit(name: &str, objects: &HashMap<String, Value>, most: usize) -> bool {
    let size: usize = objects.values().map(|object| object.to_string().len()).sum();
    if size > most {
        tracing::error!(
            bytes = most,
            "the {name} of the host cluster are larger than their copies may be; the last ones stay until their bound"
        );
    }
    size <= most
}
