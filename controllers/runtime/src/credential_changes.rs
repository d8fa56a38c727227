//! Changes of what credentials depend on: Secrets, and the labels of Namespaces.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::ready;

use futures::StreamExt;
use futures::stream::{BoxStream, select};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::without_managed_fields;

/// Changed source of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialChange {
    /// Secret that was created, written or deleted: namespace and name.
    Secret(String, String),
    /// Namespace whose labels have changed.
    Namespace(String),
}

/// Namespace and name of an object.
type Key = (String, String);

/// Returns the changes in an API. Only metadata is read.
pub(crate) fn of(client: &Client) -> BoxStream<'static, CredentialChange> {
    let revision = |secret: &dyn Metadata| secret.revision();
    let secrets = changes(Api::<PartialObjectMeta<Secret>>::all(client.clone()), revision)
        .map(|(namespace, name)| CredentialChange::Secret(namespace, name));
    let labels = |namespace: &dyn Metadata| namespace.printed_labels();
    let namespaces = changes(Api::<PartialObjectMeta<Namespace>>::all(client.clone()), labels)
        .map(|(_, name)| CredentialChange::Namespace(name));
    select(secrets, namespaces).boxed()
}

/// Part of an object that a change is seen by.
trait Metadata {
    fn revision(&self) -> String;
    fn printed_labels(&self) -> String;
}

impl<K: ResourceExt> Metadata for K {
    fn revision(&self) -> String {
        self.resource_version().unwrap_or_default()
    }

    fn printed_labels(&self) -> String {
        format!("{:?}", self.labels())
    }
}

fn changes<K>(
    api: Api<K>,
    state: impl Fn(&dyn Metadata) -> String + Send + 'static,
) -> impl futures::Stream<Item = Key> + Send
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    let events = without_managed_fields::events(api).default_backoff();
    events.filter_map(move |event| ready(event.ok().and_then(|event| known.note(event, &state))))
}

/// Objects as the watch has reported them.
#[derive(Default)]
struct Known {
    states: HashMap<Key, String>,
    /// The first list is complete: what appears from now on is new.
    listed: bool,
}

impl Known {
    /// Notes an event. Returns the object if it has changed.
    fn note<K: ResourceExt>(
        &mut self,
        event: Event<K>,
        state: impl Fn(&dyn Metadata) -> String,
    ) -> Option<Key> {
        let key = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
        match event {
            Event::Init => None,
            Event::InitDone => {
                self.listed = true;
                None
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let (key, state) = (key(&object), state(&object));
                let before = self.states.insert(key.clone(), state.clone());
                (self.listed && before != Some(state)).then_some(key)
            }
            Event::Delete(object) => {
                let key = key(&object);
                self.states.remove(&key).map(|_| key)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, version: &str) -> Secret {
        let mut secret = Secret::default();
        secret.metadata.namespace = Some("n".to_owned());
        secret.metadata.name = Some(name.to_owned());
        secret.metadata.resource_version = Some(version.to_owned());
        secret
    }

    #[test]
    fn r4_3_a_change_of_a_secret_is_told_once_and_its_first_list_is_no_change() {
        let mut known = Known::default();
        let mut note =
            |event: Event<Secret>| known.note(event, |it: &dyn Metadata| it.revision()).map(|it| it.1);
        assert_eq!(note(Event::Init), None);
        assert_eq!(note(Event::InitApply(secret("a", "1"))), None);
        assert_eq!(note(Event::InitDone), None);
        assert_eq!(note(Event::Apply(secret("a", "1"))), None, "known");
        assert_eq!(note(Event::Apply(secret("a", "2"))).as_deref(), Some("a"));
        assert_eq!(note(Event::Apply(secret("b", "3"))).as_deref(), Some("b"), "created");
        assert_eq!(note(Event::Delete(secret("b", "3"))).as_deref(), Some("b"));
        // The watch begins anew, and one was written in between.
        assert_eq!(note(Event::Init), None);
        assert_eq!(note(Event::InitApply(secret("a", "4"))).as_deref(), Some("a"));
    }
}
