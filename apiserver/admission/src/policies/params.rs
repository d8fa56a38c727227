//! Parameters of a policy: objects of the kinds that this server has, and ConfigMaps of the host cluster.

use std::sync::Arc;

use apiserver_machinery::resource::Resource;
use apiserver_machinery::selectors::FieldSelector;
use apiserver_machinery::store::{Freshness, Kind, ListRequest, ObjectStore, RevisionMatch};
use serde_json::Value;

use super::compile::{Base, Binding, ParamKind, ParamRef};
use crate::host::{HostCluster, HostParameters, is_config_map};
use crate::one_request::OneRequest;
use crate::snapshot::Source;

/// Returns the parameters for a request in a namespace. Each of them is evaluated by itself; `None` is an evaluation
/// without parameters.
///
/// # Errors
/// The reason why the binding cannot be evaluated.
pub(super) async fn collect(
    admission: &OneRequest,
    base: &Base,
    binding: &Binding,
    namespace: &str,
) -> Result<Vec<Option<Arc<Value>>>, String> {
    let (Some(of), Some(reference)) = (&base.param_kind, &binding.params) else { return Ok(vec![None]) };
    let found = if base.source == Source::Host && is_config_map((&of.0, &of.1, &of.2)) {
        of_host(admission.host(), reference, namespace).await?
    } else {
        stored(admission.store(), (of, base.source), reference, namespace).await?
    };
    if found.is_empty() && reference.must_exist {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}

/// Returns ConfigMaps of the host. One of the direct endpoint is none of the host, even if both have the same name: its
/// writer could change the rules of the host.
async fn of_host(
    host: Option<&dyn HostCluster>,
    reference: &ParamRef,
    namespace: &str,
) -> Result<Vec<Arc<Value>>, String> {
    let host = host.ok_or("there is no host cluster")?;
    let namespace = namespace_of(true, reference, namespace)?;
    let selector = reference.selector.as_ref().map_err(Clone::clone)?;
    host.parameters(&HostParameters::new(&reference.namespace, &reference.name, selector), namespace).await
}

/// Returns objects of a kind that is served here.
async fn stored(
    store: &ObjectStore,
    (of, source): (&ParamKind, Source),
    reference: &ParamRef,
    namespace: &str,
) -> Result<Vec<Arc<Value>>, String> {
    let found = store.registry().resources().iter().find(|it| is_of(it, of));
    let resource = usable(found.map(AsRef::as_ref), of, source)?;
    // Objects are read in their stored version, and converted.
    let kind = store.kind_of(&resource.group, &resource.plural).ok_or_else(|| unknown(of))?;
    let namespace = namespace_of(resource.namespaced, reference, namespace)?;
    let found = if reference.name.is_empty() {
        selected(store, kind, namespace, reference).await?
    } else {
        named(store, kind, namespace, &reference.name).await?
    };
    found.into_iter().map(|object| in_version(resource, object).map(Arc::new)).collect()
}

pub(super) fn is_of(resource: &Resource, of: &ParamKind) -> bool {
    (&resource.group, &resource.version, &resource.kind) == (&of.0, &of.1, &of.2)
}

fn unknown(of: &ParamKind) -> String {
    format!("paramKind {}/{}, Kind={} is not served here", of.0, of.1, of.2)
}

/// Returns the resource of the parameters. Policies of the host see the kinds that the host serves through Capstan.
fn usable<'a>(found: Option<&'a Resource>, of: &ParamKind, source: Source) -> Result<&'a Resource, String> {
    let resource = found.ok_or_else(|| unknown(of))?;
    if source.governs(resource) {
        return Ok(resource);
    }
    Err(format!("paramKind {}/{}, Kind={} of the host cluster cannot be read here", of.0, of.1, of.2))
}

fn namespace_of<'a>(
    is_namespaced: bool,
    reference: &'a ParamRef,
    of_request: &'a str,
) -> Result<&'a str, String> {
    match (is_namespaced, reference.namespace.as_str(), of_request) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::kind;

    #[test]
    fn the_host_has_no_parameters_of_the_direct_endpoint() {
        let of = ("toys.example.com".to_owned(), "v1".to_owned(), "Gadget".to_owned());
        let (hosted, direct) = (kind(true), kind(false));
        assert!(is_of(&hosted, &of));
        for source in [Source::Files, Source::Objects, Source::Host] {
            assert!(usable(Some(&hosted), &of, source).is_ok());
            assert_eq!(usable(None, &of, source).unwrap_err(), unknown(&of));
        }
        assert!(usable(Some(&direct), &of, Source::Objects).is_ok());
        let refused = usable(Some(&direct), &of, Source::Host).unwrap_err();
        assert!(refused.contains("Kind=Gadget of the host cluster cannot be read here"), "{refused}");
    }
}
