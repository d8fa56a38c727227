//! Type check of the expressions of a policy, for objects of one kind.
//!
//! The evaluation knows no types of objects, so a wrong name of a field is an error of each request. This check finds it
//! before.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AUTHORIZER, NAMESPACE, REQUEST, VARIABLES, escape_reserved, unescaped_words};
use crate::Schema;
use crate::cel::check::{Checked, Scope};
use crate::cel::parse::parse;
use crate::cel::parts::each;
use crate::cel::types::Type;
use crate::cel::{stack, type_error};

/// Parameters of a policy in a type check.
#[derive(Debug, Clone, Copy)]
pub enum CheckedParams<'a> {
    /// The policy has none.
    Absent,
    /// Their kind is not known, so their type is dynamic.
    Unknown,
    /// They have this schema.
    Known(&'a Schema),
}

/// Type check of the expressions of a policy.
#[derive(Debug)]
pub struct TypeCheck<'a> {
    object: &'a Schema,
    params: CheckedParams<'a>,
    variables: Arc<BTreeMap<String, Type<'a>>>,
}

impl<'a> TypeCheck<'a> {
    /// Prepares the check for objects of a schema. The variables are names with expressions, in the order of their
    /// declaration. As in upstream, a variable with an error is not an error of the expressions that read it: its type is
    /// dynamic.
    pub fn new<'v>(
        object: &'a Schema,
        params: CheckedParams<'a>,
        variables: impl IntoIterator<Item = (&'v str, &'v str)>,
    ) -> Self {
        let mut check = Self { object, params, variables: Arc::default() };
        for (name, source) in variables {
            let of = check.type_of(source).map_or(Type::Dyn, |of| of.of_variable());
            Arc::make_mut(&mut check.variables).insert(name.to_owned(), of);
        }
        check
    }

    /// Returns the errors of an expression with their locations, in CEL's form; `None` if there are none.
    pub fn errors(&self, source: &str) -> Option<String> {
        self.type_of(source).err()
    }

    fn type_of(&self, source: &str) -> Result<Type<'a>, String> {
        stack::deep(|| {
            let mut program = parse(source)?;
            each(&mut program, &mut escape_reserved);
            let mut found = Checked::default();
            let of = self.scope().type_of(&program, &mut found);
            match found.errors() {
                None => Ok(of),
                Some(errors) => Err(unescaped_words(type_error::shown(source, errors))),
            }
        })
    }

    fn scope(&self) -> Scope<'a, 'a> {
        let mut variables = vec![
            ("object", Type::of(self.object)),
            ("oldObject", Type::of(self.object)),
            ("request", Type::of(&REQUEST)),
            ("namespaceObject", Type::of(&NAMESPACE)),
            ("authorizer", Type::Named(AUTHORIZER.to_owned())),
            (VARIABLES, Type::Variables(Arc::clone(&self.variables))),
        ];
        match self.params {
            CheckedParams::Absent => {}
            CheckedParams::Unknown => variables.push(("params", Type::Dyn)),
            CheckedParams::Known(schema) => variables.push(("params", Type::of(schema))),
        }
        Scope::of_all(variables)
    }
}
