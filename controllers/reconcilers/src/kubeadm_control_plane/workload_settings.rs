//! Settings that kubeadm left in the workload cluster. A rollout brings them up to date before each of its steps: a
//! Machine that joins takes the settings of the cluster from them.

use apiserver_types::KubeadmControlPlane;
use controllers_bootstrap::kubeadm;
use controllers_runtime::ReconcileError;
use controllers_workload::found;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::act::Actor;
use super::cluster_info;
use super::connection::{self, KUBEADM_CONFIG, SYSTEM};
use super::inspection::Workload;
use super::observe::Observed;
use crate::machine_versions;

/// Key of kubeadm's record in its ConfigMap.
pub(super) const RECORD: &str = "ClusterConfiguration";

/// First minor version whose kubeadm makes all bindings by itself. Upstream's limit.
const OWN_BINDINGS: u64 = 38;

/// API group of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Binding of a role of the workload cluster to a user or a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binding {
    name: &'static str,
    role: &'static str,
    subject: (&'static str, &'static str),
}

/// Bindings that clusters of older versions lack.
const BINDINGS: [Binding; 2] = [
    // Group of the administrators' kubeconfig from kubeadm 1.29 on.
    Binding {
        name: "kubeadm:cluster-admins",
        role: "cluster-admin",
        subject: ("Group", "kubeadm:cluster-admins"),
    },
    // From 1.36 on, the API server's certificate for kubelets has no group. Without the binding, logs, exec and
    // port-forward fail, and with them the care for etcd.
    Binding {
        name: "kubeadm:apiserver-kubelet-client",
        role: "system:kubelet-api-admin",
        subject: ("User", "kube-apiserver-kubelet-client"),
    },
];

/// Change of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A binding is missing.
    Bind(Binding),
    /// kubeadm's record differs: its new text, and the revision that it was made from.
    Record(String, Option<String>),
    /// A Node that joins would not trust the authority: the new kubeconfig, and the revision that it was made from.
    Trust(String, Option<String>),
}

/// Settings as a pass found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Settings {
    /// No rollout needs them, or the workload cluster was not reached.
    #[default]
    NotRead,
    /// They cannot be read or used. Names the object, for people.
    Unusable(String),
    /// Changes that they need.
    Read(Vec<Change>),
}

/// Compares the settings with the control plane, if a Machine is to be replaced.
pub(super) async fn inspect(actor: &Actor<'_>, control_plane: &KubeadmControlPlane, observed: &mut Observed) {
    let is_due = observed.replicas.iter().any(super::replica::Replica::is_outdated);
    if !is_due || !matches!(observed.workload, Workload::Reached(_)) {
        return;
    }
    let client = actor.context.workloads.client(&connection::key(observed));
    let authority = observed.certificates.cluster.as_ref().map(|it| it.certificate.as_str());
    observed.settings = match client {
        Ok(client) => {
            read(&client, control_plane, authority).await.map_or_else(Settings::Unusable, Settings::Read)
        }
        Err(error) => Settings::Unusable(error.to_string()),
    };
}

/// Returns the changes that the settings need. `authority` has the certificates of the cluster's authority.
async fn read(
    client: &Client,
    control_plane: &KubeadmControlPlane,
    authority: Option<&str>,
) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    for binding in needed_bindings(&control_plane.spec.version) {
        let known = found(bindings.get(binding.name).await)
            .map_err(|error| format!("ClusterRoleBinding {}: {error}", binding.name))?;
        if known.is_none() {
            changes.push(Change::Bind(binding));
        }
    }
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM);
    let name = format!("ConfigMap {SYSTEM}/{KUBEADM_CONFIG}");
    let config = found(configs.get(KUBEADM_CONFIG).await).map_err(|error| format!("{name}: {error}"))?;
    let config = config.ok_or_else(|| {
        format!(
            "{name} does not exist. Run \"kubeadm init phase upload-config kubeadm\" on a control plane Node"
        )
    })?;
    let spec = control_plane.spec.kubeadm_config_spec.as_ref();
    let wish = spec.and_then(|spec| spec.cluster_configuration.as_ref());
    let text = config.data.as_ref().and_then(|data| data.get(RECORD));
    let text = text.ok_or_else(|| {
        format!("{name} has no key {RECORD}. Run \"kubeadm init phase upload-config kubeadm\" on a control plane Node")
    })?;
    let new = kubeadm::recorded(text, &control_plane.spec.version, wish)
        .map_err(|error| format!("{name}, key {RECORD}: {error}"))?;
    changes.extend(new.map(|new| Change::Record(new, config.resource_version())));
    if let Some(authority) = authority {
        changes.extend(cluster_info::read(client, authority).await?);
    }
    Ok(changes)
}

/// Returns the bindings that a version needs.
fn needed_bindings(version: &str) -> impl Iterator<Item = Binding> {
    let parsed = machine_versions::parse(version);
    let is_needed = parsed.is_none_or(|it| (it.major, it.minor) < (1, OWN_BINDINGS));
    BINDINGS.into_iter().filter(move |_| is_needed)
}

