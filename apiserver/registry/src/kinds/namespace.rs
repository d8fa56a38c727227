//! Namespace: strategy, validation and protobuf form.

use apiserver_machinery::admission::GrantingWrite;
use apiserver_machinery::metadata::{is_qualified_name, label_errors};
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::PROVISIONAL;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::rules::{grants, protection};

/// Finalizer that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// Namespaces that cannot be deleted, because clients and the server need them. Upstream keeps them as well.
const PERMANENT: [&str; 4] = ["default", "kube-system", "kube-public", "capstan-system"];

/// Strategy of Namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamespaceStrategy;

#[async_trait]
impl Strategy for NamespaceStrategy {
    /// A namespace of a Keystone project gives permissions to the users of the project.
    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        grants::check_project(write).await
    }

    /// Sets the label with the namespace's name, on which selectors of namespaces rely.
    fn canonicalize(&self, new: &mut Value) {
        let name = object::name(new).to_owned();
        if !name.is_empty() {
            label(new, &name);
        }
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        let name = object::name(new).to_owned();
        let phase = if object::is_deleting(new) { "Terminating" } else { "Active" };
        label(new, &name);
        if !old.is_some_and(is_provisional) {
            remove_provisional(new);
        }
        if let Some(root) = new.as_object_mut() {
            // Conditions describe a deletion. A namespace that is being created has none.
            let conditions = root.get("status").and_then(|status| status.get("conditions")).cloned();
            let mut status = json!({"phase": phase});
            if let Some(conditions) = conditions.filter(|_| old.is_some()) {
                status["conditions"] = conditions;
            }
            root.insert("status".to_owned(), status);
        }
        if old.is_none() {
            add_finalizer(new);
        }
    }

    /// Every write sets the phase in the status.
    fn reads_status(&self) -> bool {
        true
    }

    /// Names are shorter than those of other kinds, because they are part of other names.
    fn name_errors(&self, name: &str) -> Vec<String> {
        label_errors(name)
    }

    fn deletes_collections(&self) -> bool {
        false
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        finalizer_errors(new)
    }

    fn refuse_deletion(&self, object: &Value) -> Option<&'static str> {
        let name = object::name(object);
        PERMANENT.contains(&name).then_some("this namespace may not be deleted")
    }

    /// The objects in a namespace are deleted with it. Without the finalizer they stay: the host cluster has a namespace of
    /// this name, too.
    async fn refuse_deletion_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        if !object::spec_finalizers(object).contains(&FINALIZER) {
            return Ok(None);
        }
        protection::refusal_of_namespace(object, others).await
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }

    fn has_spec_finalizers(&self) -> bool {
        true
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

fn label(namespace: &mut Value, name: &str) {
    let Some(metadata) = object::metadata_mut(namespace) else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    }
}

/// Returns true if a namespace was created while the host cluster did not answer.
fn is_provisional(namespace: &Value) -> bool {
    object::at(namespace, "metadata.annotations").is_some_and(|all| all.get(PROVISIONAL).is_some())
}

/// Removes the annotation of a client: only the server adds it, in an outage. With it, Capstan's own user creates the
/// namespace in the host cluster.
fn remove_provisional(namespace: &mut Value) {
    object::remove_at(namespace, &["metadata", "annotations", PROVISIONAL]);
}

/// Adds the finalizer that keeps a namespace until it is empty. The controller that empties it removes the finalizer.
fn add_finalizer(namespace: &mut Value) {
    let Some(root) = namespace.as_object_mut() else { return };
    let spec = root.entry("spec").or_insert_with(|| json!({}));
    let Some(spec) = spec.as_object_mut() else { return };
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut().filter(|list| !list.contains(&json!(FINALIZER))) {
        finalizers.push(json!(FINALIZER));
    }
}

fn finalizer_errors(namespace: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("spec.finalizers");
    let is_good = |name: &str| name == FINALIZER || (name.contains('/') && is_qualified_name(name));
    let bad = object::spec_finalizers(namespace).into_iter().filter(|name| !is_good(name));
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    bad.map(|name| FieldError::invalid(path.clone(), &json!(name), detail)).collect()
}

