//! Functions of templates: Go's own ones, and those of Sprig that need no clock, randomness, environment or network.

mod built_in;
mod dates;
mod defaults;
mod dictionaries;
mod encodings;
mod letter_case;
mod lists;
mod numbers;
mod passwords;
mod paths;
mod printf;
mod regular_expressions;
mod scrypt;
mod secrets;
mod strings;
mod urls;

use super::times::Time;
use super::value::{Context, Outcome, Value};

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// `interface {}`: anything.
    Any,
    /// `reflect.Value`: anything.
    Reflect,
    Text,
    Int,
    /// `uint32`: a constant only, because no value has this type.
    Uint32,
    Float,
    Bool,
    Time,
    Map,
}

impl Parameter {
    /// Returns the name of Go's type.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Text => "string",
            Self::Int => "int",
            Self::Uint32 => "uint32",
            Self::Float => "float64",
            Self::Bool => "bool",
            Self::Time => "time.Time",
            Self::Map => "map[string]interface {}",
        }
    }
}

/// Implementation of a function. The arguments have the types of the parameters.
type Call = fn(&Context, &[Value]) -> Outcome<Value>;

/// Function of templates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// Types of the fixed parameters.
    pub(super) parameters: &'static [Parameter],
    /// Type of the further arguments, if any number is allowed.
    pub(super) rest: Option<Parameter>,
    pub(super) call: Call,
}

impl Function {
    /// Returns the type of the parameter at `index`.
    pub(super) fn parameter(&self, index: usize) -> Parameter {
        self.parameters.get(index).copied().or(self.rest).unwrap_or(Parameter::Any)
    }
}

/// Creates the entry of a function.
const fn function(name: &'static str, parameters: &'static [Parameter], call: Call) -> Function {
    Function { name, parameters, rest: None, call }
}

/// Creates the entry of a function with any number of further arguments.
const fn variadic(
    name: &'static str,
    parameters: &'static [Parameter],
    rest: Parameter,
    call: Call,
) -> Function {
    Function { name, parameters, rest: Some(rest), call }
}

/// All functions, Go's own ones first. A later list takes precedence: Sprig's `slice` replaces Go's.
static LISTS: [&[Function]; 13] = [
    built_in::FUNCTIONS,
    dates::FUNCTIONS,
    defaults::FUNCTIONS,
    dictionaries::FUNCTIONS,
    encodings::FUNCTIONS,
    lists::FUNCTIONS,
    numbers::FUNCTIONS,
    paths::FUNCTIONS,
    regular_expressions::FUNCTIONS,
    secrets::FUNCTIONS,
    strings::FUNCTIONS,
    letter_case::FUNCTIONS,
    urls::FUNCTIONS,
];

/// Functions of Sprig that upstream's renderer does not have either: they depend on the clock, the time zone, randomness,
/// the environment or the network.
const ABSENT: [&str; 17] = [
    "date",
    "dateInZone",
    "dateModify",
    "date_in_zone",
    "date_modify",
    "env",
    "expandenv",
    "getHostByName",
    "htmlDate",
    "htmlDateInZone",
    "now",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randNumeric",
    "uuidv4",
];

/// Functions of upstream's renderer that give another result at each call, because they use randomness or the clock.
const UNREPEATABLE: [&str; 13] = [
    "ago",
    "bcrypt",
    "encryptAES",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "htpasswd",
    "randInt",
    "shuffle",
];

/// Reason for the refusal of these functions.
const UNREPEATABLE_REASON: &str =
    ": each call gives another result, so each pass would replace Machines: use a variable or a Secret";

/// Functions that a template can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    /// Go's own functions.
    Go,
    /// Go's own functions, and those of Sprig.
    Sprig,
}

impl Library {
    /// Returns a function by its name.
    pub(super) fn find(self, name: &str) -> Option<Function> {
        let count = if self == Self::Go { 1 } else { LISTS.len() };
        let functions = LISTS.iter().take(count).rev().flat_map(|list| list.iter());
        functions.copied().find(|function| function.name == name)
    }

    /// Returns the message for a function that does not exist.
    pub(super) fn refusal(self, name: &str) -> String {
        let reason = match self {
            Self::Sprig if ABSENT.contains(&name) => ": it is no pure function of the variables",
            Self::Sprig if UNREPEATABLE.contains(&name) => UNREPEATABLE_REASON,
            Self::Sprig | Self::Go => "",
        };
        format!("function {name:?} not defined{reason}")
    }
}

/// Returns the text of an argument.
fn text(arguments: &[Value], index: usize) -> &str {
    match arguments.get(index) {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

/// Returns the integer of an argument.
fn integer(arguments: &[Value], index: usize) -> i64 {
    match arguments.get(index) {
        Some(Value::Integer(value, _)) => *value,
        _ => 0,
    }
}

/// Returns the time of an argument.
fn time(arguments: &[Value], index: usize) -> Outcome<&Time> {
    match arguments.get(index) {
        Some(Value::Time(time)) => Ok(time),
        _ => Err("the argument is no time".to_owned()),
    }
}

/// Returns an argument, or nil.
fn any(arguments: &[Value], index: usize) -> &Value {
    arguments.get(index).unwrap_or(&Value::Null)
}

/// Returns the arguments from `index` on.
fn rest(arguments: &[Value], index: usize) -> &[Value] {
    arguments.get(index..).unwrap_or_default()
}

/// Returns a text as a value.
fn owned(text: String) -> Outcome<Value> {
    Ok(Value::Text(text.into()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::go_template::Template;

    #[test]
    fn the_functions_are_those_of_upstreams_renderer_whose_result_is_repeatable() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go_templates/functions.txt");
        let names = std::fs::read_to_string(file).unwrap();
        let mut refused = Vec::new();
        for name in names.lines() {
            if let Err(error) = Template::parse("tpl", &format!("{{{{ {name} }}}}")) {
                let expected = format!("template: tpl:1: function {name:?} not defined{UNREPEATABLE_REASON}");
                assert_eq!(error.to_string(), expected);
                refused.push(name);
            }
        }
        assert!(names.lines().count() > 150);
        assert_eq!(refused, UNREPEATABLE);
    }
}
