//! Remedies of refused creations: what a person can do about the words of the cloud, and in which field.

use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::ReconcileError;

/// Words of the cloud in lower case, and the remedy. The first that match count.
const REMEDIES: [(&str, &str); 14] = [
    (
        "key_name",
        "Create the key pair as the user of the credentials, or name another one in spec.sshKeyName",
    ),
    ("too many server", "Raise the quota of the project, or use another group in spec.serverGroup"),
    ("quota", "Raise the quota of the project, or delete what is not needed there"),
    ("maximum number of ports", "Raise the quota of the project, or delete what is not needed there"),
    ("availability zones do not match", "Set the availabilityZone of the volumes to that of the machine"),
    (
        "availability zone",
        "Correct spec.failureDomain of the Machine, or the availabilityZone of its volumes",
    ),
    ("only volume-backed servers", "Set spec.rootVolume, or use a flavor with a disk in spec.flavor"),
    ("too small", "Use a larger flavor in spec.flavor, or a smaller image in spec.image"),
    ("no valid host", "Use another failure domain or flavor, or ask the operator of the cloud for capacity"),
    (
        "exhausted all hosts",
        "Use another failure domain or flavor, or ask the operator of the cloud for capacity",
    ),
    ("no more ip addresses", "Add an allocation pool to the subnet, or use another one in spec.ports"),
    (
        "disallowed by policy",
        "The rule names the field. Remove it from spec.ports, or ask the operator for the role",
    ),
    ("requested image", "Check spec.image: the project of the credentials must see the image"),
    ("volume type", "Correct the type of spec.rootVolume or spec.additionalBlockDevices"),
];

/// Adds the remedy to an error of the cloud, if its words are known.
pub(super) fn with_remedy(error: ReconcileError) -> ReconcileError {
    match error {
        ReconcileError::Cloud(error) => match remedy(&error) {
            Some(remedy) => {
                let message = format!("{}. {remedy}", error.message.trim_end_matches(['.', ' ']));
                ReconcileError::Cloud(CloudError { message, ..error })
            }
            None => error.into(),
        },
        other => other,
    }
}

fn remedy(error: &CloudError) -> Option<&'static str> {
    if matches!(error.class, ErrorClass::Unreachable | ErrorClass::Throttled | ErrorClass::Unauthorized) {
        return None;
    }
    let words = error.message.to_lowercase();
    REMEDIES.iter().find(|(said, _)| words.contains(said)).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_the_words_of_the_cloud_and_names_field_and_remedy() {
        let table = [
            ("Invalid key_name provided.", "spec.sshKeyName"),
            (
                "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances",
                "Raise the quota",
            ),
            ("Quota exceeded, too many servers in group", "Raise the quota"),
            ("The requested availability zone is not available", "spec.failureDomain"),
            ("Flavor's memory is too small for requested image.", "spec.flavor"),
            ("No valid host was found. There are not enough hosts available.", "capacity"),
            ("(rule:create_port and rule:create_port:binding:host_id) is disallowed by policy", "spec.ports"),
            ("Only volume-backed servers are allowed for flavors with zero disk.", "spec.rootVolume"),
        ];
        for (words, expected) in table {
            let error = CloudError::new(ErrorClass::Invalid, "create server \"m\"", words);
            let text = with_remedy(error.into()).to_string();
            assert!(
                text.starts_with(&format!("create server \"m\": {}", words.trim_end_matches('.'))),
                "{text}"
            );
            assert!(text.contains(expected), "{text}");
        }
        let lost = CloudError::new(ErrorClass::Unreachable, "create server", "no connection: quota");
        assert_eq!(with_remedy(lost.into()).to_string(), "create server: no connection: quota");
    }
}
