//! Verbs of a MachineDeployment: `restart`, `history`, `rollback` and `plan`.

use std::sync::Arc;

use apiserver_machinery::action::{ActionCall, ActionHandler};
use apiserver_machinery::object;
use apiserver_machinery::status::ApiResult;
use apiserver_types::{Described, Descriptor, MachineDeployment, MachineDeploymentRevision};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::revisions::list;
use super::rollback::Rollback;
use crate::rules::plan_verb;
use crate::rules::rollout_verb::{Restart, RolloutEffect, RolloutVerb};

/// Returns the verbs of a MachineDeployment. To add one, add its line.
pub(crate) fn verbs() -> Vec<Arc<dyn ActionHandler>> {
    vec![
        RolloutVerb::change::<MachineDeployment>("restart", "RolloutRestart", Restart),
        RolloutVerb::read::<MachineDeployment, MachineDeploymentRevision>(
            "history",
            "RolloutHistory",
            History,
        ),
        RolloutVerb::change::<MachineDeployment>("rollback", "RolloutRollback", Rollback),
        plan_verb::verb::<MachineDeployment>(),
    ]
}

/// List of the revisions, newest first.
#[derive(Debug)]
struct History;

#[async_trait]
impl RolloutEffect for History {
    async fn run(&self, _verb: &RolloutVerb, call: &ActionCall<'_>, owner: Value) -> ApiResult<Value> {
        let Descriptor { group, version, kind, .. } = MachineDeploymentRevision::DESCRIPTOR;
        let items = list(call, &owner).await?;
        Ok(json!({
            "apiVersion": format!("{group}/{version}"), "kind": format!("{kind}List"),
            "metadata": {"resourceVersion": object::meta(&owner, "resourceVersion")}, "items": items,
        }))
    }
}
