//! CA bundles of the host cluster's APIServices. With `host.writeCABundle`, the leader keeps them as a rotation of the
//! serving CA needs them.

use std::time::Duration;

use apiserver_host::{ApiServices, BundlePass, CaBundles, HostHealth};
use apiserver_machinery::resource::Registry;
use controllers_runtime::{Recorder, Severity};
use tokio::sync::watch;

use crate::authorities::{Known, Purpose};
use crate::config::ServerConfiguration;
use crate::host_credential::host_status;

/// Interval at which the bundles are compared again: others may change them.
const INTERVAL: Duration = Duration::from_mins(5);

/// The same after an error.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Reason of the Event about a bundle that Capstan cannot write.
const REASON: &str = "HostCABundleNotWritten";

/// Certificates that the host has to trust, and the APIServices with them.
#[derive(Debug, Clone)]
pub(crate) struct TrustedByHost {
    pub(crate) services: ApiServices,
    known: watch::Receiver<Known>,
}

impl TrustedByHost {
    /// Returns what the configuration lets Capstan keep; `None` without `host.writeCABundle`, and if no own CA has signed the
    /// serving certificate.
    pub(crate) fn new(
        configuration: &ServerConfiguration,
        registry: &Registry,
        known: watch::Receiver<Known>,
    ) -> Option<Self> {
        let host = configuration.host.as_ref().filter(|host| host.write_ca_bundle)?;
        if configuration.tls.is_some() {
            tracing::warn!(
                "host.writeCABundle has no effect with tls.certFile: write the caBundle of the host's APIServices yourself"
            );
            return None;
        }
        let services = ApiServices::new(registry, &host.service_namespace, &host.service_name);
        Some(Self { services, known })
    }

    /// Keeps the bundles while the host is up. Returns at the shutdown, when nothing follows the CAs any more.
    pub(crate) async fn follow(mut self, bundles: &CaBundles, health: &HostHealth, notices: &Recorder) {
        let (mut reported, mut has_failed) = (None, false);
        loop {
            health.up().await;
            let trusted = self.trusted();
            let mut pause = INTERVAL;
            if let Some(trusted) = trusted {
                let pass = bundles.pass(&trusted).await;
                if !pass.written.is_empty() {
                    tracing::info!(apiservices = ?pass.written, "the host cluster has the certificates of the serving CA");
                }
                let failed_before = std::mem::replace(&mut has_failed, pass.failure.is_some());
                if has_failed {
                    pause = RETRY_INTERVAL;
                }
                // One failure may be a conflict with another writer, or the beginning of an outage.
                if failed_before || !has_failed {
                    let problem = problem(&pass);
                    if let Some(problem) = problem.as_ref().filter(|_| problem != reported) {
                        notices.record_about(&host_status(), Severity::Warning, REASON, problem).await;
                    }
                    reported = problem;
                }
            }
            tokio::select! {
                changed = self.known.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns the certificates of the serving CA; `None` as long as they are not known.
    fn trusted(&mut self) -> Option<String> {
        let known = self.known.borrow_and_update();
        known.authorities.as_ref().map(|found| found.bundle(Purpose::Serving))
    }
}

/// Returns the text of the Event about a pass; `None` without a problem.
fn problem(pass: &BundlePass) -> Option<String> {
    if let Some(failure) = &pass.failure {
        return Some(format!(
            "The caBundle of an APIService in the host cluster cannot be written: {failure}. Apply the output of `capstan \
             host manifests --write-ca-bundle`, before the next `capstan ca promote`"
        ));
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

    #[test]
    fn ho_30_a_problem_names_the_apiservices_and_the_remedy() {
        assert_eq!(problem(&BundlePass { written: vec!["a".to_owned()], ..BundlePass::default() }), None);
        let foreign =
            problem(&BundlePass { foreign: vec!["a".to_owned(), "b".to_owned()], ..BundlePass::default() });
        assert!(foreign.unwrap().contains("a, b. Apply the output of `capstan host manifests`"));
        let failure = Some("APIService a: forbidden".to_owned());
        let failed = problem(&BundlePass { failure, ..BundlePass::default() }).unwrap();
        assert!(
            failed.contains("APIService a: forbidden") && failed.contains("--write-ca-bundle"),
            "{failed}"
        );
    }

    #[test]
    fn ho_30_bundles_are_written_only_if_the_operator_wants_it_and_an_own_ca_signs() {
        let registry = apiserver_registry::registry();
        let is_on = |text: &str| {
            let configuration: ServerConfiguration = serde_saphyr::from_str(text).unwrap();
            let (_, known) = watch::channel(Known::default());
            TrustedByHost::new(&configuration, &registry, known).is_some()
        };
        assert!(!is_on("host: {kubeconfig: a}"));
        assert!(is_on("host: {kubeconfig: a, writeCABundle: true}"));
        assert!(!is_on("host: {kubeconfig: a, writeCABundle: true}\ntls: {certFile: a, keyFile: b}"));
    }
}
