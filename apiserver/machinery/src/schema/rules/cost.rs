//! A bound on what rules may cost, so that one over a huge list cannot stall the server.
//!
//! The engine counts nothing while it runs, so the cost is taken before: every rule reads its whole
//! value once, and goes over its largest list or map as often as comprehensions are nested in it.

use kube_cel::cel::common::ast::{Expr, IdedExpr};
use serde_json::Value;

/// What one rule on one value may cost: kube-apiserver's limit of one evaluation.
const RULE: u64 = 1_000_000;

/// What all rules on one object may cost.
const OBJECT: u64 = 10_000_000;

/// What is left.
#[derive(Debug)]
pub(super) struct Budget(Option<u64>);

impl Default for Budget {
    fn default() -> Self {
        Self(Some(OBJECT))
    }
}

impl Budget {
    /// Whether there is enough left, which is then spent; else nothing is left.
    pub(super) fn spend(&mut self, cost: u64) -> bool {
        self.0 = if cost > RULE { None } else { self.0.and_then(|left| left.checked_sub(cost)) };
        self.0.is_some()
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.is_none()
    }
}

/// How large a value is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Values in it, itself included.
    nodes: u64,
    /// Entries of its largest list or map.
    width: u64,
}

impl Size {
    pub(super) fn of(value: &Value) -> Self {
        let inner: Vec<Self> = match value {
            Value::Object(map) => map.values().map(Self::of).collect(),
            Value::Array(items) => items.iter().map(Self::of).collect(),
            _ => Vec::new(),
        };
        let here = u64::try_from(inner.len()).unwrap_or(u64::MAX);
        let nodes = inner.iter().map(|size| size.nodes).fold(1, u64::saturating_add);
        let width = inner.iter().map(|size| size.width).max().unwrap_or_default().max(here);
        Self { nodes, width }
    }

    pub(super) fn and(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self { nodes: self.nodes.saturating_add(other.nodes), width: self.width.max(other.width) }
    }

    /// The cost of a rule whose comprehensions are nested so deep.
    pub(super) fn cost(self, depth: u32) -> u64 {
        self.nodes.saturating_add(self.width.saturating_pow(depth))
    }
}

/// How deep comprehensions are nested in an expression.
pub(super) fn depth(expression: &IdedExpr) -> u32 {
    let most = |parts: &mut dyn Iterator<Item = &IdedExpr>| parts.map(depth).max().unwrap_or_default();
    match &expression.expr {
        Expr::Call(call) => most(&mut call.args.iter().chain(call.target.as_deref())),
        Expr::Comprehension(inner) => {
            let range = depth(&inner.iter_range);
            let step = [&inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result];
            range.max(1 + most(&mut step.into_iter()))
        }
        Expr::List(list) => most(&mut list.elements.iter()),
        Expr::Select(select) => depth(&select.operand),
        Expr::Map(map) => map.entries.iter().map(|entry| entry_depth(&entry.expr)).max().unwrap_or_default(),
        Expr::Struct(made) => {
            made.entries.iter().map(|entry| entry_depth(&entry.expr)).max().unwrap_or_default()
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 0,
    }
}

fn entry_depth(entry: &kube_cel::cel::common::ast::EntryExpr) -> u32 {
    use kube_cel::cel::common::ast::EntryExpr;
    match entry {
        EntryExpr::MapEntry(entry) => depth(&entry.key).max(depth(&entry.value)),
        EntryExpr::StructField(field) => depth(&field.value),
    }
}
