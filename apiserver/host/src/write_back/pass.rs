//! One pass over a Secret: observes it, its Cluster and its copy, and carries out one step.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::SecretWriteBack;
use super::decide::{self, Intent, OWNER, Step, cluster_of, intent, step};
use super::record::{CopyRecord, Key};
use super::schedule::{Outcome, Refusal};
use crate::connection::is_silence;
use crate::namespace_errors::{is_missing, is_terminating};

/// Field manager of the copies.
const MANAGER: &str = "capstan";

/// Time after which the record of a missing copy is removed, from the begin of the term and from the last create call
/// without an answer. Before, a create call of the former leader or of this one may still reach the host: requests end
/// after ten seconds, and the network or a host in an outage may hold one back for a while.
const SETTLED: Duration = Duration::from_secs(60);

/// State of a pass.
struct Pass {
    key: Key,
    /// Name of the Cluster.
    cluster: String,
    record: Option<CopyRecord>,
    secret: Option<Secret>,
    observed: Option<DynamicObject>,
}

impl SecretWriteBack {
    /// Compares a Secret with its copy, and notes the result.
    pub(super) async fn compare(&self, key: Key, cluster: String, record: Option<CopyRecord>) {
        let mut pass = Pass { key, cluster, record, secret: None, observed: None };
        let outcome = self.pass(&mut pass).await.unwrap_or_else(|error| {
            let (namespace, secret) = &pass.key;
            tracing::debug!(%error, namespace, secret, "a copy cannot be written; retrying");
            Outcome::Pending
        });
        if let Outcome::Refused(Refusal { message, .. }) = &outcome
            && pass.observed.is_none()
        {
            tracing::warn!(refusal = message, "the copy of a secret of a deleted cluster cannot be removed");
        }
        let refusals = {
            let mut schedule = self.schedule();
            schedule.finish(&pass.key, outcome, pass.record, pass.secret.is_some());
            schedule.refusals(&pass.key.0, &pass.cluster)
        };
        if let Some(cluster) = &pass.observed {
            self.report.report(cluster, &refusals.0, refusals.1).await;
        }
    }

    async fn pass(&self, pass: &mut Pass) -> Result<Outcome, kube::Error> {
        let (namespace, name) = pass.key.clone();
        let secret = Api::<Secret>::namespaced(self.own.clone(), &namespace).get_opt(&name).await?;
        pass.secret = secret.filter(|secret| cluster_of(secret).is_some());
        pass.observed = self.cluster(&namespace, &pass.cluster).await?;
        let Some(uid) = self.host.pin.uid() else { return Ok(Outcome::Pending) };
        if pass.record.as_ref().is_some_and(|record| record.host != uid) && !self.forget(pass).await {
            return Ok(Outcome::Pending);
        }
        let intent = intent(pass.secret.as_ref(), pass.observed.as_ref(), pass.record.as_ref());
        if intent == Intent::Nothing {
            return Ok(Outcome::Settled);
        }
        let host: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let copy = match self.host.limit.read(host.get_opt(&name)).await {
            // A host that starts, or was restored, may say so of any Secret.
            Ok(_) if !self.host.health.state().believes_absence() => return Ok(Outcome::Pending),
            Ok(copy) => copy,
            Err(error) => return self.refusal(&pass.key, error),
        };
        let step = step(intent, copy.as_ref(), pass.record.as_ref());
        self.act(pass, &host, step, copy).await
    }

