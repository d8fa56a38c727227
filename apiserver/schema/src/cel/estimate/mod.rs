//! Worst-case cost of an expression, before it is evaluated. kube-apiserver rejects rules with a cost above its limit
//! when they are written.
//!
//! The units are CEL's. A name or a field costs one, reading a text costs a tenth of its letters, and a comprehension
//! costs its step for every possible entry. The number of entries comes from the expression itself, and from the schema
//! for a path of fields and entries from `self`. As in upstream, a path that starts elsewhere counts as a path from
//! `self`.

mod calls;
mod functions;
mod path;
mod range;
mod sizes;

use std::collections::HashMap;

use kube_cel::cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::check::{Called, Checked};
use super::macros;
use super::types::Type;
use crate::Schema;
pub(super) use calls::FORMAT_PATTERN;
use path::{Path, Step};
use range::Range;
use sizes::Target;
pub(crate) use sizes::most_in_a_request;

/// Cost of creating a list, whatever it contains.
pub(super) const LIST: u64 = 10;
pub(super) const MAP: u64 = 30;
const STRUCT: u64 = 40;

/// Returns the worst-case cost of a valid expression.
pub(super) fn most(expression: &IdedExpr, schema: &Schema, checked: &Checked<'_>) -> u64 {
    let mut estimate = Estimate {
        schema,
        checked,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        variables: Vec::new(),
    };
    estimate.cost(expression).most
}

/// Sizes of the keys and the values of a created list or map.
#[derive(Debug, Clone, Copy)]
struct Entries {
    of_list: bool,
    keys: Range,
    values: Range,
}

impl Entries {
    fn or(self, other: Self) -> Self {
        Self { keys: self.keys.or(other.keys), values: self.values.or(other.values), ..self }
    }
}

/// Variable of a comprehension.
#[derive(Debug)]
struct Variable<'e> {
    name: &'e str,
    path: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// One estimation. Facts about a part of the expression are stored by the id of the part.
struct Estimate<'a, 'e> {
    schema: &'a Schema,
    checked: &'e Checked<'e>,
    paths: HashMap<u64, Path>,
    sizes: HashMap<u64, Range>,
    entries: HashMap<u64, Entries>,
    /// Variables in scope. The innermost is the last.
    variables: Vec<Variable<'e>>,
}

/// Part of an expression whose own cost is known.
struct Node<'e> {
    expression: &'e IdedExpr,
    size: Option<Range>,
}

