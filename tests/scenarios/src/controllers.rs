//! Simulated process of controllers, whose memory ends with it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use apiserver_access::User;
use apiserver_http::InProcess;
use apiserver_types::{
    Cluster, ClusterClass, Machine, MachineDeployment, MachineHealthCheck, MachineOperation, MachineSet,
    OpenStackCluster, OpenStackFloatingIPPool, OpenStackMachine, OpenStackMachineTemplate, OpenStackServer,
    OperationPhase,
};
use controllers_infrastructure::CloudConnector;
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use controllers_operations::OperationContext;
use controllers_reconcilers::cluster::{self, ClusterReconciler};
use controllers_reconcilers::cluster_class::{self, ClusterClassReconciler};
use controllers_reconcilers::cluster_topology::{self, ClusterTopologyReconciler};
use controllers_reconcilers::machine::{self, MachineReconciler};
use controllers_reconcilers::machine_deployment::{self, MachineDeploymentReconciler};
use controllers_reconcilers::machine_health_check::{self, MachineHealthCheckReconciler};
use controllers_reconcilers::machine_set::{self, MachineSetReconciler};
use controllers_reconcilers::openstack_cluster::{self, OpenStackClusterReconciler};
use controllers_reconcilers::openstack_floating_ip_pool::{self, OpenStackFloatingIPPoolReconciler};
use controllers_reconcilers::openstack_machine::{self, OpenStackMachineReconciler};
use controllers_reconcilers::openstack_machine_template::{self, OpenStackMachineTemplateReconciler};
use controllers_reconcilers::openstack_server::{self, OpenStackServerReconciler};
use controllers_runtime::{
    ApiSecrets, ControllerContext, ControllerSettings, NoEventHolds, Queues, Recorder, Requeue, ServerLists,
    SteadyClock, TermStart,
};
use controllers_workload::{KubeconfigConnector, WorkloadClusters};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use crate::crashing_cloud::CrashingConnector;
use crate::crashing_transport::CrashingTransport;
use crate::{Clock, CrashPoint, World};

/// Timeout of a wait. The simulated cloud is fast, but three lost answers in a row to a call that creates make the
/// provider look for their effects for 45 seconds. Then passes follow each other by their intervals of up to 30 seconds,
/// because no watch wakes them here. A busy machine once needed more than 120 seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// Advance of the operations' clock when a pass waits. An unknown outcome settles within minutes of that
/// clock, and an action in flight must not time out before the cloud has finished it.
const WAITED: Duration = Duration::from_secs(30);

/// Pause between rounds, in which the cloud proceeds.
const PAUSE: Duration = Duration::from_millis(3);

/// Controllers of one process. All are boxed, because tests hold several processes in one future.
pub struct Controllers {
    client: Client,
    cluster: Box<ClusterReconciler>,
    cluster_class: Box<ClusterClassReconciler>,
    cluster_topology: Box<ClusterTopologyReconciler>,
    machine: Box<MachineReconciler>,
    machine_set: Box<MachineSetReconciler>,
    machine_deployment: Box<MachineDeploymentReconciler>,
    machine_health_check: Box<MachineHealthCheckReconciler>,
    openstack_cluster: Box<OpenStackClusterReconciler>,
    openstack_machine: Box<OpenStackMachineReconciler>,
    openstack_machine_template: Box<OpenStackMachineTemplateReconciler>,
    openstack_server: Box<OpenStackServerReconciler>,
    pool: Box<OpenStackFloatingIPPoolReconciler>,
    operations: Box<controllers_operations::Controller>,
    clock: Arc<Clock>,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers").finish_non_exhaustive()
    }
}

impl Controllers {
    /// Creates a process that crashes at `crash_point`.
    pub fn start(world: &World, crash_point: &Arc<CrashPoint>) -> Self {
        Self::start_in(world, crash_point, TermStart::default())
    }

    /// Creates such a process in a term of its own.
    pub fn start_in(world: &World, crash_point: &Arc<CrashPoint>, term: TermStart) -> Self {
        Self::start_with(world, crash_point, term, ServerLists::default())
    }

    /// Creates a process whose intervals and ages this clock measures.
    pub fn start_at(world: &World, clock: SteadyClock) -> Self {
        let never = Arc::new(CrashPoint::never());
        Self::start_with(world, &never, TermStart::default(), ServerLists::with_clock(clock))
    }

