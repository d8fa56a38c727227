//! Machines that become available and go without a cloud, in place of their controllers.

use apiserver_types::{
    Condition, ConditionStatus, KubeadmConfig, Machine, MachineDeployment, MachineStatus, OpenStackMachine,
    Time, set_condition,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// Annotation with the template of a server.
pub(crate) const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";

/// Annotation with the revision of that template.
pub(crate) const CLONED_FROM_REVISION: &str = "capstan.dev/cloned-from-revision";

/// Lists objects of a namespace.
pub(crate) async fn list<K>(client: &Client, namespace: &str) -> Vec<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    Api::<K>::namespaced(client.clone(), namespace).list(&ListParams::default()).await.unwrap().items
}

/// Makes every Machine of a namespace available, or lets it go if it is being deleted.
pub(crate) async fn proceed(client: &Client, namespace: &str) {
    let api: Api<Machine> = Api::namespaced(client.clone(), namespace);
    let servers: Api<OpenStackMachine> = Api::namespaced(client.clone(), namespace);
    let configs: Api<KubeadmConfig> = Api::namespaced(client.clone(), namespace);
    for machine in list::<Machine>(client, namespace).await {
        let name = machine.name_any();
        if machine.metadata.deletion_timestamp.is_some() {
            drop(servers.delete(&name, &DeleteParams::default()).await);
            drop(configs.delete(&name, &DeleteParams::default()).await);
            let change = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            api.patch(&name, &PatchParams::default(), &change).await.unwrap();
            continue;
        }
        let server = servers.get(&machine.spec.infrastructure_ref.name).await.unwrap();
        let config = configs.get_opt(&name).await.unwrap();
        let config = config.and_then(|it| it.annotations().get(CLONED_FROM_REVISION).cloned());
        let origin = [CLONED_FROM, CLONED_FROM_REVISION].map(|key| server.annotations().get(key).cloned());
        let is_current = (origin, config) == wanted_templates(client, namespace).await;
        let mut new = machine.clone();
        let status = new.status.get_or_insert_default();
        for kind in ["Ready", "Available", "NodeReady"] {
            set(status, kind, true, "");
        }
        set(status, "UpToDate", is_current, "* OpenStackMachine is not up-to-date");
        if new != machine {
            api.replace_status(&name, &PostParams::default(), &new).await.unwrap();
        }
    }
}

fn set(status: &mut MachineStatus, kind: &str, holds: bool, message: &str) {
    let (status_of, message) =
        if holds { (ConditionStatus::True, "") } else { (ConditionStatus::False, message) };
    let now = Time("2026-11-21T06:00:00Z".to_owned());
    let condition = Condition::new(kind, status_of, "Told", message, now);
    set_condition(status.conditions.get_or_insert_default(), condition);
}

/// Returns name and revision of the wanted infrastructure template, and the revision of the bootstrap template.
async fn wanted_templates(client: &Client, namespace: &str) -> ([Option<String>; 2], Option<String>) {
    let deployments: Vec<MachineDeployment> = list(client, namespace).await;
    let deployment = deployments.into_iter().find(|it| it.name_any() == "md").unwrap_or_default();
    let revision =
        |part: &str| deployment.annotations().get(&format!("capstan.dev/{part}-template-revision")).cloned();
    let name = deployment.spec.template.spec.infrastructure_ref.name.clone();
    ([Some(name), revision("infrastructure")], revision("bootstrap"))
}
