//! Identity and permissions of machines: a machine reads what belongs to its own Machine, and nothing else.

mod authorizer;
mod graph;
mod metrics;

use std::sync::Arc;

use anyhow::Context;
use apiserver_access::{MachineDirectory, ReviewFailed};
use apiserver_machinery::object;
use apiserver_machinery::store::{Freshness, ObjectStore};
use async_trait::async_trait;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::{Api, Client};
use serde_json::Value;

pub(crate) use self::authorizer::MachineAuthorizer;
pub(crate) use self::metrics::BootstrapReads;

/// Group of Machine.
pub(crate) const GROUP: &str = "cluster.x-k8s.io";

/// Plural of Machine.
pub(crate) const PLURAL: &str = "machines";

/// Version in which the Machine is read by its uid.
const VERSION: &str = "v1beta2";

/// Machines of the store.
#[derive(Debug)]
pub(crate) struct MachineObjects(Arc<ObjectStore>);

impl MachineObjects {
    pub(crate) fn new(objects: Arc<ObjectStore>) -> Self {
        Self(objects)
    }

    /// Returns the Machine with this uid. One that is being deleted counts: what it is for may have to end in order.
    async fn find(&self, namespace: &str, name: &str, uid: &str) -> Result<Option<Value>, String> {
        let found = get(&self.0, (GROUP, PLURAL), namespace, name, |found| object::meta(found, "uid") == uid);
        found.await
    }
}

#[async_trait]
impl MachineDirectory for MachineObjects {
    async fn has(&self, namespace: &str, name: &str, uid: &str) -> Result<bool, ReviewFailed> {
        self.find(namespace, name, uid).await.map(|found| found.is_some()).map_err(ReviewFailed)
    }
}

/// Returns an object of the store, if it has the expected content.
async fn get(
    objects: &ObjectStore,
    (group, plural): (&str, &str),
    namespace: &str,
    name: &str,
    is_expected: impl Fn(&Value) -> bool,
) -> Result<Option<Value>, String> {
    let Some(kind) = objects.kind_of(group, plural) else { return Ok(None) };
    // The cache may be a moment behind another replica's write.
    for freshness in [Freshness::Any, Freshness::Consistent] {
        match objects.get(kind, namespace, name, freshness).await {
            Ok(found) => {
                let found = found.to_value().map_err(|error| error.to_string())?;
                if is_expected(&found) {
                    return Ok(Some(found));
                }
            }
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error.message),
        }
    }
    Ok(None)
}

/// Returns the uid of a Machine, for its certificate.
///
/// # Errors
/// There is no such Machine, or storage does not answer.
pub(crate) async fn uid(client: Client, namespace: &str, name: &str) -> anyhow::Result<String> {
    let found = metadata(client, namespace, name).await?;
    let found = found.with_context(|| format!("Machine {namespace}/{name} does not exist"))?;
    found.uid.with_context(|| format!("Machine {namespace}/{name} has no uid"))
}

/// Returns true if there is a Machine with this uid that is not being deleted.
///
/// # Errors
/// Storage does not answer.
pub(crate) async fn stays(client: Client, namespace: &str, name: &str, uid: &str) -> anyhow::Result<bool> {
    let found = metadata(client, namespace, name).await?;
    Ok(found.is_some_and(|found| found.uid.as_deref() == Some(uid) && found.deletion_timestamp.is_none()))
}

async fn metadata(client: Client, namespace: &str, name: &str) -> anyhow::Result<Option<ObjectMeta>> {
    let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, "Machine"), PLURAL);
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &kind);
    let found = api.get_metadata_opt(name).await.with_context(|| format!("Machine {namespace}/{name}"))?;
    Ok(found.map(|found| found.metadata))
}
