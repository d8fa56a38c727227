//! ConfigMaps of the host cluster that the bindings of its policies name. Each reference is watched by itself, so that
//! Capstan needs no permission for others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use apiserver_admission::{HostContact, HostParameters};
use apiserver_host::{HostHealth, MirrorFacts};
use apiserver_machinery::object;
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::stream;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::copied::{Copied, CopiesToKeep};
use super::reference::{OfReference, Unread};
use crate::host_watch::collect;

/// Name of the copies.
pub(super) const NAME: &str = "parameters";

/// Longest wait of a write for ConfigMaps that have not been read yet. Upstream waits for a second, and a new watch here
/// collects changes for half of one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Largest number of references. Each is a watch of each replica.
const MOST_REFERENCES: usize = 64;

/// Maximum size of all copies together. Unit: bytes.
const MOST: usize = 16 * 1024 * 1024;

/// Field with the number of ConfigMaps of a reference.
const COUNT: &str = "count";

/// ConfigMaps by the key of their reference.
type OfReferences = HashMap<String, Vec<Arc<Value>>>;

/// Parameters of the host's policies.
#[derive(Debug)]
pub(super) struct Parameters {
    wanted: watch::Sender<BTreeSet<HostParameters>>,
    copied: Copied<OfReferences>,
    /// References without ConfigMaps. Notified after each look at the watches.
    unread: watch::Sender<BTreeMap<HostParameters, Unread>>,
}

/// Copies that a look at the watches finds.
#[derive(Default)]
struct Found {
    copies: HashMap<String, Value>,
    size: usize,
    unread: BTreeMap<HostParameters, Unread>,
}

impl Parameters {
    pub(super) fn new(health: HostHealth, changes: watch::Sender<u64>) -> Self {
        let copied = Copied::new(NAME, health, changes, of_references);
        Self { wanted: watch::Sender::default(), copied, unread: watch::Sender::default() }
    }

    /// Sets the references that are watched.
    pub(super) fn want(&self, references: BTreeSet<HostParameters>) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = *wanted != references;
            *wanted = references;
            is_new
        });
    }

    /// Returns the ConfigMaps of a reference in a namespace. If the host answers, waits a moment for the first ones.
    pub(super) async fn of(
        &self,
        wanted: &HostParameters,
        namespace: &str,
        has_answers: bool,
    ) -> Result<Vec<Arc<Value>>, String> {
        let key = key(wanted);
        let find = || self.copied.read().and_then(|read| read.deciding.get(&key).cloned());
        let mut unread = self.unread.subscribe();
        let patience = if has_answers { PATIENCE } else { Duration::ZERO };
        let is_clear = |unread: &BTreeMap<HostParameters, Unread>| {
            find().is_some() || unread.get(wanted).is_some_and(|unread| !unread.is_brief)
        };
        // Without an answer in time, the newest reason is that of the error.
        let _ = tokio::time::timeout(patience, unread.wait_for(is_clear)).await;
        let Some(found) = find() else {
            let why = unread.borrow().get(wanted).map(|unread| unread.why.clone());
            let why = why.unwrap_or_else(|| "they have not been read".to_owned());
            return Err(format!("{wanted} of the host cluster: {why}"));
        };
        if let HostContact::Unusable(why) = self.copied.contact() {
            return Err(format!("{wanted} of the host cluster: {why}"));
        }
        Ok(found.into_iter().filter(|map| object::namespace(map) == namespace).collect())
    }

    pub(super) fn to_keep(&self) -> CopiesToKeep {
        self.copied.to_keep()
    }

    /// Returns what people see of the copies, also which of them are missing.
    pub(super) fn facts(&self) -> MirrorFacts {
        let objects = self.copied.read().map_or(0, |read| read.deciding.values().map(Vec::len).sum());
        let unread = self.unread.borrow();
        let unread =
            unread.iter().map(|(reference, unread)| format!("{reference}: {}", unread.why)).collect();
        MirrorFacts { objects, unread, ..self.copied.facts() }
    }

    pub(super) fn restore(&self, copies: HashMap<String, Value>, contact: Option<Timestamp>) {
        self.copied.restore(copies, contact);
    }

    pub(super) fn note_age(&self) {
        self.copied.note_age();
    }

    /// Follows the references. Never returns.
    pub(super) async fn follow(&self, client: &Client) {
        let mut wanted = self.wanted.subscribe();
        loop {
            let references = wanted.borrow_and_update().clone();
            tokio::select! {
                // The sender lives as long as `self`.
                _ = wanted.changed() => {}
                () = self.watch(client, references) => {}
            }
        }
    }

    async fn watch(&self, client: &Client, references: BTreeSet<HostParameters>) {
        let _stale = self.copied.until_end();
        let mut references = references.into_iter();
        let started = references.by_ref().take(MOST_REFERENCES).map(|it| OfReference::start(client, it));
        let (watched, changes): (Vec<_>, Vec<_>) = started.unzip();
        let others: Vec<HostParameters> = references.collect();
        self.note(&watched, &others);
        collect(stream::select_all(changes), || self.note(&watched, &others)).await;
        // Without a reference, there is nothing to watch.
        std::future::pending().await
    }

    /// Looks at the watches. A reference that cannot be read does not age the copies of the others.
    fn note(&self, watched: &[OfReference], others: &[HostParameters]) {
        let (before, mut found) = (self.copied.read(), Found::default());
        let mut is_current = true;
        for it in watched {
            let key = key(&it.reference);
            let before = before.as_ref().and_then(|read| read.deciding.get(&key));
            match it.maps(before).and_then(|maps| found.add(&key, &it.reference, &maps)) {
                Ok(()) => is_current &= it.is_current(),
                Err(unread) => drop(found.unread.insert(it.reference.clone(), unread)),
            }
        }
        for reference in others {
            let why = format!("the bindings of the host cluster name more than {MOST_REFERENCES} references");
            found.unread.insert(reference.clone(), Unread::lasting(why));
        }
        self.copied.set(found.copies);
        self.copied.set_current(is_current);
        self.unread.send_replace(found.unread);
    }
}

