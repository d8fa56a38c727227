//! Evaluator of expressions, with upstream's cost accounting.
//!
//! The engine's own interpreter has no costs, copies every field that it reads, and lacks comprehensions with two
//! variables. The walk over the syntax tree is therefore ours, and the engine evaluates most functions.
//!
//! A name or a field costs one, a created value costs as in [`super::estimate`], and a function costs by the sizes of
//! its arguments ([`cost`]). Literals cost nothing, because upstream creates them once, before the evaluation.

mod authorizer;
mod calls;
mod collections;
mod constants;
mod conversions;
mod cost;
mod formats;
mod functions;
mod lists;
mod operators;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use kube_cel::cel::common::ast::operators::{CONDITIONAL, INDEX, OPT_INDEX};
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue, SelectExpr};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Value as Cel};
use regex::Regex;

use super::check::TYPES;
pub(super) use authorizer::authorizer;

/// Reason for an evaluation without a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// The cost limit is exceeded.
    CostExceeded,
    /// The time limit is exceeded, although the cost is not.
    Interrupted,
    /// Evaluation error, in CEL's words.
    Error(String),
}

impl Failure {
    /// Reports whether the failure ends the evaluation, whatever follows.
    fn is_final(&self) -> bool {
        matches!(self, Self::CostExceeded | Self::Interrupted)
    }

    fn no_overload() -> Self {
        Self::Error("no such overload".to_owned())
    }

    fn no_key(key: &str) -> Self {
        Self::Error(format!("no such key: {key}"))
    }
}

type Outcome = Result<Cel, Failure>;

/// Reports whether the evaluation is over.
fn is_final(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(Failure::is_final)
}

/// Fields of a variable that are made when an expression first reads them.
pub(super) trait LaterFields {
    /// Returns the names of all fields.
    fn names(&self) -> Vec<String>;

    /// Returns a field; `None` if there is none of this name.
    fn field(&mut self, name: &str) -> Option<Result<Cel, Failure>>;
}

/// Variable of an evaluation.
#[derive(Debug)]
enum State<'e> {
    Known(Cel),
    /// Accumulator, which is created at its first use.
    Later(&'e IdedExpr),
    /// Variable whose fields are made later.
    Fields,
    Failed(Failure),
}

#[derive(Debug)]
struct Variable<'e> {
    name: &'e str,
    state: State<'e>,
}

/// One evaluation of an expression.
pub(super) struct Run<'e> {
    functions: &'e Context<'static>,
    /// Calls whose overload is known only at run time.
    unresolved: Option<&'e HashSet<u64>>,
    /// Cost limit.
    most: u64,
    until: Instant,
    cost: u64,
    /// Variables in scope. The innermost is the last.
    variables: Vec<Variable<'e>>,
    /// Fields of the variable in the state `Fields`, if there is one.
    fields: Option<&'e mut dyn LaterFields>,
    /// Literals by the ids of their parts.
    constants: HashMap<u64, Cel>,
    /// Compiled patterns.
    patterns: HashMap<String, Regex>,
}

impl<'e> Run<'e> {
    pub(super) fn new(
        functions: &'e Context<'static>,
        unresolved: Option<&'e HashSet<u64>>,
        most: u64,
        until: Instant,
    ) -> Self {
        Self {
            functions,
            unresolved,
            most,
            until,
            cost: 0,
            variables: Vec::new(),
            fields: None,
            constants: HashMap::new(),
            patterns: HashMap::new(),
        }
    }

    pub(super) fn with(mut self, name: &'e str, value: Cel) -> Self {
        self.variables.push(Variable { name, state: State::Known(value) });
        self
    }

    /// Adds a variable with fields that are made later. There is at most one.
    pub(super) fn with_fields(mut self, name: &'e str, fields: &'e mut dyn LaterFields) -> Self {
        self.variables.push(Variable { name, state: State::Fields });
        self.fields = Some(fields);
        self
    }

