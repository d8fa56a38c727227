//! Match conditions: expressions that a write must meet in addition to the rules.

use apiserver_schema::{AdmissionExpression, AdmissionInputs, Declared, Evaluation, EvaluationError, Wanted};
use serde_json::Value;

use crate::value::{entries, text};

/// Cost budget of the conditions of one webhook or one policy: upstream's.
const BUDGET: u64 = 2_500_000;

/// Compiled match conditions.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Vec<AdmissionExpression>);

impl Conditions {
    /// Compiles the conditions of a webhook or a policy.
    ///
    /// # Errors
    /// The text names the condition that cannot be compiled.
    pub(crate) fn compile(of: &Value, has_params: bool) -> Result<Self, String> {
        let declared = Declared { params: has_params, authorizer: true, ..Declared::default() };
        let conditions = entries(of, "matchConditions").iter().map(|condition| {
            let source = text(condition, "expression").trim();
            AdmissionExpression::compile(source, &declared, Wanted::Bool)
                .map_err(|why| format!("matchConditions {:?}: {why}", text(condition, "name")))
        });
        conditions.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all conditions are met. One that is not met decides, whatever the others are.
    ///
    /// # Errors
    /// The texts of the conditions that failed, if no condition is false.
    pub(crate) fn are_met(&self, inputs: &AdmissionInputs) -> Result<bool, String> {
        let mut evaluation = Evaluation::new(inputs, &[], BUDGET);
        let mut errors = Vec::new();
        for condition in &self.0 {
            match evaluation.evaluate(condition) {
                Ok(value) if value.is_false() => return Ok(false),
                Ok(_) => {}
                Err(over @ EvaluationError::OutOfBudget) => return Err(over.to_string()),
                Err(error) => errors.push(error.to_string()),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_false_condition_decides_before_a_failed_one() {
        let object = json!({"spec": {"a": 1}});
        let inputs = AdmissionInputs::new(Some(&object), None, &json!({}), None);
        let met = |sources: &[&str]| {
            let conditions: Vec<Value> =
                sources.iter().map(|source| json!({"name": "n", "expression": source})).collect();
            Conditions::compile(&json!({"matchConditions": conditions}), false).unwrap().are_met(&inputs)
        };
        assert_eq!(met(&[]), Ok(true));
        assert_eq!(met(&["object.spec.a == 1", "true"]), Ok(true));
        assert_eq!(met(&["object.spec.b == 1", "false"]), Ok(false));
        let error = met(&["object.spec.b == 1", "true"]).unwrap_err();
        assert_eq!(error, "expression 'object.spec.b == 1' resulted in error: no such key: b");
    }
}
