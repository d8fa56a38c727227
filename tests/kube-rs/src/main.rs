//! What programs written with kube-rs do to Capstan: watch, reflect, apply, replace, patch and delete.

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

/// Longest a check waits for something on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Does to Capstan what programs written with kube-rs do, and says of each thing whether it worked.
#[derive(Debug, Parser)]
struct Arguments {
    /// How to reach Capstan
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Where to work; must exist
    #[arg(long)]
    namespace: String,
}

/// Where a check works.
struct Lab {
    client: Client,
    namespace: String,
    /// MachinePool: of the kinds with a spec and a status the one that no controller of ours writes to.
    kind: ApiResource,
}

impl Lab {
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
    // As programs without types of their own find a kind.
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachinePool");
    let (resource, capabilities) = discovery::pinned_kind(&client, &kind).await?;
    anyhow::ensure!(
        capabilities.supports_operation(discovery::verbs::WATCH),
        "MachinePools cannot be watched"
    );
    let lab = Lab { client, namespace: arguments.namespace, kind: resource };
    check("a watcher that lists in pages sees what happens", watches::listing(&lab)).await?;
    check("a watcher that streams its list sees what happens", watches::streaming(&lab)).await?;
    check("a watcher of metadata sees objects without their contents", watches::metadata(&lab)).await?;
    check("a reflector's store holds what there is", watches::reflected(&lab)).await?;
    check("apply creates, is told of conflicts, and takes over by force", writes::applies(&lab)).await?;
    check("replacing an object that changed is a conflict", writes::replaces(&lab)).await?;
    check("status is patched by its own subresource alone", writes::status(&lab)).await?;
    check("deletion waits for finalizers, and honours preconditions", writes::deletes(&lab)).await
}

async fn check(name: &str, doing: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let started = Instant::now();
    let done = tokio::time::timeout(PATIENCE, doing).await.context("not in time").flatten();
    done.with_context(|| format!("FAILED: {name}"))?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(writeln!(std::io::stdout(), "ok      kube-rs: {name} ({seconds:.1} s)")?)
}

/// Deletes what an earlier run left under a name.
async fn remove(pools: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    match pools.delete(name, &kube::api::DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