    async fn act(
        &self,
        pass: &mut Pass,
        host: &Api<Secret>,
        step: Step,
        copy: Option<Secret>,
    ) -> Result<Outcome, kube::Error> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let written = match step {
            Step::Nothing => {
                let is_recorded = match &copy {
                    Some(copy) if is_of(copy, pass) => self.announce(pass, copy).await,
                    _ => true,
                };
                return Ok(if is_recorded { Outcome::Settled } else { Outcome::Pending });
            }
            Step::Refuse(message) => {
                return Ok(Outcome::Refused(Refusal { reason: "WriteBackRefused", message }));
            }
            Step::Forget => {
                let is_settled = self.is_settled(&pass.key) && self.forget(pass).await;
                return Ok(if is_settled { Outcome::Settled } else { Outcome::Pending });
            }
            Step::Remove => return self.remove(host, copy).await,
            Step::Create(copy) | Step::Replace(copy) if !self.announce(pass, &copy).await => {
                return Ok(Outcome::Pending);
            }
            Step::Create(copy) => self.create(&pass.key, host, &params, &copy).await,
            Step::Replace(copy) => self.host.limit.write(host.replace(&pass.key.1, &params, &copy)).await,
        };
        let written = match written {
            Ok(written) => written,
            Err(error) => return self.refusal(&pass.key, error),
        };
        // If the store does not take the uid, the next pass records it.
        let is_identified = self.identify(pass, &written).await;
        Ok(if is_identified { Outcome::Settled } else { Outcome::Pending })
    }

    /// Creates the copy. A host that does not answer may still create it.
    async fn create(
        &self,
        key: &Key,
        host: &Api<Secret>,
        params: &PostParams,
        copy: &Secret,
    ) -> Result<Secret, kube::Error> {
        let created = self.host.limit.write(host.create(params, copy)).await;
        if created.as_ref().is_err_and(is_silence) {
            // It stays until the record goes: a later call with an answer does not end this one.
            self.unanswered().insert(key.clone(), Instant::now());
        }
        created
    }

    /// Returns true if no create call of this leader or of the former one can reach the host any more.
    fn is_settled(&self, key: &Key) -> bool {
        let unanswered = self.unanswered().get(key).copied();
        unanswered.map_or(self.begun, |at| at.max(self.begun)).elapsed() >= SETTLED
    }

    /// Removes the copy as it was read. The next pass finds out that it is gone.
    async fn remove(&self, host: &Api<Secret>, copy: Option<Secret>) -> Result<Outcome, kube::Error> {
        let Some(copy) = copy else { return Ok(Outcome::Pending) };
        let preconditions = Preconditions { uid: copy.uid(), resource_version: copy.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let removed = self.host.limit.write(host.delete(&copy.name_any(), &params)).await;
        let key = (copy.namespace().unwrap_or_default(), copy.name_any());
        removed.map_or_else(|error| self.refusal(&key, error), |_| Ok(Outcome::Pending))
    }

    /// Records a copy before it is written. Returns false if the store does not take the record.
    async fn announce(&self, pass: &mut Pass, copy: &Secret) -> bool {
        let (namespace, name) = pass.key.clone();
        let (cluster, owner) = (pass.cluster.clone(), copy.labels().get(OWNER).cloned().unwrap_or_default());
        let (host, uid) = (self.host.pin.uid().unwrap_or_default(), copy.uid());
        let record = CopyRecord { namespace, name, cluster, owner, host, uid };
        self.record(pass, record).await
    }

    /// Adds the uid of a copy that was written to its record. Returns false if the store does not take it.
    async fn identify(&self, pass: &mut Pass, copy: &Secret) -> bool {
        let Some(record) = pass.record.clone() else { return true };
        self.record(pass, CopyRecord { uid: copy.uid(), ..record }).await
    }

    /// Writes a record, unless the store has it. Returns false if the store does not take it.
    async fn record(&self, pass: &mut Pass, record: CopyRecord) -> bool {
        let is_stored = pass.record.as_ref() == Some(&record) || self.records.write(&record).await;
        if is_stored {
            pass.record = Some(record);
        }
        is_stored
    }

    /// Removes the record. Returns false if the store does not answer.
    async fn forget(&self, pass: &mut Pass) -> bool {
        let Some(record) = &pass.record else { return true };
        let is_removed = self.records.remove(record).await;
        if is_removed {
            pass.record = None;
            self.unanswered().remove(&pass.key);
        }
        is_removed
    }

    async fn cluster(&self, namespace: &str, name: &str) -> Result<Option<DynamicObject>, kube::Error> {
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
        let kind = ApiResource::from_gvk_with_plural(&kind, "clusters");
        Api::namespaced_with(self.own.clone(), namespace, &kind).get_opt(name).await
    }

    /// Returns the result of a pass that the host has ended with an error: one that only a person can end, or the error.
    fn refusal(&self, key: &Key, error: kube::Error) -> Result<Outcome, kube::Error> {
        match &error {
            _ if !self.host.health.state().believes_absence() => Err(error),
            // There is no room for the copy. If the namespace comes later, the next comparison finds it.
            kube::Error::Api(status) if is_terminating(status) || is_missing(status, "secrets") => {
                Ok(Outcome::Settled)
            }
            kube::Error::Api(status) if status.code == 403 => {
                let message = forbidden(&key.0, status);
                Ok(Outcome::Refused(Refusal { reason: "WriteBackForbidden", message }))
            }
            kube::Error::Api(status) if matches!(status.code, 400 | 413 | 422) => {
                let message = unacceptable(key, status);
                Ok(Outcome::Refused(Refusal { reason: "WriteBackRefused", message }))
            }
            _ => Err(error),
        }
    }
}

/// Returns true if a copy has the label of the Cluster.
fn is_of(copy: &Secret, pass: &Pass) -> bool {
    let uid = pass.observed.as_ref().and_then(ResourceExt::uid);
    uid.is_some() && copy.labels().get(OWNER) == uid.as_ref()
}

fn unacceptable((namespace, name): &Key, status: &Status) -> String {
    format!(
        "The host cluster does not accept the copy of Secret {namespace}/{name}: {}. If it has an immutable Secret of this \
         name, delete that, and Capstan writes its copy there. Otherwise change the policy that refuses the copy",
        status.message
    )
}

fn forbidden(namespace: &str, status: &Status) -> String {
    format!(
        "{}. Apply the output of `capstan host manifests --write-secrets {namespace}`, or set the annotation {} of the \
         Cluster to none",
        status.message,
        decide::POLICY
    )
}
