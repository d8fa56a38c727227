//! Capstan's own objects in the host cluster. The leader keeps the CA bundles of the APIServices as a rotation of the serving
//! CA needs them, with `host.writeCABundle`, and the metadata in the CRD objects, with `host.writeCRDs`.

use std::time::Duration;

use apiserver_host::{ApiServices, Definitions, HostHealth, OwnObjects, OwnPass, Wanted};
use apiserver_machinery::resource::Registry;
use apiserver_registry::Serving;
use controllers_runtime::{Recorder, Severity};
use tokio::sync::watch;

use crate::authorities::{Known, Purpose};
use crate::config::{Host, ServerConfiguration};
use crate::host_credential::host_status;

/// Interval at which the objects are compared again: others may change them.
const INTERVAL: Duration = Duration::from_mins(5);

/// The same after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Reason of the Event about a bundle that Capstan cannot write.
const BUNDLE_REASON: &str = "HostCABundleNotWritten";

/// Reason of the Event about a CRD object that Capstan cannot write.
const CRD_REASON: &str = "HostCRDNotWritten";

/// Objects that the configuration lets Capstan keep in the host.
#[derive(Debug, Clone)]
pub(crate) struct KeptInHost {
    /// APIServices, whose bundles follow the serving CA. `None`: they are not kept.
    services: Option<ApiServices>,
    /// CRD objects. `None`: they are not kept.
    definitions: Option<Definitions>,
    known: watch::Receiver<Known>,
}

impl KeptInHost {
    /// Returns what the configuration lets Capstan keep; `None` if it is nothing.
    pub(crate) fn new(
        configuration: &ServerConfiguration,
        registry: &Registry,
        known: watch::Receiver<Known>,
    ) -> Option<Self> {
        let host = configuration.host.as_ref()?;
        let services = writes_bundles(configuration, host)
            .then(|| ApiServices::new(registry, &host.service_namespace, &host.service_name));
        let published = || apiserver_registry::definitions(registry, Serving::Elsewhere);
        let definitions = host.write_crds.then(|| Definitions::new(published()));
        (services.is_some() || definitions.is_some()).then_some(Self { services, definitions, known })
    }

    /// Keeps the objects while the host is up. Returns at the shutdown, when nothing follows the CAs any more.
    pub(crate) async fn follow(mut self, objects: &OwnObjects, health: &HostHealth, notices: &Recorder) {
        let mut memory = [Memory::default(), Memory::default()];
        loop {
            health.up().await;
            let passes = self.pass(objects).await;
            for (memory, (reason, pass)) in memory.iter_mut().zip(passes) {
                if let Some(problem) = memory.note(&pass, problem(reason, &pass)) {
                    notices.record_about(&host_status(), Severity::Warning, reason, &problem).await;
                }
            }
            let has_failed = memory.iter().any(|memory| memory.has_failed);
            if !self.wait(if has_failed { RETRY_INTERVAL } else { INTERVAL }).await {
                return;
            }
        }
    }

