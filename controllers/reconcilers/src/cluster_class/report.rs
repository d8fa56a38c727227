//! Status of a class. Pure.

use apiserver_types::{ClusterClass, Condition, ConditionStatus, Time, set_condition};

use super::decide::{Outcome, References};
use super::variables::conflict;
use crate::deprecated_conditions::{self, Old};
use crate::{condition_order, paused};

/// Condition about the versions of the references.
const REF_VERSIONS: &str = "RefVersionsUpToDate";

/// Condition about the variables.
const VARIABLES: &str = "VariablesReady";

/// Condition about the variables, in the form of v1beta1.
const OLD_VARIABLES: &str = "VariablesReconciled";

/// Reason of variables that are not known, in both forms.
const DISCOVERY_FAILED: &str = "VariableDiscoveryFailed";

/// Reason of references whose versions are not known, because a template does not exist.
pub(super) const INTERNAL_ERROR: &str = "InternalError";

/// Writes the status. The generation is observed only without an error, because Clusters of the class wait for it. Variables
/// whose definitions conflict are shown, so that people see the definitions.
pub(super) fn report(class: &mut ClusterClass, outcome: &Outcome, now: &Time) {
    report_pause(class, now);
    let generation = class.metadata.generation;
    let status = class.status.get_or_insert_default();
    let parts = [
        (REF_VERSIONS, REF_VERSIONS, references(&outcome.references)),
        (VARIABLES, OLD_VARIABLES, variables(outcome)),
    ];
    for (kind, old_kind, (holds, reason, message, old)) in parts {
        let condition = Condition::new(kind, holds, reason, &message, now.clone());
        let conditions = status.conditions.get_or_insert_default();
        set_condition(conditions, condition.at_generation(generation));
        condition_order::sort(conditions);
        let deprecated = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
        deprecated_conditions::set(deprecated.conditions.get_or_insert_default(), old_kind, old, now);
    }
    if let Ok(variables) = &outcome.variables {
        status.variables = (!variables.is_empty()).then(|| variables.clone());
        if !matches!(outcome.references, References::Missing(_)) && conflict(variables).is_none() {
            status.observed_generation = generation;
        }
    }
}

/// Writes the condition about the pause alone.
pub(super) fn report_pause(class: &mut ClusterClass, now: &Time) {
    let condition = paused::condition(class, None, now).at_generation(class.metadata.generation);
    let conditions = class.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(conditions, condition);
    condition_order::sort(conditions);
}

/// Status, reason and message of a condition, and its form in v1beta1.
type State = (ConditionStatus, &'static str, String, Old);

fn references(references: &References) -> State {
    match references {
        References::Latest => (ConditionStatus::True, REF_VERSIONS, String::new(), Old::True),
        References::Outdated(lines) => {
            let old = Old::no("Warning", "OutdatedRefVersions", lines.clone());
            (ConditionStatus::False, "RefVersionsNotUpToDate", lines.clone(), old)
        }
        References::Missing(message) => {
            let old = Old::Unknown(INTERNAL_ERROR, message.clone());
            (ConditionStatus::Unknown, INTERNAL_ERROR, message.clone(), old)
        }
    }
}

fn variables(outcome: &Outcome) -> State {
    let problem = match &outcome.variables {
        Ok(variables) => conflict(variables),
        Err(message) => Some(message.clone()),
    };
    match problem {
        None => (ConditionStatus::True, VARIABLES, String::new(), Old::True),
        Some(message) => {
            let old = Old::no("Error", DISCOVERY_FAILED, message.clone());
            (ConditionStatus::False, DISCOVERY_FAILED, message, old)
        }
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
