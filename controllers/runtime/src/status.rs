//! Status writes, and the check for paused objects.

use std::fmt::Debug;

use apiserver_types::{Cluster, Time};
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ReconcileError;

/// Annotation that pauses an object for all controllers.
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Returns the current time as on the wire: whole seconds, UTC.
pub fn now() -> Time {
    Time(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Returns true if an object is paused, by its own annotation or by its Cluster's `spec.paused`.
pub fn paused<K: Resource>(object: &K, cluster: Option<&Cluster>) -> bool {
    object.annotations().contains_key(PAUSED)
        || cluster.is_some_and(|cluster| cluster.spec.paused == Some(true))
}

/// Writes an object's status if it differs. The revision that it was computed from guards the write.
///
/// # Errors
/// A conflict, if another client wrote since: begin again with what it wrote.
pub async fn write_status<K>(api: &Api<K>, old: &K, new: &K) -> Result<K, ReconcileError>
where
    K: Resource + Clone + Debug + PartialEq + Serialize + DeserializeOwned,
{
    if old == new {
        return Ok(old.clone());
    }
    Ok(api.replace_status(&new.name_any(), &PostParams::default(), new).await?)
}
