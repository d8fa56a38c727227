//! What a class defines, variable by variable.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::cluster::class::Definitions;
use crate::shape::get;

/// One variable.
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    pub(super) is_required: bool,
    /// As it is written in the class.
    pub(super) schema: &'a Value,
}

impl<'a> Definition<'a> {
    /// Reads what has `required` and `schema`.
    fn read(name: &'a str, found: &'a Value) -> Self {
        let schema = get(found, "schema.openAPIV3Schema").unwrap_or(&Value::Null);
        Self { name, is_required: found.get("required") == Some(&Value::Bool(true)), schema }
    }
}

/// All variables, in order.
pub(super) struct Index<'a>(Vec<Definition<'a>>);

impl<'a> Index<'a> {
    /// The definitions of a class, one of each variable: they do not contradict each other.
    ///
    /// # Errors
    /// A fault of the variables at `path` where they do, or where there is a variable without any.
    pub(super) fn of(definitions: &Definitions<'a>, path: &FieldPath) -> Result<Self, Vec<FieldError>> {
        let name = |variable: &'a Value| variable.get("name").and_then(Value::as_str).unwrap_or_default();
        let variables = match definitions {
            Definitions::Unknown => return Ok(Self(Vec::new())),
            Definitions::Own(own) => {
                return Ok(Self(
                    own.iter().map(|variable| Definition::read(name(variable), variable)).collect(),
                ));
            }
            Definitions::Collected(variables) => variables,
        };
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for variable in variables {
            let name = name(variable);
            match variable.get("definitions").and_then(Value::as_array).and_then(|list| list.first()) {
                Some(first) => found.push(Definition::read(name, first)),
                None => problems.push(format!("variable {name:?} has no definitions")),
            }
            if variable.get("definitionsConflict") == Some(&Value::Bool(true)) {
                problems.push(format!("variable {name:?} has conflicting definitions"));
            }
        }
        let problems = match problems.as_slice() {
            [] => return Ok(Self(found)),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let names: Vec<String> =
            variables.iter().map(|variable| format!("Name: {}", name(variable))).collect();
        let shown = Value::from(format!("[{}]", names.join(",")));
        let detail = format!("variable definitions in the ClusterClass not valid: {problems}");
        Err(vec![FieldError::type_invalid(path.clone(), &shown, &detail)])
    }

    pub(super) fn get(&self, name: &str) -> Option<&Definition<'a>> {
        self.0.iter().find(|definition| definition.name == name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Definition<'a>> {
        self.0.iter()
    }
}