    /// Returns the cost so far, in CEL's units.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    fn spend(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.most { Err(Failure::CostExceeded) } else { Ok(()) }
    }

    /// Evaluates an expression.
    pub(super) fn value(&mut self, expression: &'e IdedExpr) -> Outcome {
        match &expression.expr {
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => self.named(name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => self.list(expression, list),
            Expr::Map(map) => self.map(expression, map),
            Expr::Comprehension(inner) => self.comprehension(inner),
            Expr::Struct(made) => self.made(made),
            Expr::Unspecified => Err(Failure::no_overload()),
        }
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.variables.iter().rposition(|variable| variable.name == name)
    }

    fn named(&mut self, name: &str) -> Outcome {
        let Some(index) = self.index_of(name) else {
            return if TYPES.contains(&name) {
                Ok(functions::type_named(name))
            } else {
                Err(Failure::Error(format!("no such attribute(s): {name}")))
            };
        };
        let value = self.variable(index);
        self.spend(1)?;
        value
    }

    fn variable(&mut self, index: usize) -> Outcome {
        let later = match self.variables.get(index).map(|variable| &variable.state) {
            Some(State::Known(value)) => return Ok(value.clone()),
            Some(State::Failed(failure)) => return Err(failure.clone()),
            Some(State::Fields) => return self.all_fields(),
            Some(State::Later(made)) => *made,
            None => return Err(Failure::no_overload()),
        };
        // The old value is visible to it.
        let hidden = self.variables.split_off(index);
        let made = self.value(later);
        self.variables.extend(hidden);
        self.set(index, made.clone());
        made
    }

    fn set(&mut self, index: usize, outcome: Outcome) {
        if let Some(variable) = self.variables.get_mut(index) {
            variable.state = match outcome {
                Ok(value) => State::Known(value),
                Err(failure) => State::Failed(failure),
            };
        }
    }

    /// Returns a map of all fields that have values, for an expression that reads the variable as a whole.
    fn all_fields(&mut self) -> Outcome {
        let Some(fields) = self.fields.as_mut() else { return Err(Failure::no_overload()) };
        let mut entries = HashMap::new();
        for name in fields.names() {
            match fields.field(&name) {
                Some(Ok(value)) => {
                    entries.insert(Key::String(Arc::new(name)), value);
                }
                Some(Err(failure)) if failure.is_final() => return Err(failure),
                Some(Err(_)) | None => {}
            }
        }
        Ok(Cel::Map(Map { map: Arc::new(entries) }))
    }

    /// Reports whether an expression is the variable with fields that are made later.
    fn has_later_fields(&self, expression: &IdedExpr) -> bool {
        let (Some(_), Expr::Ident(name)) = (&self.fields, &expression.expr) else { return false };
        let variable = self.index_of(name).and_then(|index| self.variables.get(index));
        variable.is_some_and(|variable| matches!(variable.state, State::Fields))
    }

    /// Returns a field that is made now, unless it was made before. The name of its variable has a cost, as any other.
    fn later_field(&mut self, name: &str) -> Outcome {
        let made = self.fields.as_mut().and_then(|fields| fields.field(name));
        self.spend(1)?;
        made.unwrap_or_else(|| Err(Failure::no_key(name)))
    }

    fn select(&mut self, expression: &'e IdedExpr, select: &'e SelectExpr) -> Outcome {
        if let Some(name) = self.type_named(expression) {
            return Ok(functions::type_named(&name));
        }
        if self.has_later_fields(&select.operand) {
            let made = self.later_field(&select.field);
            return if select.test { made.map(|_| Cel::Bool(true)) } else { self.step(made) };
        }
        let operand = self.operand(&select.operand)?;
        if select.test {
            let has = operators::has(&operand, &select.field)?;
            // `has()` costs one less, which is its name. An optional without the field costs nothing.
            if !has && operators::optional(&operand).is_some() {
                self.cost = self.cost.saturating_sub(1);
            }
            return Ok(Cel::Bool(has));
        }
        self.step(operators::field(&operand, &select.field))
    }

    /// Evaluates the operand of a path step. It has a cost if it is not a path itself.
    fn operand(&mut self, expression: &'e IdedExpr) -> Outcome {
        let value = self.value(expression);
        if !self.is_path(expression) && !is_final(&value) {
            self.spend(1)?;
        }
        value
    }

    /// Adds the cost of one path step, unless an optional has no value.
    fn step(&mut self, found: Outcome) -> Outcome {
        let is_none = found.as_ref().is_ok_and(operators::is_none);
        self.spend(u64::from(!is_none))?;
        found
    }

    /// Returns a type by its qualified name, such as `google.protobuf.Timestamp`.
    fn type_named(&self, expression: &IdedExpr) -> Option<String> {
        let name = dotted(expression)?;
        let (first, _) = name.split_once('.')?;
        (matches!(first, "google" | "net" | "kubernetes") && self.index_of(first).is_none()).then_some(name)
    }

    /// Reports whether upstream compiles the expression to one instruction that longer paths extend.
    fn is_path(&self, expression: &IdedExpr) -> bool {
        match &expression.expr {
            Expr::Ident(name) => self.index_of(name).is_some(),
            Expr::Select(_) => true,
            Expr::Call(call) => {
                call.target.is_none() && matches!(call.func_name.as_str(), INDEX | OPT_INDEX | CONDITIONAL)
            }
            _ => false,
        }
    }

    /// Evaluates an expression in a path. If the path is part of an instruction, its first name has no cost.
    fn value_in_path(&mut self, expression: &'e IdedExpr) -> Outcome {
        let value = self.value(expression);
        let is_choice = matches!(&expression.expr, Expr::Call(call) if call.func_name == CONDITIONAL);
        let is_test = matches!(&expression.expr, Expr::Select(select) if select.test);
        if self.is_path(expression) && !is_choice && !is_test {
            self.cost = self.cost.saturating_sub(1);
        }
        value
    }
}

fn of_literal(literal: &LiteralValue) -> Cel {
    match literal {
        LiteralValue::Boolean(value) => Cel::Bool(*value.inner()),
        LiteralValue::Bytes(bytes) => Cel::Bytes(bytes.inner().to_vec().into()),
        LiteralValue::Double(number) => Cel::Float(*number.inner()),
        LiteralValue::Int(number) => Cel::Int(*number.inner()),
        LiteralValue::Null => Cel::Null,
        LiteralValue::String(text) => Cel::String(text.inner().to_owned().into()),
        LiteralValue::UInt(number) => Cel::UInt(*number.inner()),
    }
}

/// Returns a name with its dots.
fn dotted(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", dotted(&select.operand)?, select.field))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
