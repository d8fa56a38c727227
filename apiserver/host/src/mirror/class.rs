//! Classes of requests, each with the longest age of the permissions that may allow them.

use std::time::Duration;

use apiserver_access::Attributes;

/// Verbs that change objects.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// Verbs that read objects.
const READS: [&str; 3] = ["get", "list", "watch"];

/// API groups of identities and permissions.
const ACCESS: [&str; 4] =
    ["authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "rbac.authorization.k8s.io"];

/// Subresources that are written as the object itself is.
const PARTS: [&str; 3] = ["", "scale", "status"];

const HOUR: u64 = 3600;

/// Class of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Reads of objects.
    Read,
    /// Writes of objects.
    Write,
    /// Verbs of machines, such as a reboot.
    Act,
    /// Requests that reveal credentials, or give identities and permissions; and all others.
    Sensitive,
}

impl Class {
    /// All classes.
    pub(crate) const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Act, Self::Sensitive];

    /// Returns the class of a request.
    pub(crate) fn of(attributes: &Attributes) -> Self {
        let Attributes { verb, group, resource, subresource, .. } = attributes;
        let is_access = ACCESS.contains(&group.as_str()) || subresource == "token";
        // The response to the write of a Secret contains the Secret.
        let is_secret = group.is_empty() && resource == "secrets";
        if !attributes.is_resource() || is_access || is_secret {
            return Self::Sensitive;
        }
        if READS.contains(&verb.as_str()) {
            return Self::Read;
        }
        if !WRITES.contains(&verb.as_str()) {
            return Self::Sensitive;
        }
        let is_act = !PARTS.contains(&subresource.as_str()) || resource == "machineoperations";
        if is_act && verb == "create" { Self::Act } else { Self::Write }
    }

    /// Returns the name in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Act => "act",
            Self::Sensitive => "sensitive",
        }
    }
}

/// Longest ages of the host's permissions, by class. That of the sensitive class is always zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bound of reads. Default: 24 hours.
    pub read: Duration,
    /// Bound of writes. Default: 4 hours.
    pub write: Duration,
    /// Bound of the verbs of machines. Default: 4 hours.
    pub act: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        // An operator who comes in the morning can still read, and an attacker who was removed cannot write for a day.
        let [read, write] = [24 * HOUR, 4 * HOUR].map(Duration::from_secs);
        Self { read, write, act: write }
    }
}

impl Bounds {
    /// Returns true if permissions of this age may allow a request of the class.
    pub(crate) fn allow(&self, class: Class, age: Duration) -> bool {
        let bound = match class {
            Class::Read => self.read,
            Class::Write => self.write,
            Class::Act => self.act,
            Class::Sensitive => return false,
        };
        age <= bound
    }

    /// Returns the longest of the bounds.
    pub(crate) fn longest(&self) -> Duration {
        self.read.max(self.write).max(self.act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_one_class_and_unknown_ones_are_sensitive() {
        let own = "cluster.x-k8s.io";
        for (verb, group, resource, expected) in [
            ("list", own, "machines", Class::Read),
            ("get", "", "events", Class::Read),
            ("get", own, "machines/status", Class::Read),
            ("patch", own, "machines", Class::Write),
            ("deletecollection", own, "machines", Class::Write),
            ("update", own, "machinedeployments/scale", Class::Write),
            ("create", own, "machines/reboot", Class::Act),
            ("create", "capstan.dev", "machineoperations", Class::Act),
            ("patch", "capstan.dev", "machineoperations", Class::Write),
            ("get", "", "secrets", Class::Sensitive),
            ("create", "", "secrets", Class::Sensitive),
            ("create", "", "serviceaccounts/token", Class::Sensitive),
            ("get", "rbac.authorization.k8s.io", "roles", Class::Sensitive),
            ("create", "authentication.k8s.io", "tokenreviews", Class::Sensitive),
            ("approve", "certificates.k8s.io", "signers", Class::Sensitive),
            ("impersonate", "", "users", Class::Sensitive),
            ("use", "infrastructure.cluster.x-k8s.io", "openstackclusteridentities", Class::Sensitive),
            ("bind", own, "machines", Class::Sensitive),
            ("get", "", "", Class::Sensitive),
        ] {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let [verb, group, resource, subresource] =
                [verb, group, resource, subresource].map(str::to_owned);
            let attributes = Attributes { verb, group, resource, subresource, ..Attributes::default() };
            assert_eq!(Class::of(&attributes), expected, "{attributes:?}");
        }
    }

    #[test]
    fn a_bound_is_the_last_second() {
        let bounds = Bounds::default();
        let [day, hours] = [86_400, 4 * HOUR];
        for (class, bound) in [(Class::Read, day), (Class::Write, hours), (Class::Act, hours)] {
            let at = |seconds| bounds.allow(class, Duration::from_secs(seconds));
            assert!(at(0) && at(bound - 1) && at(bound) && !at(bound + 1), "{class:?}");
        }
        assert!(!bounds.allow(Class::Sensitive, Duration::ZERO));
    }
}
