//! Match conditions: expressions that a write must meet in addition to the rules.

use apiserver_schema::{AdmissionInputs, Declared, Evaluation, EvaluationError, Wanted};
use serde_json::Value;

use crate::expressions::{Compiled, Compiler};
use crate::value::{entries, text};

/// Cost budget of the conditions of one webhook or one policy: upstream's.
const BUDGET: u64 = 2_500_000;

/// Compiled match conditions. The reason why one cannot be compiled names it.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Vec<Compiled>);

impl Conditions {
    /// Compiles the conditions of a webhook or a policy.
    pub(crate) fn compile(of: &Value, has_params: bool, compiler: &mut Compiler<'_>) -> Self {
        let declared = Declared { params: has_params, authorizer: true, ..Declared::default() };
        let conditions = entries(of, "matchConditions").iter().enumerate().map(|(index, condition)| {
            let source = text(condition, "expression").trim();
            let at = ("matchConditions", index, "expression");
            compiler
                .compile(at, source, &declared, Wanted::Bool)
                .map_err(|why| format!("matchConditions {:?}: {why}", text(condition, "name")))
        });
        Self(conditions.collect())
    }

    /// Returns true if all conditions could be compiled.
    pub(crate) fn are_compiled(&self) -> bool {
        self.0.iter().all(Result::is_ok)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all conditions are met. One that is not met decides, whatever the others are.
    ///
    /// # Errors
    /// The texts of the conditions that failed or cannot be compiled, if no condition is false.
    pub(crate) fn are_met(&self, inputs: &AdmissionInputs) -> Result<bool, String> {
        let mut evaluation = Evaluation::new(inputs, &[], BUDGET);
        let mut errors = Vec::new();
        for condition in &self.0 {
            let condition = match condition {
                Ok(condition) => condition,
                Err(why) => {
                    errors.push(why.clone());
                    continue;
                }
            };
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
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::snapshot::Source;

    #[test]
    fn a_false_condition_decides_before_a_failed_one() {
        let object = json!({"spec": {"a": 1}});
        let inputs = AdmissionInputs::new(Some(&object), None, &json!({}), None);
        let met = |sources: &[&str]| {
            let conditions: Vec<Value> =
                sources.iter().map(|source| json!({"name": "n", "expression": source})).collect();
            let (of, mut uncompiled) = (json!({"matchConditions": conditions}), BTreeSet::new());
            let mut compiler = Compiler::new("Kind", &of, Source::Objects, &mut uncompiled);
            Conditions::compile(&of, false, &mut compiler).are_met(&inputs)
        };
        assert_eq!(met(&[]), Ok(true));
        assert_eq!(met(&["object.spec.a == 1", "true"]), Ok(true));
        assert_eq!(met(&["object.spec.b == 1", "false"]), Ok(false));
        let error = met(&["object.spec.b == 1", "true"]).unwrap_err();
        assert_eq!(error, "expression 'object.spec.b == 1' resulted in error: no such key: b");
        assert_eq!(met(&["object.", "false"]), Ok(false));
        let error = met(&["object.", "true"]).unwrap_err();
        assert!(error.starts_with("matchConditions \"n\": compilation failed: ERROR"), "{error}");
    }
}
