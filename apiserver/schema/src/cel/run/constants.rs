//! Constant folding: the parts that upstream evaluates at parse time, so that they have no cost at run time.

use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::operators::IN;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};

use super::Run;
use super::calls::is_empty;

/// Functions that convert one type to another.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

impl Run<'_> {
    /// Reports whether a part has the same value in every run.
    pub(super) fn is_constant(&self, expression: &IdedExpr) -> bool {
        match &expression.expr {
            Expr::Literal(_) => true,
            Expr::List(list) => {
                list.optional_indices.is_empty() && list.elements.iter().all(|part| self.is_constant(part))
            }
            Expr::Map(map) => map.entries.iter().all(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    !entry.optional && self.is_constant(&entry.key) && self.is_constant(&entry.value)
                }
                EntryExpr::StructField(_) => false,
            }),
            Expr::Ident(name) => self.index_of(name).is_none(),
            Expr::Select(_) => self.type_named(expression).is_some(),
            Expr::Call(call) => self.is_constant_call(call),
            Expr::Comprehension(_) | Expr::Struct(_) | Expr::Unspecified => false,
        }
    }

    pub(super) fn is_constant_call(&self, call: &CallExpr) -> bool {
        match (call.func_name.as_str(), call.args.as_slice(), &call.target) {
            (name, [only], None) => CONVERSIONS.contains(&name) && self.is_constant(only),
            (IN, [_, list], None) => is_empty(list),
            _ => false,
        }
    }

    /// Reports whether a list is a literal of primitive values. Upstream turns it into a set for lookups.
    pub(super) fn is_set(&self, part: &IdedExpr, list: &Cel) -> bool {
        let Cel::List(items) = list else { return false };
        let is_primitive = |item: &Cel| {
            matches!(
                item,
                Cel::Bool(_) | Cel::Int(_) | Cel::UInt(_) | Cel::Float(_) | Cel::String(_) | Cel::Null
            )
        };
        !items.is_empty() && items.iter().all(is_primitive) && self.is_constant(part)
    }
}