impl Found {
    /// Adds the ConfigMaps of a reference, if they fit. They have the names `key/namespace/name`, and the reference itself
    /// has the name `key`: it may select none.
    fn add(&mut self, key: &str, reference: &HostParameters, maps: &[Arc<Value>]) -> Result<(), Unread> {
        let size: usize = maps.iter().map(|map| map.to_string().len()).sum();
        if self.size + size > MOST {
            return Err(Unread::lasting(format!(
                "all copies together have at most {} MiB",
                MOST / 1024 / 1024
            )));
        }
        self.size += size;
        self.copies.insert(key.to_owned(), json!({"reference": reference.to_string(), COUNT: maps.len()}));
        self.copies.extend(maps.iter().map(|map| {
            let (namespace, name) = (object::namespace(map), object::name(map));
            (format!("{key}/{namespace}/{name}"), Value::clone(map))
        }));
        Ok(())
    }
}

/// Returns the key of a reference. A selector may be longer than a key of the store.
fn key(HostParameters { namespace, name, labels }: &HostParameters) -> String {
    let text = format!("{namespace}/{name}?{labels}");
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

/// Returns the ConfigMaps of the copies, sorted by namespace and name. A reference whose copies are half-written is left
/// out: with fewer ConfigMaps a policy would allow more.
fn of_references(copies: &HashMap<String, Value>) -> OfReferences {
    let mut names: Vec<&String> = copies.keys().collect();
    names.sort_unstable();
    let mut found = OfReferences::new();
    for name in names {
        match name.split_once('/') {
            None => drop(found.entry(name.clone()).or_default()),
            Some((key, _)) => {
                let map = copies.get(name).cloned().map(Arc::new);
                found.entry(key.to_owned()).or_default().extend(map);
            }
        }
    }
    found.retain(|key, maps| copies.get(key).is_some_and(|reference| reference[COUNT] == json!(maps.len())));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(labels: &str) -> HostParameters {
        HostParameters { namespace: "team".to_owned(), name: String::new(), labels: labels.to_owned() }
    }

    fn map(namespace: &str, name: &str) -> Arc<Value> {
        Arc::new(json!({"kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}))
    }

    /// Returns the copies of two references: one with two ConfigMaps, and one without any.
    fn copies() -> HashMap<String, Value> {
        let mut found = Found::default();
        let reference = limits("a=b");
        found.add(&key(&reference), &reference, &[map("team", "x"), map("other", "y")]).unwrap();
        found.add(&key(&limits("none")), &limits("none"), &[]).unwrap();
        found.copies
    }

    fn parameters(copies: HashMap<String, Value>) -> Parameters {
        let parameters = Parameters::new(HostHealth::default(), watch::Sender::new(0));
        parameters.restore(copies, Some(Timestamp::now()));
        parameters
    }

    #[tokio::test]
    async fn copies_have_the_config_maps_of_each_reference() {
        let parameters = parameters(copies());
        let found = parameters.of(&limits("a=b"), "team", false).await.unwrap();
        assert_eq!(found.iter().map(|map| object::name(map)).collect::<Vec<_>>(), ["x"], "one namespace");
        assert_eq!(parameters.of(&limits("none"), "team", false).await.unwrap(), Vec::<Arc<Value>>::new());
        let why = parameters.of(&limits("c=d"), "team", false).await.unwrap_err();
        let expected = "ConfigMaps team/* with the labels c=d of the host cluster: they have not been read";
        assert_eq!(why, expected);
        assert_eq!(parameters.facts().objects, 2);
    }

    #[tokio::test]
    async fn half_written_copies_are_none() {
        let mut copies = copies();
        copies.remove(&format!("{}/team/x", key(&limits("a=b"))));
        assert!(parameters(copies).of(&limits("a=b"), "other", false).await.is_err());
    }

    #[test]
    fn all_copies_together_have_a_bound() {
        let large = Arc::new(json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(MOST / 2)}}));
        let mut found = Found::default();
        assert!(found.add("a", &limits("a"), &[Arc::clone(&large)]).is_ok());
        let why = found.add("b", &limits("b"), &[large]).unwrap_err().why;
        assert_eq!((why.as_str(), found.copies.len()), ("all copies together have at most 16 MiB", 2));
    }
}
