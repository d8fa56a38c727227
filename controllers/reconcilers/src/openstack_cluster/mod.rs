//! OpenStackCluster: network, subnets, router, security groups and endpoint in OpenStack.
//!
//! A pass observes everything once, then decides and acts until nothing is left to do or something
//! stops it, noting each effect in what it has seen, and reports once. The journal is written before
//! anything is made. A pass that ends anywhere leaves a state from which the next finds its way: what
//! was made is found by its name and mark.

mod act;
mod decide;
mod delete;
mod desired;
mod observe;
mod report;
mod rules;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{Cloud, ErrorClass};
use controllers_runtime::{
    ControllerContext, ControllerSpec, Journal, OwnershipTag, PolicyRule, ReconcileError, Requeue,
    RequeuePolicy, Severity, now, paused, write_status,
};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use act::Actor;
use decide::Step;
use desired::Desired;
use observe::{Observed, Observer};
use report::Ending;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "openstackcluster-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters", "openstackclusters/status", "openstackmachines"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        PolicyRule::SECRETS,
    ],
    standalone_only: false,
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Keeps the object until what was made for it is gone; upstream's name.
pub(crate) const FINALIZER: &str = "openstackcluster.infrastructure.cluster.x-k8s.io";

/// How often a cluster that has everything is compared with the cloud.
const RESYNC: Duration = Duration::from_mins(5);

/// Annotation of infrastructure that somebody else manages.
const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

/// Effects in one pass: more than the rules of any cluster, so that an endless loop ends.
const STEPS: usize = 512;

/// Reconciles OpenStackClusters.
#[derive(Debug)]
pub struct OpenStackClusterReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
}

