//! Running an expression on a value, which is counted as upstream counts it.
//!
//! The engine's own interpreter counts nothing, copies every field that it looks at, and knows no comprehensions with
//! two variables. So the walk over the syntax tree is ours, and the engine is asked for what most functions give.
//!
//! A name or a field costs one, what is made costs as in [`super::estimate`], and functions by the sizes of what they
//! are really given ([`prices`]). What is written out costs nothing: upstream makes it once, before it runs.

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
use std::time::Instant;

use kube_cel::cel::common::ast::operators::{CONDITIONAL, INDEX, OPT_INDEX};
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue, SelectExpr};
use kube_cel::cel::{Context, Value as Cel};
use regex::Regex;

use super::check::TYPES;

/// Why an expression gives nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// It costs more than it may.
    TooDear,
    /// It takes longer than anybody waits, though it does not cost too much.
    Interrupted,
    /// It makes no sense of this value, in CEL's words.
    Error(String),
}

impl Failure {
    /// Whether it ends the run, whatever else there is.
    fn is_final(&self) -> bool {
        matches!(self, Self::TooDear | Self::Interrupted)
    }

    fn no_overload() -> Self {
        Self::Error("no such overload".to_owned())
    }

    fn no_key(key: &str) -> Self {
        Self::Error(format!("no such key: {key}"))
    }
}

type Outcome = Result<Cel, Failure>;

/// Whether the run is over.
fn is_final(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(Failure::is_final)
}

/// What a variable is.
#[derive(Debug)]
enum State<'e> {
    Known(Cel),
    /// What is collected in is made when it is first looked at.
    Later(&'e IdedExpr),
    Failed(Failure),
}

#[derive(Debug)]
struct Variable<'e> {
    name: &'e str,
    state: State<'e>,
}

/// One run of an expression.
pub(super) struct Run<'e> {
    functions: &'e Context<'static>,
    /// The calls of which only running tells which of several functions is meant.
    unsure: Option<&'e HashSet<u64>>,
    /// What it may cost.
    most: u64,
    until: Instant,
    cost: u64,
    /// The innermost is the last.
    variables: Vec<Variable<'e>>,
    /// What is written out, by the numbers of the parts.
    constants: HashMap<u64, Cel>,
    /// Patterns that were used.
    patterns: HashMap<String, Regex>,
}

impl<'e> Run<'e> {
    pub(super) fn new(
        functions: &'e Context<'static>,
        unsure: Option<&'e HashSet<u64>>,
        most: u64,
        until: Instant,
    ) -> Self {
        Self {
            functions,
            unsure,
            most,
            until,
            cost: 0,
            variables: Vec::new(),
            constants: HashMap::new(),
            patterns: HashMap::new(),
        }
    }

    pub(super) fn with(mut self, name: &'e str, value: Cel) -> Self {
        self.variables.push(Variable { name, state: State::Known(value) });
        self
    }

    /// What was done so far, in CEL's units.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    fn spend(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.most { Err(Failure::TooDear) } else { Ok(()) }
    }

    /// What an expression gives.
    pub(super) fn value(&mut self, expression: &'e IdedExpr) -> Outcome {
        match &expression.expr {
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => self.named(name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => self.list(expression, list),
            Expr::Map(map) => self.map(expression, map),
            Expr::Comprehension(inner) => self.comprehension(inner),
            Expr::Unspecified | Expr::Struct(_) => Err(Failure::no_overload()),
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
            Some(State::Later(made)) => *made,
            None => return Err(Failure::no_overload()),
        };
        // It sees what was there before it.
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

    fn select(&mut self, expression: &'e IdedExpr, select: &'e SelectExpr) -> Outcome {
        if let Some(name) = self.type_named(expression) {
            return Ok(functions::type_named(&name));
        }
        let operand = self.operand(&select.operand)?;
        if select.test {
            let has = operators::has(&operand, &select.field)?;
            // What is only asked for costs one less, and that is its name. An optional that has it not costs nothing.
            if !has && operators::optional(&operand).is_some() {
                self.cost = self.cost.saturating_sub(1);
            }
            return Ok(Cel::Bool(has));
        }
        self.step(operators::field(&operand, &select.field))
    }

    /// What a path goes on from, which costs where that is none itself.
    fn operand(&mut self, expression: &'e IdedExpr) -> Outcome {
        let value = self.value(expression);
        if !self.is_path(expression) && !is_final(&value) {
            self.spend(1)?;
        }
        value
    }

    /// One step of a path, which costs, unless an optional has nothing there.
    fn step(&mut self, found: Outcome) -> Outcome {
        let is_none = found.as_ref().is_ok_and(operators::is_none);
        self.spend(u64::from(!is_none))?;
        found
    }

    /// Types with long names, as `google.protobuf.Timestamp`.
    fn type_named(&self, expression: &IdedExpr) -> Option<String> {
        let name = dotted(expression)?;
        let (first, _) = name.split_once('.')?;
        (matches!(first, "google" | "net" | "kubernetes") && self.index_of(first).is_none()).then_some(name)
    }

    /// Whether upstream has one instruction for it that others can prolong.
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

    /// Where a path is a part of an instruction, its first name is not counted.
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

/// A name with its dots.
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
