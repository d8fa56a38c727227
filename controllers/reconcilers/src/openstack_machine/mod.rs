//! OpenStackMachine reconciler: a Nova server with its ports and volumes.
//!
//! A pass observes the server, and the other resources that the next step needs. Then it decides and
//! acts until nothing is left to do, it has to wait, or an error stops it. It reports once. A server that
//! was complete once is never created again: that is left to the Machine's owner. While a
//! MachineOperation has claimed the server, a pass only observes.

mod act;
mod anti_affinity;
mod bootstrap;
mod context;
mod decide;
mod delete;
mod delete_trunk;
mod desired;
mod failed_builds;
mod fixed_address;
mod membership;
mod new_port;
mod objects;
mod observe;
mod observe_endpoint;
mod pool_address;
mod provide;
mod provider_ids;
pub(crate) mod quota_needs;
mod remedies;
mod report;
mod requirements;
pub(crate) mod resolve;
mod rest;
mod server;
mod takeover;
mod watch;

use std::time::Duration;

use apiserver_types::OpenStackMachine;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, RequeuePolicy, Severity, now,
    paused,
};
use kube::ResourceExt;

use context::ReconcileContext;
use objects::ServerObjects;

use crate::login::Login;
use crate::lost_calls::LostCalls;
use crate::preflight::Preflight;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "openstackmachine-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters", "openstackmachines", "openstackmachines/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        // Upstream's records of servers, which are taken over.
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackservers"],
            verbs: &["get", "delete"],
        },
        // Their free addresses, which need no quota.
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackfloatingippools"],
            verbs: &["get"],
        },
        PolicyRule { groups: &["capstan.dev"], resources: &["machineoperations"], verbs: &["get"] },
        PolicyRule { groups: &[""], resources: &["configmaps"], verbs: &["get"] },
        PolicyRule {
            groups: &["ipam.cluster.x-k8s.io"],
            resources: &["ipaddressclaims"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule { groups: &["ipam.cluster.x-k8s.io"], resources: &["ipaddresses"], verbs: &["get"] },
        PolicyRule { groups: &["openstack.k-orc.cloud"], resources: &["images"], verbs: PolicyRule::READ },
        PolicyRule::CREDENTIALS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps the object until its cloud resources are deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io";

/// Interval in which a machine without a healthy Node is compared with the cloud. One shared list serves all machines.
const RESYNC: Duration = Duration::from_secs(30);

/// Interval of a resource that is being built.
const BUILDING: Duration = Duration::from_secs(2);

/// Reconciler of OpenStackMachines.
#[derive(Debug)]
pub struct OpenStackMachineReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
    preflight: Preflight,
    /// Held while a server group is looked up and created, with the create calls of groups whose answers were lost.
    /// Lost with the process; a pass of the next one looks once.
    groups: tokio::sync::Mutex<LostCalls>,
}

impl OpenStackMachineReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self {
            requeue: RequeuePolicy::with_clock(context.servers.clock().clone()),
            context,
            preflight: Preflight::default(),
            groups: tokio::sync::Mutex::default(),
        }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in the status.
    pub async fn reconcile(&self, object: &OpenStackMachine) -> Result<Requeue, kube::Error> {
        let objects = ServerObjects::machines(&self.context.client, &object.namespace().unwrap_or_default());
        self.reconcile_in(&objects, object).await
    }

    /// Has the next pass made although the last one was a moment ago.
    pub(crate) fn wake(&self, uid: &str) {
        self.requeue.forget(uid);
    }

    /// Makes one pass over an object of either kind.
    async fn reconcile_in<K: kube::Resource>(
        &self,
        objects: &ServerObjects,
        object: &K,
    ) -> Result<Requeue, kube::Error> {
        // The watch may be behind, so the object is read again.
        let Some(mut stored) = objects.get(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        if let Some(remaining) = self.requeue.remaining(&stored) {
            return Ok(Requeue::After(remaining));
        }
        let result = match objects {
            ServerObjects::Machines(_) => Box::pin(self.provide_or_delete(objects, &mut stored)).await,
            ServerObjects::Servers(api) => {
                Box::pin(self.provide_or_delete_server(objects, api, &mut stored)).await
            }
        };
        let result = match result {
            Err(error) => self.report_error(objects, &mut stored, error).await,
            result => result,
        };
        self.requeue.after(&stored, result, Some(BUILDING))
    }

    /// Reports the error that stopped a pass, in the status and in an Event.
    async fn report_error(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        error: ReconcileError,
    ) -> Result<Option<Duration>, ReconcileError> {
        if matches!(error, ReconcileError::Api(_)) {
            return Err(error);
        }
        let before = object.clone();
        // A pass that reached its report has written more than this.
        if object.condition("Ready").is_none_or(|ready| ready.message != error.to_string()) {
            report::report_stopped(object, &error, &now());
            report::add(object, Login::Failed(Some(&error)).condition(&now()));
            *object = objects.write_status(&before, object).await?;
        }
        if let ReconcileError::Cloud(error) = &error {
            self.warn(objects, object, error.event_reason(), &error.to_string()).await;
        }
        Err(error)
    }

    async fn provide_or_delete(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
    ) -> Result<Option<Duration>, ReconcileError> {
        let (cluster, infrastructure) = self.cluster(object).await?;
        if paused(object, cluster.as_ref()) {
            return Ok(None);
        }
        if object.metadata.deletion_timestamp.is_some() {
            let going = cluster.is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some());
            return self.delete(objects, object, infrastructure.as_ref(), going).await;
        }
        // As upstream: an object without an owner belongs to the client that created it, who may be
        // writing its status at this moment. The change that adds the owner starts the next pass.
        let Some(machine) = self.machine(object).await? else { return Ok(None) };
        let Some(cluster) = infrastructure else {
            return Err(ReconcileError::waiting(
                "WaitingForClusterInfrastructure",
                "the cluster has no OpenStackCluster yet",
            ));
        };
        objects.add_finalizer(object).await?;
        self.provide(objects, object, &ReconcileContext { machine, cluster, is_server: false }).await
    }

    /// Records a warning.
    async fn warn(&self, objects: &ServerObjects, object: &OpenStackMachine, reason: &str, message: &str) {
        objects.record(&self.context.events, object, Severity::Warning, reason, message).await;
    }
}
