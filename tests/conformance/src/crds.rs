//! CRDs of the suite's kinds, for a real kube-apiserver.

use std::time::{Duration, Instant};

use anyhow::bail;
use apiserver_machinery::resource::Resource;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Map, Value, json};

use crate::client::{Client, ReceivedResponse};

/// Kinds of the product that cases are about, beside the Widget: `plural.group`.
const KINDS: [&str; 2] = ["clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io"];

/// Longest time that a server may take to serve a new CRD.
const SERVING_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns every kind of the suite. Of Capstan's own kinds it has the stored version only: the other versions
/// need a conversion webhook in a real kube-apiserver.
fn kinds() -> anyhow::Result<Vec<Resource>> {
    let product = apiserver_registry::registry();
    let chosen = product.resources().iter().filter(|resource| {
        resource.conversion.is_none() && KINDS.contains(&resource.qualified_plural().as_str())
    });
    let mut kinds = tests_widget::resources()?;
    kinds.extend(chosen.map(|resource| Resource::clone(resource)));
    Ok(kinds)
}

/// Returns one CRD for each kind, with its versions.
fn crds() -> anyhow::Result<Vec<Value>> {
    let mut crds: Vec<Value> = Vec::new();
    for kind in kinds()? {
        let name = kind.qualified_plural();
        let known = crds.iter_mut().find(|crd| crd.pointer("/metadata/name") == Some(&json!(name)));
        match known.and_then(|crd| crd.pointer_mut("/spec/versions")).and_then(Value::as_array_mut) {
            Some(versions) => versions.push(version(&kind)),
            None => crds.push(json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                // The group is protected: a CRD in it must carry this annotation.
                "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
                "spec": {"group": kind.group, "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
                    "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.singular,
                        "listKind": kind.list_kind(), "shortNames": kind.short_names, "categories": kind.categories},
                    "versions": [version(&kind)]}})),
        }
    }
    Ok(crds)
}

fn version(kind: &Resource) -> Value {
    let mut subresources = Map::new();
    if kind.status_subresource {
        subresources.insert("status".to_owned(), json!({}));
    }
    if let Some(scale) = &kind.scale {
        let mut paths =
            json!({"specReplicasPath": scale.spec_replicas, "statusReplicasPath": scale.status_replicas});
        if let (Some(paths), Some(selector)) = (paths.as_object_mut(), &scale.selector) {
            paths.insert("labelSelectorPath".to_owned(), json!(selector));
        }
        subresources.insert("scale".to_owned(), paths);
    }
    let columns = kind.columns.iter().map(|column| {
        json!({"name": column.name, "type": column.kind, "jsonPath": column.json_path,
            "priority": column.priority, "description": column.description})
    });
    let selectable = kind.selectable.iter().map(|path| json!({"jsonPath": format!(".{path}")}));
    let mut version = json!({"name": kind.version, "served": true, "storage": kind.conversion.is_none(),
        "schema": {"openAPIV3Schema": kind.schema.published()}, "subresources": subresources,
        "additionalPrinterColumns": columns.collect::<Vec<_>>(), "selectableFields": selectable.collect::<Vec<_>>()});
    if let (Some(version), Some(warning)) = (version.as_object_mut(), &kind.deprecation) {
        version.insert("deprecated".to_owned(), json!(true));
        version.insert("deprecationWarning".to_owned(), json!(warning));
    }
    version
}

/// Creates the suite's kinds as CRDs in a real kube-apiserver.
///
/// # Errors
/// Returns an error if the server refuses a CRD, or does not serve it in time.
pub async fn establish(client: &Client) -> anyhow::Result<()> {
    for crd in crds()? {
        post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await?;
    }
    served(client).await
}

/// Waits until every kind is served and published.
async fn served(client: &Client) -> anyhow::Result<()> {
    let end = Instant::now() + SERVING_TIMEOUT;
    for kind in kinds()? {
        let list = format!("/apis/{}/{}", kind.api_version(), kind.plural);
        let document = format!("/openapi/v3/apis/{}", kind.api_version());
        for path in [list, document] {
            while get(client, &path).await?.status != 200 {
                if Instant::now() > end {
                    bail!("{path} is not served within {} s", SERVING_TIMEOUT.as_secs());
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
    Ok(())
}

async fn get(client: &Client, path: &str) -> anyhow::Result<ReceivedResponse> {
    client.send(Request::get(path).header("host", "127.0.0.1").body(Full::new(Bytes::new()))?, None).await
}

async fn post(client: &Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let request = Request::post(path).header("host", "127.0.0.1").header("content-type", "application/json");
    let response = client.send(request.body(Full::new(Bytes::from(object.to_string())))?, None).await?;
    match response.status {
        201 | 409 => Ok(()),
        status => bail!("{path}: {status} {}", String::from_utf8_lossy(&response.body)),
    }
}
