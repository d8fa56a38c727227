//! Forecast of a plan: a maxSurge for which the quota of the project can never have room.
//!
//! A forecast reads the flavor and the quotas in the cloud. If that fails, it says so, and the plan does not fail.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apiserver_types::{
    Cluster, ContractVersionedObjectReference, IdentityType, OpenStackIdentityReference,
    OpenStackMachineTemplate,
};
use controllers_infrastructure::{Cloud, Quota, QuotaService};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::DynamicObject;
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::aggregate::one_line;
use crate::object_refs::is_of;
use crate::openstack_machine::{quota_needs, resolve};
use crate::openstack_machine_template;
use crate::preflight::Needs;

/// Error of a cloud that does not answer within the time of a forecaster.
const SILENT: &str = "the cloud did not answer in time";

/// Rollout with surplus Machines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surge<'a> {
    /// Reference to the template of the servers.
    pub reference: &'a ContractVersionedObjectReference,
    /// The template, if it exists.
    pub template: Option<&'a DynamicObject>,
    pub cluster: &'a Cluster,
    /// Desired number of Machines.
    pub replicas: i64,
    /// Most Machines above that number.
    pub most: i64,
}

/// Forecast of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// Sentence for people; `None` if all Machines can fit.
    pub line: Option<String>,
    /// Not even one surplus Machine can ever fit. Then there is a sentence.
    pub is_full: bool,
}

/// Project that some credentials belong to.
#[derive(Debug, Clone)]
struct Project {
    cloud: Arc<dyn Cloud>,
    /// Quotas of Nova.
    quotas: Vec<Quota>,
}

/// Credentials, and their project, or the error. For people.
type Known = (OpenStackIdentityReference, Result<Project, String>);

/// Credentials, a service beside Nova, and the quotas of the project there.
type Further = (OpenStackIdentityReference, QuotaService, Vec<Quota>);

/// Forecaster of one plan, whose objects are all in one namespace. It reads the quotas of a project once.
#[derive(Debug)]
pub(crate) struct Forecaster {
    /// Longest time of all reads in clouds. Without any, there is no forecast.
    longest: Duration,
    projects: Mutex<Vec<Known>>,
    further: Mutex<Vec<Further>>,
    /// End of the reads, which begin with the first forecast.
    end: OnceLock<Instant>,
}

impl Forecaster {
    /// Creates a forecaster that has read nothing. All its reads in clouds end after this time.
    pub(crate) fn within(longest: Duration) -> Self {
        Self { longest, projects: Mutex::default(), further: Mutex::default(), end: OnceLock::new() }
    }

    /// Returns the forecast of a rollout. It never fails: its sentence has the error.
    pub(crate) async fn forecast(&self, context: &ControllerContext, surge: Surge<'_>) -> Forecast {
        if self.longest.is_zero() || surge.most <= 0 || !is_of::<OpenStackMachineTemplate>(surge.reference) {
            return Forecast::default();
        }
        Box::pin(self.look(context, surge)).await.unwrap_or_else(|error| {
            let line = format!("maxSurge was not compared with the quota of the project: {error}");
            Forecast { line: Some(line), is_full: false }
        })
    }

    async fn look(&self, context: &ControllerContext, surge: Surge<'_>) -> Result<Forecast, String> {
        let Some(template) = surge.template.and_then(stored) else {
            let (name, version) = (&surge.reference.name, OpenStackMachineTemplate::api_version(&()));
            return Err(format!(
                "OpenStackMachineTemplate {name} does not exist yet, and its ClusterClass has it in another version than \
                 {version}"
            ));
        };
        let identity = openstack_machine_template::identity(&context.client, &template, surge.cluster).await;
        let Some(identity) = identity.map_err(|error| text(&error))? else {
            return Err("neither the template nor an OpenStackCluster names credentials".to_owned());
        };
        let end = *self.end.get_or_init(|| Instant::now() + self.longest);
        let namespace = template.namespace().unwrap_or_default();
        let project = self.project(context, &namespace, &identity, end).await?;
        let flavor = resolve::flavor(&project.cloud, &template.spec.template.spec.flavor);
        let flavor = timeout_at(end, flavor).await.map_err(|_| SILENT.to_owned())?;
        let flavor = flavor.map_err(|error| text(&error))?;
        let needs = quota_needs::of_template(&template, &flavor);
        let quotas = self.quotas(&project, &identity, &needs, end).await;
        Ok(forecast(&needs, &quotas, project.cloud.project(), (surge.replicas, surge.most)))
    }

    /// Returns the quotas of all services that some needs concern, each service read once. One that does not show its
    /// quotas limits nothing, except Nova, without which there is no project.
    async fn quotas(
        &self,
        project: &Project,
        identity: &OpenStackIdentityReference,
        needs: &Needs,
        end: Instant,
    ) -> Vec<Quota> {
        let mut quotas = project.quotas.clone();
        let mut known = self.further.lock().await;
        for service in needs.services().into_iter().filter(|service| *service != QuotaService::Compute) {
            if let Some((_, _, found)) = known.iter().find(|(of, it, _)| of == identity && *it == service) {
                quotas.extend(found.iter().cloned());
                continue;
            }
            let read = timeout_at(end, project.cloud.quotas(service)).await;
            let read = read.ok().and_then(Result::ok).unwrap_or_default();
            quotas.extend(read.iter().cloned());
            known.push((identity.clone(), service, read));
        }
        quotas
    }

