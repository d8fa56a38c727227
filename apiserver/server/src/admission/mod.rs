//! Admission configurations of the direct endpoint and of files, and the task that follows both.

mod certificate;
mod files;
mod follow;
mod metrics;
pub(crate) mod policy_status;

use std::sync::Arc;

use apiserver_admission::{Admission, Clients, Configurations, GROUP, HostPart, Joined};
use apiserver_http::{ApiServer, Check};
use apiserver_machinery::admission_control::AdmissionControl;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::ObjectStore;
use controllers_runtime::PolicyRule;
use futures::StreamExt;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfiguration;
use crate::host::Host;
use crate::host_admission::HostAdmission;
use crate::host_watch::changed;
use crate::rereads::Rereads;
use certificate::ClientCertificate;
use files::AdmissionFiles;
use follow::Objects;
pub(crate) use metrics::AdmissionMetrics;

/// Identity that reads the configurations.
pub(crate) const IDENTITY: &str = "admission-configurations";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[PolicyRule {
    groups: &[GROUP],
    resources: &[
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    ],
    verbs: PolicyRule::READ,
}];

/// Shortest time between two snapshots, so that a script that creates thousands of configurations does not occupy a
/// core with snapshots.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// All admission configurations.
#[derive(Debug)]
pub(crate) struct AdmissionConfigurations {
    admission: Arc<Admission>,
    clients: Clients,
    metrics: AdmissionMetrics,
    files: Option<AdmissionFiles>,
    certificate: Option<ClientCertificate>,
    host: Option<HostAdmission>,
}

impl AdmissionConfigurations {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// A file cannot be read or is not valid. The server then does not start.
    pub(crate) fn open(
        configuration: &ServerConfiguration,
        objects: &Arc<ObjectStore>,
        host: Option<&Host>,
        metrics: AdmissionMetrics,
    ) -> anyhow::Result<Self> {
        let directory = configuration.admission.manifests_directory.as_deref();
        let files =
            directory.map(|directory| AdmissionFiles::open(directory, objects.registry())).transpose()?;
        let admission = Arc::new(Admission::new(Arc::clone(objects)));
        let clients = Clients::default();
        let certificate = ClientCertificate::open(&configuration.admission, &clients)?;
        let host = host.and_then(Host::admission);
        Ok(Self { admission, clients, metrics, files, certificate, host })
    }

    /// Returns the admission control for the server.
    pub(crate) fn control(&self) -> Arc<dyn AdmissionControl> {
        Arc::<Admission>::clone(&self.admission)
    }

    /// Returns the readiness checks: the objects have been read, and the files can be used.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let admission = Arc::clone(&self.admission);
        let is_read =
            Check { name: "admission-configurations", is_well: Arc::new(move || admission.is_read()) };
        let files = self.files.as_ref().map(AdmissionFiles::check);
        let certificate = self.certificate.as_ref().map(ClientCertificate::check);
        std::iter::once(is_read).chain(files).chain(certificate).collect()
    }

    /// Reads all files again. Returns true if a configuration or the certificate changed.
    fn reload(&mut self, registry: &Registry) -> bool {
        let are_changed = self.files.as_mut().is_some_and(|files| files.reload(registry));
        let is_changed = self.certificate.as_mut().is_some_and(|files| files.reload(&self.clients));
        are_changed || is_changed
    }

    /// Applies the configurations of all sources.
    fn apply(&self, objects: &[Value]) {
        let files = self.files.as_ref().map_or(&[][..], AdmissionFiles::objects);
        let of_host = self.host.as_ref().map(|host| (host.cluster(), host.configurations()));
        let host = of_host.as_ref().map(|(cluster, configurations)| HostPart {
            cluster,
            applied: configurations.as_ref().map(|all| all.applied.as_slice()),
        });
        let joined = Joined { files, objects, host };
        let configurations = Configurations::join(joined, &self.clients);
        self.metrics.set_uncompiled(configurations.uncompiled());
        self.admission.set(configurations);
    }

    /// Applies the objects and the files, and each change of them, until `shutdown`. While they cannot be read, the last
    /// ones apply.
    pub(crate) async fn follow(mut self, server: Arc<ApiServer>, shutdown: CancellationToken) {
        let registry = server.registry().clone();
        let (objects, mut changes) = Objects::watch(server);
        let mut rereads = Rereads::every(files::POLL_INTERVAL);
        let mut of_host = self.host.as_ref().map(HostAdmission::configured);
        let mut last: Option<Instant> = None;
        loop {
            let is_due = tokio::select! {
                () = shutdown.cancelled() => return,
                change = changes.next() => match change {
                    Some(()) => objects.are_read(),
                    None => return,
                },
                () = changed(of_host.as_mut()) => objects.are_read(),
                () = rereads.next() => {
                    self.reload(&registry) && objects.are_read()
                }
            };
            if !is_due {
                continue;
            }
            if let Some(last) = last {
                let pause = tokio::time::sleep_until(last + PAUSE);
                if shutdown.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
            // Changes during the pause are in the snapshot, too.
            while let Some(Some(())) = futures::FutureExt::now_or_never(changes.next()) {}
            self.apply(&objects.all());
            last = Some(Instant::now());
        }
    }
}
