//! Adoption of resources that another tool created, and names that such resources have.
//!
//! Neutron accepts one name twice, so a resource of our name may belong to another tool. It is left alone until the user
//! says that it is the cluster's.

use std::collections::BTreeMap;

use controllers_runtime::ReconcileError;

/// Annotation with the resources that the cluster takes over: `<kind>/<id>`, separated by commas.
const ANNOTATION: &str = "capstan.dev/adopt";

/// Resources that the cluster takes over: kind and id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Adopted(Vec<(String, String)>);

impl Adopted {
    /// Reads the annotation.
    pub(super) fn read(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let text = annotations.and_then(|annotations| annotations.get(ANNOTATION));
        let parts = text.into_iter().flat_map(|text| text.split(','));
        let pairs = parts.filter_map(|part| part.trim().split_once('/'));
        Self(pairs.map(|(kind, id)| (kind.to_owned(), id.to_owned())).collect())
    }

    /// Returns true if a resource is taken over.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|(_, known)| known == id)
    }

    /// Returns the id of the resource of a kind that is taken over.
    pub(super) fn of_kind(&self, kind: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == kind).map(|(_, id)| id.as_str())
    }
}

/// Refuses the name of a new resource if a resource of another owner has it.
pub(super) fn check_free(
    kind: &str,
    name: &str,
    project: &str,
    id: Option<&str>,
) -> Result<(), ReconcileError> {
    let Some(id) = id else { return Ok(()) };
    let message = format!(
        "{kind} {name} ({id}) of project {project} belongs to another owner. Rename or delete it, or have the cluster \
         take it over: add {kind}/{id} to the annotation {ANNOTATION} of the OpenStackCluster"
    );
    Err(ReconcileError::waiting("NameTaken", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_4_a_resource_of_another_owner_is_taken_over_only_if_the_user_says_so() {
        let annotations = [(ANNOTATION.to_owned(), "network/n, router/r,nonsense".to_owned())].into();
        let adopted = Adopted::read(Some(&annotations));
        assert!(adopted.has("n") && adopted.has("r") && !adopted.has("s"));
        assert_eq!((adopted.of_kind("network"), adopted.of_kind("subnet")), (Some("n"), None));
        assert_eq!(Adopted::read(None), Adopted::default());
        assert!(check_free("network", "k8s", "p", None).is_ok());
        let error = check_free("network", "k8s", "p", Some("n")).unwrap_err();
        assert_eq!(error.reason(), "NameTaken");
        assert!(
            error.to_string().starts_with("network k8s (n) of project p belongs to another owner."),
            "{error}"
        );
    }
}
