//! Builder of the expressions that replace a macro.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue};

use super::{LOCATION, Macros, RESULT, location};
use crate::cel::parts::each;

/// Builder of the parts of an expression.
pub(super) struct Maker<'m> {
    pub(super) macros: &'m mut Macros,
    pub(super) at: u64,
}

impl Maker<'_> {
    pub(super) fn number_at(&mut self, at: u64) -> u64 {
        self.macros.made += 1;
        self.macros.made << LOCATION.count_ones() | at
    }

    pub(super) fn part(&mut self, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.number_at(self.at), expr }
    }

    pub(super) fn fold(&mut self, inner: ComprehensionExpr) -> IdedExpr {
        self.part(Expr::Comprehension(Box::new(inner)))
    }

    pub(super) fn call<const N: usize>(&mut self, name: &str, arguments: [IdedExpr; N]) -> IdedExpr {
        let call = CallExpr { func_name: name.to_owned(), target: None, args: arguments.into() };
        self.part(Expr::Call(call))
    }

    pub(super) fn method(&mut self, target: IdedExpr, name: &str, arguments: Vec<IdedExpr>) -> IdedExpr {
        let target = Some(Box::new(target));
        self.part(Expr::Call(CallExpr { func_name: name.to_owned(), target, args: arguments }))
    }

    pub(super) fn result(&mut self) -> IdedExpr {
        self.part(Expr::Ident(RESULT.to_owned()))
    }

    pub(super) fn boolean(&mut self, value: bool) -> IdedExpr {
        self.part(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    pub(super) fn number(&mut self, value: i64) -> IdedExpr {
        self.part(Expr::Literal(LiteralValue::Int(value.into())))
    }

    /// Gives new ids to a copy of a part, because ids are unique in an expression.
    pub(super) fn renumber(&mut self, expression: &mut IdedExpr) {
        each(expression, &mut |part| part.id = self.number_at(location(part.id)));
    }
}
