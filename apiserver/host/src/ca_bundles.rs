//! CA bundles of the APIServices in the host cluster: the certificates by which the host trusts Capstan.
//!
//! During a rotation of the serving CA, a bundle must have the certificates of both CAs before the new one signs. At the
//! end it must have those of the new one only.

use std::collections::BTreeSet;

use apiserver_machinery::resource::{Registry, Resource};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::write_limit::WriteLimit;

/// Field manager of the bundles.
const MANAGER: &str = "capstan";

/// Name of the role that lets Capstan write the bundles, and of its binding.
const ROLE: &str = "capstan:ca-bundles";

/// API group of APIServices.
const GROUP: &str = "apiregistration.k8s.io";

/// First and last line of a certificate in PEM.
const LINES: [&str; 2] = ["-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"];

/// APIServices of Capstan in the host cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServices {
    names: Vec<String>,
    namespace: String,
    service: String,
}

impl ApiServices {
    /// Returns those of the kinds that the host serves. They name this Service in this namespace.
    pub fn new(registry: &Registry, namespace: &str, service: &str) -> Self {
        let hosted = registry.resources().iter().map(AsRef::as_ref).filter(|kind| kind.hosted);
        Self { names: names(hosted), namespace: namespace.to_owned(), service: service.to_owned() }
    }

    /// Returns the step for the bundle of one of them, given the certificates of the serving CA in PEM. Pure.
    fn step(&self, found: &Value, trusted: &str) -> Step {
        let spec = &found["spec"];
        if !spec["service"].is_object() {
            // The host serves the version itself, from CRDs.
            return Step::Keep;
        }
        let present = certificates(&bundle(&spec["caBundle"]).unwrap_or_default());
        let wanted = certificates(trusted);
        let service = &spec["service"];
        let is_ours = service["namespace"] == *self.namespace && service["name"] == *self.service;
        // An operator may have put another proxy, with its own CA, between the host and Capstan.
        if !is_ours || present.is_disjoint(&wanted) {
            return Step::Refuse;
        }
        if present == wanted { Step::Keep } else { Step::Write }
    }
}

/// Returns the names of the APIServices of these kinds, in order.
fn names<'a>(hosted: impl Iterator<Item = &'a Resource>) -> Vec<String> {
    let names: BTreeSet<String> = hosted.map(|kind| format!("{}.{}", kind.version, kind.group)).collect();
    names.into_iter().collect()
}

/// Decodes a bundle. `None` without one, or if it is no text.
fn bundle(encoded: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(encoded.as_str()?).ok()?).ok()
}

/// Returns the certificates in a PEM text, each without white space.
fn certificates(pem: &str) -> BTreeSet<String> {
    let [begin, end] = LINES;
    let bodies = pem.split(begin).skip(1).filter_map(|rest| rest.split_once(end));
    bodies.map(|(body, _)| body.split_whitespace().collect()).collect()
}

/// Step for the bundle of one APIService.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is right, or not needed.
    Keep,
    /// It has other certificates of Capstan's CA than it should.
    Write,
    /// It has none of Capstan's CA, or the APIService names another Service.
    Refuse,
}

/// Result of a pass over all APIServices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundlePass {
    /// Names of those whose bundle was written.
    pub written: Vec<String>,
    /// Names of those that do not trust Capstan's CA. Their bundles stay.
    pub foreign: Vec<String>,
    /// First error, with the name of the APIService.
    pub failure: Option<String>,
}

/// Writer of the bundles, for one term of the leader.
pub struct CaBundles {
    client: Client,
    limit: WriteLimit,
    services: ApiServices,
}

impl std::fmt::Debug for CaBundles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaBundles").field("services", &self.services).finish_non_exhaustive()
    }
}

impl CaBundles {
    /// Creates a writer. `client` is one of the host cluster.
    pub fn new(client: Client, limit: WriteLimit, services: ApiServices) -> Self {
        Self { client, limit, services }
    }

    /// Compares each bundle with the certificates of the serving CA, in PEM, and writes those that differ. An error stops no
    /// other.
    pub async fn pass(&self, trusted: &str) -> BundlePass {
        let mut pass = BundlePass::default();
        for name in &self.services.names {
            match self.update(name, trusted).await {
                Ok(Step::Keep) => {}
                Ok(Step::Write) => pass.written.push(name.clone()),
                Ok(Step::Refuse) => pass.foreign.push(name.clone()),
                Err(error) => {
                    pass.failure.get_or_insert_with(|| format!("APIService {name}: {}", words(&error)));
                }
            }
        }
        pass
    }

    /// Returns the step that was made. The host itself writes the status of APIServices, so a conflict is no error yet.
    async fn update(&self, name: &str, trusted: &str) -> Result<Step, kube::Error> {
        match self.attempt(name, trusted).await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.attempt(name, trusted).await,
            made => made,
        }
    }

    async fn attempt(&self, name: &str, trusted: &str) -> Result<Step, kube::Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind());
        let Some(found) = self.limit.read(api.get_opt(name)).await? else { return Ok(Step::Keep) };
        let step = self.services.step(&found.data, trusted);
        if step == Step::Write {
            // The host refuses the write if the object has changed since.
            let patch = json!({"metadata": {"resourceVersion": found.metadata.resource_version},
                "spec": {"caBundle": STANDARD.encode(trusted)}});
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            self.limit.write(api.patch(name, &params, &Patch::Merge(&patch))).await?;
        }
        Ok(step)
    }
}

