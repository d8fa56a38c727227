//! Whether a rule makes sense, before it meets a value: the fields it names are there, the functions
//! are, and what they are given has the types they want.

use kube_cel::cel::common::ast::operators::OPT_INDEX;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, SelectExpr,
};

use super::declarations::{self, Signature};
use super::types::{self, Bindings, Type};

/// The names of types, which are values, too.
const TYPES: [&str; 11] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"];

/// The variables in sight: one, and those around it.
#[derive(Debug)]
pub(super) struct Scope<'a, 'p> {
    around: Option<&'p Self>,
    name: &'p str,
    of: Type<'a>,
}

impl<'a, 'p> Scope<'a, 'p> {
    pub(super) fn new(name: &'p str, of: Type<'a>) -> Self {
        Self { around: None, name, of }
    }

    pub(super) fn and(&'p self, name: &'p str, of: Type<'a>) -> Self {
        Self { around: Some(self), name, of }
    }

    fn variable(&self, name: &str) -> Option<Type<'a>> {
        let own = (self.name == name).then(|| self.of.clone());
        own.or_else(|| self.around.and_then(|around| around.variable(name)))
    }

    /// What an expression gives.
    ///
    /// # Errors
    /// The first part that makes no sense, in CEL's words.
    pub(super) fn type_of(&self, expression: &IdedExpr) -> Result<Type<'a>, String> {
        match &expression.expr {
            Expr::Unspecified | Expr::Struct(_) => Ok(Type::Dyn),
            Expr::Literal(literal) => Ok(of_literal(literal)),
            Expr::Ident(name) => self.identifier(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => Ok(Type::List(Box::new(self.joined(list.elements.iter())?))),
            Expr::Map(map) => {
                let keys = map.entries.iter().filter_map(|entry| of_entry(entry).map(|(key, _)| key));
                let key = match self.joined(keys)? {
                    key @ (Type::Bool | Type::Int | Type::Uint | Type::Text) => key,
                    // Nothing else is a key when it runs. And a type that held another twice would double
                    // with each nesting.
                    _ => Type::Dyn,
                };
                let values = map.entries.iter().filter_map(|entry| of_entry(entry).map(|(_, value)| value));
                Ok(Type::Map(Box::new(key), Box::new(self.joined(values)?)))
            }
            Expr::Comprehension(inner) => self.comprehension(inner),
        }
    }

    fn identifier(&self, name: &str) -> Result<Type<'a>, String> {
        match self.variable(name) {
            Some(of) => Ok(of),
            None if TYPES.contains(&name) => Ok(Type::Named("type".to_owned())),
            // The long names of types, as `google.protobuf.Timestamp`.
            None if matches!(name, "google" | "net" | "kubernetes") => Ok(Type::Dyn),
            None => Err(format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    /// What all of them give; of none, anything.
    fn joined<'e>(&self, parts: impl Iterator<Item = &'e IdedExpr>) -> Result<Type<'a>, String> {
        let mut all: Option<Type<'a>> = None;
        for part in parts {
            let one = self.type_of(part)?;
            all = Some(match all {
                None => one,
                Some(all) => all.or(&one),
            });
        }
        Ok(all.unwrap_or(Type::Dyn))
    }

    fn select(&self, select: &SelectExpr) -> Result<Type<'a>, String> {
        let found = field_of(self.type_of(&select.operand)?, &select.field)?;
        Ok(if select.test { Type::Bool } else { found })
    }

    fn call(&self, call: &CallExpr) -> Result<Type<'a>, String> {
        if let Some(field) = self.optional_field(call) {
            return field;
        }
        let (name, is_method) = self.called(call);
        if declarations::is_of_numbers(&name) {
            return self.joined(call.args.iter()).map(|_| Type::Dyn);
        }
        let target = call.target.as_deref().filter(|_| is_method);
        let given = target.into_iter().chain(&call.args).map(|part| self.type_of(part));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        let ways = declarations::named(&name)
            .ok_or_else(|| format!("undeclared reference to '{name}' (in container '')"))?;
        let mut results =
            ways.iter().filter(|way| way.is_method == is_method).filter_map(|way| result(way, &given));
        let Some(first) = results.next() else {
            return Err(format!(
                "found no matching overload for '{name}' applied to '{}'",
                shown(&given, is_method)
            ));
        };
        Ok(results.fold(first, |all, other| all.or(&other)))
    }

    /// The function's name, and whether it is called on a value: `strings.quote(…)` is on none.
    fn called(&self, call: &CallExpr) -> (String, bool) {
        match call.target.as_deref().map(|target| &target.expr) {
            None => (call.func_name.clone(), false),
            Some(Expr::Ident(namespace)) if self.variable(namespace).is_none() => {
                (format!("{namespace}.{}", call.func_name), false)
            }
            Some(_) => (call.func_name.clone(), true),
        }
    }

    /// `value.?field`, which is asked as `value[?'field']`.
    fn optional_field(&self, call: &CallExpr) -> Option<Result<Type<'a>, String>> {
        let (OPT_INDEX, [operand, name]) = (call.func_name.as_str(), call.args.as_slice()) else {
            return None;
        };
        let Expr::Literal(LiteralValue::String(name)) = &name.expr else { return None };
        let found = self.type_of(operand).and_then(|operand| field_of(operand, name.inner()));
        Some(found.map(|found| match found {
            Type::Optional(_) => found,
            other => Type::Optional(Box::new(other)),
        }))
    }

    fn comprehension(&self, inner: &ComprehensionExpr) -> Result<Type<'a>, String> {
        let (first, second) = match self.type_of(&inner.iter_range)? {
            Type::Dyn => (Type::Dyn, Type::Dyn),
            Type::List(item) if inner.iter_var2.is_some() => (Type::Int, *item),
            Type::List(item) => (*item, Type::Dyn),
            Type::Map(key, value) => (*key, *value),
            other => {
                return Err(format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                ));
            }
        };
        let start = self.type_of(&inner.accu_init)?;
        let around = self.and(&inner.iter_var, first);
        // Where there is no second variable, none is in sight: no name is empty.
        let around = around.and(inner.iter_var2.as_deref().unwrap_or_default(), second);
        let within = around.and(&inner.accu_var, start.clone());
        within.type_of(&inner.loop_cond)?;
        let step = within.type_of(&inner.loop_step)?;
        self.and(&inner.accu_var, start.or(&step)).type_of(&inner.result)
    }
}

