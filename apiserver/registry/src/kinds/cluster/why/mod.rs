//! Verb `why` of Clusters: the chain of objects from the Cluster to the first cause that holds it up. While the workload
//! API does not answer, the response also has the last known Nodes.

mod chain;
mod conditions;
mod last_known;

use std::sync::Arc;

use apiserver_machinery::action::{ActionCall, ActionHandler};
use apiserver_machinery::object;
use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::status::ApiResult;
use apiserver_types::{
    Cluster, Described, Descriptor, KubeadmConfig, KubeadmControlPlane, Machine, MachineDeployment,
    MachineSet, OpenStackCluster, OpenStackMachine,
};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::rules::json_fields::text;
use crate::rules::machine_template::CLUSTER_LABEL;
use crate::rules::plan_verb::descriptor;
use crate::rules::rollout_verb::{RolloutEffect, RolloutVerb};
use chain::Objects;

/// Name of the verb.
const NAME: &str = "why";

/// Kind of the response. No object of it is stored.
const ANSWER: Descriptor = descriptor("ClusterWhy", "clusterwhys", "clusterwhy");

/// Advice about a reason of a condition, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Steps that end the state.
    pub unblock: String,
    /// Effect of waiting: the controller's next try, if there is one.
    pub next_try: String,
}

/// Returns the advice about a reason; `None` if there is none.
pub type Advise = fn(&str) -> Option<Advice>;

/// Returns the registry whose verb `why` gives this advice. Without it, a response has causes and no advice.
#[must_use]
pub fn with_advice(registry: &Registry, advise: Advise) -> Registry {
    let with_advice = |resource: &Arc<Resource>| {
        let mut resource = Resource::clone(resource);
        if resource.kind == Cluster::DESCRIPTOR.kind {
            resource.verbs.iter_mut().filter(|verb| verb.name() == NAME).for_each(|verb| *verb = of(advise));
        }
        resource
    };
    Registry::new(registry.resources().iter().map(with_advice).collect())
}

/// Returns the verb, without advice.
pub(super) fn verb() -> Arc<dyn ActionHandler> {
    of(|_| None)
}

fn of(advise: Advise) -> Arc<dyn ActionHandler> {
    RolloutVerb::reading::<Cluster>(NAME, "ClusterWhyRequest", ANSWER, Why(advise))
}

/// Answer from the conditions of the stored objects. Nothing is written.
#[derive(Debug)]
struct Why(Advise);

#[async_trait]
impl RolloutEffect for Why {
    async fn run(&self, _verb: &RolloutVerb, call: &ActionCall<'_>, cluster: Value) -> ApiResult<Value> {
        let objects = read(call, cluster).await?;
        let now = Timestamp::now();
        let mut answer = chain::answer(&objects, now, self.0);
        if let Some(section) = last_known::section(&objects, now) {
            answer["lastKnown"] = section;
        }
        answer["apiVersion"] = json!(format!("{}/{}", ANSWER.group, ANSWER.version));
        answer["kind"] = json!(ANSWER.kind);
        Ok(answer)
    }
}

/// Reads the objects of a Cluster.
async fn read(call: &ActionCall<'_>, cluster: Value) -> ApiResult<Objects> {
    let infrastructure = referenced::<OpenStackCluster>(call, &cluster, "spec.infrastructureRef").await?;
    let control_plane = referenced::<KubeadmControlPlane>(call, &cluster, "spec.controlPlaneRef").await?;
    Ok(Objects {
        infrastructure,
        control_plane,
        deployments: labelled::<MachineDeployment>(call, &cluster).await?,
        sets: labelled::<MachineSet>(call, &cluster).await?,
        machines: labelled::<Machine>(call, &cluster).await?,
        servers: labelled::<OpenStackMachine>(call, &cluster).await?,
        configs: labelled::<KubeadmConfig>(call, &cluster).await?,
        cluster,
    })
}

/// Returns the object that a field of the Cluster refers to, if it is of this kind and exists.
async fn referenced<K: Described>(
    call: &ActionCall<'_>,
    cluster: &Value,
    field: &str,
) -> ApiResult<Option<Value>> {
    let Descriptor { group, plural, kind, .. } = K::DESCRIPTOR;
    let Some(reference) = object::at(cluster, field) else { return Ok(None) };
    match text(reference, "name").filter(|_| text(reference, "kind") == Some(kind)) {
        Some(name) => call.objects.get(group, plural, call.namespace, name).await,
        None => Ok(None),
    }
}

/// Returns the objects of this kind with the label of the Cluster.
async fn labelled<K: Described>(call: &ActionCall<'_>, cluster: &Value) -> ApiResult<Vec<Value>> {
    let Descriptor { group, plural, .. } = K::DESCRIPTOR;
    let selector = format!("{CLUSTER_LABEL}={}", object::name(cluster));
    call.objects.list(group, plural, call.namespace, &selector).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_takes_its_place_in_all_versions() {
        let registry = with_advice(&crate::registry(), |_| None);
        let has_verb = |resource: &&Arc<Resource>| resource.verbs.iter().any(|verb| verb.name() == NAME);
        let kinds: Vec<&str> =
            registry.resources().iter().filter(has_verb).map(|it| it.kind.as_str()).collect();
        assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == "Cluster"), "{kinds:?}");
    }
}