/// Makes the changes. Each can be repeated.
///
/// # Errors
/// A call failed, or another client has changed the record.
pub(super) async fn write(
    actor: &Actor<'_>,
    observed: &Observed,
    changes: &[Change],
) -> Result<(), ReconcileError> {
    let failed = |error: String| ReconcileError::waiting("WorkloadSettings", error);
    let client = actor.context.workloads.client(&connection::key(observed));
    let client = client.map_err(|error| failed(error.to_string()))?;
    for change in changes {
        write_one(&client, change).await.map_err(failed)?;
    }
    Ok(())
}

async fn write_one(client: &Client, change: &Change) -> Result<(), String> {
    match change {
        Change::Bind(binding) => {
            let api: Api<ClusterRoleBinding> = Api::all(client.clone());
            match api.create(&PostParams::default(), &object(*binding)?).await {
                Ok(_) => Ok(()),
                // Another client was faster.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                Err(error) => {
                    let error = controllers_workload::describe(&error);
                    Err(format!("create ClusterRoleBinding {}: {error}", binding.name))
                }
            }
        }
        Change::Record(text, revision) => {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM);
            let change = json!({"metadata": {"resourceVersion": revision}, "data": {RECORD: text}});
            let written = api.patch(KUBEADM_CONFIG, &PatchParams::default(), &Patch::Merge(&change)).await;
            written.map(drop).map_err(|error| {
                let error = controllers_workload::describe(&error);
                format!("write ConfigMap {SYSTEM}/{KUBEADM_CONFIG}: {error}")
            })
        }
        Change::Trust(kubeconfig, revision) => {
            cluster_info::write(client, kubeconfig, revision.as_deref()).await
        }
    }
}

fn object(binding: Binding) -> Result<ClusterRoleBinding, String> {
    let (kind, name) = binding.subject;
    let object = json!({
        "metadata": {"name": binding.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": binding.role},
        "subjects": [{"apiGroup": RBAC, "kind": kind, "name": name}],
    });
    serde_json::from_value(object).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_in_memory::{Crash, FakeApi};

    const KUBEADM: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
    const BOUND: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

    fn workload() -> FakeApi {
        let api = FakeApi::default();
        let text = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.30.0\nunknown: kept\n";
        api.put(KUBEADM, json!({"metadata": {}, "data": {RECORD: text, "other": "kept"}}));
        api
    }

    fn control_plane(version: &str) -> KubeadmControlPlane {
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.version = version.to_owned();
        control_plane
    }

    async fn follow(api: &FakeApi, version: &str) -> Result<usize, String> {
        let changes = read(&api.client(), &control_plane(version), None).await?;
        for change in &changes {
            write_one(&api.client(), change).await?;
        }
        Ok(changes.len())
    }

    #[tokio::test]
    async fn d9_the_record_and_both_bindings_are_made_once_and_others_data_stays() {
        let api = workload();
        assert_eq!(follow(&api, "v1.31.0").await, Ok(3));
        let data = api.get(KUBEADM).unwrap()["data"].clone();
        let text = data[RECORD].as_str().unwrap();
        assert!(
            text.contains("v1beta4") && text.contains("v1.31.0") && text.contains("unknown: kept"),
            "{text}"
        );
        assert_eq!(data["other"], "kept");
        for (binding, subject) in
            [("kubeadm:cluster-admins", "Group"), ("kubeadm:apiserver-kubelet-client", "User")]
        {
            let found = api.get(&format!("{BOUND}/{binding}")).expect(binding);
            assert_eq!(found["subjects"][0]["kind"], subject);
        }
        assert_eq!(follow(&api, "v1.31.0").await, Ok(0), "nothing differs any more");
    }

    #[tokio::test]
    async fn d9_a_pass_that_ended_in_between_is_completed_by_the_next_one() {
        for write in 1..=3 {
            for side in [Crash::Before, Crash::After] {
                let api = workload();
                api.crash_at(Some((write, side)));
                follow(&api, "v1.31.0").await.unwrap_err();
                api.crash_at(None);
                follow(&api, "v1.31.0").await.unwrap();
                assert_eq!(follow(&api, "v1.31.0").await, Ok(0), "{write} {side:?}");
            }
        }
    }

    #[tokio::test]
    async fn d9_an_error_names_its_object() {
        let api = workload();
        api.put(KUBEADM, json!({"metadata": {}, "data": {}}));
        assert!(follow(&api, "v1.31.0").await.unwrap_err().contains("kubeadm-config has no key"));
        api.remove(KUBEADM);
        assert!(follow(&api, "v1.31.0").await.unwrap_err().contains("kubeadm-config does not exist"));
        let api = workload();
        api.silence(Some(KUBEADM));
        assert!(
            follow(&api, "v1.31.0").await.unwrap_err().starts_with("ConfigMap kube-system/kubeadm-config: ")
        );
    }

    #[test]
    fn d9_bindings_are_made_for_versions_whose_kubeadm_may_not_make_them() {
        for (version, expected) in [("v1.30.0", 2), ("v1.37.9", 2), ("v1.38.0", 0), ("v1.38.0-rc.1", 0)] {
            assert_eq!(needed_bindings(version).count(), expected, "{version}");
        }
    }
}
