//! Namespaces with objects of Capstan that the host cluster does not have.
//!
//! If a namespace was deleted while the host could not reach Capstan, nothing deletes the objects in it. Capstan does not
//! delete them either: the host may have been restored. An operator decides.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver_host::{HostHealth, HostNamespaces};
use apiserver_machinery::store::{NamespaceSource, ObjectStore};

use super::{all, hosted};

/// Interval of the comparisons. A host that is up lets Capstan delete the objects before the namespace is gone.
const INTERVAL: Duration = Duration::from_secs(600);

/// Interval while a namespace is gone, or nothing is known: an operator may be removing the objects.
const SHORT_INTERVAL: Duration = Duration::from_secs(60);

/// Pause after the host is up, in which the watch lists the namespaces.
const PAUSE: Duration = Duration::from_secs(5);

/// Namespaces that the host does not have, as this replica has last found them. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct GoneNamespaces(Arc<Mutex<Option<BTreeSet<String>>>>);

impl GoneNamespaces {
    /// Returns the names, except for those of namespaces that the host has again; `None` before the first comparison.
    pub(crate) fn names(&self, namespaces: &HostNamespaces) -> Option<BTreeSet<String>> {
        let mut names = self.lock().clone();
        if let Some(names) = &mut names {
            names.retain(|name| !namespaces.is_reported(name));
        }
        names
    }

    /// Compares the namespaces while the host is up. Never returns.
    pub(crate) async fn follow(
        &self,
        health: &HostHealth,
        namespaces: &HostNamespaces,
        objects: &ObjectStore,
    ) {
        loop {
            health.up().await;
            tokio::time::sleep(PAUSE).await;
            let found = match used(objects).await {
                Some(used) => missing(used, namespaces).await,
                None => None,
            };
            self.note(found);
            let has_none = self.lock().as_ref().is_some_and(BTreeSet::is_empty);
            tokio::time::sleep(if has_none { INTERVAL } else { SHORT_INTERVAL }).await;
        }
    }

    /// Notes the result of a comparison. `None`: it was not possible. Then nothing is known, because an operator deletes the
    /// objects in these namespaces.
    pub(super) fn note(&self, found: Option<BTreeSet<String>>) {
        let mut known = self.lock();
        if let Some(names) = found.as_ref().filter(|names| !names.is_empty())
            && known.as_ref() != Some(names)
        {
            tracing::warn!(
                namespaces = ?names,
                "the host cluster does not have namespaces with objects of Capstan; the objects stay"
            );
        }
        *known = found;
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the namespaces with objects that the host serves, except for those that Capstan's own store has. `None`: the
/// objects cannot be listed now.
async fn used(objects: &ObjectStore) -> Option<BTreeSet<String>> {
    let mut used = BTreeSet::new();
    for kind in hosted(objects).filter(|kind| kind.namespaced) {
        used.append(&mut metadata(objects, (kind.group.as_str(), kind.plural.as_str()), "namespace").await?);
    }
    let own = metadata(objects, ("", "namespaces"), "name").await?;
    Some(&used - &own)
}

/// Returns the values of a field in the metadata of all objects of a kind.
async fn metadata(
    objects: &ObjectStore,
    (group, plural): (&str, &str),
    field: &str,
) -> Option<BTreeSet<String>> {
    let mut values = BTreeSet::new();
    for item in all(objects, group, plural).await? {
        let metadata = item.to_serialized_metadata().unwrap_or_default();
        values.extend(metadata[field].as_str().map(str::to_owned));
        tokio::task::coop::consume_budget().await;
    }
    Some(values)
}

/// Returns those namespaces that the host does not have; `None` if it is not known of all.
pub(super) async fn missing(used: BTreeSet<String>, namespaces: &HostNamespaces) -> Option<BTreeSet<String>> {
    let mut missing = BTreeSet::new();
    for name in used {
        // One that is reported as terminating lets Capstan delete the objects.
        if namespaces.is_reported(&name) {
            continue;
        }
        match namespaces.namespace(&name).await {
            Ok(Some(_)) => {}
            Err(_) if !namespaces.is_uncertain(&name) => return None,
            Ok(None) | Err(_) => {
                missing.insert(name);
            }
        }
    }
    Some(missing)
}