/// A field of a value of some type.
fn field_of<'a>(operand: Type<'a>, name: &str) -> Result<Type<'a>, String> {
    match operand {
        Type::Dyn => Ok(Type::Dyn),
        Type::Map(_, value) => Ok(*value),
        Type::Object(object) => {
            let found = types::field(object, name).map(Type::of);
            found.ok_or_else(|| format!("undefined field '{name}'"))
        }
        Type::Optional(value) => Ok(Type::Optional(Box::new(field_of(*value, name)?))),
        other => Err(format!("type '{other}' does not support field selection")),
    }
}

/// What a function gives when it is called that way, if it can be.
fn result<'a>(way: &Signature, given: &[Type<'a>]) -> Option<Type<'a>> {
    let mut bindings = Bindings::new();
    let is_fit = way.parameters.len() == given.len()
        && way.parameters.iter().zip(given).all(|(wanted, one)| one.fits(wanted, &mut bindings));
    is_fit.then(|| way.result.clone().with(&bindings))
}

fn shown(given: &[Type<'_>], is_method: bool) -> String {
    let all: Vec<String> = given.iter().map(ToString::to_string).collect();
    match all.split_first() {
        Some((on, arguments)) if is_method => format!("{on}.({})", arguments.join(", ")),
        _ => format!("({})", all.join(", ")),
    }
}

fn of_literal<'a>(literal: &LiteralValue) -> Type<'a> {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

fn of_entry(entry: &IdedEntryExpr) -> Option<(&IdedExpr, &IdedExpr)> {
    match &entry.expr {
        EntryExpr::MapEntry(entry) => Some((&entry.key, &entry.value)),
        EntryExpr::StructField(_) => None,
    }
}
