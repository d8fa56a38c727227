//! Evaluation of operator and function calls.

use std::borrow::Cow;

use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::operators::{
    ADD, CONDITIONAL, IN, INDEX, LOGICAL_AND, LOGICAL_OR, NOT_STRICTLY_FALSE, OPT_INDEX,
};
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

use super::operators::{self, optional};
use super::{Failure, Outcome, Run, cost, is_final};
use crate::cel::declarations;
use crate::cel::macros::MAP_INSERT;

impl<'e> Run<'e> {
    pub(super) fn call(&mut self, expression: &'e IdedExpr, call: &'e CallExpr) -> Outcome {
        match (call.func_name.as_str(), call.args.as_slice(), &call.target) {
            (LOGICAL_AND, [left, right], None) => self.either(left, right, false),
            (LOGICAL_OR, [left, right], None) => self.either(left, right, true),
            (CONDITIONAL, [condition, one, other], None) => match self.value(condition)? {
                Cel::Bool(holds) => self.value_in_path(if holds { one } else { other }),
                _ => Err(Failure::no_overload()),
            },
            (NOT_STRICTLY_FALSE, [only], None) => {
                let value = self.value(only);
                if is_final(&value) {
                    return value;
                }
                self.spend(1)?;
                Ok(Cel::Bool(!matches!(value, Ok(Cel::Bool(false)))))
            }
            (INDEX | OPT_INDEX, [operand, index], None) => {
                self.entry(operand, index, call.func_name == OPT_INDEX)
            }
            ("or" | "orValue", [other], Some(target)) => {
                let first = self.value(target)?;
                match (optional(&first), call.func_name.as_str()) {
                    (Some(Some(_)), "or") => Ok(first),
                    (Some(Some(value)), _) => Ok(value.clone()),
                    (Some(None), _) => self.value(other),
                    (None, _) => Err(Failure::no_overload()),
                }
            }
            // An empty list contains nothing, so the other side is not evaluated.
            (IN, [_, list], None) if is_empty(list) => Ok(Cel::Bool(false)),
            _ => self.strict(expression, call),
        }
    }

    /// Evaluates `&&` or `||`. If one side decides, an error of the other side is ignored.
    fn either(&mut self, left: &'e IdedExpr, right: &'e IdedExpr, decides: bool) -> Outcome {
        let mut failed = None;
        for side in [left, right] {
            match self.value(side) {
                Ok(Cel::Bool(value)) if value == decides => return Ok(Cel::Bool(decides)),
                Ok(Cel::Bool(_)) => {}
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) => failed = failed.or(Some(failure)),
                Ok(_) => failed = failed.or_else(|| Some(Failure::no_overload())),
            }
        }
        failed.map_or(Ok(Cel::Bool(!decides)), Err)
    }

    /// Evaluates `operand[index]` or `operand[?index]`.
    fn entry(&mut self, operand: &'e IdedExpr, index: &'e IdedExpr, is_optional: bool) -> Outcome {
        if let Expr::Literal(LiteralValue::String(name)) = &index.expr
            && self.has_later_fields(operand)
        {
            let made = self.later_field(name.inner());
            return self.step(if is_optional { made.map(operators::some) } else { made });
        }
        let on = self.operand(operand)?;
        // Without an operand, the index is not evaluated.
        if optional(&on) == Some(None) {
            return Ok(on);
        }
        let at = if self.is_constant(index) { self.value(index) } else { self.value_in_path(index) };
        match at {
            Ok(at) => self.step(operators::entry(&on, &at, is_optional)),
            failed => self.step(failed),
        }
    }

    /// Evaluates a function whose arguments are all evaluated first.
    fn strict(&mut self, expression: &'e IdedExpr, call: &'e CallExpr) -> Outcome {
        if let Some(known) = self.constants.get(&expression.id) {
            return Ok(known.clone());
        }
        let is_constant = self.is_constant_call(call);
        let (name, target) = self.called(call);
        let given = self.given(&name, call, target)?;
        if !is_constant {
            let is_unsure = self.unresolved.is_some_and(|unresolved| unresolved.contains(&expression.id));
            let price = match call.args.get(1).zip(given.get(1)) {
                Some((part, list)) if name == IN && self.is_set(part, list) => 0,
                // Upstream resolves the overload when it parses the expression.
                _ if is_unsure && cost::is_by_type(&name) => 1,
                _ => self.price(&name, &given),
            };
            self.spend(price)?;
        }
        let result = self.result(&name, target.is_some(), given)?;
        if is_constant {
            self.constants.insert(expression.id, result.clone());
        }
        Ok(result)
    }

    /// Evaluates the receiver and the arguments. An error of one argument prevents neither the evaluation of the others
    /// nor the cost of the call.
    fn given(
        &mut self,
        name: &str,
        call: &'e CallExpr,
        target: Option<&'e IdedExpr>,
    ) -> Result<Vec<Cel>, Failure> {
        let parts = target.into_iter().chain(&call.args);
        let count = call.args.len() + usize::from(target.is_some());
        let (mut given, mut failed) = (Vec::with_capacity(count), None);
        for (index, part) in parts.enumerate() {
            let value = match &part.expr {
                Expr::Ident(made)
                    if index == 0 && matches!(name, ADD | MAP_INSERT) && made.starts_with('@') =>
                {
                    self.taken(made)
                }
                _ => self.value(part),
            };
            match value {
                Ok(value) => given.push(value),
                Err(failure) if failure.is_final() => return Err(failure),
                Err(failure) if count > 2 || name == "matches" => return Err(failure),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        let Some(failure) = failed else { return Ok(given) };
        self.spend(1)?;
        Err(failure)
    }

    /// Returns the name of a called function and its receiver. `strings.quote(…)` has no receiver.
    fn called(&self, call: &'e CallExpr) -> (Cow<'e, str>, Option<&'e IdedExpr>) {
        let target = call.target.as_deref();
        if let Some(Expr::Ident(namespace)) = target.map(|target| &target.expr)
            && self.index_of(namespace).is_none()
        {
            let whole = format!("{namespace}.{}", call.func_name);
            if declarations::named(&whole).is_some() {
                return (whole.into(), None);
            }
        }
        (call.func_name.as_str().into(), target)
    }

    fn price(&self, name: &str, given: &[Cel]) -> u64 {
        match (name, given) {
            ("containsIP" | "containsCIDR", [range, other]) => {
                let bits = match self.by_engine("prefixLength", true, vec![range.clone()]) {
                    Ok(Cel::Int(bits)) => u64::try_from(bits).unwrap_or_default(),
                    _ => 0,
                };
                cost::containing(name, bits.div_ceil(8), other)
            }
            _ => cost::of(name, given),
        }
    }
}

/// Reports whether an expression is an empty list literal.
pub(super) fn is_empty(list: &IdedExpr) -> bool {
    matches!(&list.expr, Expr::List(list) if list.elements.is_empty())
}
