//! Effects of the steps of a KubeadmConfig.

use std::time::Duration;

use apiserver_types::{
    BootstrapFormat, Cluster, ClusterConfiguration, JoinConfiguration, KubeadmConfig, KubeadmConfigSpec,
    Machine, MachinePool,
};
use controllers_bootstrap::certificates::{CertificateKey, Purpose};
use controllers_bootstrap::discovery::{self, DiscoveryError, Known};
use controllers_bootstrap::proxy::Proxy;
use controllers_bootstrap::token::{self, Token};
use controllers_bootstrap::{Command, File, Setup, cloud_config, ignition, kubeadm};
use controllers_runtime::{ControllerContext, Severity};
use controllers_workload::ClusterKey;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::attested;
use super::certificate_upload::{self, Upload};
use super::checks;
use super::contents::Contents;
use super::data_secret;
use super::jinja_warnings;
use super::lock::{Attempt, Lock};
use super::observe::{endpoint, is_control_plane};
use super::report;
use super::stop::{Failure, Part};
use super::tokens::{self, Terms};
use crate::cluster_certificates::{self, Certificates};
use crate::ownership;

/// Annotation of a KubeadmConfig. With the value `true`, its machine reports a failed bootstrap on its console, and with
/// another value it does not. Without it, machines of [`CONSOLE`] do.
const REPORT: &str = "capstan.dev/bootstrap-report";

/// Kind of infrastructure whose controller reads the console.
const CONSOLE: &str = "OpenStackMachine";

/// Writer of a pass over a KubeadmConfig whose Machine and Cluster exist.
pub(super) struct Actor<'a> {
    pub context: &'a ControllerContext,
    pub api: &'a Api<KubeadmConfig>,
    pub machine: &'a Machine,
    /// MachinePool that describes the Machine, if there is one.
    pub pool: Option<&'a MachinePool>,
    pub cluster: &'a Cluster,
}

