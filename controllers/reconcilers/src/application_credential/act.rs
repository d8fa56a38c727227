//! Effects of the steps: calls of Keystone, writes of the record, and writes in the workload cluster.

use std::sync::Arc;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_infrastructure::{
    Cloud, CloudError, Credentials, ErrorClass, NetworkQuery, NewApplicationCredential,
};
use controllers_runtime::{ControllerContext, ReconcileError, Severity, read_credentials};
use controllers_workload::ClusterKey;
use jiff::Timestamp;
use kube::{Client, ResourceExt};

use super::cloud_conf::{CloudEntry, Networks};
use super::decide::{Facts, Step, next_step};
use super::record::{Held, prefix};
use super::settings::{ROLES, Settings};
use super::store::Stored;
use super::workload::{self, Files};

/// A pass over the credentials of one cluster.
pub(super) struct Actor<'a> {
    context: &'a ControllerContext,
    object: &'a OpenStackCluster,
    cloud: Arc<dyn Cloud>,
    entry: CloudEntry,
    stored: Stored,
    settings: Option<Settings>,
    workload: Option<Client>,
    ending: bool,
}

impl<'a> Actor<'a> {
    /// Logs in, and reads the record.
    pub(super) async fn begin(
        context: &'a ControllerContext,
        object: &'a OpenStackCluster,
        cluster: Option<&Cluster>,
        settings: Option<Settings>,
        ending: bool,
    ) -> Result<Self, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let identity = &object.spec.identity_ref;
        let secrets = context.secrets.as_ref();
        let credentials: Credentials =
            read_credentials(&context.client, secrets, &namespace, identity).await?;
        let connection = context.connect(&namespace, identity).await?;
        if let Some(refused) = connection.refused {
            // The earlier credentials still work. A rotation must begin with those that will last.
            return Err(refused.into());
        }
        let cloud = connection.cloud;
        let entry = CloudEntry::read(&credentials, cloud.region());
        let entry =
            entry.map_err(|text| CloudError::new(ErrorClass::Credentials, "read credentials", text))?;
        let key = cluster.map(|cluster| ClusterKey { namespace, name: cluster.name_any() });
        let workload = key.and_then(|key| context.workloads.client(&key).ok()).filter(|_| !ending);
        let stored = Stored::read(context, object).await?;
        Ok(Self { context, object, cloud, entry, stored, settings, workload, ending })
    }

    /// Observes, decides, and makes the effect of the step. Returns the step.
    pub(super) async fn step(&mut self) -> Result<Step, ReconcileError> {
        let facts = self.observe().await?;
        let step = next_step(&self.stored.record, &facts);
        Box::pin(self.act(&step, &facts)).await?;
        Ok(step)
    }

    async fn observe(&self) -> Result<Facts, ReconcileError> {
        let prefix = prefix(self.object);
        let mut known = self.cloud.application_credentials().await?;
        known.retain(|it| it.name.starts_with(&prefix));
        let files = self.files();
        let workload = match &self.workload {
            None => None,
            Some(client) => Some(workload::observe(client, files.as_ref()).await.map_err(failed)?),
        };
        Ok(Facts {
            wanted: self.settings.is_some(),
            ending: self.ending,
            source: self.entry.source.clone(),
            roles: self.settings.as_ref().map(|it| it.roles.clone()).unwrap_or_default(),
            user: self.cloud.user().to_owned(),
            known,
            workload,
            now: Timestamp::now(),
        })
    }

    async fn act(&mut self, step: &Step, facts: &Facts) -> Result<(), ReconcileError> {
        match step {
            Step::Plan => self.plan(facts).await,
            Step::Create => self.create(facts).await,
            Step::Adopt(id) => self.adopt(id, facts).await,
            Step::Prove => self.prove().await,
            Step::Deliver => self.deliver().await,
            Step::Restart => match (&self.workload, self.files()) {
                (Some(client), Some(files)) => workload::restart(client, &files).await.map_err(failed),
                _ => Ok(()),
            },
            Step::Revoke(held) => {
                if let Some(id) = &held.id {
                    self.revoke(id).await?;
                }
                self.forget(held).await
            }
            Step::Abandon(held) => {
                let message = format!(
                    "application credential {} (id {}) belongs to another user than that of the present credentials, \
                     and cannot be revoked. It ends at {}; that user can delete it before",
                    held.name,
                    held.id.as_deref().unwrap_or("unknown"),
                    held.expires_at
                );
                self.event(Severity::Warning, "ApplicationCredentialNotRevoked", &message).await;
                self.forget(held).await
            }
            Step::RevokeStray(id) => self.revoke(id).await,
            Step::Forget => {
                self.stored.record = Default::default();
                self.save("all application credentials are revoked").await
            }
            Step::Wait(why) => self.save(why).await,
            Step::Settled if self.stored.record.current.is_some() => self.save("delivered").await,
            Step::Settled => Ok(()),
        }
    }

    async fn plan(&mut self, facts: &Facts) -> Result<(), ReconcileError> {
        let Some(settings) = &self.settings else { return Ok(()) };
        let new = Held::new(self.object, &self.entry.source, facts.now, settings);
        let mut new = new.map_err(|text| CloudError::new(ErrorClass::Broken, "make a secret", text))?;
        let record = &mut self.stored.record;
        let others = record.next.iter().chain(&record.current).chain(&record.old);
        if others.clone().any(|it| it.name == new.name) || facts.known.iter().any(|it| it.name == new.name) {
            // Names have whole seconds. The next pass has another one.
            new.name.push_str("-2");
        }
        let former = record.next.replace(new);
        record.old.extend(former);
        self.save("a new application credential is made").await
    }

    async fn create(&mut self, facts: &Facts) -> Result<(), ReconcileError> {
        let Some(next) = &self.stored.record.next else { return Ok(()) };
        let new = NewApplicationCredential {
            name: next.name.clone(),
            secret: next.secret.clone(),
            description: format!("Cluster {}, made by Capstan", self.object.name_any()),
            expires_at: next.expires_at.to_string(),
            // Those of the record: a Cluster that has withdrawn since must not get more.
            roles: next.roles.clone(),
        };
        let created = self.cloud.create_application_credential(&new).await;
        let created = created.map_err(|error| with_remedy(error, &new))?;
        let message = format!("application credential {} is made; it ends at {}", new.name, new.expires_at);
        self.event(Severity::Normal, "ApplicationCredentialCreated", &message).await;
        self.adopt(&created.id, facts).await
    }

    async fn adopt(&mut self, id: &str, facts: &Facts) -> Result<(), ReconcileError> {
        if let Some(next) = &mut self.stored.record.next {
            next.id = Some(id.to_owned());
            next.user = Some(facts.user.clone());
        }
        self.save("the new application credential is tried").await
    }

    /// Logs in with the next credential, and makes a call. Only then it becomes the current one.
    async fn prove(&mut self) -> Result<(), ReconcileError> {
        let record = &self.stored.record;
        let Some((next, id)) = record.next.as_ref().and_then(|next| Some((next, next.id.as_ref()?))) else {
            return Ok(());
        };
        let credentials = self.entry.credentials(next, id);
        let attempt = || format!("use the new application credential {}", next.name);
        let cloud = self.context.connector.connect(&credentials).await;
        let cloud = cloud.map_err(|error| ReconcileError::from(error).during(attempt))?;
        let query = NetworkQuery { name: Some(next.name.clone()), ..NetworkQuery::default() };
        cloud.networks(&query).await.map_err(|error| ReconcileError::from(error).during(attempt))?;
        let record = &mut self.stored.record;
        let former = std::mem::replace(&mut record.current, record.next.take());
        record.old.extend(former);
        self.save("the new application credential is delivered").await
    }

    async fn deliver(&mut self) -> Result<(), ReconcileError> {
        let (Some(client), Some(files)) = (&self.workload, self.files()) else { return Ok(()) };
        let name = self.stored.record.current.as_ref().map(|it| it.name.clone()).unwrap_or_default();
        workload::deliver(client, &name, &files).await.map_err(failed)?;
        let message =
            format!("application credential {name} is in Secret kube-system/cloud-config of the cluster");
        self.event(Severity::Normal, "ApplicationCredentialDelivered", &message).await;
        Ok(())
    }

    async fn revoke(&self, id: &str) -> Result<(), ReconcileError> {
        match self.cloud.delete_application_credential(id).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => {
                let message = format!("application credential with id {id} is revoked");
                self.event(Severity::Normal, "ApplicationCredentialRevoked", &message).await;
                Ok(())
            }
        }
    }

    /// Takes a credential from the record.
    async fn forget(&mut self, held: &Held) -> Result<(), ReconcileError> {
        let record = &mut self.stored.record;
        let is_other = |it: &Held| it.name != held.name;
        record.old.retain(|it| is_other(it));
        record.next = record.next.take().filter(|it| is_other(it));
        record.current = record.current.take().filter(|it| is_other(it));
        self.save("old application credentials are revoked").await
    }

    /// Returns the content of the Secret in the workload cluster.
    fn files(&self) -> Option<Files> {
        let current = self.stored.record.current.as_ref()?;
        let status = self.object.status.as_ref();
        let external = status.and_then(|status| status.external_network.as_ref());
        let network = status.and_then(|status| status.network.as_ref());
        let subnets = network.and_then(|network| network.subnets.as_ref());
        let networks = Networks {
            external: external.map(|network| network.id.clone()),
            subnet: subnets.and_then(|subnets| Some(subnets.first()?.id.clone())),
            cluster: format!("{}-{}", self.object.namespace().unwrap_or_default(), self.object.name_any()),
        };
        Some(self.entry.files(current, current.id.as_deref()?, &networks))
    }

    async fn save(&mut self, state: &str) -> Result<(), ReconcileError> {
        self.stored.write(self.context, self.object, state).await
    }

    async fn event(&self, severity: Severity, reason: &str, message: &str) {
        self.context.events.record(self.object, severity, reason, message).await;
    }
}