    fn start_with(world: &World, crash_point: &Arc<CrashPoint>, term: TermStart, lists: ServerLists) -> Self {
        let own = || -> Arc<dyn CloudConnector> {
            Arc::new(OpenStackConnector::new(AllowedEndpoints::with_loopback()))
        };
        let connector = Arc::new(CrashingConnector {
            connector: world.connector.clone().unwrap_or_else(own),
            crash_point: Arc::clone(crash_point),
            known: tokio::sync::Mutex::default(),
        });
        let servers = Arc::new(lists);
        let workloads = Arc::new(WorkloadClusters::new(Arc::new(KubeconfigConnector::default())));
        let kinds = crate::running::kinds(&world.server);
        // A test makes passes when it wants to.
        let settings = Arc::new(ControllerSettings {
            health_check_distance: Duration::ZERO,
            ..(*world.settings).clone()
        });
        let context = |name: &'static str| {
            let client = client_of(world, crash_point, name);
            ControllerContext {
                connector: connector.clone(),
                secrets: Arc::new(ApiSecrets(client.clone())),
                servers: Arc::clone(&servers),
                workloads: Arc::clone(&workloads),
                events: Recorder::new(client.clone(), name),
                event_holds: Arc::new(NoEventHolds),
                queues: Queues::default(),
                kinds: Arc::clone(&kinds),
                settings: Arc::clone(&settings),
                term,
                client,
            }
        };
        let client = client_of(world, crash_point, controllers_operations::CONTROLLER.identity);
        let operations = OperationContext {
            connector: connector.clone(),
            secrets: Arc::new(ApiSecrets(client.clone())),
            workloads: Arc::clone(&workloads),
            clock: world.clock.clone(),
            queues: Queues::default(),
            term,
            client,
        };
        Self {
            client: world.admin(),
            cluster: Box::new(ClusterReconciler::new(context(cluster::CONTROLLER.identity))),
            cluster_class: Box::new(ClusterClassReconciler::new(context(cluster_class::CONTROLLER.identity))),
            cluster_topology: Box::new(ClusterTopologyReconciler::new(context(
                cluster_topology::CONTROLLER.identity,
            ))),
            machine: Box::new(MachineReconciler::new(context(machine::CONTROLLER.identity))),
            machine_set: Box::new(MachineSetReconciler::with_clock(
                context(machine_set::CONTROLLER.identity),
                wall_clock(world),
            )),
            machine_deployment: Box::new(MachineDeploymentReconciler::with_clock(
                context(machine_deployment::CONTROLLER.identity),
                wall_clock(world),
            )),
            machine_health_check: Box::new(MachineHealthCheckReconciler::with_clock(
                context(machine_health_check::CONTROLLER.identity),
                wall_clock(world),
            )),
            openstack_cluster: Box::new(OpenStackClusterReconciler::new(context(
                openstack_cluster::CONTROLLER.identity,
            ))),
            openstack_machine: Box::new(OpenStackMachineReconciler::new(context(
                openstack_machine::CONTROLLER.identity,
            ))),
            openstack_machine_template: Box::new(OpenStackMachineTemplateReconciler::new(context(
                openstack_machine_template::CONTROLLER.identity,
            ))),
            openstack_server: Box::new(OpenStackServerReconciler::new(context(
                openstack_server::CONTROLLER.identity,
            ))),
            pool: Box::new(OpenStackFloatingIPPoolReconciler::new(context(
                openstack_floating_ip_pool::CONTROLLER.identity,
            ))),
            operations: Box::new(controllers_operations::Controller::new(operations)),
            clock: Arc::clone(&world.clock),
        }
    }

    /// Makes rounds until `settled` returns true.
    ///
    /// # Errors
    /// The timeout, or the failure of a pass.
    pub async fn until<F>(&self, what: &str, settled: impl Fn(Client) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<bool>>,
    {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if settled(self.client.clone()).await? {
                return Ok(());
            }
            Box::pin(self.round()).await?;
            tokio::time::sleep(PAUSE).await;
        }
        bail!("timed out after {LIMIT:?}, waiting until {what}")
    }

    /// Makes one pass over every object.
    ///
    /// # Errors
    /// The failure of a pass.
    pub async fn round(&self) -> Result<(), kube::Error> {
        // Boxed: the future of a pass is large.
        Box::pin(self.reconcile_all()).await
    }

    /// Makes one pass over every MachineDeployment and every MachineSet.
    ///
    /// # Errors
    /// The failure of a pass.
    pub async fn round_of_sets(&self) -> Result<(), kube::Error> {
        let all = ListParams::default();
        for object in Api::<MachineDeployment>::all(self.client.clone()).list(&all).await? {
            Box::pin(self.machine_deployment.reconcile(&object)).await?;
        }
        for object in Api::<MachineSet>::all(self.client.clone()).list(&all).await? {
            Box::pin(self.machine_set.reconcile(&object)).await?;
        }
        Ok(())
    }

    /// Makes one pass over every MachineSet, all at the same time.
    ///
    /// # Errors
    /// The failure of a pass.
    pub async fn sets_at_once(&self) -> Result<(), kube::Error> {
        let sets = Api::<MachineSet>::all(self.client.clone()).list(&ListParams::default()).await?;
        let passes = sets.items.iter().map(|set| Box::pin(self.machine_set.reconcile(set)));
        futures::future::try_join_all(passes).await?;
        Ok(())
    }

    /// Makes one pass over every MachineHealthCheck.
    ///
    /// # Errors
    /// The failure of a pass.
    pub async fn round_of_health_checks(&self) -> Result<(), kube::Error> {
        let all = ListParams::default();
        for object in Api::<MachineHealthCheck>::all(self.client.clone()).list(&all).await? {
            Box::pin(self.machine_health_check.reconcile(&object)).await?;
        }
        Ok(())
    }

    /// Makes one pass over every ClusterClass.
    ///
    /// # Errors
    /// The failure of a pass.
    pub async fn round_of_classes(&self) -> Result<(), kube::Error> {
        for object in Api::<ClusterClass>::all(self.client.clone()).list(&ListParams::default()).await? {
            Box::pin(self.cluster_class.reconcile(&object)).await?;
        }
        Ok(())
    }

    /// Makes one pass over the topology of every Cluster.
    ///
    /// # Errors
    /// The failure of a pass.
    pub async fn round_of_topologies(&self) -> Result<(), kube::Error> {
        for object in Api::<Cluster>::all(self.client.clone()).list(&ListParams::default()).await? {
            Box::pin(self.cluster_topology.reconcile(&object)).await?;
        }
        Ok(())
    }

    /// Makes the passes that are due over the objects that are compared with the cloud at rest.
    ///
    /// # Errors
    /// The failure of a pass, and an object that is not settled.
    pub async fn passes_at_rest(&self) -> anyhow::Result<()> {
        let all = ListParams::default();
        let mut passes = Vec::new();
        for object in Api::<OpenStackCluster>::all(self.client.clone()).list(&all).await? {
            let requeue = Box::pin(self.openstack_cluster.reconcile(&object)).await?;
            passes.push((object.name_any(), requeue));
        }
        for object in Api::<OpenStackMachine>::all(self.client.clone()).list(&all).await? {
            let requeue = Box::pin(self.openstack_machine.reconcile(&object)).await?;
            passes.push((object.name_any(), requeue));
        }
        for object in Api::<OpenStackMachineTemplate>::all(self.client.clone()).list(&all).await? {
            let requeue = Box::pin(self.openstack_machine_template.reconcile(&object)).await?;
            passes.push((object.name_any(), requeue));
        }
        match passes.into_iter().find(|(_, requeue)| !matches!(requeue, Requeue::After(_))) {
            Some((name, requeue)) => bail!("{name} is not settled: {requeue:?}"),
            None => Ok(()),
        }
    }

    async fn reconcile_all(&self) -> Result<(), kube::Error> {
        let all = ListParams::default();
        self.round_of_topologies().await?;
        for object in Api::<Cluster>::all(self.client.clone()).list(&all).await? {
            self.cluster.reconcile(&object).await?;
        }
        for object in Api::<OpenStackCluster>::all(self.client.clone()).list(&all).await? {
            self.openstack_cluster.reconcile(&object).await?;
        }
        self.round_of_sets().await?;
        for object in Api::<Machine>::all(self.client.clone()).list(&all).await? {
            self.machine.reconcile(&object).await?;
        }
        for object in Api::<OpenStackMachine>::all(self.client.clone()).list(&all).await? {
            self.openstack_machine.reconcile(&object).await?;
        }
        for object in Api::<OpenStackServer>::all(self.client.clone()).list(&all).await? {
            self.openstack_server.reconcile(&object).await?;
        }
        for object in Api::<OpenStackFloatingIPPool>::all(self.client.clone()).list(&all).await? {
            self.pool.reconcile(&object).await?;
        }
        for object in Api::<MachineOperation>::all(self.client.clone()).list(&all).await? {
            self.reconcile_operation(&object).await?;
        }
        Ok(())
    }

    /// Makes one pass over an operation. A retired one is skipped: it waits for the end of its retention.
    async fn reconcile_operation(&self, object: &MachineOperation) -> Result<(), kube::Error> {
        if object.finalizers().is_empty() && is_over(object) {
            return Ok(());
        }
        match self.operations.pass(&object.namespace().unwrap_or_default(), &object.name_any()).await {
            Ok(Requeue::After(_) | Requeue::Retry(_)) => self.clock.advance(WAITED),
            Ok(Requeue::Now | Requeue::OnChange) => {}
            // The real loop makes another pass at once.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Returns the wall clock of a world, by which deadlines and periods end.
fn wall_clock(world: &World) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    let clock = Arc::clone(&world.clock);
    Arc::new(move || controllers_operations::Clock::now(&*clock))
}

/// Returns true if an operation is over.
pub fn is_over(operation: &MachineOperation) -> bool {
    let phase = operation.status.as_ref().and_then(|status| status.phase);
    matches!(phase, Some(OperationPhase::Complete | OperationPhase::Failed | OperationPhase::Cancelled))
}

/// Creates a client of one controller, whose writes go through the crash point.
pub(crate) fn client_of(world: &World, crash_point: &Arc<CrashPoint>, name: &str) -> Client {
    let transport = InProcess::new(Arc::clone(&world.server), User::controller(name));
    Client::new(CrashingTransport { transport, crash_point: Arc::clone(crash_point) }, "default")
}