/// Protobuf message, with the fields that clients can set.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(2, "spec", Shape::Message(&[Field::list(1, "finalizers", Shape::Text)])),
    Field::new(3, "status", Shape::Message(&[Field::new(1, "phase", Shape::Text), CONDITIONS])),
];

const CONDITIONS: Field = Field::list(
    2,
    "conditions",
    Shape::Message(&[
        Field::new(1, "type", Shape::Text),
        Field::new(2, "status", Shape::Text),
        Field::new(4, "lastTransitionTime", Shape::Time),
        Field::new(5, "reason", Shape::Text),
        Field::new(6, "message", Shape::Text),
    ]),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_gets_a_name_label_a_phase_and_a_finalizer() {
        let mut namespace =
            json!({"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "b"}}});
        NamespaceStrategy.prepare(&mut namespace, None);
        assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "a"}));
        assert_eq!(namespace["status"], json!({"phase": "Active"}));
        assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
        namespace["metadata"]["deletionTimestamp"] = json!("2026-11-21T06:00:00Z");
        let old = namespace.clone();
        NamespaceStrategy.prepare(&mut namespace, Some(&old));
        assert_eq!(namespace["status"], json!({"phase": "Terminating"}));
        namespace["status"]["conditions"] = json!([{"type": "A", "status": "True"}]);
        NamespaceStrategy.prepare(&mut namespace, Some(&old));
        assert_eq!(namespace["status"]["conditions"], json!([{"type": "A", "status": "True"}]));
    }

    #[test]
    fn ho_35_a_client_removes_the_annotation_of_a_provisional_namespace_and_does_not_add_it() {
        let namespace = |annotations: Value| json!({"metadata": {"name": "a", "annotations": annotations}});
        let prepared = |annotations: Value, old: Option<&Value>| {
            let mut new = namespace(annotations);
            NamespaceStrategy.prepare(&mut new, old);
            new["metadata"]["annotations"].clone()
        };
        let marked = json!({PROVISIONAL: "true", "a": "b"});
        let (plain, old) = (namespace(json!({"a": "b"})), namespace(marked.clone()));
        assert_eq!(prepared(marked.clone(), None), json!({"a": "b"}), "created");
        assert_eq!(prepared(marked.clone(), Some(&plain)), json!({"a": "b"}), "added");
        assert_eq!(prepared(marked.clone(), Some(&old)), marked, "kept");
        assert_eq!(prepared(json!({"a": "b"}), Some(&old)), json!({"a": "b"}), "removed");
    }

    /// Objects of a namespace: a protected Cluster.
    #[derive(Debug)]
    struct ProtectedCluster;

    #[async_trait]
    impl ObjectReader for ProtectedCluster {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(None)
        }

        async fn all(&self, _: &str, plural: &str, _: &str) -> ApiResult<Vec<Value>> {
            let cluster = json!({"kind": "Cluster",
                "metadata": {"name": "c", "annotations": {"capstan.dev/protected": "true"}}});
            Ok(if plural == "clusters" { vec![cluster] } else { Vec::new() })
        }
    }

    #[tokio::test]
    async fn ho_35_protected_objects_hold_a_namespace_only_if_they_would_be_deleted_with_it() {
        let refused = async |finalizers: Value| {
            let namespace = json!({"metadata": {"name": "a"}, "spec": {"finalizers": finalizers}});
            NamespaceStrategy.refuse_deletion_with(&namespace, &ProtectedCluster).await.unwrap().is_some()
        };
        assert!(refused(json!([FINALIZER])).await);
        assert!(!refused(json!(["example.com/x"])).await);
    }

    #[test]
    fn a_namespace_name_is_a_dns_label_and_not_a_subdomain() {
        for (name, good) in
            [("team-1", true), ("a.b", false), (&"a".repeat(63), true), (&"a".repeat(64), false)]
        {
            assert_eq!(NamespaceStrategy.name_errors(name).is_empty(), good, "{name}");
        }
    }

    #[test]
    fn finalizers_of_a_namespace_need_a_domain_prefix() {
        for (name, good) in [("kubernetes", true), ("a.b/c", true), ("foreign", false), ("a b/c", false)] {
            let namespace = json!({"metadata": {"name": "a"}, "spec": {"finalizers": [name]}});
            assert_eq!(NamespaceStrategy.validate(&namespace, None).is_empty(), good, "{name}");
        }
    }
}
