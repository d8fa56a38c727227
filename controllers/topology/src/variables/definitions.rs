//! Definitions of a class's variables.

use std::cell::OnceCell;
use std::collections::HashMap;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::{InvalidSchema, Schema};
use serde_json::{Value, json};

use super::fields::{get, items};
use super::schema;

/// Name of a value in its own error messages.
pub(super) const ROOT: &str = "variableValue";

/// Condition with which the class's controller reports that all variables are known.
const VARIABLES_READY: &str = "VariablesReady";

/// Known variables of a class.
///
/// Upstream takes them from `status` only. There the class's controller collects the variables of the class and of its
/// extensions. Upstream validates nothing while that status is out of date. Here a class may have no such controller.
/// If no controller has written the status, the class's own variables count, because the controller would write the
/// same. If the class has extensions, its variables are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Definitions<'a> {
    /// Unknown.
    Unknown,
    /// Variables as the class has them: `name`, `required` and `schema`.
    Own(Vec<&'a Value>),
    /// Variables as the controller has them: `name`, `definitions`, and a flag for conflicting definitions.
    Collected(Vec<&'a Value>),
}

impl<'a> Definitions<'a> {
    /// Returns the variables that a class defines.
    pub fn of(class: &'a Value) -> Self {
        if !has_controller(class) {
            return Self::of_spec(class);
        }
        if is_reconciled(class) { Self::Collected(list(class, "status.variables")) } else { Self::Unknown }
    }

    /// Returns the variables that the spec of a class defines, without regard to the status of the class.
    pub fn of_spec(class: &'a Value) -> Self {
        let asks = |(_, patch): (usize, &Value)| get(patch, "external.discoverVariablesExtension").is_some();
        if items(class, "spec.patches").any(asks) {
            return Self::Unknown;
        }
        let mut own = list(class, "spec.variables");
        // The controller's order.
        own.sort_by_key(|variable| variable.get("name").and_then(Value::as_str));
        Self::Own(own)
    }
}

fn list<'a>(class: &'a Value, path: &str) -> Vec<&'a Value> {
    get(class, path).and_then(Value::as_array).into_iter().flatten().collect()
}

fn condition(class: &Value) -> Option<&Value> {
    let mut conditions = items(class, "status.conditions").map(|(_, condition)| condition);
    conditions.find(|condition| condition.get("type").and_then(Value::as_str) == Some(VARIABLES_READY))
}

/// Reports whether a controller has written the status of the class.
fn has_controller(class: &Value) -> bool {
    get(class, "status.observedGeneration").is_some()
        || get(class, "status.variables").is_some()
        || condition(class).is_some()
}

/// Reports whether the variables in the status belong to the current generation of the class.
fn is_reconciled(class: &Value) -> bool {
    get(class, "metadata.generation") == get(class, "status.observedGeneration")
        && condition(class).is_some_and(|condition| condition.get("status") != Some(&Value::from("False")))
}

/// Definition of one variable.
pub(super) struct Definition<'a> {
    pub(super) name: &'a str,
    pub(super) is_required: bool,
    /// Schema as the class contains it.
    pub(super) schema: &'a Value,
    /// Schema, compiled for the first value.
    compiled: OnceCell<Result<Schema, InvalidSchema>>,
    /// Schema of an object with the value in the field [`ROOT`], because defaulting works on objects.
    around: OnceCell<Result<Schema, InvalidSchema>>,
}

impl<'a> Definition<'a> {
    /// Reads an entry with `required` and `schema`.
    fn read(name: &'a str, found: &'a Value) -> Self {
        let schema = get(found, "schema.openAPIV3Schema").unwrap_or(&Value::Null);
        let is_required = found.get("required") == Some(&Value::Bool(true));
        Self { name, is_required, schema, compiled: OnceCell::new(), around: OnceCell::new() }
    }

    pub(super) fn compiled(&self) -> Result<&Schema, &InvalidSchema> {
        self.compiled.get_or_init(|| schema::compile(self.schema)).as_ref()
    }

    pub(super) fn around(&self) -> Result<&Schema, &InvalidSchema> {
        let whole = || json!({"type": "object", "properties": {ROOT: schema::known(self.schema)}});
        self.around.get_or_init(|| Schema::compile(&whole())).as_ref()
    }
}

/// All variables, in order.
pub(super) struct Index<'a> {
    all: Vec<Definition<'a>>,
    /// Positions of the variables by name.
    positions: HashMap<&'a str, usize>,
}

/// Error of the definitions themselves, which every list of values repeats.
pub(super) struct Contradiction {
    names: Value,
    detail: String,
}

impl Contradiction {
    /// Returns the error for the variables at `path`.
    pub(super) fn at(&self, path: &FieldPath) -> FieldError {
        FieldError::type_invalid(path.clone(), &self.names, &self.detail)
    }
}

impl<'a> Index<'a> {
    /// Returns the definitions of a class, one for each variable, without conflicts.
    ///
    /// # Errors
    /// [`Contradiction`] if definitions conflict, or if a variable has none.
    pub(super) fn of(definitions: &Definitions<'a>) -> Result<Self, Contradiction> {
        let name = |variable: &'a Value| variable.get("name").and_then(Value::as_str).unwrap_or_default();
        let variables = match definitions {
            Definitions::Unknown => return Ok(Self::new(Vec::new())),
            Definitions::Own(own) => {
                let read = |variable: &&'a Value| Definition::read(name(variable), variable);
                return Ok(Self::new(own.iter().map(read).collect()));
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
            [] => return Ok(Self::new(found)),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let names: Vec<String> =
            variables.iter().map(|variable| format!("Name: {}", name(variable))).collect();
        let names = Value::from(format!("[{}]", names.join(",")));
        let detail = format!("variable definitions in the ClusterClass not valid: {problems}");
        Err(Contradiction { names, detail })
    }

    fn new(all: Vec<Definition<'a>>) -> Self {
        // The first definition of a name counts.
        let positions =
            all.iter().enumerate().rev().map(|(index, definition)| (definition.name, index)).collect();
        Self { all, positions }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Definition<'a>> {
        self.all.get(*self.positions.get(name)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Definition<'a>> {
        self.all.iter()
    }
}
