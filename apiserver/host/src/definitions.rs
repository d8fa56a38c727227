//! CRD objects of Capstan's kinds in the host cluster. They serve no requests. Tools read labels, names, versions and
//! columns there.
//!
//! A release of Capstan may change these, and an outage or a restore of the host may bring back older ones.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use crate::manifests::cluster_role;
use crate::own_objects::Step;

/// Name of the role that lets Capstan write the metadata, and of its binding.
const ROLE: &str = "capstan:crds";

/// API group of CRD objects.
const GROUP: &str = "apiextensions.k8s.io";

/// Parts of the spec that are compared and written. The others never change.
const PARTS: [&str; 2] = ["names", "versions"];

/// CRD objects of Capstan, by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definitions(BTreeMap<String, Value>);

impl Definitions {
    /// Creates them from the objects that `capstan host manifests` prints.
    pub fn new(definitions: Vec<Value>) -> Self {
        let named = |it: Value| Some((it["metadata"]["name"].as_str()?.to_owned(), it));
        Self(definitions.into_iter().filter_map(named).collect())
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Returns the step for one of them. Pure.
    pub(crate) fn step(&self, found: &DynamicObject) -> Step {
        let Some(wanted) = self.0.get(&found.name_any()) else { return Step::Keep };
        let spec = &found.data["spec"];
        let versions = spec["versions"].as_array();
        if versions.is_none_or(|all| all.iter().any(|version| version["served"] == true)) {
            // The host serves the kind itself, from this CRD.
            return Step::Keep;
        }
        let labels = &wanted["metadata"]["labels"];
        let has_label = |(key, value): (&String, &Value)| {
            found.labels().get(key).map(String::as_str) == Some(value.as_str().unwrap_or_default())
        };
        let has_labels = labels.as_object().is_none_or(|labels| labels.iter().all(has_label));
        if has_labels && PARTS.into_iter().all(|part| has(&spec[part], &wanted["spec"][part])) {
            return Step::Keep;
        }
        let parts: serde_json::Map<String, Value> =
            PARTS.into_iter().map(|part| (part.to_owned(), wanted["spec"][part].clone())).collect();
        Step::Write(json!({"metadata": {"labels": labels}, "spec": parts}))
    }
}

/// Returns true if a value of the host is the wanted one. The host adds defaults to objects, and leaves out empty values.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(field, wanted)| has(found.get(field).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| has(found, wanted))
        }
        (Value::Null, wanted) => is_empty(wanted),
        _ => found == wanted,
    }
}

/// Returns true for a value that the host leaves out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) | Value::Object(_) => false,
    }
}

pub(crate) fn kind() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{GROUP}/v1"),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    }
}

