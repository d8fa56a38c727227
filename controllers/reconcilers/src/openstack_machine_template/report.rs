//! Status of a template.

use apiserver_types::{
    Condition, ConditionStatus, OpenStackMachineTemplate, TemplateNodeInfo, Time, set_condition,
};
use controllers_infrastructure::ErrorClass;
use controllers_runtime::ReconcileError;

use super::capacity::{Size, capacity};

/// Operating system of an image that does not say: kubeadm makes nodes of Linux only.
const LINUX: &str = "linux";

/// End of a pass.
#[derive(Debug)]
pub(super) enum Ending {
    /// Flavor and image are known.
    Size(Box<Size>),
    /// The cloud refuses the credentials, or they cannot be read.
    NoLogin(ReconcileError),
    /// The flavor does not exist.
    NoFlavor(ReconcileError),
    /// The image does not exist.
    NoImage(ReconcileError),
    /// Another error stopped the pass.
    Stopped(ReconcileError),
}

/// Returns true if an error is about a name that matches nothing or too much.
pub(super) fn is_unresolved(error: &ReconcileError) -> bool {
    match error {
        ReconcileError::Cloud(error) => matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous),
        ReconcileError::Waiting { .. } => true,
        ReconcileError::Api(_) => false,
    }
}

/// Writes the size of the servers into the status. If it is not known, the last one stays.
pub(super) fn report(template: &mut OpenStackMachineTemplate, ending: &Ending, now: &Time) {
    let known = match ending {
        Ending::Size(size) => Some((capacity(template, size), size.image.os_type.clone())),
        _ => None,
    };
    let generation = template.metadata.generation;
    let status = template.status.get_or_insert_default();
    if let Some((capacity, system)) = known {
        status.capacity = Some(capacity);
        let system = system.filter(|system| !system.is_empty()).unwrap_or_else(|| LINUX.to_owned());
        status.node_info = Some(TemplateNodeInfo { operating_system: Some(system) });
    }
    let conditions = status.conditions.get_or_insert_default();
    for (kind, holds, reason, message) in conditions_of(ending) {
        let condition = Condition::new(kind, holds, reason, &message, now.clone());
        set_condition(conditions, condition.at_generation(generation));
    }
}

/// Returns the conditions: type, status, reason and message.
fn conditions_of(ending: &Ending) -> Vec<(&'static str, ConditionStatus, &'static str, String)> {
    const LOGIN: &str = "OpenStackAuthenticationSucceeded";
    let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
    let (error, reason) = match ending {
        Ending::Size(_) => {
            return vec![(LOGIN, yes, LOGIN, String::new()), ("Ready", yes, "Ready", String::new())];
        }
        Ending::NoLogin(error) => {
            let failed = (LOGIN, no, "OpenStackAuthenticationFailed", error.to_string());
            return vec![failed, ("Ready", no, "OpenStackAuthenticationFailed", error.to_string())];
        }
        Ending::NoFlavor(error) => (error, "FlavorNotFound"),
        Ending::NoImage(error) => (error, "ImageNotFound"),
        Ending::Stopped(error) => (error, error.reason()),
    };
    vec![(LOGIN, yes, LOGIN, String::new()), ("Ready", no, reason, error.to_string())]
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::{CloudError, Flavor};
    use controllers_runtime::now;

    use super::*;

    #[test]
    fn a_flavor_that_vanished_keeps_the_last_capacity() {
        let mut template =
            OpenStackMachineTemplate::new("t", apiserver_types::OpenStackMachineTemplateSpec::default());
        let flavor = Flavor { vcpus: 2, ..Flavor::default() };
        let size = Size { flavor, ..Size::default() };
        report(&mut template, &Ending::Size(Box::new(size)), &now());
        let known = template.status.clone().unwrap();
        assert_eq!(known.node_info.unwrap().operating_system.as_deref(), Some("linux"));
        let error = CloudError::new(ErrorClass::NotFound, "resolve spec.flavor", "nothing").into();
        assert!(is_unresolved(&error));
        report(&mut template, &Ending::NoFlavor(error), &now());
        assert_eq!(template.status.clone().unwrap().capacity, known.capacity);
        let ready = template.condition("Ready").unwrap();
        assert_eq!((ready.holds(), ready.reason.as_str()), (false, "FlavorNotFound"));
        assert!(template.condition("OpenStackAuthenticationSucceeded").unwrap().holds());
    }
}
