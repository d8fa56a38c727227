//! Type checker of CEL expressions: fields and functions exist, and arguments have the types that functions take.

use std::collections::{HashMap, HashSet};

use kube_cel::cel::common::ast::operators::{LOGICAL_AND, LOGICAL_OR, OPT_INDEX};
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, SelectExpr,
    StructExpr,
};

use super::declarations::{self, Signature};
use super::literals;
use super::type_error::{TypeError, TypeErrors};
use super::types::{self, Bindings, Type};

/// Names of types, which are values as well.
pub(super) const TYPES: [&str; 11] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"];

/// Type of an apply configuration.
pub(super) const OBJECT: &str = "Object";

/// Type of an operation of a JSON patch.
pub(super) const JSON_PATCH: &str = "JSONPatch";

/// Name of a variable that no expression can spell. It is in scope if expressions can create objects.
pub(super) const PATCHES: &str = "@patches";

/// Variables in scope, and those of the enclosing scopes.
#[derive(Debug)]
pub(super) struct Scope<'a, 'p> {
    around: Option<&'p Self>,
    variables: Vec<(&'p str, Type<'a>)>,
}

/// Result of a type check, by the ids of the expression's parts.
#[derive(Debug, Default)]
pub(super) struct Checked<'a> {
    pub(super) types: HashMap<u64, Type<'a>>,
    pub(super) calls: HashMap<u64, Called>,
    /// Type errors, in CEL's words.
    errors: TypeErrors,
    /// Errors of literals. They are reported only if there is no other error.
    in_literals: TypeErrors,
    /// Number of enclosing calls that take lists of any type.
    dynamic_list_calls: usize,
}

/// Function of a call, with each overload that may apply.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) name: String,
    pub(super) is_method: bool,
    pub(super) ways: Vec<&'static Signature>,
}

impl<'a> Checked<'a> {
    /// Returns the errors, if there are any.
    pub(super) fn errors(&self) -> Option<&TypeErrors> {
        [&self.errors, &self.in_literals].into_iter().find(|errors| !errors.is_empty())
    }

    /// Returns the calls whose overload is known only at run time.
    pub(super) fn unresolved(&self) -> HashSet<u64> {
        let several = self.calls.iter().filter(|(_, called)| called.ways.len() > 1);
        several.map(|(id, _)| *id).collect()
    }

    /// Records an error. The type of the part becomes dynamic, so that one error is not reported twice.
    fn refuse(&mut self, id: u64, text: String) -> Type<'a> {
        self.errors.push(TypeError { id, text });
        Type::Dyn
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type<'a> {
        self.refuse(id, format!("undeclared reference to '{name}' (in container '')"))
    }
}

impl<'a, 'p> Scope<'a, 'p> {
    pub(super) fn of<const COUNT: usize>(variables: [(&'p str, Type<'a>); COUNT]) -> Self {
        Self { around: None, variables: variables.into() }
    }

    pub(super) fn of_all(variables: Vec<(&'p str, Type<'a>)>) -> Self {
        Self { around: None, variables }
    }

    fn and(&'p self, variables: Vec<(&'p str, Type<'a>)>) -> Self {
        Self { around: Some(self), variables }
    }