    /// Connects to the project of some credentials, once for each.
    async fn project(
        &self,
        context: &ControllerContext,
        namespace: &str,
        identity: &OpenStackIdentityReference,
        end: Instant,
    ) -> Result<Project, String> {
        let mut known = self.projects.lock().await;
        if let Some((_, project)) = known.iter().find(|(it, _)| it == identity) {
            return project.clone();
        }
        let connecting = timeout_at(end, Box::pin(connect(context, namespace, identity)));
        let project = connecting.await.unwrap_or_else(|_| Err(SILENT.to_owned()));
        known.push((identity.clone(), project.clone()));
        project
    }
}

async fn connect(
    context: &ControllerContext,
    namespace: &str,
    identity: &OpenStackIdentityReference,
) -> Result<Project, String> {
    let cloud = context.cloud(namespace, identity).await.map_err(|error| refused(&error, identity))?;
    let quotas = cloud.quotas(QuotaService::Compute).await;
    let quotas = quotas.map_err(|error| text(&ReconcileError::from(error)))?;
    Ok(Project { cloud, quotas })
}

/// Returns the error of a connection for people. An error of the API names the Secret: that of a shared identity is in a
/// namespace that the reader of the plan may not see.
fn refused(error: &ReconcileError, identity: &OpenStackIdentityReference) -> String {
    if matches!(error, ReconcileError::Api(_)) && identity.kind == Some(IdentityType::ClusterIdentity) {
        tracing::debug!(identity = identity.name, %error, "the credentials of a plan cannot be read");
        return format!("the Secret of OpenStackClusterIdentity {} cannot be read here", identity.name);
    }
    text(error)
}

/// Returns a template with its content. The model of a topology has new templates of other versions without.
fn stored(template: &DynamicObject) -> Option<OpenStackMachineTemplate> {
    template.data.get("spec")?;
    serde_json::from_value(json!(template)).ok()
}

/// Returns an error for people, in one line.
pub(crate) fn text(error: &ReconcileError) -> String {
    let text = match error {
        ReconcileError::Api(kube::Error::Api(status)) => status.message.clone(),
        other => other.to_string(),
    };
    one_line(&text)
}

