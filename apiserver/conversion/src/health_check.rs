//! Conversion of health checks and remediation: of a MachineHealthCheck, a topology and a class.

use serde_json::Value;

use crate::empty::drop_each;
use crate::fields::{drop_empty, duration, each, rename, rename_as};
use crate::references::{default_namespace_to, template_from_stored, template_to_stored};
use crate::timeouts::whole_seconds;

/// Lists of conditions that mean unhealthy: older path and stored path.
const CONDITIONS: [(&str, &str); 2] = [
    ("unhealthyConditions", "checks.unhealthyNodeConditions"),
    ("unhealthyMachineConditions", "checks.unhealthyMachineConditions"),
];

/// Bounds of the number of unhealthy machines: older path and stored path.
const BOUNDS: [(&str, &str); 2] = [
    ("maxUnhealthy", "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    ("unhealthyRange", "remediation.triggerIf.unhealthyInRange"),
];

/// Sets v1beta1's default: remediation is in the namespace of the object.
pub(crate) fn default(check: &mut Value, namespace: &str) {
    default_namespace_to(check, "remediationTemplate", namespace);
}

/// Converts a structure of v1beta1, which has these fields itself.
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

/// Converts a structure of v1beta2, which has `checks` and `remediation`.
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