impl OpenStackClusterReconciler {
    /// A reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, requeue: RequeuePolicy::default() }
    }

    /// One pass. Says when to look again.
    ///
    /// # Errors
    /// When the API fails; troubles with the cloud stand in the status.
    pub async fn reconcile(&self, object: &OpenStackCluster) -> Result<Requeue, kube::Error> {
        let api = self.api(object);
        // The watch may be behind; what is acted on is asked for.
        let Some(mut stored) = api.get_opt(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        if let Some(remaining) = self.requeue.remaining(&stored) {
            return Ok(Requeue::After(remaining));
        }
        let result = Box::pin(self.pass(&api, &mut stored)).await;
        if let Err(trouble) = &result {
            self.tell(&stored, trouble).await;
        }
        self.requeue.after(&stored, result, None)
    }

    fn api(&self, object: &OpenStackCluster) -> Api<OpenStackCluster> {
        Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default())
    }

    async fn pass(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        let cluster = self.cluster(object).await?;
        if paused(object, cluster.as_ref()) || object.annotations().contains_key(MANAGED_BY) {
            return Ok(None);
        }
        match (object.metadata.deletion_timestamp.is_some(), cluster) {
            (true, _) => self.delete(api, object).await,
            (false, None) => Ok(None),
            (false, Some(cluster)) => self.provide(api, object, &cluster).await,
        }
    }

    /// The Cluster that owns it.
    async fn cluster(&self, object: &OpenStackCluster) -> Result<Option<Cluster>, ReconcileError> {
        let owner = object.owner_references().iter().find(|owner| owner.kind == "Cluster");
        let Some(owner) = owner else { return Ok(None) };
        let api: Api<Cluster> =
            Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default());
        Ok(api.get_opt(&owner.name).await?.filter(|cluster| cluster.uid().as_ref() == Some(&owner.uid)))
    }

    async fn provide(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        cluster: &Cluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        crate::finalizers::add(api, object, FINALIZER).await?;
        let mark = OwnershipTag::of(object);
        let wanted = Desired::read(object, &cluster.name_any());
        let endpoint = object.spec.control_plane_endpoint.clone().unwrap_or_default();
        let endpoint = endpoint.host.map(|host| (host, endpoint.port.unwrap_or_default()));
        let mut seen = observe::begin(Journal::of(object), endpoint);
        let result = self.work(api, object, &wanted, &mark, &mut seen).await;
        if result.as_ref().is_err_and(|trouble| matches!(trouble, ReconcileError::Api(_))) {
            return result.map(|()| None);
        }
        let ending = result.as_ref().map_or_else(Ending::Stopped, |()| Ending::Complete);
        let before = object.clone();
        // An outage says nothing of what is there; a name that matches nothing does.
        let unresolved = matches!(&result, Err(ReconcileError::Cloud(error))
            if matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous));
        match &result {
            Err(trouble) if !seen.looked && !unresolved => report::report_stopped(object, trouble, &now()),
            _ => report::report(object, &wanted, &seen, &ending, &now()),
        }
        *object = write_status(api, &before, object).await?;
        result.map(|()| Some(RESYNC))
    }

    async fn work(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        wanted: &Desired,
        mark: &OwnershipTag,
        seen: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let cloud = self.cloud(object).await?;
        Observer { cloud: &cloud, wanted, mark }.look(seen).await?;
        let actor = Actor { api, cloud: &cloud, wanted, mark };
        let mut result = Err(crate::endless());
        for _ in 0..STEPS {
            let step = decide::next_step(wanted, mark, seen);
            if step == Step::Nothing {
                result = Ok(());
                break;
            }
            match actor.act(step, object, seen).await {
                Ok(Some((reason, message))) => {
                    self.context.events.record(object, Severity::Normal, reason, &message).await;
                }
                Ok(None) => {}
                Err(trouble) => {
                    result = Err(trouble);
                    break;
                }
            }
        }
        actor.write_journal(object, seen).await?;
        result
    }

    async fn cloud(&self, object: &OpenStackCluster) -> Result<Arc<dyn Cloud>, ReconcileError> {
        self.context.cloud(&object.namespace().unwrap_or_default(), &object.spec.identity_ref).await
    }

    async fn delete(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }
        if !crate::moved(object) {
            let result = self.take_away(api, object).await;
            if let Err(trouble) = &result
                && !matches!(trouble, ReconcileError::Api(_))
            {
                let before = object.clone();
                report::report_stopped(object, trouble, &now());
                *object = write_status(api, &before, object).await?;
            }
            result?;
        }
        crate::finalizers::remove(api, object, FINALIZER).await?;
        Ok(None)
    }

    async fn take_away(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<(), ReconcileError> {
        self.machines_are_gone(object).await?;
        let mut seen = observe::begin(Journal::of(object), None);
        if seen.journal.entries().is_empty() {
            return Ok(());
        }
        let cloud = self.cloud(object).await?;
        let mark = OwnershipTag::of(object);
        let wanted = Desired::read(object, "");
        let observer = Observer { cloud: &cloud, wanted: &wanted, mark: &mark };
        let actor = Actor { api, cloud: &cloud, wanted: &wanted, mark: &mark };
        while let Some(entry) = delete::next_entry(&seen.journal) {
            if let Some(message) = delete::take_away(&observer, &entry).await? {
                self.context.events.record(object, Severity::Normal, "Deleted", &message).await;
                // There may be another, of a create whose answer never came: looked for again.
                continue;
            }
            seen.journal.strike(&entry.kind, &entry.name);
            actor.write_journal(object, &seen).await?;
        }
        Ok(())
    }

    /// Servers use the network, so they go first.
    async fn machines_are_gone(&self, object: &OpenStackCluster) -> Result<(), ReconcileError> {
        let Some(cluster) = object.labels().get(crate::CLUSTER_NAME_LABEL) else { return Ok(()) };
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<OpenStackMachine> = Api::namespaced(self.context.client.clone(), &namespace);
        let params = ListParams::default().labels(&format!("{}={cluster}", crate::CLUSTER_NAME_LABEL));
        // One without our finalizer has nothing in the cloud.
        let holds = |machine: &&OpenStackMachine| {
            machine.finalizers().iter().any(|finalizer| finalizer == crate::openstack_machine::FINALIZER)
        };
        let found = api.list(&params).await?;
        let left: Vec<String> = found.iter().filter(holds).map(ResourceExt::name_any).collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(ReconcileError::waiting(
            "WaitingForMachines",
            format!("waiting for OpenStackMachines to go: {}", left.join(", ")),
        ))
    }

    /// Tells of a trouble once; its repetitions count.
    async fn tell(&self, object: &OpenStackCluster, trouble: &ReconcileError) {
        if let ReconcileError::Cloud(error) = trouble {
            let events = &self.context.events;
            events.record(object, Severity::Warning, error.class.reason(), &error.to_string()).await;
        }
    }
}
