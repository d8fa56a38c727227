//! When machines are unhealthy and what then: of a MachineHealthCheck, of a topology, of a class.

use serde_json::Value;

use crate::empty::drop_each;
use crate::fields::{drop_empty, duration, each, rename, rename_as};
use crate::references::{default_namespace_to, template_from_stored, template_to_stored};
use crate::timeouts::whole_seconds;

/// Lists of conditions that mean unhealthy, before and after.
const CONDITIONS: [(&str, &str); 2] = [
    ("unhealthyConditions", "checks.unhealthyNodeConditions"),
    ("unhealthyMachineConditions", "checks.unhealthyMachineConditions"),
];

/// Bounds of how many may be unhealthy, before and after.
const BOUNDS: [(&str, &str); 2] = [
    ("maxUnhealthy", "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    ("unhealthyRange", "remediation.triggerIf.unhealthyInRange"),
];

/// What v1beta1 fills in: remediation is in the namespace of the object that asks for it.
pub(crate) fn default(check: &mut Value, namespace: &str) {
    default_namespace_to(check, "remediationTemplate", namespace);
}

/// In a structure of v1beta1 that has these fields itself.
pub(crate) fn to_stored(check: &mut Value) {
    drop_each(check, &["unhealthyConditions", "unhealthyRange"]);
    for (old, new) in CONDITIONS {
        each(check, old, |condition| {
            rename_as(condition, "timeout", "timeoutSeconds", |timeout| whole_seconds(&timeout));
        });
        rename(check, old, new);
    }
    rename_as(check, "nodeStartupTimeout", "checks.nodeStartupTimeoutSeconds", |timeout| {
        whole_seconds(&timeout)
    });
    for (old, new) in BOUNDS {
        rename(check, old, new);
    }
    template_to_stored(check, "remediationTemplate", "remediation.templateRef");
}

/// In a structure of v1beta2 that has `checks` and `remediation`.
pub(crate) fn from_stored(check: &mut Value, namespace: &str) {
    for (old, new) in CONDITIONS {
        each(check, new, |condition| {
            rename_as(condition, "timeoutSeconds", "timeout", |timeout| duration(&timeout));
        });
        rename(check, new, old);
    }
    rename_as(check, "checks.nodeStartupTimeoutSeconds", "nodeStartupTimeout", |timeout| duration(&timeout));
    for (old, new) in BOUNDS {
        rename(check, new, old);
    }
    template_from_stored(check, "remediation.templateRef", "remediationTemplate", namespace);
    for emptied in ["checks", "remediation.triggerIf", "remediation"] {
        drop_empty(check, emptied);
    }
}
