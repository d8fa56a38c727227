//! Lock of a cluster's initialization: one Machine alone runs `kubeadm init`.
//!
//! The lock is upstream's ConfigMap, so a Cluster that is moved during its initialization finds its holder.

use apiserver_types::{Cluster, Machine};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::{CLUSTER_NAME_LABEL, ownership};

/// Key of the ConfigMap with the holder. Upstream's name.
const KEY: &str = "lock-information";

/// Result of an attempt to take the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The Machine holds the lock.
    Held,
    /// Another Machine of this name holds it.
    Busy(String),
    /// The holder does not exist any more, or the content is not readable. The lock was deleted.
    Stale(String),
}

/// Lock of one Cluster.
pub(super) struct Lock<'a> {
    context: &'a ControllerContext,
    cluster: &'a Cluster,
    api: Api<ConfigMap>,
}

impl<'a> Lock<'a> {
    pub(super) fn of(context: &'a ControllerContext, cluster: &'a Cluster) -> Self {
        let namespace = cluster.namespace().unwrap_or_default();
        Self { context, cluster, api: Api::namespaced(context.client.clone(), &namespace) }
    }

    fn name(&self) -> String {
        format!("{}-lock", self.cluster.name_any())
    }

    /// Takes the lock for a Machine. A Machine that holds it already succeeds.
    pub(super) async fn take(&self, machine: &str) -> Result<Attempt, ReconcileError> {
        match self.api.create(&PostParams::default(), &self.wish(machine)).await {
            Ok(_) => Ok(Attempt::Held),
            Err(kube::Error::Api(status)) if status.code == 409 => self.judge(machine).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Judges the lock for a Machine without taking it. A free lock counts as held.
    pub(super) async fn look(&self, machine: &str) -> Result<Attempt, ReconcileError> {
        match self.api.get_opt(&self.name()).await? {
            Some(_) => self.judge(machine).await,
            None => Ok(Attempt::Held),
        }
    }

    /// Releases the lock of any Machine. A lock that does not exist is no error.
    pub(super) async fn release(&self) -> Result<(), ReconcileError> {
        match self.api.get_opt(&self.name()).await? {
            Some(lock) => ownership::delete(&self.api, &self.name(), lock.uid()).await,
            None => Ok(()),
        }
    }

    /// Releases the lock if this Machine holds it.
    pub(super) async fn release_of(&self, machine: &str) -> Result<(), ReconcileError> {
        let lock = self.api.get_opt(&self.name()).await?;
        match lock.filter(|lock| holder(lock).as_deref() == Some(machine)) {
            Some(lock) => ownership::delete(&self.api, &self.name(), lock.uid()).await,
            None => Ok(()),
        }
    }

    async fn judge(&self, machine: &str) -> Result<Attempt, ReconcileError> {
        let Some(lock) = self.api.get_opt(&self.name()).await? else {
            return Ok(Attempt::Stale("the lock has just been released".to_owned()));
        };
        let name = holder(&lock);
        let attempt = match name.as_deref() {
            Some(name) if name == machine => return Ok(Attempt::Held),
            Some(name) => self.of_holder(name).await?,
            None => Attempt::Stale(format!("ConfigMap {} is not readable", self.name())),
        };
        if matches!(attempt, Attempt::Stale(_)) {
            ownership::delete(&self.api, &self.name(), lock.uid()).await?;
        }
        Ok(attempt)
    }

    async fn of_holder(&self, name: &str) -> Result<Attempt, ReconcileError> {
        let namespace = self.cluster.namespace().unwrap_or_default();
        let machines: Api<Machine> = Api::namespaced(self.context.client.clone(), &namespace);
        Ok(match machines.get_opt(name).await? {
            Some(holder) if holder.metadata.deletion_timestamp.is_none() => Attempt::Busy(name.to_owned()),
            Some(_) => Attempt::Stale(format!("Machine {name}, which held the lock, is being deleted")),
            None => Attempt::Stale(format!("Machine {name}, which held the lock, does not exist")),
        })
    }

    fn wish(&self, machine: &str) -> ConfigMap {
        let information = json!({"machineName": machine}).to_string();
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: self.cluster.namespace(),
                labels: Some([(CLUSTER_NAME_LABEL.to_owned(), self.cluster.name_any())].into()),
                owner_references: Some(vec![ownership::reference(self.cluster, false)]),
                ..ObjectMeta::default()
            },
            data: Some([(KEY.to_owned(), information)].into()),
            ..ConfigMap::default()
        }
    }
}

/// Returns the name of the Machine that holds a lock; `None` if the content is not readable.
fn holder(lock: &ConfigMap) -> Option<String> {
    let information: Value = serde_json::from_str(lock.data.as_ref()?.get(KEY)?).ok()?;
    let name = information.get("machineName")?.as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_read_from_upstreams_form() {
        let of = |text: &str| {
            holder(&ConfigMap {
                data: Some([(KEY.to_owned(), text.to_owned())].into()),
                ..ConfigMap::default()
            })
        };
        assert_eq!(of(r#"{"machineName":"m"}"#).as_deref(), Some("m"));
        for text in ["", "{}", r#"{"machineName":""}"#, "m"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
