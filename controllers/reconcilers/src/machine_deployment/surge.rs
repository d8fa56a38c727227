//! Room in the project for a surplus Machine. A rollout looks for it before it makes one that it can do without.
//!
//! Only a rollout with maxUnavailable above 0 can do without. If the cloud does not show its quotas, the rollout makes
//! the Machine, which then waits for quota by itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apiserver_types::{MachineDeployment, OpenStackMachineTemplate};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::ResourceExt;
use serde_json::json;

use super::observe::Observed;
use crate::object_refs::is_of;
use crate::openstack_machine::{quota_needs, resolve};
use crate::openstack_machine_template;
use crate::preflight::Preflight;

/// Age up to which an answer is used again, and interval in which a rollout without room looks again.
pub(super) const AGE: Duration = Duration::from_secs(30);

/// Timeout of one look at the cloud.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Answer of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    at: Instant,
    shortage: Option<String>,
}

/// Answers about the room for surplus Machines.
#[derive(Debug, Default)]
pub(super) struct Surge {
    preflight: Preflight,
    /// By uid of the MachineDeployment.
    answers: Mutex<HashMap<String, Answer>>,
}

impl Surge {
    /// Returns why the project has no room for one more Machine; `None` if it has, or if the cloud does not say.
    pub(super) async fn shortage(
        &self,
        context: &ControllerContext,
        deployment: &MachineDeployment,
        observed: &Observed,
    ) -> Option<String> {
        let (uid, at) = (deployment.uid().unwrap_or_default(), Instant::now());
        if let Some(known) = self.known(&uid, at) {
            return known.shortage;
        }
        let look = Box::pin(self.look(context, deployment, observed));
        let shortage = match tokio::time::timeout(TIMEOUT, look).await {
            Ok(Ok(shortage)) => shortage,
            Ok(Err(error)) => {
                tracing::debug!(deployment = %deployment.name_any(), %error, "room for surge not read");
                None
            }
            Err(_) => None,
        };
        self.note(uid, Answer { at, shortage: shortage.clone() });
        shortage
    }

    async fn look(
        &self,
        context: &ControllerContext,
        deployment: &MachineDeployment,
        observed: &Observed,
    ) -> Result<Option<String>, ReconcileError> {
        let (Some(template), Some(cluster)) = (template(deployment, observed), &observed.cluster) else {
            return Ok(None);
        };
        let identity = openstack_machine_template::identity(&context.client, &template, cluster).await?;
        let Some(identity) = identity else { return Ok(None) };
        let namespace = deployment.namespace().unwrap_or_default();
        let cloud = context.cloud(&namespace, &identity).await?;
        let listed = context.servers.at_rest(&cloud);
        let flavor = resolve::flavor(&listed, &template.spec.template.spec.flavor).await?;
        let needs = quota_needs::of_template(&template, &flavor);
        let most = i64::from(deployment.spec.replicas.unwrap_or(1)).saturating_add(1);
        let shortage = self.preflight.lacks(&cloud, &needs, most).await;
        Ok(shortage.map(|text| match cloud.project() {
            "" => text,
            project => format!("in project {project}, {text}"),
        }))
    }

    /// Returns the last answer if it is not too old.
    fn known(&self, uid: &str, now: Instant) -> Option<Answer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(uid).filter(|it| now.saturating_duration_since(it.at) < AGE).cloned()
    }

    /// Keeps an answer, and forgets those that are too old.
    fn note(&self, uid: String, answer: Answer) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|_, it| answer.at.saturating_duration_since(it.at) < AGE);
        answers.insert(uid, answer);
    }
}

/// Returns the infrastructure template if Machines of OpenStack are made from it.
fn template(deployment: &MachineDeployment, observed: &Observed) -> Option<OpenStackMachineTemplate> {
    if !is_of::<OpenStackMachineTemplate>(&deployment.spec.template.spec.infrastructure_ref) {
        return None;
    }
    let found = observed.templates.iter().find(|it| it.field == "infrastructureRef")?;
    serde_json::from_value(json!(found.object)).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use apiserver_types::{
        Cluster, MachineDeploymentSpec, OpenStackIdentityReference, OpenStackMachineTemplateSpec,
    };
    use controllers_runtime::ApiSecrets;
    use http::{Request, Response, StatusCode};
    use kube::Client;
    use kube::api::DynamicObject;
    use kube::client::Body;

    use super::super::template_revisions::Template;
    use super::*;
    use crate::planner;

    fn deployment(kind: &str) -> MachineDeployment {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.metadata.namespace = Some("team".to_owned());
        deployment.metadata.uid = Some("u".to_owned());
        let reference = &mut deployment.spec.template.spec.infrastructure_ref;
        reference.api_group = "infrastructure.cluster.x-k8s.io".to_owned();
        (reference.kind, reference.name) = (kind.to_owned(), "t".to_owned());
        deployment
    }

    fn observed() -> Observed {
        let mut template = OpenStackMachineTemplate::new("t", OpenStackMachineTemplateSpec::default());
        let identity = OpenStackIdentityReference { name: "openrc".to_owned(), ..Default::default() };
        template.spec.template.spec.identity_ref = Some(identity);
        let object: DynamicObject = serde_json::from_value(json!(template)).unwrap();
        let templates = vec![Template { field: "infrastructureRef", object }];
        Observed { cluster: Some(Cluster::default()), templates, ..Observed::default() }
    }

    #[test]
    fn only_templates_of_openstack_have_a_flavor() {
        let kind = |kind: &str| template(&deployment(kind), &observed()).is_some();
        assert!(kind("OpenStackMachineTemplate"));
        assert!(!kind("DockerMachineTemplate"));
        assert!(template(&deployment("OpenStackMachineTemplate"), &Observed::default()).is_none());
    }

    #[test]
    fn an_answer_is_used_for_half_a_minute() {
        let (surge, begin) = (Surge::default(), Instant::now());
        let answer = |at| Answer { at, shortage: Some("short".to_owned()) };
        surge.note("a".to_owned(), answer(begin));
        let just_before = begin + Duration::from_secs(29);
        assert_eq!(surge.known("a", just_before), Some(answer(begin)));
        assert_eq!(surge.known("b", begin), None);
        assert_eq!(surge.known("a", begin + AGE), None);
        surge.note("b".to_owned(), answer(begin + AGE));
        assert_eq!(surge.answers.lock().unwrap().len(), 1, "old answers are dropped");
    }

    #[tokio::test]
    async fn credentials_that_cannot_be_read_are_no_shortage_and_are_not_read_again_at_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let refused = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut response = Response::new(Body::from(b"{}".to_vec()));
            *response.status_mut() = StatusCode::FORBIDDEN;
            async move { Ok::<_, kube::Error>(response) }
        });
        let client = Client::new(refused, "default");
        let secrets = Arc::new(ApiSecrets(client.clone()));
        let context = ControllerContext { secrets, ..planner::context(client, Arc::default()) };
        let (surge, deployment) = (Surge::default(), deployment("OpenStackMachineTemplate"));
        assert_eq!(surge.shortage(&context, &deployment, &observed()).await, None);
        let first = calls.load(Ordering::Relaxed);
        assert!(first > 0, "the Secret is read");
        assert_eq!(surge.shortage(&context, &deployment, &observed()).await, None);
        assert_eq!(calls.load(Ordering::Relaxed), first);
    }
}
