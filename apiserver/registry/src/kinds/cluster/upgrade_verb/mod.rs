//! Verb `upgrade` of Clusters: another version of Kubernetes for the control plane and the workers, its plan, and its end at
//! the next safe point.
//!
//! The request is kept in the Cluster, so that controllers carry it out after a restart, too: in `spec.topology.version`, or
//! without a topology in an annotation.

mod cancel;
mod request;

use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::action::{ActionCall, ActionHandler};
use apiserver_machinery::admission::{Action, GrantingWrite};
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::{Cluster, Described, Descriptor, UPGRADE, UPGRADE_STOP};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::rules::json_fields::annotation;
use crate::rules::plan_verb::{PlanFailure, PlanLimits, PlannerSlot, WORKLOADS, descriptor};
use crate::rules::rollout_verb::{RolloutEffect, RolloutVerb};

/// Name of the verb.
pub(crate) const NAME: &str = "upgrade";

/// Kind of the response. No object of it is stored.
const ANSWER: Descriptor = descriptor("ClusterUpgrade", "clusterupgrades", "clusterupgrade");

/// Change of a Cluster by the verb.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    /// Cluster after the change.
    wanted: Value,
    /// Reason for the annotations, if the user gives none.
    reason: String,
    /// The change is made even if no version remains to be taken.
    always: bool,
}

/// Returns the verb, without a planner.
pub(super) fn verb() -> Arc<dyn ActionHandler> {
    with_planner(&PlannerSlot::default())
}

/// Returns the verb with the planner of this place.
pub(crate) fn with_planner(slot: &PlannerSlot) -> Arc<dyn ActionHandler> {
    RolloutVerb::requesting::<Cluster>(NAME, "ClusterUpgradeRequest", ANSWER, Upgrade(Arc::clone(slot)))
}

/// Adds an error if a Cluster with a topology gets the annotation of one without.
pub(super) fn validate(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let has = |object: &Value| annotation(object, UPGRADE).is_some();
    if has(new) && !old.is_some_and(has) && object::at(new, "spec.topology").is_some_and(Value::is_object) {
        let path = FieldPath::new("metadata.annotations").key(UPGRADE);
        errors.push(FieldError::forbidden(path, "set spec.topology.version instead"));
    }
}

/// Checks that a client which writes an annotation of the verb may use the verb: the controllers change objects by it that
/// the client may have no permission for.
///
/// # Errors
/// 403; 503.
pub(super) async fn check_annotations(write: GrantingWrite<'_>) -> ApiResult<()> {
    let is_new = |key: &&str| {
        let value = annotation(write.new, key);
        value.is_some() && value != write.old.and_then(|old| annotation(old, key))
    };
    if write.permissions.is_internal() || ![UPGRADE, UPGRADE_STOP].iter().any(is_new) {
        return Ok(());
    }
    let Descriptor { group, version, plural: resource, .. } = Cluster::DESCRIPTOR;
    let (namespace, name) = (object::namespace(write.new), object::name(write.new));
    let action = Action { verb: "create", group, version, resource, subresource: NAME, namespace, name };
    write.permissions.require(action).await
}

/// Upgrade, or its end.
#[derive(Debug)]
struct Upgrade(PlannerSlot);

#[async_trait]
impl RolloutEffect for Upgrade {
    async fn run(&self, verb: &RolloutVerb, call: &ActionCall<'_>, cluster: Value) -> ApiResult<Value> {
        let is_set = |field: &str| call.body.get(field) == Some(&json!(true));
        let dry_run = call.dry_run || is_set("dryRun");
        let change = match is_set("cancel") {
            true => cancel::change(verb, call, &cluster).await?,
            false => request::change(verb, call, &cluster)?,
        };
        // An upgrade that begins does not wait for the workload cluster.
        let workloads = if dry_run { WORKLOADS } else { Duration::ZERO };
        let mut plan = self.plan(verb, call, &cluster, &change, workloads).await?;
        let is_needed = change.always || has_versions(&plan);
        if !dry_run && is_needed && change.wanted != cluster {
            verb.store(call, change.wanted, &change.reason, false).await?;
        }
        plan["dryRun"] = json!(dry_run);
        Ok(plan)
    }
}

impl Upgrade {
    /// Returns the plan for the changed Cluster. Before anything is written, the change passes the checks of a real one, and
    /// the controllers' own decisions: a version that no step leads to could not be taken back.
    async fn plan(
        &self,
        verb: &RolloutVerb,
        call: &ActionCall<'_>,
        cluster: &Value,
        change: &Change,
        workloads: Duration,
    ) -> ApiResult<Value> {
        let Descriptor { group, plural, .. } = verb.owner;
        let changed = match change.wanted == *cluster {
            true => cluster.clone(),
            false => {
                let wanted = change.wanted.clone();
                call.objects.update(group, plural, call.namespace, call.name, wanted, true).await?
            }
        };
        let unavailable = |why: &str| ApiError::unavailable(format!("the upgrade cannot be planned: {why}"));
        let planner = self.0.get().ok_or_else(|| unavailable("this server is starting"))?;
        let limits = PlanLimits { workloads, ..PlanLimits::default() };
        let planned = planner.plan(ANSWER.kind, changed, cluster.clone(), limits).await;
        planned.map_err(|failure| match failure {
            PlanFailure::Unavailable(text) => unavailable(&text),
            PlanFailure::Invalid(field, text) => {
                invalid(verb, call, &FieldError::invalid_unshown(FieldPath::new(field), &text))
            }
        })
    }
}

/// Reports whether a plan has versions that remain to be taken.
fn has_versions(plan: &Value) -> bool {
    let remain = |part: &str| plan["upgrade"][part].as_array().is_some_and(|versions| !versions.is_empty());
    remain("controlPlane") || remain("workers")
}

/// Returns the 422 error of a field.
fn invalid(verb: &RolloutVerb, call: &ActionCall<'_>, error: &FieldError) -> ApiError {
    match call.objects.resource(verb.owner.group, verb.owner.plural) {
        Some(resource) => ApiError::invalid(resource, call.name, std::slice::from_ref(error)),
        None => ApiError::internal(format!("{} is not served", verb.owner.plural)),
    }
}

#[cfg(test)]
mod tests;
