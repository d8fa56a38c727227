//! Compatibility test with programs that use kube-rs: watch, reflect, apply, replace, patch and delete.

mod watches;
mod writes;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config, discovery};
use serde_json::json;

/// Longest time that a check may take on a busy machine.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the operations of programs that use kube-rs against Capstan, and prints the result of each
#[derive(Debug, Parser)]
struct Arguments {
    /// Kubeconfig for Capstan
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Namespace of the test objects; it must exist
    #[arg(long)]
    namespace: String,
}

/// Client and namespace of all checks.
struct CheckContext {
    client: Client,
    namespace: String,
    /// MachinePool: the only kind with a spec and a status that no controller of Capstan writes to.
    kind: ApiResource,
}

impl CheckContext {
    fn pools(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &self.kind)
    }

    fn pool(&self, name: &str) -> DynamicObject {
        let mut pool = DynamicObject::new(name, &self.kind).within(&self.namespace);
        pool.data = json!({"spec": {"clusterName": "none", "template": {"spec": {"clusterName": "none",
            "bootstrap": {"dataSecretName": "none"}, "infrastructureRef": {"kind": "OpenStackMachinePool",
                "apiGroup": "infrastructure.cluster.x-k8s.io", "name": name}}}}});
        pool
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        bail!("there is a crypto provider already");
    }
    let kubeconfig = Kubeconfig::read_from(&arguments.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    // The kind is found as by programs that have no types of their own.
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachinePool");
    let (resource, capabilities) = discovery::pinned_kind(&client, &kind).await?;
    anyhow::ensure!(
        capabilities.supports_operation(discovery::verbs::WATCH),
        "MachinePools cannot be watched"
    );
    let context = CheckContext { client, namespace: arguments.namespace, kind: resource };
    check("a watcher that lists in pages receives all changes", watches::listing(&context)).await?;
    check("a watcher that streams its list receives all changes", watches::streaming(&context)).await?;
    check("a watcher of metadata receives objects without their contents", watches::metadata(&context))
        .await?;
    check("a reflector's store has all objects", watches::reflected(&context)).await?;
    check(
        "server-side apply creates objects, reports conflicts, and takes over fields by force",
        writes::applies(&context),
    )
    .await?;
    check("replacing an object that changed is a conflict", writes::replaces(&context)).await?;
    check("status is patched by its own subresource alone", writes::status(&context)).await?;
    check("deletion waits for finalizers, and checks preconditions", writes::deletes(&context)).await
}

async fn check(name: &str, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let started = Instant::now();
    let done = tokio::time::timeout(CHECK_TIMEOUT, work).await.context("it did not finish in time").flatten();
    done.with_context(|| format!("FAILED: {name}"))?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(writeln!(std::io::stdout(), "ok      kube-rs: {name} ({seconds:.1} s)")?)
}

/// Deletes an object that an earlier run may have left.
async fn remove(pools: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    match pools.delete(name, &kube::api::DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