    fn variable(&self, name: &str) -> Option<Type<'a>> {
        let own = self.variables.iter().rev().find(|(own, _)| *own == name).map(|(_, of)| of.clone());
        own.or_else(|| self.around.and_then(|around| around.variable(name)))
    }

    /// Returns the type of an expression, and records its errors.
    pub(super) fn type_of(&self, expression: &IdedExpr, found: &mut Checked<'a>) -> Type<'a> {
        let of = match &expression.expr {
            Expr::Unspecified => Type::Dyn,
            Expr::Struct(made) => self.made(expression.id, made, found),
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.identifier(expression.id, name, found),
            Expr::Select(select) => self.select(expression.id, select, found),
            Expr::Call(call) => self.call(expression.id, call, found),
            Expr::List(list) => Type::List(Box::new(self.joined(list.elements.iter(), found))),
            Expr::Map(map) => {
                let entries = || map.entries.iter().filter_map(of_entry);
                let key = match self.joined(entries().map(|(key, _)| key), found) {
                    key @ (Type::Bool | Type::Int | Type::Uint | Type::Text | Type::Free) => key,
                    // Only these types are keys at run time. A type that contained another one twice would double with
                    // each level of nesting.
                    _ => Type::Dyn,
                };
                Type::Map(Box::new(key), Box::new(self.joined(entries().map(|(_, value)| value), found)))
            }
            Expr::Comprehension(inner) => self.comprehension(inner, found),
        };
        found.types.insert(expression.id, of.clone());
        of
    }

    fn identifier(&self, id: u64, name: &str, found: &mut Checked<'a>) -> Type<'a> {
        match self.variable(name) {
            Some(of) => of,
            None if TYPES.contains(&name) => Type::Named("type".to_owned()),
            // Qualified names of types, such as `google.protobuf.Timestamp`.
            None if matches!(name, "google" | "net" | "kubernetes") => Type::Dyn,
            None => found.undeclared(id, name),
        }
    }

    /// Returns the common type of all parts; dynamic if there are none.
    fn joined<'e>(&self, parts: impl Iterator<Item = &'e IdedExpr>, found: &mut Checked<'a>) -> Type<'a> {
        let mut all = Type::Free;
        for part in parts {
            let one = self.type_of(part, found);
            all = all.clone().joined(&one).unwrap_or_else(|| {
                if found.dynamic_list_calls == 0 {
                    let text = format!("expected type '{all}' but found '{one}'");
                    found.in_literals.push(TypeError { id: part.id, text });
                }
                Type::Dyn
            });
        }
        all
    }

    fn select(&self, id: u64, select: &SelectExpr, found: &mut Checked<'a>) -> Type<'a> {
        let operand = self.type_of(&select.operand, found);
        let field = field_of(id, operand, &select.field, found);
        if select.test { Type::Bool } else { field }
    }

    /// Checks an object or an operation of a patch. Other message types do not exist.
    fn made(&self, id: u64, made: &StructExpr, found: &mut Checked<'a>) -> Type<'a> {
        let name = made.type_name.as_str();
        let is_object = name == OBJECT || name.starts_with("Object.");
        if self.variable(PATCHES).is_none() || !is_object && name != JSON_PATCH {
            return found.undeclared(id, name);
        }
        for entry in &made.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let of = self.type_of(&field.value, found);
            if is_object {
                check_path(name, &field.field, &of, field.value.id, found);
            } else if !["op", "path", "from", "value"].contains(&field.field.as_str()) {
                found.refuse(entry.id, format!("undefined field '{}'", field.field));
            } else if field.field != "value" && !matches!(of, Type::Text | Type::Dyn) {
                let text = format!(
                    "expected type of field '{}' is 'string' but provided type is '{of}'",
                    field.field
                );
                found.refuse(entry.id, text);
            }
        }
        Type::Named(name.to_owned())
    }

    fn call(&self, id: u64, call: &CallExpr, found: &mut Checked<'a>) -> Type<'a> {
        if let Some(field) = self.optional_field(id, call, found) {
            return field;
        }
        let takes_anything = usize::from(call.func_name == "format");
        found.dynamic_list_calls += takes_anything;
        let arguments: Vec<_> = call.args.iter().map(|part| self.type_of(part, found)).collect();
        found.dynamic_list_calls -= takes_anything;
        if let (LOGICAL_AND | LOGICAL_OR, true) = (call.func_name.as_str(), call.target.is_none()) {
            return either(id, call, &arguments, found);
        }
        let (name, target) = self.called(call);
        let is_method = target.is_some();
        let target = target.map(|target| self.type_of(target, found));
        let given: Vec<_> = target.into_iter().chain(arguments).collect();
        let Some(ways) = declarations::named(&name) else {
            return found.undeclared(id, &name);
        };
        let fitting = ways.iter().filter(|way| way.is_method == is_method);
        let fitting: Vec<_> = fitting.filter_map(|way| Some((way, result(way, &given)?))).collect();
        let Some(of) = fitting.iter().map(|(_, of)| of.clone()).reduce(|all, other| all.or(&other)) else {
            let shown = shown(&given, is_method);
            return found.refuse(id, format!("found no matching overload for '{name}' applied to '{shown}'"));
        };
        if let Some((id, text)) = call.args.first().and_then(|first| literals::error(&call.func_name, first))
        {
            found.in_literals.push(TypeError { id, text });
        }
        let ways = fitting.into_iter().map(|(way, _)| way).collect();
        found.calls.insert(id, Called { name, is_method, ways });
        of
    }

    /// Returns the name of a called function and its receiver. `strings.quote(…)` has no receiver.
    fn called<'c>(&self, call: &'c CallExpr) -> (String, Option<&'c IdedExpr>) {
        let target = call.target.as_deref();
        if let Some(Expr::Ident(namespace)) = target.map(|target| &target.expr)
            && self.variable(namespace).is_none()
        {
            let whole = format!("{namespace}.{}", call.func_name);
            if declarations::named(&whole).is_some() {
                return (whole, None);
            }
        }
        (call.func_name.clone(), target)
    }

    /// Checks `value.?field`, which has the type of `value[?'field']`.
    fn optional_field(&self, id: u64, call: &CallExpr, found: &mut Checked<'a>) -> Option<Type<'a>> {
        let (OPT_INDEX, [operand, name]) = (call.func_name.as_str(), call.args.as_slice()) else {
            return None;
        };
        let Expr::Literal(LiteralValue::String(text)) = &name.expr else { return None };
        self.type_of(name, found);
        let operand = self.type_of(operand, found);
        let ways = declarations::named(OPT_INDEX).into_iter().flatten().take(1).collect();
        found.calls.insert(id, Called { name: OPT_INDEX.to_owned(), is_method: false, ways });
        Some(match field_of(id, operand, text.inner(), found) {
            of @ Type::Optional(_) => of,
            other => Type::Optional(Box::new(other)),
        })
    }

    fn comprehension(&self, inner: &ComprehensionExpr, found: &mut Checked<'a>) -> Type<'a> {
        let range = self.type_of(&inner.iter_range, found);
        let start = self.type_of(&inner.accu_init, found);
        let (first, second) = match range {
            Type::Dyn | Type::Free => (Type::Dyn, Type::Dyn),
            Type::List(item) if inner.iter_var2.is_some() => (Type::Int, *item),
            Type::List(item) => (*item, Type::Dyn),
            Type::Map(key, value) => (*key, *value),
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (found.refuse(inner.iter_range.id, text), Type::Dyn)
            }
        };
        let mut variables = vec![(inner.accu_var.as_str(), start.clone()), (inner.iter_var.as_str(), first)];
        variables.extend(inner.iter_var2.as_deref().map(|name| (name, second)));
        let within = self.and(variables);
        within.type_of(&inner.loop_cond, found);
        let step = within.type_of(&inner.loop_step, found);
        let made = start.joined(&step).unwrap_or(Type::Dyn);
        self.and(vec![(inner.accu_var.as_str(), made)]).type_of(&inner.result, found)
    }
}

/// Checks that the type of a created object is named by the path of its field.
fn check_path<'a>(parent: &str, field: &str, of: &Type<'a>, id: u64, found: &mut Checked<'a>) {
    let named = match of {
        Type::Named(name) => name,
        Type::List(item) => match item.as_ref() {
            Type::Named(name) => name,
            _ => return,
        },
        _ => return,
    };
    let wanted = format!("{parent}.{field}");
    if named.starts_with(OBJECT) && *named != wanted {
        found.refuse(id, format!("unexpected type name \"{named}\", expected \"{wanted}\", which matches field name path from root Object type"));
    }
}

/// Checks `&&` or `||`, and reports an error of each side.
fn either<'a>(id: u64, call: &CallExpr, given: &[Type<'a>], found: &mut Checked<'a>) -> Type<'a> {
    for (side, of) in call.args.iter().zip(given) {
        if !matches!(of, Type::Bool | Type::Dyn | Type::Free) {
            found.refuse(side.id, format!("expected type 'bool' but found '{of}'"));
        }
    }
    let ways = declarations::named(&call.func_name).into_iter().flatten().collect();
    found.calls.insert(id, Called { name: call.func_name.clone(), is_method: false, ways });
    Type::Bool
}

/// Returns the type of a field.
fn field_of<'a>(id: u64, operand: Type<'a>, name: &str, found: &mut Checked<'a>) -> Type<'a> {
    match operand {
        Type::Dyn | Type::Free => Type::Dyn,
        Type::Map(_, value) => *value,
        Type::Object(object) => match types::field(object, name) {
            Some(schema) => Type::of(schema),
            None => found.refuse(id, format!("undefined field '{name}'")),
        },
        Type::Variables(variables) => match variables.get(name) {
            Some(of) => of.clone(),
            None => found.refuse(id, format!("undefined field '{name}'")),
        },
        Type::Optional(value) => Type::Optional(Box::new(field_of(id, *value, name, found))),
        Type::Named(of) if of == declarations::AUTHORIZER && name == "requestResource" => {
            Type::Named(declarations::RESOURCE_CHECK.to_owned())
        }
        other => found.refuse(id, format!("type '{other}' does not support field selection")),
    }
}

/// Returns the result type of a call by one overload, or `None` if the arguments do not fit.
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
