//! Presence of the host's namespaces: those that are reported, and those that were lost while nothing was seen.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use serde_json::Value;
use tokio::time::Instant;

use super::relevant_fields;

/// Time for which a namespace that was lost during an outage is kept. The host may have been restored.
pub(super) const UNCERTAIN: Duration = Duration::from_secs(3600);

/// A namespace of the host.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) object: Value,
    pub(super) presence: Presence,
}

/// Last information about a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// The host reports it.
    Reported,
    /// The host has reported its deletion, and is not believed yet.
    Deleted,
    /// A list of a host that is not believed yet does not have it.
    Missing,
    /// A host that is believed does not have it after an outage. It is kept until this time.
    Uncertain(Instant),
}

impl Known {
    pub(super) fn of(namespace: &Namespace) -> Self {
        Self::reported(relevant_fields(namespace))
    }

    pub(super) fn reported(object: Value) -> Self {
        Self { object, presence: Presence::Reported }
    }

    pub(super) fn is_reported(&self) -> bool {
        self.presence == Presence::Reported
    }

    /// Returns true if it was lost in a list, and may have been lost in a restore.
    pub(super) fn is_uncertain(&self) -> bool {
        matches!(self.presence, Presence::Missing | Presence::Uncertain(_))
    }

    /// Returns true if a list of the host should have it. A host that was up without it has proved that it does not have it.
    pub(super) fn is_expected(&self) -> bool {
        !matches!(self.presence, Presence::Uncertain(_))
    }

    /// Returns true if its time is over.
    fn is_over(&self) -> bool {
        matches!(self.presence, Presence::Uncertain(until) if until <= Instant::now())
    }

    /// Returns the presence after a list without it. `is_believed`: the host is up. `is_first`: the list is the first
    /// one of its watch. `None`: it does not exist.
    fn lost(&self, is_believed: bool, is_first: bool) -> Option<Presence> {
        match self.presence {
            Presence::Uncertain(_) => Some(self.presence),
            Presence::Deleted if is_believed => None,
            Presence::Deleted => Some(Presence::Deleted),
            Presence::Missing | Presence::Reported if !is_believed => Some(Presence::Missing),
            Presence::Missing => Some(uncertain()),
            // A deletion before the watch began was not seen. A later list only repeats what the watch has missed.
            Presence::Reported => is_first.then(uncertain),
        }
    }
}

fn uncertain() -> Presence {
    Presence::Uncertain(Instant::now() + UNCERTAIN)
}

/// List of one watch, which is incomplete until its last event.
#[derive(Debug, Default)]
pub(super) struct Listing {
    fresh: HashMap<String, Known>,
    /// True once the watch has completed a list.
    is_complete: bool,
}

/// All namespaces by their names.
#[derive(Debug, Default)]
pub(super) struct AllKnown(pub(super) HashMap<String, Known>);

impl AllKnown {
    /// Applies an event of a watch. Returns true if something changed.
    pub(super) fn take(&mut self, listing: &mut Listing, event: Event<Namespace>, is_believed: bool) -> bool {
        match event {
            Event::Init => {
                listing.fresh.clear();
                return false;
            }
            Event::InitApply(namespace) => {
                listing.fresh.insert(namespace.name_any(), Known::of(&namespace));
                return false;
            }
            Event::InitDone => self.replace(listing, is_believed),
            Event::Apply(namespace) => {
                self.0.insert(namespace.name_any(), Known::of(&namespace));
            }
            Event::Delete(namespace) if is_believed => {
                self.0.remove(&namespace.name_any());
            }
            Event::Delete(namespace) => {
                if let Some(known) = self.0.get_mut(&namespace.name_any()) {
                    known.presence = Presence::Deleted;
                }
            }
        }
        true
    }

    fn replace(&mut self, listing: &mut Listing, is_believed: bool) {
        let is_first = !std::mem::replace(&mut listing.is_complete, true);
        let before = std::mem::replace(&mut self.0, std::mem::take(&mut listing.fresh));
        for (name, known) in before {
            if let Some(presence) = known.lost(is_believed, is_first) {
                self.0.entry(name).or_insert(Known { presence, ..known });
            }
        }
    }

    /// Returns true if [`AllKnown::believe_absence`] changes something.
    pub(super) fn has_lost(&self) -> bool {
        self.0.values().any(|known| match known.presence {
            Presence::Reported => false,
            Presence::Deleted | Presence::Missing => true,
            Presence::Uncertain(_) => known.is_over(),
        })
    }

    /// Applies that the host is up: deleted namespaces do not exist, and missing ones are kept for a while.
    pub(super) fn believe_absence(&mut self) {
        self.0.retain(|_, known| known.presence != Presence::Deleted && !known.is_over());
        for known in self.0.values_mut().filter(|known| known.presence == Presence::Missing) {
            known.presence = uncertain();
        }
    }
}
