//! Objects to which a token can be bound: it ends with them.

use super::claims::{ObjectId, Objects};

/// Kind of an object to which a token can be bound.
#[derive(Debug)]
pub(super) struct BoundKind {
    pub(super) kind: &'static str,
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    /// Versions that a reference may name, the stored one first.
    pub(super) versions: &'static [&'static str],
    /// Claim of the object.
    claim: fn(&mut Objects) -> &mut Option<ObjectId>,
}

/// All kinds.
pub(super) const KINDS: [BoundKind; 3] = [
    BoundKind {
        kind: "Secret",
        group: "",
        plural: "secrets",
        versions: &["v1"],
        claim: |objects| &mut objects.secret,
    },
    BoundKind {
        kind: "Machine",
        group: "cluster.x-k8s.io",
        plural: "machines",
        versions: &["v1beta2", "v1beta1"],
        claim: |objects| &mut objects.machine,
    },
    BoundKind {
        kind: "MachineOperation",
        group: "capstan.dev",
        plural: "machineoperations",
        versions: &["v1alpha1"],
        claim: |objects| &mut objects.machine_operation,
    },
];

impl BoundKind {
    /// Returns the kind of a reference; `None` if a token cannot be bound to it. An empty version is the stored one.
    pub(super) fn find(api_version: &str, kind: &str) -> Option<&'static Self> {
        let known = KINDS.iter().find(|known| known.kind == kind)?;
        let is_known = |version: &&str| match known.group {
            "" => api_version == *version,
            group => api_version.strip_prefix(group).and_then(|rest| rest.strip_prefix('/')) == Some(version),
        };
        (api_version.is_empty() || known.versions.iter().any(is_known)).then_some(known)
    }

    /// Writes the object into the claims.
    pub(super) fn bind(&self, objects: &mut Objects, id: ObjectId) {
        *(self.claim)(objects) = Some(id);
    }

    /// Returns the object of this kind in the claims.
    pub(super) fn bound(&self, objects: &Objects) -> Option<ObjectId> {
        (self.claim)(&mut objects.clone()).take()
    }
}
