//! Visitor of the parts of a CEL expression.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// Visits all parts of an expression, from the innermost to the outermost.
pub(super) fn each(expression: &mut IdedExpr, visit: &mut dyn FnMut(&mut IdedExpr)) {
    match &mut expression.expr {
        Expr::Call(call) => {
            for part in call.target.as_deref_mut().into_iter().chain(call.args.iter_mut()) {
                each(part, visit);
            }
        }
        Expr::Comprehension(inner) => {
            each(&mut inner.iter_range, visit);
            each(&mut inner.accu_init, visit);
            each(&mut inner.loop_cond, visit);
            each(&mut inner.loop_step, visit);
            each(&mut inner.result, visit);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|part| each(part, visit)),
        Expr::Select(select) => each(&mut select.operand, visit),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| each_in(entry, visit)),
        Expr::Struct(made) => made.entries.iter_mut().for_each(|entry| each_in(entry, visit)),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
    visit(expression);
}

fn each_in(entry: &mut IdedEntryExpr, visit: &mut dyn FnMut(&mut IdedExpr)) {
    match &mut entry.expr {
        EntryExpr::MapEntry(entry) => {
            each(&mut entry.key, visit);
            each(&mut entry.value, visit);
        }
        EntryExpr::StructField(field) => each(&mut field.value, visit),
    }
}
