//! Evaluation of the expressions of one webhook or one policy, with one cost budget.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kube_cel::cel::Value as Cel;
use serde_json::Value;

use super::{AdmissionExpression, AdmissionInputs, VARIABLES};
use crate::cel::run::{Failure, LaterFields, Run};
use crate::cel::value::to_json_of_any;
use crate::cel::{COST_EXCEEDED, FUNCTIONS, MOST_OF_A_RULE, OUT_OF_BUDGET, stack};

/// Time limit of all expressions, for functions with a low cost that take long.
const LONGEST: Duration = Duration::from_secs(5);

/// Most variables that read each other in a chain. Each of them takes stack.
const LONGEST_CHAIN: usize = 1000;

/// Variable of a policy: its name, and its expression or the reason why that cannot be compiled.
pub type PolicyVariable = (String, Result<AdmissionExpression, String>);

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

/// Evaluation of several expressions over the same inputs. A variable is evaluated when the first of them reads it, and
/// its cost counts once.
#[derive(Debug)]
pub struct Evaluation<'p> {
    inputs: &'p AdmissionInputs,
    /// Variables in the order of their declaration. Each reads earlier ones only.
    variables: &'p [PolicyVariable],
    /// Values or errors of the variables that have been read.
    known: HashMap<&'p str, Result<Cel, String>>,
    left: u64,
    until: Instant,
}

impl<'p> Evaluation<'p> {
    /// Creates an evaluation with this cost budget.
    pub fn new(inputs: &'p AdmissionInputs, variables: &'p [PolicyVariable], budget: u64) -> Self {
        Self { inputs, variables, known: HashMap::new(), left: budget, until: Instant::now() + LONGEST }
    }

    /// Returns the rest of the budget.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The expression, or a variable that it reads, has no value.
    pub fn evaluate(&mut self, expression: &AdmissionExpression) -> Result<Evaluated, EvaluationError> {
        if self.left == 0 {
            return Err(EvaluationError::OutOfBudget);
        }
        let mut variables = Variables {
            inputs: self.inputs,
            all: self.variables,
            known: &mut self.known,
            budget: self.left,
            cost: 0,
            depth: 0,
            until: self.until,
        };
        let (outcome, cost) = variables.run(expression, MOST_OF_A_RULE.min(self.left));
        let cost = cost.saturating_add(variables.cost);
        if cost > self.left {
            self.left = 0;
            return Err(EvaluationError::OutOfBudget);
        }
        self.left -= cost;
        outcome.map(Evaluated).map_err(|failure| {
            let source = expression.source.trim();
            let why = words(failure).replace("no such key: __namespace__", "no such key: namespace");
            EvaluationError::Failed(format!("expression '{source}' resulted in error: {why}"))
        })
    }
}

/// Returns a failure in CEL's words.
fn words(failure: Failure) -> String {
    match failure {
        Failure::CostExceeded => COST_EXCEEDED.to_owned(),
        Failure::Interrupted => "operation interrupted".to_owned(),
        Failure::Error(text) => text,
    }
}

/// Variables of a policy while one expression is evaluated.
struct Variables<'r, 'p> {
    inputs: &'p AdmissionInputs,
    all: &'p [PolicyVariable],
    known: &'r mut HashMap<&'p str, Result<Cel, String>>,
    /// Most that the variables can cost now.
    budget: u64,
    /// Cost of the variables that were evaluated for this expression.
    cost: u64,
    /// Number of variables that are being evaluated.
    depth: usize,
    until: Instant,
}

impl Variables<'_, '_> {
    /// Evaluates an expression. Returns its value and its cost, which does not include that of variables.
    fn run(&mut self, expression: &AdmissionExpression, most: u64) -> (Result<Cel, Failure>, u64) {
        let (inputs, until, has_variables) = (self.inputs, self.until, !self.all.is_empty());
        FUNCTIONS.with(|functions| {
            let mut run = Run::new(functions, Some(&expression.unresolved), most, until);
            for (name, value) in &inputs.values {
                run = run.with(name, value.clone());
            }
            if has_variables {
                run = run.with_fields(VARIABLES, self);
            }
            let mut value = || run.value(&expression.program);
            let outcome = if expression.is_deep { stack::deep(value) } else { value() };
            (outcome, run.cost())
        })
    }

    /// Evaluates a variable. The inner error is that of the variable, which an expression may ignore.
    fn made(&mut self, expression: &AdmissionExpression) -> Result<Result<Cel, String>, Failure> {
        if self.depth == LONGEST_CHAIN {
            return Ok(Err(format!("fails to evaluate: it is read by {LONGEST_CHAIN} variables in a chain")));
        }
        let most = MOST_OF_A_RULE.min(self.budget.saturating_sub(self.cost));
        self.depth += 1;
        let (outcome, cost) = stack::deep(|| self.run(expression, most));
        self.depth -= 1;
        self.cost = self.cost.saturating_add(cost);
        match outcome {
            _ if self.cost > self.budget => Err(Failure::CostExceeded),
            Err(Failure::Interrupted) => Err(Failure::Interrupted),
            Err(failure) => Ok(Err(format!("fails to evaluate: {}", words(failure)))),
            Ok(value) => Ok(Ok(value)),
        }
    }
}

impl LaterFields for Variables<'_, '_> {
    fn names(&self) -> Vec<String> {
        self.all.iter().map(|(name, _)| name.clone()).collect()
    }

    fn field(&mut self, name: &str) -> Option<Result<Cel, Failure>> {
        let all = self.all;
        let (name, variable) = all.iter().find(|(own, _)| own == name)?;
        if !self.known.contains_key(name.as_str()) {
            let made = match variable {
                Ok(expression) => self.made(expression),
                Err(why) => Ok(Err(format!("fails to compile: {why}"))),
            };
            match made {
                Ok(made) => drop(self.known.insert(name.as_str(), made)),
                Err(failure) => return Some(Err(failure)),
            }
        }
        let failed = |why: &String| Failure::Error(format!("composited variable {name:?} {why}"));
        self.known.get(name.as_str()).map(|known| known.as_ref().cloned().map_err(failed))
    }
}
