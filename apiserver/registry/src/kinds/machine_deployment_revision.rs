//! MachineDeploymentRevision: strategy.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::strategy::Strategy;
use serde_json::Value;

use crate::rules::{used_identities, used_secrets};

/// Credentials in the copy of the infrastructure template.
const IDENTITIES: [&str; 1] = ["spec.infrastructureTemplate.spec.template.spec.identityRef"];

/// Secrets in the template, and in the copy of the bootstrap template.
const SECRETS: [&str; 3] = [
    "spec.template.spec.bootstrap.dataSecretName",
    "spec.bootstrapTemplate.spec.template.spec.files[].contentFrom.secret.name",
    "spec.bootstrapTemplate.spec.template.spec.users[].passwdFrom.secret.name",
];

/// Strategy of MachineDeploymentRevision. A rollback writes the content of a revision with the server's own permissions. So
/// its writer needs the same permissions as that of the originals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineDeploymentRevisionStrategy;

impl Strategy for MachineDeploymentRevisionStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        let mut used = used_identities::at(object, &IDENTITIES);
        used.extend(used_secrets::at(object, &SECRETS));
        used
    }
}
