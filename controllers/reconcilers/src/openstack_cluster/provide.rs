//! Passes over objects that are not being deleted.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_infrastructure::{Cloud, ErrorClass};
use controllers_runtime::{Journal, OwnershipTag, ReconcileError, Severity, now, write_status};
use jiff::Timestamp;
use kube::{Api, ResourceExt};

use super::act::Actor;
use super::balancer::backends::{backends, replicas};
use super::balancer::{self, BalancerView};
use super::bastion::{self, Progress};
use super::decide::{self, Step};
use super::desired::{Desired, EndpointWish};
use super::drift::{self, Correction, Drift};
use super::observe::{self, Observed};
use super::report::{self, Ending};
use super::{
    BUILDING, DEGRADED, FINALIZER, OpenStackClusterReconciler, applied_rules, cluster_name,
    copied_credentials, expiry, gateway, quota_needs, rest, workload_notes, zones,
};
use crate::login::Login;
use crate::lost_calls::LostCalls;
use crate::preflight::QUOTA_EXCEEDED;
use crate::{applied_tags, project};

/// Interval in which a complete cluster is compared with the cloud. Upstream has the same. Looks at clusters at rest share
/// lists, and changes of the cluster's objects trigger passes anyway.
const RESYNC: Duration = Duration::from_mins(10);

/// Limit of the effects of one pass: more than the rules of any cluster, so that an endless loop ends.
const STEPS: usize = 512;

impl OpenStackClusterReconciler {
    /// Makes one pass over an object that is not being deleted: observes, decides and acts, and reports.
    pub(super) async fn provide(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        cluster: &Cluster,
        is_unchanged: bool,
    ) -> Result<Option<Duration>, ReconcileError> {
        crate::finalizers::add_with_tag(api, object, FINALIZER).await?;
        let tag = OwnershipTag::of(object);
        let desired = Desired::read(object, &cluster.name_any());
        let endpoint = object.spec.control_plane_endpoint.clone().unwrap_or_default();
        let endpoint = endpoint.host.map(|host| (host, endpoint.port.unwrap_or_default()));
        let mut observed = observe::begin(Journal::of(object), endpoint);
        observed.lost_calls = LostCalls::of(object);
        observed.lost_calls.enter(&self.context.term, &mut observed.journal, Timestamp::now());
        observed.bastion = bastion::find(&self.context.client, object, &cluster.name_any()).await?;
        if matches!(desired.endpoint, EndpointWish::LoadBalancer(_)) {
            let namespace = object.namespace().unwrap_or_default();
            let backends = backends(&self.context.client, &namespace, &cluster.name_any()).await?;
            observed.balancing = BalancerView::begin(object, backends);
            if !is_provisioned(object) {
                observed.balancing.replicas = replicas(&self.context, cluster).await?;
            }
        }
        let is_at_rest = is_unchanged && rest::is_at_rest(object, cluster, &observed);
        let result = self.work(api, object, (&desired, &tag), &mut observed, is_at_rest).await;
        if result.as_ref().is_err_and(|error| matches!(error, ReconcileError::Api(_))) {
            return result.map(|_| None);
        }
        self.report(api, object, &desired, &observed, &result).await?;
        match result {
            Err(ReconcileError::Waiting { reason: balancer::PENDING, .. }) => Ok(Some(BUILDING)),
            Ok(interval) if observed.bastion.progress != Progress::Settled => {
                Ok(Some(interval.min(DEGRADED)))
            }
            result => result.map(Some),
        }
    }

