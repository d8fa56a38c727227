//! OpenStackFloatingIPPool reconciler: floating IPs for IPAddressClaims.
//!
//! A pass reads the pool, its claims and addresses, and the floating IPs of the project. Then it decides and acts until
//! nothing is left to do. An address is reserved for a claim in the journal before its IPAddress exists, so that no
//! crash gives it to two claims.

mod act;
mod claims;
mod decide;
mod observe;
mod report;
mod watch;

use std::time::Duration;

use apiserver_types::OpenStackFloatingIPPool;
use controllers_runtime::{
    ControllerContext, ControllerSpec, OwnershipTag, PolicyRule, ReconcileError, Requeue, RequeuePolicy,
    Severity, now, paused, write_status,
};
use kube::{Api, ResourceExt};

use act::Actor;
use decide::{Observed, Step};

use crate::login::Login;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "openstackfloatingippool-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackfloatingippools", "openstackfloatingippools/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: PolicyRule::READ },
        PolicyRule {
            groups: &["ipam.cluster.x-k8s.io"],
            resources: &["ipaddressclaims", "ipaddressclaims/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["ipam.cluster.x-k8s.io"],
            resources: &["ipaddresses"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule::CREDENTIALS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Kind of the pools, as references name it.
pub(crate) const KIND: &str = "OpenStackFloatingIPPool";

/// Finalizer that keeps a pool until its floating IPs are released. Upstream's name.
const FINALIZER: &str = "openstackfloatingippool.infrastructure.cluster.x-k8s.io";

/// Finalizer that keeps an IPAddress until its floating IP is released. Upstream's name.
const ADDRESS_FINALIZER: &str = "openstackfloatingippool.infrastructure.cluster.x-k8s.io/delete-floating-ip";

/// Interval in which a pool is compared with the cloud.
const RESYNC: Duration = Duration::from_mins(5);

/// Limit of the effects of one pass, so that an endless loop ends: a pool hands out that many addresses at once.
const STEPS: usize = 1024;

/// Reconciler of OpenStackFloatingIPPools.
#[derive(Debug)]
pub struct OpenStackFloatingIPPoolReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
}

impl OpenStackFloatingIPPoolReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context, requeue: RequeuePolicy::default() }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in the status.
    pub async fn reconcile(&self, object: &OpenStackFloatingIPPool) -> Result<Requeue, kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<OpenStackFloatingIPPool> = Api::namespaced(self.context.client.clone(), &namespace);
        // The watch may be behind, so the object is read again.
        let Some(mut stored) = api.get_opt(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        if paused(&stored, None) {
            return Ok(Requeue::OnChange);
        }
        let result = Box::pin(self.pass(&api, &mut stored)).await;
        if let Err(ReconcileError::Cloud(error)) = &result {
            let events = &self.context.events;
            events.record(&stored, Severity::Warning, error.event_reason(), &error.to_string()).await;
        }
        // Claims and addresses are other objects, so a pass is never skipped: only its retry is put off.
        self.requeue.after(&stored, result, None)
    }

    async fn pass(
        &self,
        api: &Api<OpenStackFloatingIPPool>,
        object: &mut OpenStackFloatingIPPool,
    ) -> Result<Option<Duration>, ReconcileError> {
        let deleting = object.metadata.deletion_timestamp.is_some();
        if deleting && !object.finalizers().iter().any(|known| known == FINALIZER) {
            return Ok(None);
        }
        if deleting && crate::moved(object) {
            crate::finalizers::remove(api, object, FINALIZER).await?;
            return Ok(None);
        }
        if !deleting {
            crate::finalizers::add(api, object, FINALIZER).await?;
        }
        let mut observed = Observed::default();
        let result = self.work(api, object, &mut observed).await;
        if matches!(result, Err(ReconcileError::Api(_))) {
            return result.map(|()| None);
        }
        if let Err(error) = &result {
            let namespace = object.namespace().unwrap_or_default();
            claims::report_failure(&self.context.client, &namespace, &observed, error).await?;
        }
        let before = object.clone();
        report::report(object, &observed, result.as_ref().err(), &now());
        let failed = report::newly_failed(&before, object, &observed);
        *object = write_status(api, &before, object).await?;
        for message in failed {
            self.context.events.record(object, Severity::Warning, "FloatingIPNotFound", &message).await;
        }
        result?;
        if deleting && observed.addresses.is_empty() {
            crate::finalizers::remove(api, object, FINALIZER).await?;
            return Ok(None);
        }
        Ok(Some(RESYNC))
    }

    async fn work(
        &self,
        api: &Api<OpenStackFloatingIPPool>,
        object: &mut OpenStackFloatingIPPool,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let client = &self.context.client;
        observe::objects(client, object, &self.context.term, observed).await?;
        let connection = self.context.connect(&namespace, &object.spec.identity_ref).await?;
        observed.login = Login::of(connection.refused.as_ref()).condition(&now());
        let cloud = connection.cloud;
        let tag = OwnershipTag::of(object);
        observe::cloud(&cloud, object, &tag, observed).await?;
        let actor = Actor { api, client, cloud: &cloud, tag: &tag, namespace: &namespace };
        for _ in 0..STEPS {
            let step = decide::next_step(object, observed);
            if step == Step::Nothing {
                observed.lost_calls.clear();
                actor.write_lost_calls(object, observed).await?;
                return actor.report_claims(observed).await;
            }
            if let Some((reason, message)) = actor.act(step, object, observed).await? {
                self.context.events.record(object, Severity::Normal, reason, &message).await;
            }
        }
        Err(crate::endless())
    }
}