/// Compares the Machines of a rollout with the limits of a project, whatever else is in use there. Pure.
fn forecast(needs: &Needs, quotas: &[Quota], project: &str, (replicas, most): (i64, i64)) -> Forecast {
    let beyond = |count: i64| needs.beyond(count, quotas);
    let alone = beyond(replicas).map(|text| (format!("spec.replicas {replicas}"), text));
    let line = alone.or_else(|| {
        let text = beyond(replicas.saturating_add(most))?;
        Some((format!("spec.replicas {replicas} with maxSurge {most}"), text))
    });
    let within = if project.is_empty() { String::new() } else { format!("in project {project}, ") };
    let line = line.map(|(fields, text)| {
        format!("{fields} can never fit the quota: {within}{text}. Raise the quota, or lower the number")
    });
    Forecast { line, is_full: beyond(replicas.saturating_add(1)).is_some() }
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackMachineTemplateSpec;
    use controllers_infrastructure::Flavor;
    use http::{Request, Response, StatusCode};
    use kube::Client;
    use kube::client::Body;
    use kube::core::Status;

    use super::*;
    use crate::planner;

    fn quotas(cores: i64, instances: i64) -> Vec<Quota> {
        let quota = |resource: &str, limit| Quota { resource: resource.to_owned(), limit, used: 0 };
        vec![quota("cores", cores), quota("instances", instances), quota("ram", -1)]
    }

    #[test]
    fn only_numbers_beyond_the_limits_of_the_project_are_named() {
        let needs = quota_needs::of_server(&Flavor { vcpus: 4, ram_mib: 8192, ..Flavor::default() });
        let of = |quotas: &[Quota], numbers| forecast(&needs, quotas, "p", numbers);
        let fits = Forecast::default();
        assert_eq!(of(&quotas(24, -1), (5, 1)), fits, "whatever is in use now may go");
        assert_eq!(of(&[], (500, 1)), fits, "the cloud shows no limit");
        let never = "in project p, 6 of this size need 24 cores, which never fit into 23";
        let line = format!(
            "spec.replicas 5 with maxSurge 1 can never fit the quota: {never}. Raise the quota, or lower the number"
        );
        assert_eq!(of(&quotas(23, -1), (5, 1)), Forecast { line: Some(line), is_full: true });
        let most = of(&quotas(24, -1), (5, 3));
        assert!(most.line.is_some_and(|line| line.contains("8 of this size need 32 cores")) && !most.is_full);
        let alone = of(&quotas(-1, 4), (5, 1)).line.unwrap();
        assert!(alone.starts_with("spec.replicas 5 can never fit the quota: "), "{alone}");
        assert!(alone.contains("5 of this size need 5 instances, which never fit into 4"), "{alone}");
        let mut with_volumes = needs.clone();
        with_volumes.add(QuotaService::Volume, "per_volume_gigabytes", 100, "spec.rootVolume");
        let largest = Quota { resource: "per_volume_gigabytes".to_owned(), limit: 100, used: 0 };
        let of_volumes = |limit| forecast(&with_volumes, &[Quota { limit, ..largest.clone() }], "p", (5, 1));
        assert_eq!(of_volumes(100), fits, "it limits each volume, and not all of them");
        let line = of_volumes(99).line.unwrap();
        assert!(line.contains("each needs 100 per_volume_gigabytes, which never fit into 99"), "{line}");
        let unnamed = forecast(&needs, &quotas(0, 0), "", (1, 1)).line.unwrap();
        assert!(unnamed.contains("quota: 1 of this size need"), "{unnamed}");
    }

    fn template(kind: &str) -> (ContractVersionedObjectReference, DynamicObject) {
        let mut template = OpenStackMachineTemplate::new("t", OpenStackMachineTemplateSpec::default());
        template.metadata.namespace = Some("team".to_owned());
        let identity = OpenStackIdentityReference { name: "openrc".to_owned(), ..Default::default() };
        template.spec.template.spec.identity_ref = Some(identity);
        let reference = ContractVersionedObjectReference {
            api_group: "infrastructure.cluster.x-k8s.io".to_owned(),
            kind: kind.to_owned(),
            name: "t".to_owned(),
        };
        (reference, serde_json::from_value(json!(template)).unwrap())
    }

    fn without_secrets() -> ControllerContext {
        let refused = tower::service_fn(|_: Request<Body>| {
            let mut response = Response::new(Body::from(b"{}".to_vec()));
            *response.status_mut() = StatusCode::FORBIDDEN;
            async move { Ok::<_, kube::Error>(response) }
        });
        planner::context(Client::new(refused, "default"), Arc::default())
    }

    #[tokio::test]
    async fn a_project_that_cannot_be_reached_is_a_sentence_and_no_error() {
        let (context, cluster) = (without_secrets(), Cluster::default());
        let forecaster = Forecaster::within(Duration::from_secs(10));
        let (reference, object) = template("OpenStackMachineTemplate");
        let surge =
            Surge { reference: &reference, template: Some(&object), cluster: &cluster, replicas: 3, most: 1 };
        let found = forecaster.forecast(&context, surge).await;
        let line = found.line.clone().unwrap();
        assert!(line.starts_with("maxSurge was not compared with the quota of the project: "), "{line}");
        assert!(!found.is_full);
        assert_eq!(forecaster.forecast(&context, surge).await, found);
        assert_eq!(forecaster.projects.lock().await.len(), 1, "the failure is known");
        let without = forecaster.forecast(&context, Surge { most: 0, ..surge }).await;
        assert_eq!(without, Forecast::default(), "there is no surplus Machine");
        let (other, _) = template("DockerMachineTemplate");
        assert_eq!(forecaster.forecast(&context, Surge { reference: &other, ..surge }).await.line, None);
        let timeless = Forecaster::within(Duration::ZERO);
        assert_eq!(timeless.forecast(&context, surge).await, Forecast::default());
        assert!(timeless.projects.lock().await.is_empty(), "no cloud is read without time");
    }

    #[test]
    fn an_error_does_not_name_the_secret_of_a_shared_identity() {
        let status = Status::failure("secrets \"admin\" is forbidden", "Forbidden").with_code(403).boxed();
        let error = ReconcileError::Api(kube::Error::Api(status));
        let own = OpenStackIdentityReference { name: "i".to_owned(), ..Default::default() };
        assert_eq!(refused(&error, &own), "secrets \"admin\" is forbidden");
        let shared = OpenStackIdentityReference { kind: Some(IdentityType::ClusterIdentity), ..own };
        let text = refused(&error, &shared);
        assert_eq!(text, "the Secret of OpenStackClusterIdentity i cannot be read here");
    }

    #[tokio::test]
    async fn a_template_without_content_in_the_model_of_a_topology_is_named() {
        let (context, cluster) = (without_secrets(), Cluster::default());
        let (reference, mut object) = template("OpenStackMachineTemplate");
        object.data = json!({});
        let surge =
            Surge { reference: &reference, template: Some(&object), cluster: &cluster, replicas: 3, most: 1 };
        let forecaster = Forecaster::within(Duration::from_secs(10));
        let line = forecaster.forecast(&context, surge).await.line.unwrap();
        let words = "OpenStackMachineTemplate t does not exist yet, and its ClusterClass has it in another version than ";
        assert!(line.contains(words), "{line}");
    }
}
