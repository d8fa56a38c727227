//! From a rule's text to an expression that can be run.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::operators::{OPT_INDEX, OPT_SELECT};
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};
use kube_cel::cel::parser::Parser;

/// Reads an expression.
///
/// # Errors
/// Repeats it, and points at what is not understood.
pub(super) fn parse(source: &str) -> Result<IdedExpr, String> {
    // As kube-apiserver, which reads `self.?field`, too.
    let parser = Parser::new().enable_optional_syntax(true);
    let mut parsed = parser.parse(source).map_err(|error| format!("the expression {source:?}: {error}"))?;
    index_optional_fields(&mut parsed);
    Ok(parsed)
}

/// The engine fails where `value.?field` has no such field; asked as `value[?'field']` it gives none.
fn index_optional_fields(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Call(call) => {
            if call.func_name == OPT_SELECT {
                OPT_INDEX.clone_into(&mut call.func_name);
            }
            call.args.iter_mut().chain(call.target.as_deref_mut()).for_each(index_optional_fields);
        }
        Expr::Comprehension(inner) => {
            let (start, end) = (&mut inner.iter_range, &mut inner.result);
            let steps = [&mut inner.accu_init, &mut inner.loop_cond, &mut inner.loop_step];
            [start, end].into_iter().chain(steps).for_each(index_optional_fields);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(index_optional_fields),
        Expr::Select(select) => index_optional_fields(&mut select.operand),
        Expr::Map(map) => map.entries.iter_mut().for_each(in_entry),
        Expr::Struct(made) => made.entries.iter_mut().for_each(in_entry),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn in_entry(entry: &mut IdedEntryExpr) {
    match &mut entry.expr {
        EntryExpr::MapEntry(entry) => {
            index_optional_fields(&mut entry.key);
            index_optional_fields(&mut entry.value);
        }
        EntryExpr::StructField(field) => index_optional_fields(&mut field.value),
    }
}