impl Node<'_> {
    fn size(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

impl<'e> Estimate<'_, 'e> {
    fn cost(&mut self, expression: &'e IdedExpr) -> Range {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Range::NONE,
            Expr::Ident(name) => {
                let path = self.variable(name).map(|variable| variable.path.clone());
                let path = path.unwrap_or_else(|| Path::default().and(Step::Field(name.clone())));
                self.paths.insert(expression.id, path);
                Range::ONE
            }
            Expr::Select(select) => self.select(expression.id, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::List(list) => {
                let made = self.all(list.elements.iter());
                let entries = Entries { of_list: true, keys: Range::ONE, values: made.1 };
                self.entries.insert(expression.id, entries);
                made.0.plus(Range::exactly(LIST))
            }
            Expr::Map(map) => {
                let entries = || map.entries.iter().filter_map(|entry| of_map(&entry.expr));
                let keys = self.all(entries().map(|(key, _)| key));
                let values = self.all(entries().map(|(_, value)| value));
                let entries = Entries { of_list: false, keys: keys.1, values: values.1 };
                self.entries.insert(expression.id, entries);
                keys.0.plus(values.0).plus(Range::exactly(MAP))
            }
            Expr::Struct(made) => {
                let fields = made.entries.iter().filter_map(|entry| of_struct(&entry.expr));
                self.all(fields).0.plus(Range::exactly(STRUCT))
            }
            Expr::Comprehension(inner) => self.comprehension(expression.id, inner),
        }
    }

    /// Returns the total cost of several parts, and the size of one of them.
    fn all(&mut self, parts: impl Iterator<Item = &'e IdedExpr>) -> (Range, Range) {
        let (mut cost, mut size) = (Range::NONE, None);
        for part in parts {
            cost = cost.plus(self.cost(part));
            let one = self.size_or_unknown(part);
            size = Some(size.map_or(one, |size: Range| size.or(one)));
        }
        (cost, size.unwrap_or(Range::NONE))
    }

    fn select(&mut self, id: u64, select: &'e SelectExpr) -> Range {
        let operand = self.cost(&select.operand);
        if select.test {
            return operand;
        }
        let path = self.path(&select.operand).and(Step::Field(select.field.clone()));
        self.paths.insert(id, path);
        match self.type_of(&select.operand) {
            Some(Type::Map(..) | Type::Object(_) | Type::Free) => operand.plus(Range::ONE),
            _ => operand,
        }
    }

    fn comprehension(&mut self, id: u64, inner: &'e ComprehensionExpr) -> Range {
        let start = self.cost(&inner.iter_range).plus(self.cost(&inner.accu_init));
        self.push_made(inner);
        if macros::is_name(inner) {
            let result = self.cost(&inner.result);
            self.variables.pop();
            self.same_size(id, &inner.result);
            return start.plus(result);
        }
        let around = self.variables.len();
        self.enter(inner);
        let condition = self.cost(&inner.loop_cond);
        let step = self.cost(&inner.loop_step).plus(condition);
        self.variables.truncate(around);
        let result = self.cost(&inner.result);
        self.variables.pop();
        let rounds = self.size_or_unknown(&inner.iter_range);
        match &inner.accu_init.expr {
            Expr::Literal(literal) => {
                self.sizes.insert(id, of_literal(literal));
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(id, rounds);
                if let Some(entries) = self.entries(&inner.loop_step) {
                    self.entries.insert(id, entries);
                }
            }
            _ => {}
        }
        start.plus(result).plus(rounds.times(step))
    }

    /// Adds the accumulator variable of a comprehension.
    fn push_made(&mut self, inner: &'e ComprehensionExpr) {
        let made = Variable {
            name: &inner.accu_var,
            path: self.path(&inner.accu_init),
            size: self.size(&inner.accu_init),
            entries: self.entries(&inner.accu_init),
        };
        self.variables.push(made);
    }

    /// Records that a part has the size of another part.
    fn same_size(&mut self, id: u64, part: &'e IdedExpr) {
        if let Some(size) = self.size(part) {
            self.sizes.insert(id, size);
        }
        if let Some(entries) = self.entries(part) {
            self.entries.insert(id, entries);
        }
    }

    /// Adds the iteration variables of a comprehension.
    fn enter(&mut self, inner: &'e ComprehensionExpr) {
        let (range, path) = (self.entries(&inner.iter_range), self.path(&inner.iter_range));
        let of_list = range.map_or_else(
            || matches!(self.type_of(&inner.iter_range), Some(Type::List(_))),
            |entries| entries.of_list,
        );
        let variable = |name, step, size| Variable { name, path: path.and(step), size, entries: None };
        let keys = range.map(|entries| entries.keys);
        let values = range.map(|entries| entries.values);
        let name = inner.iter_var.as_str();
        match &inner.iter_var2 {
            Some(second) => {
                let step = if of_list { Step::Index } else { Step::Key };
                self.variables.extend([variable(name, step, keys), variable(second, Step::Entry, values)]);
            }
            None if of_list => self.variables.push(variable(name, Step::Entry, values)),
            None => self.variables.push(variable(name, Step::Key, keys)),
        }
    }

    fn variable(&self, name: &str) -> Option<&Variable<'e>> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    fn type_of(&self, expression: &IdedExpr) -> Option<&'e Type<'e>> {
        self.checked.types.get(&expression.id)
    }

    fn called(&self, expression: &IdedExpr) -> Option<&'e Called> {
        self.checked.calls.get(&expression.id)
    }

    fn path(&self, expression: &IdedExpr) -> Path {
        if let Expr::Ident(name) = &expression.expr
            && let Some(variable) = self.variable(name)
        {
            return variable.path.clone();
        }
        self.paths.get(&expression.id).cloned().unwrap_or_default()
    }

    fn node(&mut self, expression: &'e IdedExpr) -> Node<'e> {
        Node { expression, size: self.size(expression) }
    }

    /// Returns the schema at a path.
    fn target(&self, path: &Path) -> Option<Target<'_>> {
        let steps = path.steps();
        // The start of the path counts as `self`, whatever it is.
        let (_, steps) = steps.split_first()?;
        steps.iter().try_fold(Target::Value(self.schema), |target, step| target.step(step))
    }

    /// Returns the size that the schema declares for a path.
    fn declared(&self, path: &Path) -> Option<Range> {
        self.target(path).map(|target| Range { least: 0, most: target.most() })
    }

    fn size_or_unknown(&mut self, expression: &IdedExpr) -> Range {
        self.size(expression).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, expression: &IdedExpr) -> Option<Range> {
        if let Some(known) = self.sizes.get(&expression.id) {
            return Some(*known);
        }
        let counted = match &expression.expr {
            Expr::Literal(literal) => Some(of_literal(literal)),
            Expr::List(list) => Some(count(list.elements.len())),
            Expr::Map(map) => Some(count(map.entries.len())),
            _ => None,
        };
        if counted.is_some() {
            return counted;
        }
        if let Some(declared) = self.declared(&self.path(expression)) {
            self.sizes.insert(expression.id, declared);
            return Some(declared);
        }
        if self.type_of(expression).is_some_and(Type::is_scalar) {
            return Some(Range::ONE);
        }
        match &expression.expr {
            Expr::Ident(name) => self.variable(name).and_then(|variable| variable.size),
            _ => None,
        }
    }

    fn entries(&self, expression: &IdedExpr) -> Option<Entries> {
        if let Some(known) = self.entries.get(&expression.id) {
            return Some(*known);
        }
        match &expression.expr {
            Expr::Ident(name) => self.variable(name).and_then(|variable| variable.entries),
            _ => None,
        }
    }
}

fn count(length: usize) -> Range {
    Range::exactly(u64::try_from(length).unwrap_or(u64::MAX))
}

fn of_literal(literal: &LiteralValue) -> Range {
    match literal {
        LiteralValue::String(text) => count(text.inner().chars().count()),
        LiteralValue::Bytes(bytes) => count(bytes.inner().len()),
        _ => Range::ONE,
    }
}

fn of_map(entry: &EntryExpr) -> Option<(&IdedExpr, &IdedExpr)> {
    match entry {
        EntryExpr::MapEntry(entry) => Some((&entry.key, &entry.value)),
        EntryExpr::StructField(_) => None,
    }
}

fn of_struct(entry: &EntryExpr) -> Option<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => Some(&field.value),
        EntryExpr::MapEntry(_) => None,
    }
}

#[cfg(test)]
pub(super) mod tests;
