//! The parts that macros are made of, all in the place of one macro.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue};

use super::{Macros, PLACE, RESULT, place};
use crate::cel::parts::each;

/// Makes parts of an expression.
pub(super) struct Maker<'m> {
    pub(super) macros: &'m mut Macros,
    pub(super) at: u64,
}

impl Maker<'_> {
    pub(super) fn number_at(&mut self, at: u64) -> u64 {
        self.macros.made += 1;
        self.macros.made << PLACE.count_ones() | at
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

    /// What stands twice in an expression has numbers of its own each time.
    pub(super) fn renumber(&mut self, expression: &mut IdedExpr) {
        each(expression, &mut |part| part.id = self.number_at(place(part.id)));
    }
}
