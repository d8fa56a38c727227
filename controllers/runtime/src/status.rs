//! Writing what was observed, and reading whether to look at all.

use std::fmt::Debug;

use apiserver_types::{Cluster, Time};
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ReconcileError;

/// Annotation that tells all controllers to leave an object alone.
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Now, as it stands on the wire: whole seconds, UTC.
pub fn now() -> Time {
    Time(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Whether an object is to be left alone, by its own annotation or its Cluster's `spec.paused`.
pub fn paused<K: Resource>(object: &K, cluster: Option<&Cluster>) -> bool {
    object.annotations().contains_key(PAUSED)
        || cluster.is_some_and(|cluster| cluster.spec.paused == Some(true))
}

/// Writes an object's status if it differs, guarded by the revision it was decided on.
///
/// # Errors
/// A conflict when somebody wrote meanwhile: begin again with what they wrote.
pub async fn write_status<K>(api: &Api<K>, old: &K, new: &K) -> Result<K, ReconcileError>
where
    K: Resource + Clone + Debug + PartialEq + Serialize + DeserializeOwned,
{
    if old == new {
        return Ok(old.clone());
    }
    Ok(api.replace_status(&new.name_any(), &PostParams::default(), new).await?)
}
