//! Status of ValidatingAdmissionPolicies: the leader writes the warnings about types.
//!
//! The policies of files have no status, and that of the host cluster's policies belongs to its own controller.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use apiserver_admission::{GROUP, type_warnings};
use apiserver_machinery::resource::Registry;
use controllers_runtime::PolicyRule;
use futures::{FutureExt, StreamExt};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::reflector::store::Writer;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use storage_contract::Outage;
use tokio_util::sync::CancellationToken;

use crate::read_changes::read_changes;

/// Identity that writes the status, and its field manager: upstream's name.
pub(crate) const IDENTITY: &str = "validatingadmissionpolicy-status-controller";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[
    PolicyRule { groups: &[GROUP], resources: &[PLURAL], verbs: PolicyRule::READ },
    PolicyRule { groups: &[GROUP], resources: &["validatingadmissionpolicies/status"], verbs: &["patch"] },
];

const KIND: &str = "ValidatingAdmissionPolicy";

const PLURAL: &str = "validatingadmissionpolicies";

/// Pause before a retry of failed writes.
const RETRY: Duration = Duration::from_secs(5);

/// Writer of the status.
struct PolicyStatus {
    api: Api<DynamicObject>,
    registry: Arc<Registry>,
    /// Generations of the policies that this leader has checked, by uid. It checks each once, also if an earlier leader
    /// has: that one may have been a version with other kinds.
    checked: HashMap<String, i64>,
}

/// Writes the status of each policy when its `spec` has changed, until `end`. The client has the permissions [`RULES`].
pub(crate) async fn keep(registry: Arc<Registry>, client: Client, end: CancellationToken) {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", KIND), PLURAL);
    let writer = Writer::new(resource.clone());
    let (store, is_read) = (writer.as_reader(), Arc::<AtomicBool>::default());
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut changes = read_changes(api.clone(), writer, is_read, "admission policies");
    let mut status = PolicyStatus { api, registry, checked: HashMap::new() };
    let (mut outage, mut has_failed) = (Outage::default(), false);
    loop {
        let retry =
            async { if has_failed { tokio::time::sleep(RETRY).await } else { std::future::pending().await } };
        tokio::select! {
            () = end.cancelled() => return,
            () = retry => {}
            change = changes.next() => if change.is_none() { return },
        }
        // One pass is for all changes until now.
        while let Some(Some(())) = changes.next().now_or_never() {}
        let Some(outcome) = end.run_until_cancelled(status.pass(&store.state())).await else { return };
        has_failed = outcome.is_err();
        if let Err(error) = outcome
            && outage.should_log()
        {
            tracing::warn!(error, "cannot write the status of an admission policy; retrying");
        }
    }
}

impl PolicyStatus {
    /// Checks each policy whose generation was not checked before. A policy whose status cannot be written does not stop
    /// the others; the last error is returned.
    async fn pass(&mut self, policies: &[Arc<DynamicObject>]) -> Result<(), String> {
        let mut outcome = Ok(());
        let mut checked = HashMap::new();
        for policy in policies {
            let (uid, generation) = (policy.uid().unwrap_or_default(), policy.metadata.generation);
            let generation = generation.unwrap_or_default();
            if self.checked.get(&uid) != Some(&generation)
                && let Err(error) = self.check(policy, generation).await
            {
                outcome = Err(format!("{}: {error}", policy.name_any()));
                continue;
            }
            checked.insert(uid, generation);
        }
        self.checked = checked;
        outcome
    }

    /// Checks a policy, and writes its status if that says something else.
    async fn check(&self, policy: &DynamicObject, generation: i64) -> Result<(), String> {
        let (policy, registry) = (policy.clone(), Arc::clone(&self.registry));
        // The check of a large policy takes seconds.
        let checking = tokio::task::spawn_blocking(move || {
            let found = serde_json::to_value(&policy).map(|whole| status(&whole, generation, &registry));
            (policy, found)
        });
        let (policy, found) = checking.await.map_err(|error| error.to_string())?;
        let found = found.map_err(|error| error.to_string())?;
        let present = policy.data.get("status").unwrap_or(&Value::Null);
        let fields = ["observedGeneration", "typeChecking"];
        if fields.iter().all(|field| present.get(field) == found.get(field)) {
            return Ok(());
        }
        let name = policy.name_any();
        // The uid prevents a status of another policy with the same name.
        let applied = json!({"apiVersion": format!("{GROUP}/v1"), "kind": KIND,
            "metadata": {"name": name, "uid": policy.uid()}, "status": found});
        let params = PatchParams::apply(IDENTITY).force();
        match self.api.patch_status(&name, &params, &Patch::Apply(&applied)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop).map_err(|error| error.to_string()),
        }
    }
}

/// Returns the status of a policy.
fn status(policy: &Value, generation: i64, registry: &Registry) -> Value {
    let warnings = type_warnings(policy, registry).into_iter();
    let warnings: Vec<Value> =
        warnings.map(|it| json!({"fieldRef": it.field, "warning": it.warning})).collect();
    let mut checking = json!({});
    if !warnings.is_empty() {
        checking["expressionWarnings"] = json!(warnings);
    }
    json!({"observedGeneration": generation, "typeChecking": checking})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_has_the_generation_and_the_warnings_if_there_are_any() {
        let registry = apiserver_registry::registry();
        let of = |expression: &str| {
            let rule = json!({"operations": ["*"], "apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["v1beta2"],
                "resources": ["machinedeployments"]});
            let policy = json!({"spec": {"matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression}]}});
            status(&policy, 3, &registry)
        };
        let right = "object == null || !has(object.spec.replicas) || object.spec.replicas <= 50";
        assert_eq!(of(right), json!({"observedGeneration": 3, "typeChecking": {}}));
        let warning = "cluster.x-k8s.io/v1beta2, Kind=MachineDeployment: ERROR: <input>:1:12: undefined field 'replica'\n | \
                       object.spec.replica <= 50\n | ...........^\n";
        let warnings = json!([{"fieldRef": "spec.validations[0].expression", "warning": warning}]);
        let expected = json!({"observedGeneration": 3, "typeChecking": {"expressionWarnings": warnings}});
        assert_eq!(of("object.spec.replica <= 50"), expected);
    }

    #[test]
    fn every_kind_has_fields_that_policies_can_read() {
        let registry = apiserver_registry::registry();
        for kind in registry.resources() {
            let rule = json!({"operations": ["*"], "apiGroups": [kind.group], "apiVersions": [kind.version],
                "resources": [kind.plural]});
            let expression =
                "object.metadata.namespace + object.metadata.labels['a'] + object.apiVersion + object.kind";
            let policy = json!({"spec": {"matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression}]}});
            let found = status(&policy, 1, &registry);
            assert_eq!(found, json!({"observedGeneration": 1, "typeChecking": {}}), "{}", kind.kind);
        }
    }
}
