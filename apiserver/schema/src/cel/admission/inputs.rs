//! Inputs of an evaluation: the values of the variables, converted once for all expressions of a request.

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::{NAMESPACE, REQUEST};
use crate::cel::oracle::{AuthorizationOracle, AuthorizationQuestion};
use crate::cel::run::authorizer;
use crate::cel::value::unstructured;

/// Values of the variables of one request.
#[derive(Debug, Clone)]
pub struct AdmissionInputs {
    pub(super) values: Vec<(&'static str, Cel)>,
}

impl AdmissionInputs {
    /// Converts the values. An absent object is null.
    pub fn new(
        object: Option<&Value>,
        old_object: Option<&Value>,
        request: &Value,
        namespace: Option<&Value>,
    ) -> Self {
        let converted = |value: Option<&Value>| value.map_or(Cel::Null, unstructured);
        let namespace = namespace.map_or(Cel::Null, |value| NAMESPACE.to_cel(&brief(value)));
        let values = vec![
            ("object", converted(object)),
            ("oldObject", converted(old_object)),
            ("request", REQUEST.to_cel(request)),
            ("namespaceObject", namespace),
        ];
        Self { values }
    }

    /// Returns the inputs with an authorizer. `requested` is the question about the resource of the request.
    #[must_use]
    pub fn with_authorizer(&self, oracle: &AuthorizationOracle, requested: AuthorizationQuestion) -> Self {
        let mut values = self.values.clone();
        values.push(("authorizer", authorizer(oracle, requested)));
        Self { values }
    }

    /// Returns the inputs with the parameters of a policy.
    #[must_use]
    pub fn with_params(&self, params: Option<&Value>) -> Self {
        let mut values = self.values.clone();
        values.push(("params", params.map_or(Cel::Null, unstructured)));
        Self { values }
    }
}

/// Returns the fields of a namespace that expressions can read.
fn brief(namespace: &Value) -> Value {
    let mut namespace = namespace.clone();
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !matches!(field.as_str(), "managedFields" | "ownerReferences"));
        if let Some(uid) = metadata.remove("uid") {
            metadata.insert("UID".to_owned(), uid);
        }
    }
    namespace
}