    /// Compares all objects. Returns the results with the reasons of their Events.
    async fn pass(&mut self, objects: &OwnObjects) -> [(&'static str, OwnPass); 2] {
        let trusted = self.trusted();
        let bundles = match (&self.services, &trusted) {
            (Some(services), Some(trusted)) => objects.pass(Wanted::Bundles(services, trusted)).await,
            _ => OwnPass::default(),
        };
        let definitions = match &self.definitions {
            Some(definitions) => objects.pass(Wanted::Definitions(definitions)).await,
            None => OwnPass::default(),
        };
        if !bundles.written.is_empty() {
            tracing::info!(apiservices = ?bundles.written, "the host cluster has the certificates of the serving CA");
        }
        if !definitions.written.is_empty() {
            tracing::info!(crds = ?definitions.written, "the host cluster has the metadata of this release");
        }
        [(BUNDLE_REASON, bundles), (CRD_REASON, definitions)]
    }

    /// Waits until a CA changes, or for this time. Returns false if nothing follows the CAs any more.
    async fn wait(&mut self, pause: Duration) -> bool {
        tokio::select! {
            changed = self.known.changed() => changed.is_ok(),
            () = tokio::time::sleep(pause) => true,
        }
    }

    /// Returns the certificates of the serving CA; `None` as long as they are not known.
    fn trusted(&mut self) -> Option<String> {
        let known = self.known.borrow_and_update();
        known.authorities.as_ref().map(|found| found.bundle(Purpose::Serving))
    }
}

/// Returns true if Capstan writes the bundles. Without a CA of its own, it does not know which certificates the host has to
/// trust.
fn writes_bundles(configuration: &ServerConfiguration, host: &Host) -> bool {
    if host.write_ca_bundle && configuration.tls.is_some() {
        tracing::warn!(
            "host.writeCABundle has no effect with tls.certFile: write the caBundle of the host's APIServices yourself"
        );
    }
    host.write_ca_bundle && configuration.tls.is_none()
}

/// Memory of the passes over objects of one kind.
#[derive(Debug, Default)]
struct Memory {
    reported: Option<String>,
    has_failed: bool,
}

impl Memory {
    /// Notes a pass and its problem. Returns the problem if it is new. One failure may be a conflict with another writer, or
    /// the beginning of an outage, so only the second one in a row counts.
    fn note(&mut self, pass: &OwnPass, problem: Option<String>) -> Option<String> {
        let failed_before = std::mem::replace(&mut self.has_failed, pass.failure.is_some());
        if (self.has_failed && !failed_before) || problem == self.reported {
            return None;
        }
        self.reported.clone_from(&problem);
        problem
    }
}

/// Returns the text of the Event about a pass; `None` without a problem.
fn problem(reason: &str, pass: &OwnPass) -> Option<String> {
    if let Some(failure) = &pass.failure {
        return Some(match reason {
            CRD_REASON => format!(
                "The metadata of a CRD object in the host cluster cannot be written: {failure}. Apply the output of `capstan \
                 host manifests --write-crds`"
            ),
            _ => format!(
                "The caBundle of an APIService in the host cluster cannot be written: {failure}. Apply the output of `capstan \
                 host manifests --write-ca-bundle`, before the next `capstan ca promote`"
            ),
        });
    }
    (!pass.foreign.is_empty()).then(|| {
        format!(
            "These APIServices of the host cluster name another Service, or trust no CA of Capstan, so their caBundle stays \
             as it is: {}. Apply the output of `capstan host manifests`, or set host.writeCABundle to false",
            pass.foreign.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(text: &str) -> OwnPass {
        OwnPass { failure: Some(text.to_owned()), ..OwnPass::default() }
    }

    #[test]
    fn ho_30_a_problem_names_the_objects_and_the_remedy() {
        let written = OwnPass { written: vec!["a".to_owned()], ..OwnPass::default() };
        assert_eq!(problem(BUNDLE_REASON, &written), None);
        let foreign = OwnPass { foreign: vec!["a".to_owned(), "b".to_owned()], ..OwnPass::default() };
        let text = problem(BUNDLE_REASON, &foreign).unwrap();
        assert!(text.contains("a, b. Apply the output of `capstan host manifests`"), "{text}");
        for (reason, flag) in [(BUNDLE_REASON, "--write-ca-bundle"), (CRD_REASON, "--write-crds")] {
            let text = problem(reason, &failed("APIService a: forbidden")).unwrap();
            assert!(text.contains("APIService a: forbidden") && text.contains(flag), "{text}");
        }
    }

    #[test]
    fn ho_30_a_problem_is_reported_once_and_a_single_failure_is_none() {
        let mut memory = Memory::default();
        let mut note = |pass: &OwnPass| memory.note(pass, problem(CRD_REASON, pass));
        assert_eq!(note(&failed("a")), None, "it may be the beginning of an outage");
        assert!(note(&failed("a")).is_some_and(|text| text.contains(": a.")));
        assert_eq!(note(&failed("a")), None, "it is known");
        assert!(note(&failed("b")).is_some());
        assert_eq!(note(&OwnPass::default()), None);
        assert_eq!(note(&failed("b")), None);
        assert!(note(&failed("b")).is_some(), "it has come back");
    }

    #[test]
    fn ho_30_objects_are_kept_only_if_the_operator_wants_it_and_bundles_only_if_an_own_ca_signs() {
        let registry = apiserver_registry::registry();
        let kept = |text: &str| {
            let configuration: ServerConfiguration = serde_saphyr::from_str(text).unwrap();
            let (_, known) = watch::channel(Known::default());
            let kept = KeptInHost::new(&configuration, &registry, known);
            kept.map(|kept| (kept.services.is_some(), kept.definitions.is_some()))
        };
        assert_eq!(kept("{}"), None);
        assert_eq!(kept("host: {kubeconfig: a}"), None);
        assert_eq!(kept("host: {kubeconfig: a, writeCABundle: true}"), Some((true, false)));
        assert_eq!(kept("host: {kubeconfig: a, writeCRDs: true}"), Some((false, true)));
        let tls = "tls: {certFile: a, keyFile: b}";
        assert_eq!(kept(&format!("host: {{kubeconfig: a, writeCABundle: true}}\n{tls}")), None);
        let both = format!("host: {{kubeconfig: a, writeCABundle: true, writeCRDs: true}}\n{tls}");
        assert_eq!(kept(&both), Some((false, true)));
    }
}
