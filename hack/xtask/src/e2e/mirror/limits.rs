//! Quota of a real host, and one of its policies whose parameters are in a ConfigMap.

use anyhow::ensure;
use serde_json::{Value, json};

use super::endpoint::{Ask, Endpoint};
use super::users::Users;
use crate::e2e::lab::{Lab, until};

/// Words of the refusal of a third object.
const EXCEEDED: &str = "exceeded quota: configs, requested: count/kubeadmconfigs.bootstrap.cluster.x-k8s.io=1, used: \
    count/kubeadmconfigs.bootstrap.cluster.x-k8s.io=2, limited: count/kubeadmconfigs.bootstrap.cluster.x-k8s.io=2";

const DENIED: &str =
    "ValidatingAdmissionPolicy 'limits' with binding 'limits' denied request: a limited name";

/// Beginning of the names that the policy refuses, as long as the ConfigMap has not changed.
const LIMITED: &str = "limited-";

/// Objects of the host: a quota, and a policy with its binding and its ConfigMap.
fn objects() -> Value {
    let version = "admissionregistration.k8s.io/v1";
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"],
        "resources": ["machinedrainrules"]}]);
    let expression = "object.metadata.?generateName.orValue('') != params.data.prefix";
    let hard = json!({"count/kubeadmconfigs.bootstrap.cluster.x-k8s.io": "2", "count/configmaps": "100"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "configs", "namespace": "team"},
            "spec": {"hard": hard}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits", "namespace": "team"},
            "data": {"prefix": LIMITED}},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "limits"},
            "spec": {"matchConstraints": {"resourceRules": rules}, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "validations": [{"expression": expression, "message": "a limited name"}]}},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "limits"},
            "spec": {"policyName": "limits", "validationActions": ["Deny"],
                "paramRef": {"name": "limits", "namespace": "team", "parameterNotFoundAction": "Deny"}}},
    ]})
}

/// Creates the objects in the host. Without a permission for the ConfigMap, its policy refuses; then Capstan gets one.
pub(super) fn apply(lab: &Lab, first: &Endpoint, users: &Users) -> anyhow::Result<()> {
    let file = lab.file("limits.json", &objects().to_string())?;
    lab.kubectl("admin", &["apply", "-f", &file])?;
    let refused = "ConfigMap team/limits of the host cluster: the host cluster refuses to show them";
    until("the ConfigMap of the policy is forbidden", || {
        Ok(first.ask(&users.bot, Ask::WRITE)?.text.contains(refused))
    })?;
    lab.register_with(&["--mirror", "--policy-parameters", "team/limits"])?;
    until("the policy has its parameters", || Ok(first.ask(&users.bot, Ask::WRITE)?.code == 201))?;
    // The quota was created with the policy, so it has been read, too.
    for name in ["one", "two"] {
        let error = first.create(lab, &config(lab, name)?)?;
        ensure!(error.is_empty(), "a config within the quota: {error}");
    }
    check(lab, first, users)?;
    let (is_created, _, error) = lab.try_kubectl("admin", &["create", "-f", &config(lab, "three")?])?;
    ensure!(!is_created && error.contains(EXCEEDED), "through the host: {error}");
    let quota = ["get", "resourcequota", "configs", "-n", "team", "-o", "json", "--show-managed-fields"];
    let quota = lab.kubectl("admin", &quota)?;
    ensure!(!quota.contains("\"manager\": \"capstan"), "Capstan has written to a quota of the host: {quota}");
    Ok(())
}

/// The quota is exhausted, and the policy refuses a name.
pub(super) fn check(lab: &Lab, first: &Endpoint, users: &Users) -> anyhow::Result<()> {
    let error = first.create(lab, &config(lab, "three")?)?;
    ensure!(error.contains(EXCEEDED), "a config beyond the quota: {error}");
    let found = first.ask(&users.bot, Ask::Write(LIMITED))?;
    ensure!(
        found.code == 422 && found.text.contains(DENIED),
        "a limited name: {} {}",
        found.code,
        found.text
    );
    Ok(())
}

/// Changes of the quota and of the ConfigMap have their effect.
pub(super) fn change(lab: &Lab, first: &Endpoint, users: &Users) -> anyhow::Result<()> {
    let hard =
        json!({"spec": {"hard": {"count/kubeadmconfigs.bootstrap.cluster.x-k8s.io": "3"}}}).to_string();
    let data = json!({"data": {"prefix": "other-"}}).to_string();
    for (kind, name, patch) in [("resourcequota", "configs", hard), ("configmap", "limits", data)] {
        lab.kubectl("admin", &["patch", kind, name, "-n", "team", "--type=merge", "--patch", &patch])?;
    }
    let file = config(lab, "three")?;
    until("the larger quota allows one more", || Ok(first.create(lab, &file)?.is_empty()))?;
    until("the changed ConfigMap allows the name", || {
        Ok(first.ask(&users.bot, Ask::Write(LIMITED))?.code == 201)
    })
}

/// Returns a file with an object that the quota counts.
fn config(lab: &Lab, name: &str) -> anyhow::Result<String> {
    let object = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
        "metadata": {"name": name, "namespace": "team"}, "spec": {"format": "cloud-config"}});
    lab.file(&format!("{name}.json"), &object.to_string())
}