fn kind() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{GROUP}/v1"),
        kind: "APIService".to_owned(),
        plural: "apiservices".to_owned(),
    }
}

/// Returns the host's own words.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns the role that lets Capstan write the bundles of these kinds' APIServices, and its binding. It names each of them:
/// a user who can change any APIService gets the requests of all groups.
pub(crate) fn access(hosted: &[&Resource], subjects: &Value) -> [Value; 2] {
    let (rbac, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let rule = json!({"apiGroups": [GROUP], "resources": ["apiservices"],
        "resourceNames": names(hosted.iter().copied()), "verbs": ["get", "patch"]});
    [
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": [rule]}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ROLE}, "subjects": subjects}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, status};

    const NAME: &str = "v1beta2.cluster.x-k8s.io";

    fn services() -> ApiServices {
        let [namespace, service] = ["capstan-system", "capstan"].map(str::to_owned);
        ApiServices { names: vec![NAME.to_owned()], namespace, service }
    }

    /// Returns certificates in PEM, which no test parses.
    fn pem(bodies: &[&str]) -> String {
        let [begin, end] = LINES;
        bodies.iter().map(|body| format!("{begin}\n{body}\n{end}\n")).collect()
    }

    fn api_service(service: &str, bodies: &[&str]) -> Value {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": NAME, "resourceVersion": "7"},
            "spec": {"caBundle": STANDARD.encode(pem(bodies)),
                "service": {"namespace": "capstan-system", "name": service, "port": 7443}}})
    }

    #[test]
    fn ho_30_a_bundle_follows_the_rotation_and_one_of_others_stays() {
        let step = |present: &[&str], trusted: &[&str]| {
            services().step(&api_service("capstan", present), &pem(trusted))
        };
        assert_eq!(step(&["old"], &["old"]), Step::Keep);
        assert_eq!(step(&["old"], &["old", "new"]), Step::Write, "started");
        assert_eq!(step(&["new", "old"], &["old", "new"]), Step::Keep, "the order means nothing");
        assert_eq!(step(&["old", "new"], &["new"]), Step::Write, "finished");
        assert_eq!(step(&["ingress"], &["old", "new"]), Step::Refuse);
        assert_eq!(step(&[], &["old"]), Step::Refuse);
        assert_eq!(services().step(&api_service("other", &["old"]), &pem(&["old", "new"])), Step::Refuse);
        let of_crds = json!({"spec": {"group": "cluster.x-k8s.io", "service": null}});
        assert_eq!(services().step(&of_crds, &pem(&["old"])), Step::Keep);
    }

    #[tokio::test]
    async fn ho_30_a_bundle_is_written_once_and_a_refusal_has_the_words_of_the_host() {
        let host = Fake::new(status(403));
        let bundles = CaBundles::new(host.client(), WriteLimit::default(), services());
        let failure = format!("APIService {NAME}: the fake responds 403");
        assert_eq!(
            bundles.pass(&pem(&["a"])).await,
            BundlePass { failure: Some(failure), ..BundlePass::default() }
        );

        let mut stored = api_service("capstan", &["old"]);
        host.responds(move |_, body| {
            if body.is_object() {
                stored["spec"]["caBundle"] = body["spec"]["caBundle"].clone();
            }
            Some((200, stored.clone()))
        });
        let trusted = pem(&["old", "new"]);
        let written = bundles.pass(&trusted).await;
        assert_eq!(written, BundlePass { written: vec![NAME.to_owned()], ..BundlePass::default() });
        let patch = host.bodies().pop().unwrap();
        assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(patch["spec"], json!({"caBundle": STANDARD.encode(&trusted)}));
        assert_eq!(bundles.pass(&trusted).await, BundlePass::default());
        let path = format!("/apis/{GROUP}/v1/apiservices/{NAME}");
        let requests = ["GET", "GET", "PATCH", "GET"].map(|method| format!("{method} {path}"));
        assert_eq!(host.requests(), requests);
    }

    #[tokio::test]
    async fn ho_30_a_bundle_is_compared_again_after_a_conflict() {
        let host = Fake::new(status(409));
        let bundles = CaBundles::new(host.client(), WriteLimit::default(), services());
        let (stored, mut conflicts) = (api_service("capstan", &["old"]), 1);
        host.responds(move |_, body| {
            if body.is_object() && conflicts > 0 {
                conflicts -= 1;
                return Some(status(409));
            }
            Some((200, stored.clone()))
        });
        let written = BundlePass { written: vec![NAME.to_owned()], ..BundlePass::default() };
        assert_eq!(bundles.pass(&pem(&["old", "new"])).await, written);
        let path = format!("/apis/{GROUP}/v1/apiservices/{NAME}");
        let requests = ["GET", "PATCH", "GET", "PATCH"].map(|method| format!("{method} {path}"));
        assert_eq!(host.requests(), requests);
    }
}