impl Actor<'_> {
    /// Renders and stores the data of the first control plane node. The lock is looked at first: what another Machine
    /// boots with must not be generated again. An error releases the lock, so that another Machine can begin.
    pub(super) async fn init(&self, config: &mut KubeadmConfig) -> Result<(), Failure> {
        let (lock, machine) = (Lock::of(self.context, self.cluster), self.machine.name_any());
        self.wait_for(lock.look(&machine).await?).await?;
        let made = self.make_first(config, &lock).await;
        if made.is_err()
            && let Err(error) = lock.release_of(&machine).await
        {
            tracing::warn!(%error, machine, "the init lock stays until the next pass");
        }
        made
    }

    async fn make_first(&self, config: &mut KubeadmConfig, lock: &Lock<'_>) -> Result<(), Failure> {
        let certificates = self.certificates_for_init(config).await?;
        let endpoint = endpoint(self.cluster);
        let spec = &config.spec;
        let configuration = spec.cluster_configuration.clone().unwrap_or_default();
        checks::versioned(self.version()?, &configuration)?;
        let mut node = spec.init_configuration.clone().unwrap_or_default();
        if node.bootstrap_tokens.as_ref().is_none_or(Vec::is_empty) {
            // Not stored: no node joins with it, so another pass may render another one.
            node.bootstrap_tokens = Some(vec![token::for_init().map_err(Failure::data)?]);
        }
        let patches = kubeadm::environment_patches(self.version()?, Some(&configuration), &mut node.patches);
        let mut files = certificates.files(Some(&configuration));
        files.extend(patches.map_err(Failure::data)?);
        let cluster_name = self.cluster.name_any();
        let input = kubeadm::Init {
            cluster_name: &cluster_name,
            version: self.version()?,
            endpoint: endpoint.as_deref(),
            network: self.cluster.spec.cluster_network.as_ref(),
            cluster: &configuration,
            node: &node,
        };
        checks::values(&config.spec, &kubeadm::refusals_of_init(&input))?;
        let kubeadm = kubeadm::init(&input).map_err(Failure::data)?;
        let document = self.document(config, Command::Init, &kubeadm, &files, None).await?;
        self.wait_for(lock.take(&self.machine.name_any()).await?).await?;
        if let Some(endpoint) = endpoint.filter(|_| configuration.control_plane_endpoint.is_none()) {
            self.change(config, &json!({"clusterConfiguration": {"controlPlaneEndpoint": endpoint}})).await?;
        }
        data_secret::store(self.context, config, &self.cluster.name_any(), document).await
    }

    /// Renders and stores the data of a node that joins. What is random is stored in the spec first, then the token is
    /// created, then the data: after a crash, the next pass renders the same data.
    pub(super) async fn join(&self, config: &mut KubeadmConfig) -> Result<(), Failure> {
        Lock::of(self.context, self.cluster).release().await?;
        let control_plane = is_control_plane(self.machine);
        let certificates = self.certificates_for_join(config, control_plane).await?;
        let given = config.spec.join_configuration.as_ref().map(kubeadm::refusals_of_join);
        checks::values(&config.spec, &given.unwrap_or_default())?;
        let join = self.complete_join(config, &certificates, control_plane).await?;
        let mut key = None;
        if let Some(token) = discovery::token(&join) {
            let token = Token::parse(token).map_err(Failure::data)?;
            let client = self.context.workloads.client(&self.key())?;
            self.refuse_attested_pool()?;
            if let Some(group) = attested::group(self.cluster) {
                attested::permit(&client, &group).await?;
            }
            tokens::care(&client, &token, self.machine, &self.terms()).await?;
            if control_plane && certificate_upload::is_wanted(self.cluster) {
                key = Some(self.upload(config, &certificates, &token).await?);
            }
        }
        let discovery = discovery::kubeconfig_file(&join);
        let configuration = config.spec.cluster_configuration.as_ref();
        let in_document = control_plane && key.is_none();
        let mut files = if in_document { certificates.files(configuration) } else { Vec::new() };
        let mut join = if control_plane { join } else { discovery::with_taint(join) };
        // The static pods of a worker are not kubeadm's.
        let of_pods = configuration.filter(|_| control_plane);
        let patches = kubeadm::environment_patches(self.version()?, of_pods, &mut join.patches);
        files.extend(patches.map_err(Failure::data)?);
        let kubeadm = kubeadm::join_with_key(self.version()?, &join, key.as_ref()).map_err(Failure::data)?;
        let document = self.document(config, Command::Join, &kubeadm, &files, discovery.as_ref()).await?;
        data_secret::store(self.context, config, &self.cluster.name_any(), document).await
    }

    /// Looks after the token of a Machine whose data exists. Returns true if that has to be repeated.
    pub(super) async fn care_for_token(&self, config: &KubeadmConfig) -> Result<bool, Failure> {
        let token = config.spec.join_configuration.as_ref().and_then(discovery::token);
        let Some(token) = token.and_then(|token| Token::parse(token).ok()) else { return Ok(false) };
        match self.context.workloads.client(&self.key()) {
            Ok(client) => {
                tokens::care(&client, &token, self.machine, &self.terms()).await?;
                self.attest(config, &client, &token).await?;
                self.care_for_certificates(config, &token, client).await?;
            }
            // A connection triggers a pass.
            Err(error) => tracing::debug!(%error, config = config.name_any(), "the bootstrap token waits"),
        }
        Ok(!tokens::is_over(self.machine))
    }

    /// Returns until when a Machine can join with its token, which no pass extends while it is paused.
    pub(super) async fn end_of_token(&self, config: &KubeadmConfig) -> Option<String> {
        let token = config.spec.join_configuration.as_ref().and_then(discovery::token)?;
        let token = Token::parse(token).ok().filter(|_| !tokens::is_over(self.machine))?;
        let client = self.context.workloads.client(&self.key()).ok()?;
        let end = tokens::end(&client, &token).await?;
        let name = self.machine.name_any();
        Some(format!("Machine {name} can join until {end}, when its bootstrap token expires"))
    }

    /// Returns the group of a node that joins.
    fn group(&self) -> String {
        attested::group(self.cluster).unwrap_or_else(|| token::GROUP.to_owned())
    }

    pub(super) fn terms(&self) -> Terms {
        let kind = if self.pool.is_some() { "MachinePool" } else { "Machine" };
        Terms { kind, group: self.group(), lifetime: self.context.settings.bootstrap_token_lifetime }
    }

    /// Approves the request of the Machine for a certificate, if its Cluster wants that, and tells what was refused.
    async fn attest(&self, config: &KubeadmConfig, client: &Client, token: &Token) -> Result<(), Failure> {
        if attested::group(self.cluster).is_none() || tokens::is_over(self.machine) {
            return Ok(());
        }
        for refused in attested::approve(client, token, self.machine).await? {
            self.context.events.record(config, Severity::Warning, "JoinRefused", &refused).await;
        }
        Ok(())
    }

    /// Returns the interval of the next look at the token.
    pub(super) fn interval(&self) -> Duration {
        let interval = self.terms().interval();
        if attested::group(self.cluster).is_some() { attested::INTERVAL.min(interval) } else { interval }
    }

    fn uploader(&self, client: Client) -> Upload<'_> {
        let namespace = self.cluster.namespace().unwrap_or_default();
        let machines = Api::namespaced(self.context.client.clone(), &namespace);
        Upload { client, machine: self.machine, machines, group: self.group() }
    }

    /// Stores the encrypted certificates in the workload cluster. Returns the key for the Machine's user data.
    async fn upload(
        &self,
        config: &KubeadmConfig,
        certificates: &Certificates,
        token: &Token,
    ) -> Result<CertificateKey, Failure> {
        let uploader = self.uploader(self.context.workloads.client(&self.key())?);
        let name = cluster_certificates::secret_name(&self.cluster.name_any(), Purpose::ClusterCa);
        let missing = || Failure::of(Part::JoinCertificates, format!("Secret {name} does not exist"));
        let ca = certificates.get(Purpose::ClusterCa).ok_or_else(missing)?;
        let key = CertificateKey::derive(ca, &self.machine.uid().unwrap_or_default());
        if !uploader.is_there().await? {
            let configuration = config.spec.cluster_configuration.as_ref();
            let data = key.encrypt(certificates.pairs(), configuration).map_err(Failure::data)?;
            uploader.create(data, token).await?;
        }
        Ok(key)
    }

    /// Keeps the encrypted certificates until the Machine has joined or is too late, and deletes them then.
    async fn care_for_certificates(
        &self,
        config: &KubeadmConfig,
        token: &Token,
        client: Client,
    ) -> Result<(), Failure> {
        if !is_control_plane(self.machine) || !certificate_upload::is_wanted(self.cluster) {
            return Ok(());
        }
        let is_late = certificate_upload::is_late(config, self.machine, Timestamp::now());
        if is_late || tokens::is_over(self.machine) {
            return self.uploader(client).delete().await;
        }
        let certificates = self.certificates_for_join(config, true).await?;
        self.upload(config, &certificates, token).await.map(drop)
    }

    pub(super) fn key(&self) -> ClusterKey {
        let namespace = self.cluster.namespace().unwrap_or_default();
        ClusterKey { namespace, name: self.cluster.name_any() }
    }

    fn version(&self) -> Result<&str, Failure> {
        let version = self.machine.spec.version.as_deref().filter(|version| !version.is_empty());
        let name = self.machine.name_any();
        version.ok_or_else(|| {
            Failure::data(format!(
                "Machine {name} has no spec.version, which selects the form of the kubeadm file"
            ))
        })
    }

    /// Returns all certificates of a control plane node. Without an object that manages the control plane, no other
    /// controller generates them.
    async fn certificates_for_init(&self, config: &KubeadmConfig) -> Result<Certificates, Failure> {
        let configuration = config.spec.cluster_configuration.as_ref();
        let in_part = Failure::in_part(Part::InitCertificates);
        let certificates = if self.cluster.spec.control_plane_ref.is_some() {
            cluster_certificates::lookup(self.context, self.cluster, configuration).await
        } else {
            let owner = ownership::reference(config, true);
            cluster_certificates::generate_missing(self.context, self.cluster, owner, configuration).await
        };
        self.checked(certificates.map_err(in_part)?, configuration, Part::InitCertificates)
    }

    async fn certificates_for_join(
        &self,
        config: &KubeadmConfig,
        control_plane: bool,
    ) -> Result<Certificates, Failure> {
        let configuration = config.spec.cluster_configuration.as_ref();
        let in_part = Failure::in_part(Part::JoinCertificates);
        if control_plane {
            let certificates = cluster_certificates::lookup(self.context, self.cluster, configuration).await;
            return self.checked(certificates.map_err(in_part)?, configuration, Part::JoinCertificates);
        }
        let only = &[Purpose::ClusterCa];
        let found = cluster_certificates::lookup_only(self.context, self.cluster, only).await;
        let found = found.map_err(in_part)?;
        match found.defect_of_certificate(Purpose::ClusterCa) {
            Some(error) => {
                let name = cluster_certificates::secret_name(&self.cluster.name_any(), Purpose::ClusterCa);
                Err(Failure::of(Part::JoinCertificates, format!("Secret {name}: {error}")))
            }
            None => Ok(found),
        }
    }

    fn checked(
        &self,
        certificates: Certificates,
        configuration: Option<&ClusterConfiguration>,
        part: Part,
    ) -> Result<Certificates, Failure> {
        match certificates.problem(&self.cluster.name_any(), configuration) {
            Some(problem) => Err(Failure::of(part, problem)),
            None => Ok(certificates),
        }
    }

    /// Completes the configuration of a join, and stores it.
    async fn complete_join(
        &self,
        config: &mut KubeadmConfig,
        certificates: &Certificates,
        control_plane: bool,
    ) -> Result<JoinConfiguration, Failure> {
        let name = cluster_certificates::secret_name(&self.cluster.name_any(), Purpose::ClusterCa);
        let ca = certificates.get(Purpose::ClusterCa).ok_or_else(|| {
            Failure::of(
                Part::JoinCertificates,
                format!("Secret {name} with the CA of the cluster does not exist"),
            )
        })?;
        let endpoint = endpoint(self.cluster);
        let known = Known { endpoint: endpoint.as_deref(), ca: &ca.certificate, control_plane };
        let given = config.spec.join_configuration.clone().unwrap_or_default();
        let join = discovery::complete(&given, &known).map_err(|error| match error {
            DiscoveryError::Certificate(error) => {
                Failure::of(Part::JoinCertificates, format!("Secret {name}: {error}"))
            }
            other => Failure::data(other),
        })?;
        if config.spec.join_configuration.as_ref() != Some(&join) {
            self.change(config, &json!({"joinConfiguration": join})).await?;
        }
        Ok(join)
    }

    /// Changes fields of the spec. The revision guards the write.
    pub(super) async fn change(&self, config: &mut KubeadmConfig, spec: &Value) -> Result<(), Failure> {
        let change = json!({"metadata": {"resourceVersion": config.resource_version()}, "spec": spec});
        let (name, change) = (config.name_any(), Patch::Merge(&change));
        *config = self.api.patch(&name, &PatchParams::default(), &change).await?;
        Ok(())
    }

    /// Tells which files and commands cloud-init changes because it takes a part of them for Jinja.
    async fn warn_about_jinja(&self, config: &KubeadmConfig, files: &[File]) {
        for message in jinja_warnings::warnings(files, &config.spec) {
            self.context.events.record(config, Severity::Warning, "JinjaInContent", &message).await;
        }
    }

    /// Tells which fields have no effect, because the kubeadm of this version has no form for them.
    async fn warn_about_fields(&self, config: &KubeadmConfig) {
        let version = self.machine.spec.version.as_deref().unwrap_or_default();
        let fields = kubeadm::without_effect(version, &config.spec);
        if fields.is_empty() {
            return;
        }
        let message = report::without_effect(version, &fields);
        self.context.events.record(config, Severity::Warning, "FieldsWithoutEffect", &message).await;
    }

    /// Ends the pass if the lock is not for this Machine.
    async fn wait_for(&self, attempt: Attempt) -> Result<(), Failure> {
        match attempt {
            Attempt::Held => Ok(()),
            Attempt::Busy(holder) => {
                let message = format!("Machine {holder} initializes the control plane");
                Err(Failure::of(Part::ControlPlane, message))
            }
            Attempt::Stale(message) => {
                let message = format!("{message}. The lock was released");
                self.context
                    .events
                    .record(self.cluster, Severity::Warning, "InitLockReleased", &message)
                    .await;
                Err(Failure::released(message))
            }
        }
    }

    /// Returns the boot document. `certificates` are the files of the control plane, which the user's files follow.
    async fn document(
        &self,
        config: &KubeadmConfig,
        command: Command,
        kubeadm: &str,
        certificates: &[File],
        discovery: Option<&File>,
    ) -> Result<String, Failure> {
        let namespace = config.namespace().unwrap_or_default();
        let contents = Contents { context: self.context, namespace: &namespace, cluster: self.cluster };
        let (files, users) = (contents.files(&config.spec).await?, contents.users(&config.spec).await?);
        let machine = self.machine.name_any();
        self.warn_about_fields(config).await;
        let proxy = Proxy::of(self.cluster).map_err(Failure::data)?;
        let spec = with_proxy(&config.spec, proxy.as_ref());
        let of_proxy = proxy.map(|proxy| proxy.files()).unwrap_or_default();
        let certificates = [certificates, &of_proxy].concat();
        let reported = match config.annotations().get(REPORT) {
            Some(value) => value == "true",
            None => self.machine.spec.infrastructure_ref.kind == CONSOLE,
        };
        let setup = Setup {
            command,
            kubeadm,
            certificates: &certificates,
            files: &files,
            discovery,
            users: &users,
            report: reported.then_some(machine.as_str()),
            spec: &spec,
        };
        match config.spec.format.unwrap_or_default() {
            BootstrapFormat::CloudConfig => {
                self.warn_about_jinja(config, &files).await;
                cloud_config::render(&setup).map_err(Failure::data)
            }
            BootstrapFormat::Ignition => ignition::render(&setup).map_err(Failure::data),
        }
    }
}

/// Returns a spec whose first commands set the proxy.
fn with_proxy(spec: &KubeadmConfigSpec, proxy: Option<&Proxy>) -> KubeadmConfigSpec {
    let mut spec = spec.clone();
    let mut commands = proxy.map(Proxy::commands).unwrap_or_default();
    commands.append(spec.pre_kubeadm_commands.get_or_insert_default());
    spec.pre_kubeadm_commands = Some(commands);
    spec
}
