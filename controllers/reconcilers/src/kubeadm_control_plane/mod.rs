//! KubeadmControlPlane reconciler: certificates, Machines that kubeadm makes a control plane of, and care for etcd.
//!
//! A pass observes, makes what a decision needs (certificates, kubeconfig, conditions of the Machines), decides on one
//! step, acts, and reports once. At most one Machine comes or goes at a time: members of etcd without a Machine go first,
//! then Machines that are being deleted, then unhealthy ones, then outdated ones, then the number is adjusted.

mod act;
mod add_ons;
mod adoption;
mod available;
mod balancer;
mod cause;
mod certificates;
mod cluster_info;
mod conditions_of_machines;
mod config;
mod connection;
mod core_dns;
mod create;
mod decide;
mod delete;
mod deprecated;
mod desired;
mod endpoint;
mod etcd;
mod etcd_members;
mod etcd_projection;
mod expiry;
mod health;
#[cfg(test)]
mod histories_tests;
mod hook;
mod in_place;
mod inspection;
mod join_stage;
mod kube_proxy;
mod learner_slot;
mod machine_conditions;
mod machine_conditions_v1beta1;
mod observe;
mod outdated;
#[cfg(test)]
mod outdated_tests;
#[cfg(test)]
mod pass_tests;
mod placement;
mod plan;
mod preflight;
mod remediate;
mod remediation;
mod remediation_record;
mod replica;
mod report;
mod rolling_out;
mod scaling;
mod surplus;
mod sync;
mod updaters;
mod watch;
mod workload_settings;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::KubeadmControlPlane;
use controllers_extensions::{READ_HANDLERS, READ_NAMESPACES};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, now, write_status,
};
use kube::{Api, ResourceExt};

use act::Actor;
pub(crate) use certificates::authority_of_old_kubeconfig;
use decide::Step;
use observe::Observed;
pub(crate) use plan::plan;
use report::Outcome;
use updaters::Updaters;

pub use etcd::EtcdConnector;

use crate::applied::Applied;
use crate::retries::Retries;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "kubeadmcontrolplane-controller",
    rules: &[
        PolicyRule {
            groups: &["controlplane.cluster.x-k8s.io"],
            resources: &["kubeadmcontrolplanes", "kubeadmcontrolplanes/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machinepools"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machines", "machines/status"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io"],
            resources: &["kubeadmconfigs"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackmachines"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackmachinetemplates"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule::WRITE_SECRETS,
        // Its Secrets are made again when they are gone. The source reports Namespaces, too.
        PolicyRule { groups: &[""], resources: &["secrets", "namespaces"], verbs: &["list", "watch"] },
        // Handlers of extension servers that update Machines in place, by the labels of Namespaces.
        READ_HANDLERS,
        READ_NAMESPACES,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a control plane until its Machines are deleted. Upstream's name.
const FINALIZER: &str = "kubeadm.controlplane.cluster.x-k8s.io";

/// Interval of a control plane that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(10);

/// Reconciler of KubeadmControlPlanes.
#[derive(Debug)]
pub struct KubeadmControlPlaneReconciler {
    context: ControllerContext,
    applied: Applied,
    etcd: Arc<dyn EtcdConnector>,
    credentials: etcd::Credentials,
    expiry_reads: expiry::Reads,
    retries: Retries,
    updaters: Updaters,
}

impl KubeadmControlPlaneReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self::with_etcd(context, Arc::new(etcd::ForwardedPorts))
    }

    /// Creates a reconciler that reaches etcd in another way than through forwarded ports.
    pub fn with_etcd(context: ControllerContext, etcd: Arc<dyn EtcdConnector>) -> Self {
        Self {
            context,
            applied: Applied::default(),
            etcd,
            credentials: etcd::Credentials::default(),
            expiry_reads: expiry::Reads::default(),
            retries: Retries::default(),
            updaters: Updaters::default(),
        }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &KubeadmControlPlane) -> Result<Requeue, kube::Error> {
        Requeue::after(Box::pin(self.pass(object)).await, WAITING)
    }

    async fn pass(&self, object: &KubeadmControlPlane) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<KubeadmControlPlane> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut control_plane) = api.get_opt(&object.name_any()).await? else {
            let uid = object.uid().unwrap_or_default();
            self.retries.forget(&uid);
            self.updaters.forget(&uid);
            return Ok(None);
        };
        // The Cluster's controller sets the owner reference, which is a change of this object.
        let Some(cluster) = observe::cluster(&self.context, &control_plane).await? else { return Ok(None) };
        let mut observed = observe::observe(&self.context, &control_plane, cluster).await?;
        let actor = Actor {
            context: &self.context,
            api: &api,
            applied: &self.applied,
            etcd: self.etcd.as_ref(),
            credentials: &self.credentials,
            expiry_reads: &self.expiry_reads,
            updaters: &self.updaters,
        };
        let outcome = actor.work(&mut control_plane, &mut observed).await;
        if matches!(outcome, Ok(Step::Ignore | Step::AddFinalizer)) {
            return outcome.map(|step| decide::interval(&step, false));
        }
        if outcome.as_ref().is_err_and(ReconcileError::is_conflict) {
            // The next pass begins with what the other client wrote; it follows at once.
            return outcome.map(|_| None);
        }
        let control_plane = self.report(&api, control_plane, &observed, &outcome).await?;
        let step = outcome?;
        if step == Step::Release {
            crate::finalizers::remove(&api, &control_plane, FINALIZER).await?;
        }
        let is_healthy = |kind| control_plane.condition(kind).is_some_and(|it| it.status != FALSE);
        let healthy = replica::initialized(&control_plane)
            && is_healthy(health::COMPONENTS)
            && replica::are_labelled(&observed.replicas);
        let failed = observed.workload.has_failed(replica::managed_etcd(&control_plane))
            || matches!(observed.add_ons, Some(Err(_)));
        let uid = control_plane.uid().unwrap_or_default();
        let interval = decide::interval(&step, healthy);
        let waits = [observed.remediation.wait, outdated::until_requested(&control_plane, observed.now)];
        let interval = interval.map(|it| waits.into_iter().flatten().fold(it, Duration::min));
        Ok(self.retries.after(&uid, failed, interval))
    }

    async fn report(
        &self,
        api: &Api<KubeadmControlPlane>,
        control_plane: KubeadmControlPlane,
        observed: &Observed,
        outcome: &Outcome,
    ) -> Result<KubeadmControlPlane, ReconcileError> {
        let mut new = control_plane.clone();
        match outcome {
            Ok(Step::Pause) => report::pause(&mut new, observed, &now()),
            _ => report::report(&mut new, observed, outcome, &now()),
        }
        write_status(api, &control_plane, &new).await
    }
}

/// Status of a condition that does not hold.
const FALSE: apiserver_types::ConditionStatus = apiserver_types::ConditionStatus::False;
