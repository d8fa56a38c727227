//! One process of controllers: everything they remember ends with it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use apiserver_access::User;
use apiserver_http::InProcess;
use apiserver_types::{Cluster, Machine, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure_openstack::OpenStackConnector;
use controllers_reconcilers::cluster::ClusterReconciler;
use controllers_reconcilers::machine::MachineReconciler;
use controllers_reconcilers::open_stack_cluster::OpenStackClusterReconciler;
use controllers_reconcilers::open_stack_machine::OpenStackMachineReconciler;
use controllers_runtime::{ApiSecrets, ControllerContext, Recorder, ServerLists};
use kube::api::ListParams;
use kube::{Api, Client};

use crate::cut_cloud::CutConnector;
use crate::cut_door::CutDoor;
use crate::{Fuse, World};

/// Rounds until things must have settled; each is one pass over every object.
const ROUNDS: usize = 400;

/// Pause between rounds, in which the cloud moves on.
const PAUSE: Duration = Duration::from_millis(3);

/// The controllers of one process.
pub struct Controllers {
    client: Client,
    cluster: ClusterReconciler,
    machine: MachineReconciler,
    open_stack_cluster: OpenStackClusterReconciler,
    open_stack_machine: OpenStackMachineReconciler,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").finish_non_exhaustive()
    }
}

impl Controllers {
    /// A process whose effects go through `fuse`.
    pub fn start(world: &World, fuse: &Arc<Fuse>) -> Self {
        let connector = Arc::new(CutConnector {
            connector: Arc::new(OpenStackConnector::new()),
            fuse: Arc::clone(fuse),
            known: tokio::sync::Mutex::default(),
        });
        let servers = Arc::new(ServerLists::default());
        let context = |name: &'static str| {
            let user = User::authenticated(
                format!("system:capstan:{name}"),
                ["system:capstan:controllers".to_owned()],
            );
            let door = InProcess::new(Arc::clone(&world.server), user);
            let client = Client::new(CutDoor { door, fuse: Arc::clone(fuse) }, "default");
            ControllerContext {
                connector: connector.clone(),
                secrets: Arc::new(ApiSecrets(client.clone())),
                servers: Arc::clone(&servers),
                events: Recorder::new(client.clone(), name),
                client,
            }
        };
        Self {
            client: world.admin(),
            cluster: ClusterReconciler::new(context("cluster-controller")),
            machine: MachineReconciler::new(context("machine-controller")),
            open_stack_cluster: OpenStackClusterReconciler::new(context("openstackcluster-controller")),
            open_stack_machine: OpenStackMachineReconciler::new(context("openstackmachine-controller")),
        }
    }

    /// Works until `settled` says so.
    ///
    /// # Errors
    /// When it does not come to that, or a pass fails.
    pub async fn until<F>(&self, what: &str, settled: impl Fn(Client) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<bool>>,
    {
        for _ in 0..ROUNDS {
            if settled(self.client.clone()).await? {
                return Ok(());
            }
            self.round().await?;
            tokio::time::sleep(PAUSE).await;
        }
        bail!("not within {ROUNDS} rounds: {what}")
    }

    /// One pass over every object.
    async fn round(&self) -> Result<(), kube::Error> {
        let all = ListParams::default();
        for object in Api::<Cluster>::all(self.client.clone()).list(&all).await? {
            self.cluster.reconcile(&object).await?;
        }
        for object in Api::<OpenStackCluster>::all(self.client.clone()).list(&all).await? {
            self.open_stack_cluster.reconcile(&object).await?;
        }
        for object in Api::<Machine>::all(self.client.clone()).list(&all).await? {
            self.machine.reconcile(&object).await?;
        }
        for object in Api::<OpenStackMachine>::all(self.client.clone()).list(&all).await? {
            self.open_stack_machine.reconcile(&object).await?;
        }
        Ok(())
    }
}
