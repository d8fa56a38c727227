//! Verb `plan` of Clusters and of owners of Machines: the effects of a change, before the change is made.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apiserver_machinery::action::{ActionCall, ActionHandler};
use apiserver_machinery::object;
use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::merge_patch;
use apiserver_types::{Cluster, Described, Descriptor, KubeadmControlPlane, MachineDeployment};
use async_trait::async_trait;
use serde_json::Value;

use crate::kinds::cluster::upgrade_verb;
use crate::rules::plan_preview;
use crate::rules::rollout_verb::{RolloutEffect, RolloutVerb};

/// Name of the verb.
pub(crate) const NAME: &str = "plan";

/// Longest time of the reads in clouds: a request ends after a minute, and the plan itself takes a part of it.
const CLOUDS: Duration = Duration::from_secs(10);

/// Longest time of the reads in workload clusters. A cluster that can be reached answers within a second, and a person waits
/// for the plan.
pub(crate) const WORKLOADS: Duration = Duration::from_secs(5);

/// Kind of the response about an owner of Machines. No object of it is stored.
const ROLLOUT_PLAN: Descriptor = descriptor("RolloutPlan", "rolloutplans", "rolloutplan");

/// Kind of the response about a Cluster. No object of it is stored.
const CLUSTER_PLAN: Descriptor = descriptor("ClusterPlan", "clusterplans", "clusterplan");

/// Returns the descriptor of a response of which no object is stored.
pub(crate) const fn descriptor(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Descriptor {
    Descriptor {
        group: "capstan.dev",
        version: "v1alpha1",
        kind,
        plural,
        singular,
        short_names: &[],
        categories: &[],
        namespaced: true,
        status_subresource: false,
        scale: None,
        deprecation: None,
        columns: &[],
    }
}

/// Reason for which there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanFailure {
    /// The change cannot be made: path of the field, and why. For people. It becomes an error 422.
    Invalid(String, String),
    /// The plan cannot be made now. For people. It becomes an error 503.
    Unavailable(String),
}

/// Longest times of the reads of a plan outside the API. Without a time, there are no such reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanLimits {
    /// Time of all reads in clouds.
    pub clouds: Duration,
    /// Time of all reads in workload clusters.
    pub workloads: Duration,
}

/// Planner of rollouts: the decisions of the controllers.
#[async_trait]
pub trait Planner: Debug + Send + Sync + 'static {
    /// Returns the plan for an object of a kind as it would be stored after a change. `stored` is the object before it. The
    /// plan of a template has the `rollouts` of its users, as that of a Cluster.
    ///
    /// # Errors
    /// The reason for which there is no plan.
    async fn plan(
        &self,
        kind: &str,
        changed: Value,
        stored: Value,
        limits: PlanLimits,
    ) -> Result<Value, PlanFailure>;
}

/// Place of the planner. It is empty until the server of which the planner is a client runs.
pub type PlannerSlot = Arc<OnceLock<Arc<dyn Planner>>>;

/// Returns the registry with the planner of this place, for the verb and for the warnings of dry runs.
#[must_use]
pub fn with_planner(registry: &Registry, slot: &PlannerSlot) -> Registry {
    let with_slot = |resource: &Arc<Resource>| {
        let mut resource = Resource::clone(resource);
        for verb in resource.verbs.iter_mut().filter(|verb| verb.name() == NAME) {
            match resource.kind.as_str() {
                "Cluster" => *verb = of::<Cluster>(slot),
                "MachineDeployment" => *verb = of::<MachineDeployment>(slot),
                "KubeadmControlPlane" => *verb = of::<KubeadmControlPlane>(slot),
                _ => {}
            }
        }
        if resource.kind == Cluster::DESCRIPTOR.kind {
            let upgrades = resource.verbs.iter_mut().filter(|verb| verb.name() == upgrade_verb::NAME);
            upgrades.for_each(|verb| *verb = upgrade_verb::with_planner(slot));
        }
        resource.preview = plan_preview::of(&resource.kind, slot);
        resource
    };
    Registry::new(registry.resources().iter().map(with_slot).collect())
}

/// Returns the verb of a kind, without a planner.
pub(crate) fn verb<K: Described>() -> Arc<dyn ActionHandler> {
    of::<K>(&PlannerSlot::default())
}

