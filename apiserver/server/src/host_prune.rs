//! Command `capstan host prune-namespaces`: deletes the objects in namespaces that the host cluster does not have.
//!
//! If a namespace was deleted while the host could not reach Capstan, nothing deletes the objects in it: the host may have
//! been restored. With this command, an operator decides that they go. It is a client of the API.

mod plan;
#[cfg(test)]
mod tests;

use anyhow::{Context, ensure};
use apiserver_cli::ConnectionArguments;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use self::plan::{Found, HostedKind, Step};
use crate::assembly::Assembly;
use crate::cli::PruneNamespacesArguments;
use crate::output;

/// Path of HostStatus.
const HOST_STATUS: &str = "/apis/capstan.dev/v1alpha1/hoststatuses/host";

/// Prints the objects, and with `--yes` deletes those that can be deleted now.
///
/// # Errors
/// It is not certain which namespaces the host cluster has, a request fails, or the server refuses to delete an object.
pub(crate) fn run(arguments: &PruneNamespacesArguments, assembly: &Assembly) -> anyhow::Result<()> {
    let kinds = HostedKind::all(&assembly.registry());
    let connection = ConnectionArguments {
        namespace: None,
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (text, refusals) = runtime.block_on(async {
        let client = connection.client().await?;
        Box::pin(prune(&client, &kinds, arguments)).await
    })?;
    output::print(&text)?;
    ensure!(refusals.is_empty(), "the server refuses to delete {}", refusals.join("; "));
    Ok(())
}

/// Prunes the namespaces one by one. Returns the output, and the refusals with the server's reasons.
async fn prune(
    client: &Client,
    kinds: &[HostedKind],
    arguments: &PruneNamespacesArguments,
) -> anyhow::Result<(String, Vec<String>)> {
    let names = plan::namespaces(&host_status(client).await?, &arguments.namespaces, Timestamp::now())?;
    let (mut all, mut refusals) = (Vec::new(), Vec::new());
    for name in &names {
        let mut objects = plan::steps(objects(client, kinds, name).await?);
        if arguments.yes {
            // The host may have got the namespace back since.
            let status = host_status(client).await?;
            plan::namespaces(&status, std::slice::from_ref(name), Timestamp::now())?;
            ensure_absent(client, name).await?;
            refusals.append(&mut delete(client, &mut objects).await?);
        }
        all.append(&mut objects);
    }
    Ok((plan::text(&all, arguments.yes), refusals))
}

async fn host_status(client: &Client) -> anyhow::Result<Value> {
    let request = http::Request::get(HOST_STATUS).body(Vec::new())?;
    let object: Result<Value, kube::Error> = client.request(request).await;
    object.context("cannot read the object HostStatus, which exists only if host.kubeconfig is set")
}

/// Returns the objects in a namespace, in the order of the deletion.
async fn objects<'a>(
    client: &Client,
    kinds: &'a [HostedKind],
    namespace: &str,
) -> anyhow::Result<Vec<Found<'a>>> {
    let mut found = Vec::new();
    for kind in kinds {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource);
        let listed = match api.list_metadata(&ListParams::default()).await {
            // The server has another release than this program, and does not serve the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed,
        };
        let plural = &kind.resource.plural;
        let listed = listed.with_context(|| format!("cannot list {plural} in namespace {namespace}"))?;
        found.extend(listed.items.iter().map(|object| Found {
            kind,
            namespace: namespace.to_owned(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            has_owner: !object.owner_references().is_empty(),
            is_being_deleted: object.metadata.deletion_timestamp.is_some(),
        }));
    }
    Ok(found)
}

/// Checks that the API of the kubeconfig has no such namespace. On the direct endpoint it is one of Capstan's own store, and
/// through the host it is the host's.
async fn ensure_absent(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api.get_opt(name).await;
    let found = found.with_context(|| format!("cannot check that namespace {name} does not exist"))?;
    ensure!(found.is_none(), "namespace {name} exists again, so nothing in it was deleted");
    Ok(())
}

/// Requests the deletion of the objects that can be deleted now. One that was replaced since it was read stays. A refusal, as
/// of a protected object, does not keep the others. Returns the refusals.
async fn delete(client: &Client, objects: &mut [(Found<'_>, Step)]) -> anyhow::Result<Vec<String>> {
    let mut refusals = Vec::new();
    for (object, step) in objects.iter_mut().filter(|(_, step)| *step == Step::Delete) {
        let Found { kind, namespace, name, uid, .. } = &*object;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource);
        let preconditions = Preconditions { uid: Some(uid.clone()), resource_version: None };
        let params = DeleteParams::background().preconditions(preconditions);
        let kind = &kind.resource.kind;
        match api.delete(name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 409 | 422) => {
                *step = Step::Refused;
                refusals.push(format!("{kind} {namespace}/{name}: {}", status.message));
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("cannot delete {kind} {namespace}/{name}; run the command again")
                });
            }
        }
    }
    Ok(refusals)
}
