//! MachineDrainRule: strategy and validation.

use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::json_fields::{get, items, text};
use crate::rules::label_selection::LabelSelection;

/// Selectors of each list.
const SELECTORS: [(&str, [&str; 2]); 2] =
    [("machines", ["selector", "clusterSelector"]), ("pods", ["selector", "namespaceSelector"])];

/// Strategy of MachineDrainRule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineDrainRuleStrategy;

impl Strategy for MachineDrainRuleStrategy {
    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let order =
            get(new, "spec.drain.order").filter(|_| text(new, "spec.drain.behavior") != Some("Drain"));
        if let Some(order) = order {
            let detail = "order must not be set if drain behavior is \"Skip\" or \"WaitCompleted\"";
            errors.push(FieldError::invalid(FieldPath::new("spec.drain.order"), order, detail));
        }
        for (list, fields) in SELECTORS {
            for (index, entry) in items(new, &format!("spec.{list}")) {
                for field in fields {
                    let Some(Err(problem)) = entry.get(field).map(LabelSelection::read) else { continue };
                    let path = FieldPath::new("spec").child(list).index(index).child(field);
                    errors.push(FieldError::invalid(path, &entry[field], &problem));
                }
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_order_requires_behavior_drain_and_selectors_must_be_valid() {
        let bad = json!({"matchExpressions": [{"key": "a", "operator": "Is"}]});
        for (spec, expected) in [
            (json!({"drain": {"behavior": "Drain", "order": 1}, "pods": [{"selector": {}}]}), vec![]),
            (json!({"drain": {"behavior": "Skip"}}), vec![]),
            (json!({"drain": {"behavior": "WaitCompleted", "order": 1}}), vec!["spec.drain.order"]),
            (
                json!({"drain": {"behavior": "Skip"}, "machines": [{"clusterSelector": bad}], "pods": [{"selector": {}}, {"namespaceSelector": bad}]}),
                vec!["spec.machines[0].clusterSelector", "spec.pods[1].namespaceSelector"],
            ),
        ] {
            let errors = MachineDrainRuleStrategy.validate(&json!({"spec": spec}), None);
            let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
            assert_eq!(fields, expected, "{spec}");
        }
    }
}