fn of<K: Described>(slot: &PlannerSlot) -> Arc<dyn ActionHandler> {
    let answer = if K::DESCRIPTOR.kind == Cluster::DESCRIPTOR.kind { CLUSTER_PLAN } else { ROLLOUT_PLAN };
    RolloutVerb::answering::<K>(NAME, "RolloutPlanRequest", answer, Plan(Arc::clone(slot)))
}

/// Plan of a change. Nothing is written.
#[derive(Debug)]
struct Plan(PlannerSlot);

#[async_trait]
impl RolloutEffect for Plan {
    async fn run(&self, verb: &RolloutVerb, call: &ActionCall<'_>, stored: Value) -> ApiResult<Value> {
        let Descriptor { group, plural, kind, .. } = verb.owner;
        let wanted = changed(&call.body, &stored);
        let changed = match wanted == stored {
            true => stored.clone(),
            // With the defaults, and after the checks of a real change.
            false => call.objects.update(group, plural, call.namespace, call.name, wanted, true).await?,
        };
        let unavailable = |text: &str| ApiError::unavailable(format!("the change cannot be planned: {text}"));
        let planner = self.0.get().ok_or_else(|| unavailable("this server is starting"))?;
        let limits = PlanLimits { clouds: CLOUDS, workloads: WORKLOADS };
        planner.plan(kind, changed, stored, limits).await.map_err(|failure| match failure {
            PlanFailure::Unavailable(text) => unavailable(&text),
            PlanFailure::Invalid(field, text) => match call.objects.resource(group, plural) {
                Some(resource) => {
                    let error = FieldError::invalid_unshown(FieldPath::new(field), &text);
                    ApiError::invalid(resource, call.name, &[error])
                }
                None => unavailable(&text),
            },
        })
    }
}

/// Returns the object after the change in a body: one with a `resourceVersion` replaces it, another one is merged into it, as
/// a merge patch of a client is.
fn changed(body: &Value, stored: &Value) -> Value {
    let mut changed = stored.clone();
    let fields = ["metadata", "spec"];
    if object::meta(body, "resourceVersion").is_empty() {
        let given = fields.into_iter().filter_map(|field| Some((field.to_owned(), body.get(field)?.clone())));
        if let Some(known) = changed.as_object_mut() {
            merge_patch::merge(known, &given.collect());
        }
        return changed;
    }
    for field in fields {
        changed[field] = body.get(field).cloned().unwrap_or_default();
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_a_part_to_merge_or_the_whole_object() {
        let stored = json!({
            "metadata": {"name": "md", "resourceVersion": "7"},
            "spec": {"replicas": 2, "paused": true, "template": {"spec": {"version": "v1"}}},
        });
        assert_eq!(changed(&Value::Null, &stored), stored);
        assert_eq!(changed(&json!({}), &stored), stored);
        let part = json!({"spec": {"paused": null, "template": {"spec": {"version": "v2"}}}});
        let merged = changed(&part, &stored);
        assert_eq!(merged["spec"], json!({"replicas": 2, "template": {"spec": {"version": "v2"}}}));
        assert_eq!(merged["metadata"], stored["metadata"]);
        let whole = json!({"metadata": {"name": "md", "resourceVersion": "7"}, "spec": {"replicas": 1}});
        assert_eq!(changed(&whole, &stored)["spec"], json!({"replicas": 1}));
    }

    #[test]
    fn the_planner_takes_its_place_in_all_versions() {
        let slot = PlannerSlot::default();
        let registry = with_planner(&crate::registry(), &slot);
        let verbs = registry.resources().iter().flat_map(|it| it.verbs.iter());
        let plans = verbs.filter(|verb| verb.name() == NAME).count();
        let clusters = registry.resources().iter().filter(|it| it.kind == "Cluster").count();
        let previews = registry.resources().iter().filter(|it| it.preview.is_some()).count();
        let held = plans + previews + clusters + 1;
        assert_eq!(Arc::strong_count(&slot), held, "Clusters also have the verb upgrade");
        assert!(plans >= 3 && previews >= plans + 2, "templates have a preview and no verb");
    }
}
