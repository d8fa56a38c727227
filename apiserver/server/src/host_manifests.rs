//! `capstan host manifests`.

use std::io::Write;

use anyhow::Context;
use apiserver_host::Options;
use apiserver_machinery::resource::Registry;
use serde_json::{Value, json};

use crate::assembly::Assembly;
use crate::cli::ManifestsArguments;
use crate::config;
use crate::pki::Authority;

/// Marks APIServices that kube-apiserver makes for CRDs.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Prints the objects as YAML documents.
pub(crate) fn run(arguments: &ManifestsArguments, assembly: &Assembly) -> anyhow::Result<()> {
    let data = config::data_directory(arguments.data_dir.as_deref())?;
    let authority = Authority::open(&data)?;
    let registry = assembly.registry()?;
    let options = Options {
        namespace: arguments.namespace.clone(),
        service: arguments.service.clone(),
        external_name: arguments.external_name.clone(),
        port: arguments.port,
        ca: authority.certificate().to_owned(),
        user: arguments.user.clone(),
        crds: true,
    };
    let mut objects = apiserver_host::manifests(&registry, &options);
    if let Some(kubeconfig) = &arguments.kubeconfig {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let taken = runtime.block_on(async {
            let client = apiserver_host::connect(kubeconfig).await?;
            taken(&client, &registry).await
        })?;
        objects.retain(|object| !belongs_to(object, &taken));
        explain(&taken, &apiserver_host::manifests(&registry, &options))?;
    }
    let mut out = std::io::stdout().lock();
    for object in objects {
        write!(out, "---\n{}", serde_saphyr::to_string(&object)?)?;
    }
    Ok(())
}

/// Group-versions of ours that the host serves from CRDs of its own.
async fn taken(client: &kube::Client, registry: &Registry) -> anyhow::Result<Vec<(String, String)>> {
    let mut taken = Vec::new();
    for (group, versions) in registry.groups() {
        for version in versions.into_iter().filter(|_| !group.is_empty()) {
            let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}");
            let request = http::Request::get(path).body(Vec::new())?;
            match client.request::<Value>(request).await {
                Ok(found) => {
                    let label = found.pointer("/metadata/labels").and_then(|labels| labels.get(AUTOMANAGED));
                    if label == Some(&json!("true")) {
                        taken.push((group.clone(), version));
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error).context("the host cannot be looked at"),
            }
        }
    }
    Ok(taken)
}

/// Whether an object must not be applied where these group-versions are taken.
fn belongs_to(object: &Value, taken: &[(String, String)]) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let spec =
        |field: &str| object.pointer(&format!("/spec/{field}")).and_then(Value::as_str).unwrap_or_default();
    match kind {
        "CustomResourceDefinition" => taken.iter().any(|(group, _)| group == spec("group")),
        "APIService" => {
            taken.iter().any(|(group, version)| group == spec("group") && version == spec("version"))
        }
        _ => false,
    }
}

/// Says how each is taken over and given back.
fn explain(taken: &[(String, String)], objects: &[Value]) -> anyhow::Result<()> {
    let mut out = std::io::stderr().lock();
    for (group, version) in taken {
        let name = format!("{version}.{group}");
        let ours = objects.iter().find(|object| {
            object.get("kind") == Some(&json!("APIService"))
                && object.pointer("/metadata/name") == Some(&json!(name))
        });
        let spec = ours.and_then(|object| object.get("spec")).cloned().unwrap_or_default();
        let patch = json!({"metadata": {"labels": {AUTOMANAGED: Value::Null}}, "spec": spec});
        writeln!(
            out,
            "the host already serves {group}/{version} from CRDs of its own, which are left out here.\n\
             To serve it through Capstan instead (its objects stay in the host, unseen):\n  \
             kubectl patch apiservice {name} --type=merge -p '{patch}'\n\
             To give it back:\n  kubectl delete apiservice {name}"
        )?;
    }
    Ok(())
}
