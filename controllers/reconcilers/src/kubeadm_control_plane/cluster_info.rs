//! The ConfigMap `cluster-info` of the workload cluster, from which a Node that joins learns the authority of the API
//! servers.
//!
//! kubeadm makes it once. While an authority is replaced by another one, the Secret has the certificates of both. A Node
//! that joins must trust both too, because the API servers get certificates of the new authority one after the other.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_workload::found;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::workload_settings::Change;

/// Namespace and name of the ConfigMap. Everyone may read it.
const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";

/// Key of the kubeconfig. Other keys are its signatures, which the workload cluster makes again by itself.
const KUBECONFIG: &str = "kubeconfig";

/// Returns the change that makes a joining Node trust these certificates. A cluster without the ConfigMap needs none: its
/// Nodes learn the authority in another way.
///
/// # Errors
/// The ConfigMap cannot be read or parsed. Names it, for people.
pub(super) async fn read(client: &Client, authority: &str) -> Result<Option<Change>, String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let info =
        found(api.get(NAME).await).map_err(|error| format!("ConfigMap {NAMESPACE}/{NAME}: {error}"))?;
    let Some(info) = info else { return Ok(None) };
    let Some(text) = info.data.as_ref().and_then(|data| data.get(KUBECONFIG)) else { return Ok(None) };
    let new = trusting(text, authority)
        .map_err(|error| format!("ConfigMap {NAMESPACE}/{NAME}, key {KUBECONFIG}: {error}"))?;
    Ok(new.map(|new| Change::Trust(new, info.resource_version())))
}

/// Writes the kubeconfig, unless another client has changed the ConfigMap.
///
/// # Errors
/// The call failed. Names the ConfigMap, for people.
pub(super) async fn write(client: &Client, kubeconfig: &str, revision: Option<&str>) -> Result<(), String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let change = json!({"metadata": {"resourceVersion": revision}, "data": {KUBECONFIG: kubeconfig}});
    let written = api.patch(NAME, &PatchParams::default(), &Patch::Merge(&change)).await;
    written.map(drop).map_err(|error| {
        format!("write ConfigMap {NAMESPACE}/{NAME}: {}", controllers_workload::describe(&error))
    })
}

/// Returns the kubeconfig with these certificates, unless it has them.
fn trusting(kubeconfig: &str, authority: &str) -> Result<Option<String>, String> {
    let mut config = Kubeconfig::from_yaml(kubeconfig).map_err(|error| error.to_string())?;
    let wanted = STANDARD.encode(authority);
    let mut differs = false;
    for cluster in config.clusters.iter_mut().filter_map(|it| it.cluster.as_mut()) {
        if cluster.certificate_authority_data.as_ref() != Some(&wanted) {
            cluster.certificate_authority_data = Some(wanted.clone());
            differs = true;
        }
    }
    if !differs {
        return Ok(None);
    }
    serde_saphyr::to_string(&config).map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_in_memory::FakeApi;

    const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

    /// Text as kubeadm writes it.
    fn info(authority: &str) -> String {
        let data = STANDARD.encode(authority);
        format!(
            "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {data}\n    server: https://192.0.2.1:6443\n  \
             name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {{}}\nusers: null\n"
        )
    }

    #[tokio::test]
    async fn a_second_certificate_of_the_authority_reaches_nodes_that_join() {
        let api = FakeApi::default();
        api.put(
            PATH,
            json!({"metadata": {}, "data": {KUBECONFIG: info("old"), "jws-kubeconfig-abcdef": "signed"}}),
        );
        assert_eq!(read(&api.client(), "old").await, Ok(None), "nothing differs");
        let Ok(Some(Change::Trust(text, revision))) = read(&api.client(), "new\nold").await else {
            panic!("no change");
        };
        write(&api.client(), &text, revision.as_deref()).await.unwrap();
        let data = api.get(PATH).unwrap()["data"].clone();
        let config = Kubeconfig::from_yaml(data[KUBECONFIG].as_str().unwrap()).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://192.0.2.1:6443"));
        assert_eq!(cluster.certificate_authority_data, Some(STANDARD.encode("new\nold")));
        assert_eq!(data["jws-kubeconfig-abcdef"], "signed");
        assert_eq!(read(&api.client(), "new\nold").await, Ok(None), "it is written once");
    }

    #[tokio::test]
    async fn a_cluster_without_the_object_needs_none_and_an_error_names_it() {
        let api = FakeApi::default();
        assert_eq!(read(&api.client(), "new").await, Ok(None));
        api.put(PATH, json!({"metadata": {}, "data": {KUBECONFIG: "clusters: 7"}}));
        let error = read(&api.client(), "new").await.unwrap_err();
        assert!(error.starts_with("ConfigMap kube-public/cluster-info, key kubeconfig: "), "{error}");
    }
}