fn failed(message: String) -> ReconcileError {
    ReconcileError::waiting("CloudConfigNotDelivered", message)
}

/// Names the credential in a refusal to make it, and adds the remedy.
fn with_remedy(error: CloudError, new: &NewApplicationCredential) -> CloudError {
    let roles = new.roles.join(", ");
    let remedy = match error.class {
        ErrorClass::Forbidden => {
            "The credentials of the cluster must be a password, or an unrestricted application credential, and the user \
             must have each named role"
                .to_owned()
        }
        // Keystone does not find the role, or not that the user has it.
        ErrorClass::Invalid | ErrorClass::NotFound if !roles.is_empty() => {
            format!("Name only roles of the user in annotation {ROLES} of the Cluster; it has {roles:?}")
        }
        _ => String::new(),
    };
    let mut message = error.message;
    if !remedy.is_empty() {
        message = format!("{}. {remedy}", message.trim_end_matches('.'));
    }
    let operation = format!("create application credential {}", new.name);
    CloudError { operation, message, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_credential_and_the_annotation_with_the_roles() {
        let of = |class: ErrorClass, roles: &[&str]| {
            let roles = roles.iter().map(|role| (*role).to_owned()).collect();
            let new = NewApplicationCredential {
                name: "n".to_owned(),
                roles,
                ..NewApplicationCredential::default()
            };
            let error =
                CloudError::new(class, "POST /users/u/application_credentials", "Could not find role: x.");
            with_remedy(error, &new).to_string()
        };
        let missing = "create application credential n: Could not find role: x";
        for class in [ErrorClass::Invalid, ErrorClass::NotFound] {
            assert_eq!(
                of(class, &["x", "y"]),
                format!(
                    "{missing}. Name only roles of the user in annotation {ROLES} of the Cluster; it has \"x, y\""
                )
            );
            assert_eq!(of(class, &[]), format!("{missing}."));
        }
        assert!(of(ErrorClass::Forbidden, &[]).contains("unrestricted application credential"));
    }
}
