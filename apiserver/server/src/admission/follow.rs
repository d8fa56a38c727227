//! Watch of the admission configurations in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apiserver_access::User;
use apiserver_admission::{GROUP, KINDS};
use apiserver_http::{ApiServer, InProcess};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::IDENTITY;
use crate::read_changes::read_changes;

/// The stored configurations, as the watches have read them.
pub(super) struct Objects(Vec<OfKind>);

struct OfKind {
    kind: &'static str,
    store: Store<DynamicObject>,
    /// True once all objects have been read.
    is_read: Arc<AtomicBool>,
}

impl Objects {
    /// Starts to watch all kinds. Each item of the stream is a change.
    pub(super) fn watch(server: Arc<ApiServer>) -> (Self, BoxStream<'static, ()>) {
        let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), "default");
        let (mut all, mut changes) = (Vec::new(), Vec::new());
        for (kind, plural) in KINDS {
            let (of_kind, changed) = watch(&client, kind, plural);
            all.push(of_kind);
            changes.push(changed);
        }
        (Self(all), stream::select_all(changes).boxed())
    }

    /// Returns true once the objects of all kinds have been read.
    pub(super) fn are_read(&self) -> bool {
        self.0.iter().all(|of_kind| of_kind.is_read.load(Ordering::Acquire))
    }

    /// Returns all objects.
    pub(super) fn all(&self) -> Vec<Value> {
        let objects = self.0.iter().flat_map(|of_kind| {
            let found = of_kind.store.state().into_iter();
            found.filter_map(|object| {
                let mut object = serde_json::to_value(&*object).ok()?;
                // The items of a list do not have to name it.
                object["apiVersion"] = json!(format!("{GROUP}/v1"));
                object["kind"] = json!(of_kind.kind);
                Some(object)
            })
        });
        objects.collect()
    }
}

fn watch(client: &Client, kind: &'static str, plural: &str) -> (OfKind, BoxStream<'static, ()>) {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", kind), plural);
    let writer = Writer::new(resource.clone());
    let (store, is_read) = (writer.as_reader(), Arc::<AtomicBool>::default());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let changes = read_changes(api, writer, Arc::clone(&is_read), "admission configurations");
    (OfKind { kind, store, is_read }, changes)
}