    /// Writes the status, and an Event if the credentials end soon.
    async fn report(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        desired: &Desired,
        observed: &Observed,
        result: &Result<Duration, ReconcileError>,
    ) -> Result<(), ReconcileError> {
        let ending = result.as_ref().map_or_else(Ending::Stopped, |_| Ending::Complete);
        let before = object.clone();
        // An outage says nothing about the resources; a name that matches nothing does.
        let unresolved = match result {
            Err(ReconcileError::Cloud(error)) => {
                matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous)
            }
            Err(ReconcileError::Waiting { .. }) => true,
            _ => false,
        };
        let login = match &observed.refused {
            Some(error) => Login::Earlier(error),
            None if observed.logged_in => Login::Done,
            None => Login::Failed(result.as_ref().err()),
        };
        report::report_login(object, &login, &now());
        match result {
            Err(error) if !observed.complete && !unresolved => report::report_stopped(object, error, &now()),
            _ => report::report(object, desired, observed, &ending, &now()),
        }
        let expiry = match &observed.credentials_expire_at {
            end if observed.logged_in => expiry::report(object, end.as_deref(), Timestamp::now(), &now()),
            _ => None,
        };
        copied_credentials::report(object, observed.credentials_age, &now());
        *object = write_status(api, &before, object).await?;
        if let Some(message) = expiry {
            self.context.events.record(object, Severity::Warning, expiry::EXPIRING, &message).await;
        }
        Ok(())
    }

    async fn work(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
        (desired, tag): (&Desired, &OwnershipTag),
        observed: &mut Observed,
        is_at_rest: bool,
    ) -> Result<Duration, ReconcileError> {
        let (namespace, identity) = (object.namespace().unwrap_or_default(), &object.spec.identity_ref);
        let (credentials, age) = self.context.credentials(&namespace, identity).await?;
        observed.credentials_age = age;
        let connection = self.context.connect_with(&namespace, identity, &credentials).await?;
        let cloud = connection.cloud;
        observed.logged_in = true;
        observed.refused = connection.refused;
        observed.credentials_expire_at = cloud.credentials_expire_at().map(str::to_owned);
        observed.project = project::check(object.annotations(), cloud.as_ref())?;
        observed.applied_rules = applied_rules::read(object);
        observed.applied_tags = applied_tags::of(object);
        observed.drift = Drift::of(object);
        let looks =
            rest::observe(&self.context.servers, &cloud, (desired, tag), observed, is_at_rest).await?;
        self.note_lost(object, desired, observed).await?;
        // Once for each change of the spec.
        if object.condition("Ready").is_none_or(|it| it.observed_generation != object.metadata.generation) {
            observed.warnings.extend(zones::unknown(object, observed));
        }
        observed.named_zones = zones::named(&self.context.client, object, observed).await?;
        self.reserve_quota(object, &cloud, desired, tag, observed).await?;
        let actor = Actor { api, cloud: &cloud, desired, tag, settings: &self.context.settings };
        let mut result = self.take_steps(&actor, object, observed).await;
        observed.warnings.extend(gateway::unreported(observed, &result));
        if !matches!(result, Err(ReconcileError::Api(_))) {
            let before = addresses(observed);
            let made = actor.work_on_bastion(object, observed).await;
            self.record_bastion(object, observed, made?).await;
            // The clients that may connect follow with the next pass.
            result = result.map(|interval| after_bastion(interval, before != addresses(observed)));
        }
        for (reason, message) in std::mem::take(&mut observed.warnings) {
            self.context.events.record(object, Severity::Warning, reason, &message).await;
        }
        self.preflight.settle(&cloud, &object.uid().unwrap_or_default()).await;
        if result.is_ok() && observed.bastion.progress == Progress::Settled {
            observed.lost_calls.clear();
        }
        actor.write_journal(object, observed).await?;
        // While Octavia changes a load balancer, passes follow each other in seconds.
        let is_settled = matches!(&result, Ok(interval) if *interval == RESYNC);
        if is_settled && observed.endpoint.is_some() {
            let cluster = cluster_name(object).unwrap_or_default();
            workload_notes::note(&self.context, object, &cluster, (desired, observed), (&cloud, &looks))
                .await?;
        }
        result
    }

    /// Decides and acts until nothing is left to do. Returns the interval after which the next pass is due.
    async fn take_steps(
        &self,
        actor: &Actor<'_>,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<Duration, ReconcileError> {
        for _ in 0..STEPS {
            let step = decide::next_step(actor.desired, actor.tag, observed);
            if step == Step::Nothing {
                // All resources were compared, so none has a tag of an earlier spec any more.
                observed.applied_tags.clear();
                let wishes = drift::wishes(actor.desired, actor.tag, observed);
                observed.drift.settle(object.metadata.generation.unwrap_or_default(), &wishes);
                drift::forget_old_members(observed);
            }
            if let Some(interval) = interval(&step, observed) {
                return Ok(interval);
            }
            let mut corrections = drift::of(&step, actor.desired, actor.tag, observed);
            corrections.retain(|correction| observed.drift.is_drift(correction));
            drift::forget_dependent(&step, observed);
            let earlier = std::mem::take(&mut observed.rules_read_otherwise);
            let was_refused = observed.gateway_refused.is_some();
            let made = actor.act(step, object, observed).await;
            let reads_otherwise = observed.rules_read_otherwise;
            observed.rules_read_otherwise |= earlier;
            let event = made?;
            if observed.gateway_refused.is_some() && !was_refused {
                // Nothing was corrected.
                continue;
            }
            if let Some(added) = observed.balancing.added_members.take() {
                // An old Octavia adds one member at a time. The next pass corrects the others.
                corrections.truncate(added);
            }
            // A rule that Neutron has in another notation was not corrected. Each group may have one.
            if corrections.is_empty() || reads_otherwise {
                if let Some((reason, message)) = event {
                    self.context.events.record(object, Severity::Normal, reason, &message).await;
                }
                continue;
            }
            self.record_corrections(object, observed, &corrections).await;
        }
        Err(crate::endless())
    }

    /// Counts corrections of what other clients changed, and records an Event for each.
    async fn record_corrections(
        &self,
        object: &OpenStackCluster,
        observed: &mut Observed,
        corrections: &[Correction],
    ) {
        for correction in corrections {
            let text = correction.text();
            self.context.events.record(object, Severity::Normal, drift::CORRECTED, &text).await;
            let fight = observed.drift.note(correction, Timestamp::now());
            observed.warnings.extend(fight.map(|message| (drift::FIGHT, message)));
        }
    }

    /// Reserves the quota of a cluster that is still to be created: before its first part, and again after the cloud has
    /// refused a part. The parts of an existing cluster do not wait for quota, because its other parts have to change.
    async fn reserve_quota(
        &self,
        object: &OpenStackCluster,
        cloud: &Arc<dyn Cloud>,
        desired: &Desired,
        tag: &OwnershipTag,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let begins = matches!(decide::next_step(desired, tag, observed), Step::Journal(_));
        let is_short = object.condition("Ready").is_some_and(|it| it.reason == QUOTA_EXCEEDED);
        if is_provisioned(object) || !(begins || is_short) {
            return Ok(());
        }
        let needs = quota_needs::needs(desired, observed);
        let attempt = format!("create cluster {:?}", desired.name);
        self.preflight.reserve(cloud, &object.uid().unwrap_or_default(), needs, &attempt).await
    }

    /// Records the Events of a bastion, and its failure.
    async fn record_bastion(
        &self,
        object: &OpenStackCluster,
        observed: &mut Observed,
        made: Vec<(&'static str, String)>,
    ) {
        for (reason, message) in made {
            self.context.events.record(object, Severity::Normal, reason, &message).await;
        }
        if let Progress::Waiting(reason, message) = &observed.bastion.progress
            && ["BastionCreateFailed", "FloatingIPError", "InstanceStateError"].contains(reason)
        {
            observed.warnings.push((*reason, message.clone()));
        }
    }
}

