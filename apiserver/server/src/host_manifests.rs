//! Command `capstan host manifests`: the objects with which a host cluster serves Capstan's API groups.

mod providers;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use apiserver_admission::{GROUP, HostConfigurations, KINDS};
use apiserver_host::Options;
use apiserver_machinery::resource::Registry;
use serde_json::{Value, json};

use crate::assembly::Assembly;
use crate::cli::ManifestsArguments;
use crate::config;
use crate::output;
use crate::pki::{self, Authority};

/// Label of APIServices that kube-apiserver creates for CRDs.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Prints the objects as YAML documents, or writes them as providers for clusterctl.
pub(crate) fn run(arguments: &ManifestsArguments, assembly: &Assembly) -> anyhow::Result<()> {
    let data = config::data_directory(arguments.data_dir.as_deref())?;
    let ca = authority(&data)?;
    let registry = assembly.registry();
    let options = Options {
        namespace: arguments.namespace.clone(),
        service: arguments.service.clone(),
        external_name: arguments.external_name.clone(),
        port: arguments.port,
        ca,
        user: arguments.user.clone(),
        definitions: apiserver_registry::definitions(&registry, apiserver_registry::Serving::Elsewhere),
        mirror: arguments.mirror,
        one_namespace: arguments.providers.is_some(),
        policy_parameters: arguments.policy_parameters.clone(),
        write_secrets: arguments.write_secrets.clone(),
        write_ca_bundle: arguments.write_ca_bundle,
        write_crds: arguments.write_crds,
        create_namespaces: arguments.create_namespaces,
    };
    let mut objects = apiserver_host::manifests(&registry, &options);
    if let Some(kubeconfig) = &arguments.kubeconfig {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut served, left_out) = runtime.block_on(async {
            let client = apiserver_host::connect(kubeconfig).await?;
            anyhow::Ok((served_by_crds(&client, &registry).await?, replaced(&client).await?))
        })?;
        // No provider has clusterctl's inventory.
        served.retain(|(group, _)| arguments.providers.is_none() || !providers::is_inventory(group));
        objects.retain(|object| !belongs_to(object, &served));
        explain(&served, &apiserver_host::manifests(&registry, &options))?;
        explain_replaced(&left_out)?;
    }
    match &arguments.providers {
        Some(directory) => providers::write(directory, &objects),
        None => Ok(output::print(&documents(&objects)?)?),
    }
}

/// Returns the objects as YAML documents.
fn documents<'a>(objects: impl IntoIterator<Item = &'a Value>) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(text)
}

/// Returns the certificates of the CA that the host will trust. If the directory has none, creates one and prints a warning, because the user
/// may have named the wrong directory.
fn authority(data: &Path) -> anyhow::Result<String> {
    let is_new = Authority::is_missing(data);
    if is_new {
        Authority::open(data)?;
        writeln!(
            std::io::stderr().lock(),
            "{} held no CA. A new one was created there, and the manifests make the host trust only that CA.\n\
             Start the server with --data-dir {0}. If a server already runs, these manifests do not match it:\n\
             run this command again with the --data-dir of that server.",
            data.display()
        )?;
    }
    // After a rotation the file has the certificates of several CAs, and no key is beside it.
    pki::read(&data.join("pki/ca.crt"))
}

/// Returns Capstan's group-versions that the host already serves from its own CRDs.
async fn served_by_crds(client: &kube::Client, registry: &Registry) -> anyhow::Result<Vec<(String, String)>> {
    let mut served = Vec::new();
    for (group, versions) in registry.groups() {
        for version in versions.into_iter().filter(|_| !group.is_empty()) {
            let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}");
            let request = http::Request::get(path).body(Vec::new())?;
            match client.request::<Value>(request).await {
                Ok(found) => {
                    let label = found.pointer("/metadata/labels").and_then(|labels| labels.get(AUTOMANAGED));
                    if label == Some(&json!("true")) {
                        served.push((group.clone(), version));
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).context("cannot read the APIServices of the host"),
            }
        }
    }
    Ok(served)
}

/// Returns the host's admission configurations of providers that Capstan replaces, as `Kind/name`. A user who may not
/// read them sees none.
async fn replaced(client: &kube::Client) -> anyhow::Result<Vec<String>> {
    let mut objects = Vec::new();
    for (kind, plural) in KINDS {
        let request = http::Request::get(format!("/apis/{GROUP}/v1/{plural}")).body(Vec::new())?;
        let mut found = match client.request::<Value>(request).await {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => continue,
            Err(error) => return Err(error).context("cannot read the admission configurations of the host"),
        };
        let items = found["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        objects.extend(items.into_iter().map(|mut item| {
            item["kind"] = json!(kind);
            item
        }));
    }
    Ok(HostConfigurations::of(objects).left_out)
}

/// Prints which admission configurations of the host do not apply to Capstan's kinds.
fn explain_replaced(left_out: &[String]) -> std::io::Result<()> {
    if left_out.is_empty() {
        return Ok(());
    }
    let mut out = std::io::stderr().lock();
    writeln!(
        out,
        "these configurations belong to providers that Capstan replaces. Their rules are part of Capstan, so it never \
         calls them, also with host.admission: mirror:"
    )?;
    left_out.iter().try_for_each(|name| writeln!(out, "  {name}"))
}

/// Reports whether an object belongs to one of these group-versions, so that it must not be applied.
fn belongs_to(object: &Value, served: &[(String, String)]) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let spec =
        |field: &str| object.pointer(&format!("/spec/{field}")).and_then(Value::as_str).unwrap_or_default();
    match kind {
        "CustomResourceDefinition" => served.iter().any(|(group, _)| group == spec("group")),
        "APIService" => {
            served.iter().any(|(group, version)| group == spec("group") && version == spec("version"))
        }
        _ => false,
    }
}

/// Prints, for each group-version, how to switch it to Capstan and back.
fn explain(served: &[(String, String)], objects: &[Value]) -> anyhow::Result<()> {
    let mut out = std::io::stderr().lock();
    for (group, version) in served {
        let name = format!("{version}.{group}");
        let ours = objects.iter().find(|object| {
            object.get("kind") == Some(&json!("APIService"))
                && object.pointer("/metadata/name") == Some(&json!(name))
        });
        let spec = ours.and_then(|object| object.get("spec")).cloned().unwrap_or_default();
        let patch = json!({"metadata": {"labels": {AUTOMANAGED: Value::Null}}, "spec": spec});
        writeln!(
            out,
            "the host already serves {group}/{version} from its own CRDs, so its manifests are left out.\n\
             To switch it to Capstan (objects of the CRDs stay stored in the host, but are not visible):\n  \
             kubectl patch apiservice {name} --type=merge -p '{patch}'\n\
             To switch it back to the CRDs:\n  kubectl delete apiservice {name}"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
