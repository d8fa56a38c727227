//! Parameters of a policy: objects of the kinds that this server has.

use apiserver_machinery::resource::Resource;
use apiserver_machinery::selectors::FieldSelector;
use apiserver_machinery::store::{Freshness, Kind, ListRequest, ObjectStore, RevisionMatch};
use serde_json::Value;

use super::compile::{Binding, ParamKind, ParamRef};

/// Returns the parameters for a request in a namespace. Each of them is evaluated by itself; `None` is an evaluation
/// without parameters.
///
/// # Errors
/// The reason why the binding cannot be evaluated.
pub(super) async fn collect(
    store: &ObjectStore,
    param_kind: Option<&ParamKind>,
    binding: &Binding,
    namespace: &str,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(of), Some(reference)) = (param_kind, &binding.params) else { return Ok(vec![None]) };
    let resource = store.registry().resources().iter();
    let mut resource = resource.filter(|it| (&it.group, &it.version, &it.kind) == (&of.0, &of.1, &of.2));
    let unknown = || format!("paramKind {}/{}, Kind={} is not served here", of.0, of.1, of.2);
    let resource = resource.next().ok_or_else(unknown)?;
    // Objects are read in their stored version, and converted.
    let kind = store.kind_of(&resource.group, &resource.plural).ok_or_else(unknown)?;
    let namespace = namespace_of(resource, reference, namespace)?;
    let found = if reference.name.is_empty() {
        selected(store, kind, namespace, reference).await?
    } else {
        named(store, kind, namespace, &reference.name).await?
    };
    if found.is_empty() && reference.must_exist {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    found.into_iter().map(|object| in_version(resource, object).map(Some)).collect()
}

fn namespace_of<'a>(
    resource: &Resource,
    reference: &'a ParamRef,
    of_request: &'a str,
) -> Result<&'a str, String> {
    match (resource.namespaced, reference.namespace.as_str(), of_request) {
        (false, "", _) => Ok(""),
        (false, ..) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
        }
        (true, "", "") => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            Err(why.to_owned())
        }
        (true, "", namespace) | (true, namespace, _) => Ok(namespace),
    }
}

async fn named(
    store: &ObjectStore,
    kind: Kind<'_>,
    namespace: &str,
    name: &str,
) -> Result<Vec<Value>, String> {
    match store.get(kind, namespace, name, Freshness::Any).await {
        Ok(found) => Ok(vec![found.to_value().map_err(|error| error.to_string())?]),
        Err(error) if error.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.message),
    }
}

async fn selected(
    store: &ObjectStore,
    kind: Kind<'_>,
    namespace: &str,
    reference: &ParamRef,
) -> Result<Vec<Value>, String> {
    let request = ListRequest {
        namespace: namespace.to_owned(),
        labels: reference.selector.clone()?,
        fields: FieldSelector::default(),
        limit: 0,
        token: None,
        revision: RevisionMatch::AtLeast(Freshness::Any),
    };
    let found = store.list(kind, &request).await.map_err(|error| error.message)?;
    found.items.iter().map(|item| item.to_value().map_err(|error| error.to_string())).collect()
}

fn in_version(resource: &Resource, object: Value) -> Result<Value, String> {
    match &resource.conversion {
        None => Ok(object),
        Some(conversion) => conversion.served(object).map_err(|error| error.to_string()),
    }
}