fn is_provisioned(object: &OpenStackCluster) -> bool {
    let initialization = object.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.provisioned) == Some(true)
}

/// Returns the addresses of the bastion.
fn addresses(observed: &Observed) -> Vec<String> {
    observed.bastion.addresses().cloned().collect()
}

/// Returns the interval after a pass, which is short if the bastion has another address.
fn after_bastion(interval: Duration, has_changed: bool) -> Duration {
    if has_changed { interval.min(BUILDING) } else { interval }
}

/// Returns the interval after a pass that ends before this step: the cluster is complete, or Octavia changes
/// its load balancer while that works. `None` if the step is to be made.
fn interval(step: &Step, observed: &Observed) -> Option<Duration> {
    let works = observed.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
    match step {
        Step::Nothing if observed.unresolvable.is_some() || observed.balancing.given_up.is_some() => {
            Some(DEGRADED)
        }
        Step::Nothing => Some(RESYNC),
        Step::Balance(balancer::Step::Wait { reason, .. }) if works => match *reason {
            balancer::PENDING | balancer::BEING_DELETED => Some(BUILDING),
            balancer::DEGRADED | balancer::STUCK => Some(DEGRADED),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of clients of a load balancer kept the old address for the ten minutes of a settled cluster.
    #[test]
    fn r8_19_a_new_address_of_the_bastion_makes_the_next_pass_due() {
        assert_eq!(after_bastion(RESYNC, false), RESYNC);
        assert_eq!(after_bastion(RESYNC, true), BUILDING);
    }
}
