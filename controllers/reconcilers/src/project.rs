//! Project of an object's resources: it is noted, so that other credentials do not make them look deleted.

use std::collections::BTreeMap;

use controllers_infrastructure::Cloud;
use controllers_runtime::ReconcileError;

/// Annotation with the id of the project.
pub(crate) const ANNOTATION: &str = "capstan.dev/project";

/// Reason of an object whose credentials lead to another project.
pub(crate) const CHANGED: &str = "ProjectChanged";

/// Returns the project to note with the journal; `None` if the cloud does not name it.
///
/// # Errors
/// The resources are in another project than that of the credentials.
pub(crate) fn check(
    annotations: &BTreeMap<String, String>,
    cloud: &dyn Cloud,
) -> Result<Option<String>, ReconcileError> {
    compare(annotations.get(ANNOTATION).map(String::as_str), cloud.project())
}

fn compare(noted: Option<&str>, project: &str) -> Result<Option<String>, ReconcileError> {
    match noted.filter(|noted| !noted.is_empty()) {
        Some(noted) if !project.is_empty() && noted != project => {
            let message = format!(
                "spec.identityRef: the credentials lead to project {project}, and the resources are in project {noted}. \
                 Correct the credentials, or set the annotation {ANNOTATION} to {project} if they are no longer needed"
            );
            Err(ReconcileError::waiting(CHANGED, message))
        }
        _ => Ok(Some(project.to_owned()).filter(|project| !project.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r3_4_credentials_of_another_project_stop_the_pass() {
        assert_eq!(compare(None, "one").unwrap().as_deref(), Some("one"));
        assert_eq!(compare(Some("one"), "one").unwrap().as_deref(), Some("one"));
        assert_eq!(compare(Some("one"), "").unwrap(), None);
        let error = compare(Some("one"), "two").unwrap_err();
        assert_eq!(error.reason(), "ProjectChanged");
        assert!(error.to_string().contains("project two, and the resources are in project one"), "{error}");
    }
}
