//! Secret `kubeadm-certs` of the workload cluster: the certificates of the cluster, encrypted for one Machine that joins
//! the control plane. With it, the Machine's user data has no private key.

use std::collections::BTreeMap;

use apiserver_types::{Cluster, KubeadmConfig, Machine};
use controllers_bootstrap::token::{self, Token};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};

use super::report::DATA;
use super::stop::{Failure, Part};
use super::tokens;

/// Annotation of a Cluster. With the value `true`, Machines that join the control plane fetch the certificates.
const OPT_IN: &str = "capstan.dev/certificates-by-key";

/// Name of the Secret, by kubeadm.
const NAME: &str = "kubeadm-certs";

/// Name of the permission to read the Secret, by kubeadm.
const PERMISSION: &str = "kubeadm:kubeadm-certs";

/// Name of the binding for a group that is not kubeadm's.
const OTHER_GROUP: &str = "capstan:attested-join:kubeadm-certs";

/// Annotation of the Secret with name and uid of the Machine that it is for.
const HOLDER: &str = "capstan.dev/machine";

/// Time for the join of a Machine, from its user data on. kubeadm's own Secret of this name lives for 2 hours; this one
/// is deleted by a pass that may come 5 minutes later. A Machine that is rebuilt has no limit: its operation has one.
const LIMIT: SignedDuration = SignedDuration::from_mins(115);

/// Returns true if a Machine has not joined in time. Its Secret is deleted, and not made again.
pub(super) fn is_late(config: &KubeadmConfig, machine: &Machine, now: Timestamp) -> bool {
    let ready = config.condition(DATA).filter(|it| it.holds());
    let since = ready.and_then(|it| it.last_transition_time.0.parse::<Timestamp>().ok());
    !tokens::rejoins(machine) && since.is_some_and(|since| now.duration_since(since) >= LIMIT)
}

/// Returns true if the Machines of a Cluster fetch the certificates, instead of finding them in their user data.
pub(super) fn is_wanted(cluster: &Cluster) -> bool {
    cluster.annotations().get(OPT_IN).is_some_and(|value| value == "true")
}

/// Access to the Secret for one Machine.
pub(super) struct Upload<'a> {
    /// Client of the workload cluster.
    pub client: Client,
    pub machine: &'a Machine,
    /// Machines of the namespace.
    pub machines: Api<Machine>,
    /// Group of the joining node.
    pub group: String,
}

impl Upload<'_> {
    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), token::NAMESPACE)
    }

    fn holder(&self) -> String {
        format!("{}/{}", self.machine.name_any(), self.machine.uid().unwrap_or_default())
    }

    /// Reports whether the Secret is for this Machine.
    pub(super) async fn is_there(&self) -> Result<bool, Failure> {
        let known = self.secrets().get_opt(NAME).await.map_err(failed)?;
        Ok(known.is_some_and(|known| known.annotations().get(HOLDER) == Some(&self.holder())))
    }

    /// Creates the Secret and the permission to read it. What another Machine still needs is not replaced.
    pub(super) async fn create(
        &self,
        data: BTreeMap<String, ByteString>,
        token: &Token,
    ) -> Result<(), Failure> {
        self.permit().await?;
        let secrets = self.secrets();
        if let Some(known) = secrets.get_opt(NAME).await.map_err(failed)? {
            self.wait_for_other(&known).await?;
            self.delete_known(&known).await?;
        }
        let of_token = secrets.get_opt(&token.secret_name()).await.map_err(failed)?;
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(token::NAMESPACE.to_owned()),
                annotations: Some([(HOLDER.to_owned(), self.holder())].into()),
                // The Secret is deleted with the token, whatever becomes of the Machine.
                owner_references: of_token.as_ref().and_then(owner).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..Secret::default()
        };
        secrets.create(&PostParams::default(), &secret).await.map(drop).map_err(failed)
    }

    /// Deletes the Secret of this Machine.
    pub(super) async fn delete(&self) -> Result<(), Failure> {
        let known = self.secrets().get_opt(NAME).await.map_err(failed)?;
        match known.filter(|known| known.annotations().get(HOLDER) == Some(&self.holder())) {
            Some(known) => self.delete_known(&known).await,
            None => Ok(()),
        }
    }

    async fn delete_known(&self, known: &Secret) -> Result<(), Failure> {
        let preconditions = Preconditions { uid: known.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.secrets().delete(NAME, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop).map_err(failed),
        }
    }

    /// Ends the pass while another Machine needs the Secret.
    async fn wait_for_other(&self, known: &Secret) -> Result<(), Failure> {
        let holder = known.annotations().get(HOLDER);
        let Some((name, uid)) = holder.and_then(|holder| holder.split_once('/')) else { return Ok(()) };
        let other = self.machines.get_opt(name).await?;
        let other = other.filter(|it| it.uid().as_deref() == Some(uid) && it.uid() != self.machine.uid());
        match other.filter(|it| !tokens::is_over(it)) {
            Some(other) => {
                let message = format!("Machine {} fetches the certificates first", other.name_any());
                Err(Failure::of(Part::ControlPlane, message))
            }
            None => Ok(()),
        }
    }

    /// Lets joining nodes read the Secret, as `kubeadm init phase upload-certs` does.
    async fn permit(&self) -> Result<(), Failure> {
        let metadata = |name: &str| ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(token::NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        };
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".to_owned()]),
            resource_names: Some(vec![NAME.to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        let role = Role { metadata: metadata(PERMISSION), rules: Some(vec![rule]) };
        // A binding is never changed: kubeadm may have made it for its own group.
        let binding = if self.group == token::GROUP { PERMISSION } else { OTHER_GROUP };
        let (group, kind) = ("rbac.authorization.k8s.io".to_owned(), "Role".to_owned());
        let binding = RoleBinding {
            metadata: metadata(binding),
            role_ref: RoleRef { api_group: group.clone(), kind, name: PERMISSION.to_owned() },
            subjects: Some(vec![Subject {
                api_group: Some(group),
                kind: "Group".to_owned(),
                name: self.group.clone(),
                ..Subject::default()
            }]),
        };
        let params = PostParams::default();
        let roles: Api<Role> = Api::namespaced(self.client.clone(), token::NAMESPACE);
        existing_or(roles.create(&params, &role).await.map(drop))?;
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), token::NAMESPACE);
        existing_or(bindings.create(&params, &binding).await.map(drop))
    }
}

fn owner(of_token: &Secret) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        name: of_token.metadata.name.clone()?,
        uid: of_token.uid()?,
        ..OwnerReference::default()
    })
}

/// Takes an object that exists already for one that was created.
fn existing_or(created: Result<(), kube::Error>) -> Result<(), Failure> {
    match created {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map_err(failed),
    }
}

/// Returns the failure of a call to the workload cluster, whose API is not ours.
fn failed(error: kube::Error) -> Failure {
    let reason = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    Failure::data(format!("the workload cluster does not accept the encrypted certificates: {reason}"))
}
