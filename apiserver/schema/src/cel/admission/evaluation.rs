//! Evaluation of the expressions of one webhook or one policy, with one cost budget.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value;

use super::{AdmissionExpression, AdmissionInputs, VARIABLES};
use crate::cel::run::{Failure, Run};
use crate::cel::value::to_json_of_any;
use crate::cel::{COST_EXCEEDED, FUNCTIONS, MOST_OF_A_RULE, OUT_OF_BUDGET, stack};

/// Time limit of all expressions, for functions with a low cost that take long.
const LONGEST: Duration = Duration::from_secs(5);

/// Reason for an evaluation without a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The budget of all expressions is spent. No further expression is evaluated.
    #[error("{OUT_OF_BUDGET}")]
    OutOfBudget,
    /// The expression failed. The text is in CEL's words.
    #[error("{0}")]
    Failed(String),
}

/// Value of an expression.
#[derive(Debug, Clone)]
pub struct Evaluated(Cel);

impl Evaluated {
    /// Returns true if the value is `true`.
    pub fn is_true(&self) -> bool {
        matches!(self.0, Cel::Bool(true))
    }

    /// Returns true if the value is `false`.
    pub fn is_false(&self) -> bool {
        matches!(self.0, Cel::Bool(false))
    }

    /// Returns true if the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self.0, Cel::Null)
    }

    /// Returns a text.
    pub fn text(&self) -> Option<&str> {
        match &self.0 {
            Cel::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value as JSON; `None` if JSON cannot express it.
    pub fn to_json(&self) -> Option<Value> {
        to_json_of_any(&self.0)
    }
}

/// Evaluation of several expressions over the same inputs.
#[derive(Debug)]
pub struct Evaluation<'p> {
    inputs: &'p AdmissionInputs,
    /// Variables in the order of their declaration. Each reads earlier ones only.
    variables: &'p [(String, AdmissionExpression)],
    known: HashMap<&'p str, Result<Cel, String>>,
    left: u64,
    until: Instant,
}

impl<'p> Evaluation<'p> {
    /// Creates an evaluation with this cost budget.
    pub fn new(
        inputs: &'p AdmissionInputs,
        variables: &'p [(String, AdmissionExpression)],
        budget: u64,
    ) -> Self {
        Self { inputs, variables, known: HashMap::new(), left: budget, until: Instant::now() + LONGEST }
    }

    /// Returns the rest of the budget.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Evaluates an expression, after the variables that it reads.
    ///
    /// # Errors
    /// The expression, or a variable that it needs, has no value.
    pub fn evaluate(&mut self, expression: &'p AdmissionExpression) -> Result<Evaluated, EvaluationError> {
        for (name, variable) in self.needed(expression) {
            if !self.known.contains_key(name.as_str()) {
                let value = match self.run(variable) {
                    Ok(value) => Ok(value),
                    Err(EvaluationError::OutOfBudget) => return Err(EvaluationError::OutOfBudget),
                    Err(EvaluationError::Failed(why)) => Err(why),
                };
                self.known.insert(name, value);
            }
        }
        match self.run(expression) {
            Ok(value) => Ok(Evaluated(value)),
            Err(EvaluationError::Failed(why)) => {
                let source = expression.source.trim();
                let why = self.of_variable(expression).unwrap_or(why);
                let text = format!("expression '{source}' resulted in error: {why}");
                Err(EvaluationError::Failed(text))
            }
            Err(over) => Err(over),
        }
    }

    /// Returns the variables that an expression reads, and those that they read, in the order of their declaration.
    fn needed(&self, expression: &AdmissionExpression) -> Vec<&'p (String, AdmissionExpression)> {
        let mut names: BTreeSet<&str> = expression.variables.iter().map(String::as_str).collect();
        let variables = self.variables;
        let mut needed = Vec::new();
        for one in variables.iter().rev().filter(|_| !expression.variables.is_empty()) {
            if names.contains(one.0.as_str()) {
                names.extend(one.1.variables.iter().map(String::as_str));
                needed.push(one);
            }
        }
        needed.reverse();
        needed
    }

    /// Returns the error of a variable that the expression reads.
    fn of_variable(&self, expression: &AdmissionExpression) -> Option<String> {
        expression.variables.iter().find_map(|name| match self.known.get(name.as_str()) {
            Some(Err(why)) => Some(format!("composited variable {name:?} fails to evaluate: {why}")),
            _ => None,
        })
    }

    /// Returns the map of the variables that have values. A missing one is an error of the expression that reads it.
    fn variables_known(&self) -> Cel {
        let known = self.known.iter().filter_map(|(name, value)| {
            let value = value.as_ref().ok()?.clone();
            Some((Key::String(Arc::new((*name).to_owned())), value))
        });
        Cel::Map(Map { map: Arc::new(known.collect()) })
    }

    fn run(&mut self, expression: &AdmissionExpression) -> Result<Cel, EvaluationError> {
        if self.left == 0 {
            return Err(EvaluationError::OutOfBudget);
        }
        let most = MOST_OF_A_RULE.min(self.left);
        let variables = self.variables_known();
        let (outcome, cost) = FUNCTIONS.with(|functions| {
            let mut run = Run::new(functions, Some(&expression.unresolved), most, self.until);
            for (name, value) in &self.inputs.values {
                run = run.with(name, value.clone());
            }
            if !self.variables.is_empty() {
                run = run.with(VARIABLES, variables);
            }
            let mut value = || run.value(&expression.program);
            let outcome = if expression.is_deep { stack::deep(value) } else { value() };
            (outcome, run.cost())
        });
        self.left = self.left.saturating_sub(cost);
        match outcome {
            Ok(value) => Ok(value),
            Err(Failure::CostExceeded) if most < MOST_OF_A_RULE => Err(EvaluationError::OutOfBudget),
            Err(Failure::CostExceeded) => Err(EvaluationError::Failed(COST_EXCEEDED.to_owned())),
            Err(Failure::Interrupted) => Err(EvaluationError::Failed("operation interrupted".to_owned())),
            Err(Failure::Error(text)) => Err(EvaluationError::Failed(
                text.replace("no such key: __namespace__", "no such key: namespace"),
            )),
        }
    }
}
