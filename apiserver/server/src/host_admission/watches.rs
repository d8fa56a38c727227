//! Watches of the host's admission configurations.

use std::collections::HashMap;
use std::sync::Arc;

use apiserver_admission::{GROUP, KINDS};
use futures::StreamExt;
use futures::stream;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::host_watch::{self, Changes, Progress, Watched};

/// A host that is older than a kind has none of its objects.
const CONFIGURATIONS: Watched =
    Watched { what: "admission configurations", may_be_unknown: true, flag: "--mirror" };

/// Watches of all kinds.
pub(super) struct Watches(Vec<OfKind>);

struct OfKind {
    kind: &'static str,
    store: Store<DynamicObject>,
    progress: Arc<Progress>,
}

impl Watches {
    /// Starts the watches. The stream has an item after each change.
    pub(super) fn start(client: &Client) -> (Self, Changes) {
        let (mut all, mut changes) = (Vec::new(), Vec::new());
        for (kind, plural) in KINDS {
            let resource =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", kind), plural);
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let (writer, progress) = (Writer::new(resource), Arc::<Progress>::default());
            let config = watcher::Config::default();
            let (store, changed) =
                host_watch::objects(api, config, writer, CONFIGURATIONS, Arc::clone(&progress));
            all.push(OfKind { kind, store, progress });
            changes.push(changed);
        }
        (Self(all), stream::select_all(changes).boxed())
    }

    /// Returns true once the objects of all kinds have been read.
    pub(super) fn are_read(&self) -> bool {
        self.0.iter().all(|of_kind| of_kind.progress.is_read())
    }

    /// Returns true while all watches go on.
    pub(super) fn are_current(&self) -> bool {
        self.0.iter().all(|of_kind| of_kind.progress.is_current())
    }

    /// Returns all objects, as `Kind/name`.
    pub(super) fn copies(&self) -> HashMap<String, Value> {
        let all = self.0.iter().flat_map(|OfKind { kind, store, .. }| {
            let objects = store.state().into_iter();
            objects.filter_map(move |object| {
                let mut copy = serde_json::to_value(&*object).ok()?;
                // The items of a list do not have to name it.
                copy["apiVersion"] = json!(format!("{GROUP}/v1"));
                copy["kind"] = json!(kind);
                Some((format!("{kind}/{}", object.name_any()), copy))
            })
        });
        all.collect()
    }
}
