//! CA bundles of the APIServices in the host cluster: the certificates by which the host trusts Capstan.
//!
//! During a rotation of the serving CA, a bundle must have the certificates of both CAs before the new one signs. At the
//! end it must have those of the new one only.

use std::collections::BTreeSet;

use apiserver_machinery::resource::{Registry, Resource};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::ApiResource;
use serde_json::{Value, json};
use x509_parser::pem::Pem;

use crate::manifests::cluster_role;
use crate::own_objects::Step;

/// Name of the role that lets Capstan write the bundles, and of its binding.
const ROLE: &str = "capstan:ca-bundles";

/// API group of APIServices.
const GROUP: &str = "apiregistration.k8s.io";

/// Label of a certificate in PEM.
const CERTIFICATE: &str = "CERTIFICATE";

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

    pub(crate) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// Returns the step for one of them, given the certificates of the serving CA in PEM. It refuses an APIService that
    /// trusts none of Capstan's CAs, or names another Service. Pure.
    pub(crate) fn step(&self, found: &Value, trusted: &str) -> Step {
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
        if present == wanted {
            return Step::Keep;
        }
        Step::Write(json!({"spec": {"caBundle": STANDARD.encode(trusted)}}))
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

/// Returns the certificates in a PEM text, in DER. A block that cannot be decoded counts as none.
fn certificates(pem: &str) -> BTreeSet<Vec<u8>> {
    let blocks = Pem::iter_from_buffer(pem.as_bytes()).flatten();
    blocks.filter(|block| block.label == CERTIFICATE).map(|block| block.contents).collect()
}

pub(crate) fn kind() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{GROUP}/v1"),
        kind: "APIService".to_owned(),
        plural: "apiservices".to_owned(),
    }
}

/// Returns the role that lets Capstan write the bundles of these kinds' APIServices, and its binding. It names each of them:
/// a user who can change any APIService gets the requests of all groups.
pub(crate) fn access(hosted: &[&Resource], subjects: &Value) -> [Value; 2] {
    let rule = json!({"apiGroups": [GROUP], "resources": ["apiservices"],
        "resourceNames": names(hosted.iter().copied()), "verbs": ["get", "patch"]});
    cluster_role(ROLE, &[rule], subjects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, status};
    use crate::own_objects::{OwnObjects, OwnPass, Wanted};
    use crate::write_limit::WriteLimit;

    const NAME: &str = "v1beta2.cluster.x-k8s.io";

    fn services() -> ApiServices {
        let [namespace, service] = ["capstan-system", "capstan"].map(str::to_owned);
        ApiServices { names: vec![NAME.to_owned()], namespace, service }
    }

    /// Returns blocks in PEM, whose content no test parses.
    fn pem(contents: &[&str]) -> String {
        let block = |content: &&str| {
            let body = STANDARD.encode(content);
            format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
        };
        contents.iter().map(block).collect()
    }

    fn api_service(service: &str, contents: &[&str]) -> Value {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": NAME, "resourceVersion": "7"},
            "spec": {"caBundle": STANDARD.encode(pem(contents)),
                "service": {"namespace": "capstan-system", "name": service, "port": 7443}}})
    }

    #[test]
    fn ho_30_a_bundle_follows_the_rotation_and_one_of_others_stays() {
        let step = |present: &[&str], trusted: &[&str]| {
            services().step(&api_service("capstan", present), &pem(trusted))
        };
        let write =
            |trusted: &[&str]| Step::Write(json!({"spec": {"caBundle": STANDARD.encode(pem(trusted))}}));
        assert_eq!(step(&["old"], &["old"]), Step::Keep);
        assert_eq!(step(&["old"], &["old", "new"]), write(&["old", "new"]), "started");
        assert_eq!(step(&["new", "old"], &["old", "new"]), Step::Keep, "the order means nothing");
        assert_eq!(step(&["old", "new"], &["new"]), write(&["new"]), "finished");
        assert_eq!(step(&["ingress"], &["old", "new"]), Step::Refuse);
        assert_eq!(step(&[], &["old"]), Step::Refuse);
        assert_eq!(services().step(&api_service("other", &["old"]), &pem(&["old", "new"])), Step::Refuse);
        let of_crds = json!({"spec": {"group": "cluster.x-k8s.io", "service": null}});
        assert_eq!(services().step(&of_crds, &pem(&["old"])), Step::Keep);
    }

    #[test]
    fn ho_30_certificates_are_equal_in_any_form_of_pem() {
        let text = pem(&["old", "new"]);
        let other = text.replace('\n', "\r\n").replace("-----BEGIN", "a remark\r\n-----BEGIN");
        assert_eq!(certificates(&other), certificates(&text));
        assert_eq!(certificates(&text).len(), 2);
        let key = text.replace("CERTIFICATE", "PRIVATE KEY");
        let damaged = "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
        assert_eq!(certificates(&format!("{key}{damaged}{}", pem(&["old"]))), certificates(&pem(&["old"])));
    }

    #[tokio::test]
    async fn ho_30_a_bundle_is_written_once_and_a_refusal_has_the_words_of_the_host() {
        let host = Fake::new(status(403));
        let (objects, services) = (OwnObjects::new(host.client(), WriteLimit::default()), services());
        let failure = format!("APIService {NAME}: the fake responds 403");
        let refused = objects.pass(Wanted::Bundles(&services, &pem(&["a"]))).await;
        assert_eq!(refused, OwnPass { failure: Some(failure), ..OwnPass::default() });

        let mut stored = api_service("capstan", &["old"]);
        host.responds(move |_, body| {
            if body.is_object() {
                stored["spec"]["caBundle"] = body["spec"]["caBundle"].clone();
            }
            Some((200, stored.clone()))
        });
        let trusted = pem(&["old", "new"]);
        let written = objects.pass(Wanted::Bundles(&services, &trusted)).await;
        assert_eq!(written, OwnPass { written: vec![NAME.to_owned()], ..OwnPass::default() });
        let patch = host.bodies().pop().unwrap();
        assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(patch["spec"], json!({"caBundle": STANDARD.encode(&trusted)}));
        assert_eq!(objects.pass(Wanted::Bundles(&services, &trusted)).await, OwnPass::default());
        let path = format!("/apis/{GROUP}/v1/apiservices/{NAME}");
        let requests = ["GET", "GET", "PATCH", "GET"].map(|method| format!("{method} {path}"));
        assert_eq!(host.requests(), requests);
    }

    #[tokio::test]
    async fn ho_30_a_bundle_is_compared_again_after_a_conflict() {
        let host = Fake::new(status(409));
        let (objects, services) = (OwnObjects::new(host.client(), WriteLimit::default()), services());
        let (stored, mut conflicts) = (api_service("capstan", &["old"]), 1);
        host.responds(move |_, body| {
            if body.is_object() && conflicts > 0 {
                conflicts -= 1;
                return Some(status(409));
            }
            Some((200, stored.clone()))
        });
        let written = OwnPass { written: vec![NAME.to_owned()], ..OwnPass::default() };
        assert_eq!(objects.pass(Wanted::Bundles(&services, &pem(&["old", "new"]))).await, written);
        let path = format!("/apis/{GROUP}/v1/apiservices/{NAME}");
        let requests = ["GET", "PATCH", "GET", "PATCH"].map(|method| format!("{method} {path}"));
        assert_eq!(host.requests(), requests);
    }
}