/// Returns the role that lets Capstan write these objects, and its binding. It names each of them: a user who can change
/// any CRD changes the kinds of other programs.
pub(crate) fn access(definitions: &[Value], subjects: &Value) -> [Value; 2] {
    let names: BTreeSet<&str> = definitions.iter().filter_map(|it| it["metadata"]["name"].as_str()).collect();
    let rule = json!({"apiGroups": [GROUP], "resources": ["customresourcedefinitions"], "resourceNames": names,
        "verbs": ["get", "patch"]});
    cluster_role(ROLE, &[rule], subjects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, status};
    use crate::own_objects::{OwnObjects, OwnPass, Wanted};
    use crate::write_limit::WriteLimit;

    const NAME: &str = "machines.cluster.x-k8s.io";

    fn column(name: &str, priority: i64) -> Value {
        json!({"name": name, "type": "string", "jsonPath": ".status.phase", "priority": priority})
    }

    fn definition() -> Value {
        let any =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": NAME, "labels": {"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/v1beta2": "v1beta2"}},
            "spec": {"group": "cluster.x-k8s.io", "scope": "Namespaced",
                "names": {"plural": "machines", "kind": "Machine", "shortNames": [], "categories": ["cluster-api"]},
                "versions": [{"name": "v1beta2", "served": false, "storage": true, "schema": any,
                    "additionalPrinterColumns": [column("Phase", 0), column("Version", 10)],
                    "subresources": {"status": {}}}]}})
    }

    /// Returns the object as the host stores it: without empty values, and with defaults.
    fn stored() -> Value {
        let mut stored = definition();
        stored["metadata"]["resourceVersion"] = json!("7");
        stored["metadata"]["labels"]["team"] = json!("a");
        stored["spec"]["conversion"] = json!({"strategy": "None"});
        stored["spec"]["names"].as_object_mut().unwrap().remove("shortNames");
        stored["spec"]["names"]["listKind"] = json!("MachineList");
        let columns = &mut stored["spec"]["versions"][0]["additionalPrinterColumns"];
        columns[0].as_object_mut().unwrap().remove("priority");
        stored
    }

    fn step(found: &Value) -> Step {
        let found: DynamicObject = serde_json::from_value(found.clone()).unwrap();
        Definitions::new(vec![definition()]).step(&found)
    }

    #[test]
    fn ho_30_the_metadata_of_a_crd_is_compared_without_the_defaults_of_the_host() {
        assert_eq!(step(&stored()), Step::Keep);
        let mut other = stored();
        other["metadata"]["name"] = json!("widgets.example.com");
        assert_eq!(step(&other), Step::Keep, "it is not Capstan's");
    }

    #[test]
    fn ho_30_a_label_a_column_or_a_version_that_differs_is_written() {
        let changes: [fn(&mut Value); 5] = [
            |it| it["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"] = json!("v1beta1"),
            |it| it["spec"]["names"]["categories"] = json!(["all"]),
            |it| it["spec"]["versions"][0]["additionalPrinterColumns"] = json!([column("Phase", 0)]),
            |it| it["spec"]["versions"][0]["name"] = json!("v1beta1"),
            |it| it["spec"]["versions"][0]["subresources"] = json!({}),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut found = stored();
            change(&mut found);
            let wanted = definition();
            let patch = json!({"metadata": {"labels": wanted["metadata"]["labels"]},
                "spec": {"names": wanted["spec"]["names"], "versions": wanted["spec"]["versions"]}});
            assert_eq!(step(&found), Step::Write(patch), "{number}");
        }
    }

    #[test]
    fn ho_30_a_crd_from_which_the_host_serves_the_kind_itself_stays() {
        let mut found = stored();
        found["spec"]["versions"][0]["name"] = json!("v1beta1");
        found["spec"]["versions"][0]["served"] = json!(true);
        assert_eq!(step(&found), Step::Keep);
    }

    #[tokio::test]
    async fn ho_30_metadata_is_written_once_and_an_absent_crd_stays_absent() {
        let host = Fake::new(status(404));
        let objects = OwnObjects::new(host.client(), WriteLimit::default());
        let definitions = Definitions::new(vec![definition()]);
        let wanted = Wanted::Definitions(&definitions);
        assert_eq!(objects.pass(wanted).await, OwnPass::default());

        let mut older = stored();
        older["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        host.responds(move |_, body| {
            if body.is_object() {
                older["spec"]["versions"] = body["spec"]["versions"].clone();
            }
            Some((200, older.clone()))
        });
        let written = OwnPass { written: vec![NAME.to_owned()], ..OwnPass::default() };
        assert_eq!(objects.pass(wanted).await, written);
        let patch = host.bodies().pop().unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(objects.pass(wanted).await, OwnPass::default());
        let path = format!("/apis/{GROUP}/v1/customresourcedefinitions/{NAME}");
        let requests = ["GET", "GET", "PATCH", "GET"].map(|method| format!("{method} {path}"));
        assert_eq!(host.requests(), requests);

        host.answer(status(403));
        let failure = format!("CustomResourceDefinition {NAME}: the fake responds 403");
        assert_eq!(objects.pass(wanted).await.failure, Some(failure));
    }
}
