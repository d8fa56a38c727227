//! Evaluation of Go templates.

use super::format;
use super::functions::{Library, Parameter};
use super::node::{Branch, Command, Loop, Node, Operand, Pipe};
use super::number::Number;
use super::parse::Templates;
use super::value::{Context, LONGEST, Outcome, Value, Width, is_true, type_name};
use super::{times, versions};

/// Deepest nesting of bodies and calls. Upstream allows 100,000 calls, but each uses the stack.
const DEEPEST: usize = 60;

/// End of a list of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// Result of a field that a map does not have. Go's option `missingkey`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingKey {
    /// Prints `<no value>`.
    Prints,
    /// Is an error.
    Fails,
}

/// Evaluator of one template, with its variables.
pub(super) struct Evaluator<'a> {
    pub(super) templates: &'a Templates,
    pub(super) library: Library,
    pub(super) context: &'a Context,
    pub(super) output: &'a mut String,
    /// Variables, the innermost last.
    pub(super) variables: Vec<(String, Value)>,
    pub(super) depth: usize,
    /// Line of the last action.
    pub(super) line: usize,
    pub(super) missing_key: MissingKey,
}

impl Evaluator<'_> {
    /// Writes the nodes.
    pub(super) fn walk(&mut self, dot: &Value, nodes: &[Node]) -> Outcome<Flow> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("templates are nested deeper than {DEEPEST} levels"));
        }
        let mut flow = Flow::Next;
        for node in nodes {
            self.context.charge(0)?;
            flow = self.node(dot, node)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.depth -= 1;
        Ok(flow)
    }

    fn node(&mut self, dot: &Value, node: &Node) -> Outcome<Flow> {
        match node {
            Node::Text(text) => self.write(text)?,
            Node::Action(pipe) => {
                let value = self.pipe(dot, pipe)?;
                if pipe.variables.is_empty() {
                    self.print(&value)?;
                }
            }
            Node::Branch(branch) => return self.branch(dot, branch),
            Node::Range(range) => return self.range(dot, range),
            Node::Call { name, argument, line } => {
                self.line = *line;
                self.call(dot, name, argument.as_ref())?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn write(&mut self, text: &str) -> Outcome<()> {
        if self.output.len().saturating_add(text.len()) > LONGEST {
            return Err(format!("the output is longer than {LONGEST} bytes"));
        }
        self.context.charge(text.len())?;
        self.output.push_str(text);
        Ok(())
    }

    fn print(&mut self, value: &Value) -> Outcome<()> {
        match value {
            Value::Missing | Value::Null => self.write("<no value>"),
            Value::Text(text) => self.write(text),
            other => {
                let text = format::text(other, self.context)?;
                self.write(&text)
            }
        }
    }

    fn branch(&mut self, dot: &Value, branch: &Branch) -> Outcome<Flow> {
        let mark = self.variables.len();
        let mut flow = None;
        for case in &branch.cases {
            let value = self.pipe(dot, &case.condition)?;
            if is_true(&value, self.context) {
                flow = Some(self.walk(if case.sets_dot { &value } else { dot }, &case.body)?);
                break;
            }
        }
        let flow = match flow {
            Some(flow) => flow,
            None => self.walk(dot, &branch.otherwise)?,
        };
        self.variables.truncate(mark);
        Ok(flow)
    }

    fn range(&mut self, dot: &Value, range: &Loop) -> Outcome<Flow> {
        let mark = self.variables.len();
        let value = self.pipe(dot, &range.over)?;
        let mut rounds = self.rounds(value, range.over.variables.len())?.peekable();
        if rounds.peek().is_none() {
            self.walk(dot, &range.otherwise)?;
        }
        let inner = self.variables.len();
        for (index, item) in rounds {
            self.set_round(&range.over, index, item.clone())?;
            let flow = self.walk(&item, &range.body)?;
            self.variables.truncate(inner);
            if flow == Flow::Break {
                break;
            }
        }
        self.variables.truncate(mark);
        Ok(Flow::Next)
    }

    /// Returns the indices and the items of a loop.
    fn rounds(&self, value: Value, variables: usize) -> Outcome<Box<dyn Iterator<Item = (Value, Value)>>> {
        Ok(match value {
            Value::Missing | Value::Null => Box::new(std::iter::empty()),
            Value::List(list) => {
                let count = list.items.len();
                let item = move |index| Some((Value::int(index), list.items.get(index)?.clone()));
                Box::new((0..count).filter_map(item))
            }
            Value::Map(map) => {
                let entries = self.context.entries(map)?;
                Box::new(entries.into_iter().map(|(name, item)| (Value::text(&name), item)))
            }
            Value::Integer(count, width) if variables < 2 => {
                Box::new((0..count).map(move |index| (Value::Missing, Value::Integer(index, width))))
            }
            Value::Integer(count, _) => {
                return Err(format!("can't use {count} to iterate over more than one variable"));
            }
            other => {
                return Err(format!("range can't iterate over {}", format::text(&other, self.context)?));
            }
        })
    }

    /// Sets the variables of one round of a loop.
    fn set_round(&mut self, over: &Pipe, index: Value, item: Value) -> Outcome<()> {
        let values: Vec<Value> = if over.variables.len() > 1 { vec![index, item] } else { vec![item] };
        for (name, value) in over.variables.iter().zip(values) {
            // The pipeline declared the variables with the whole list as their value.
            self.assign(name, value)?;
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, value: Value) -> Outcome<()> {
        match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, held)) => {
                *held = value;
                Ok(())
            }
            None => Err(format!("undefined variable: {name}")),
        }
    }

    fn variable(&self, name: &str) -> Outcome<Value> {
        let found = self.variables.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| format!("undefined variable: {name}"))
    }

    fn call(&mut self, dot: &Value, name: &str, argument: Option<&Pipe>) -> Outcome<()> {
        let nodes = self.templates.get(name).filter(|_| !name.is_empty());
        let nodes = nodes.ok_or_else(|| format!("template {name:?} not defined"))?;
        let dot = match argument {
            Some(pipe) => self.pipe(dot, pipe)?,
            None => Value::Missing,
        };
        let outer = std::mem::replace(&mut self.variables, vec![("$".to_owned(), dot.clone())]);
        self.walk(&dot, nodes)?;
        self.variables = outer;
        Ok(())
    }

    /// Evaluates a pipeline, and sets its variables.
    fn pipe(&mut self, dot: &Value, pipe: &Pipe) -> Outcome<Value> {
        self.line = pipe.line;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("templates are nested deeper than {DEEPEST} levels"));
        }
        let mut value = None;
        for command in &pipe.commands {
            value = Some(match self.command(dot, command, value)? {
                Value::Null => Value::Missing,
                value => value,
            });
        }
        self.depth -= 1;
        let value = value.unwrap_or(Value::Missing);
        for name in &pipe.variables {
            if pipe.is_assignment {
                self.assign(name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    /// Evaluates a command. `last` is the value of the command before it.
    fn command(&mut self, dot: &Value, command: &Command, last: Option<Value>) -> Outcome<Value> {
        self.context.charge(0)?;
        if let Operand::Function(name) = &command.first {
            return self.function(dot, name, &command.arguments, last);
        }
        let has_arguments = !command.arguments.is_empty() || last.is_some();
        match &command.first {
            Operand::Field(_) | Operand::Chain(..) => {
                self.chain(dot, &command.first, Some((&command.arguments, last)))
            }
            Operand::Variable(_, fields) if !fields.is_empty() => {
                self.chain(dot, &command.first, Some((&command.arguments, last)))
            }
            Operand::Nil => Err("nil is not a command".to_owned()),
            _ if has_arguments => Err("can't give argument to non-function".to_owned()),
            operand => self.operand(dot, operand),
        }
    }

    /// Evaluates an operand without arguments.
    fn operand(&mut self, dot: &Value, operand: &Operand) -> Outcome<Value> {
        Ok(match operand {
            Operand::Dot => dot.clone(),
            Operand::Nil => Value::Null,
            Operand::Bool(value) => Value::Bool(*value),
            Operand::Number(number) => constant(*number)?,
            Operand::Text(text) => Value::text(text),
            Operand::Function(name) => return self.function(dot, name, &[], None),
            Operand::Pipe(pipe) => return self.pipe(dot, pipe),
            Operand::Variable(name, fields) if fields.is_empty() => self.variable(name)?,
            Operand::Field(_) | Operand::Variable(..) | Operand::Chain(..) => {
                return self.chain(dot, operand, None);
            }
        })
    }

    /// Evaluates a chain of fields. Only a method takes arguments.
    fn chain(
        &mut self,
        dot: &Value,
        operand: &Operand,
        call: Option<(&[Operand], Option<Value>)>,
    ) -> Outcome<Value> {
        let (mut value, fields) = match operand {
            Operand::Field(fields) => (dot.clone(), fields),
            Operand::Variable(name, fields) => (self.variable(name)?, fields),
            Operand::Chain(inner, _) if matches!(**inner, Operand::Nil) => {
                return Err("indirection through explicit nil".to_owned());
            }
            Operand::Chain(inner, fields) => (self.operand(dot, inner)?, fields),
            _ => return self.operand(dot, operand),
        };
        let (arguments, last) = call.unwrap_or((&[], None));
        let mut given = Vec::new();
        for argument in arguments {
            given.push(self.operand(dot, argument)?);
        }
        given.extend(last);
        for (index, field) in fields.iter().enumerate() {
            let given: &[Value] = if index + 1 == fields.len() { &given } else { &[] };
            value = self.field(&value, field, given)?;
        }
        Ok(value)
    }

    fn field(&self, holder: &Value, name: &str, arguments: &[Value]) -> Outcome<Value> {
        self.context.charge(0)?;
        match holder {
            Value::Missing => Ok(Value::Missing),
            Value::Null => Err(format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(_) if !arguments.is_empty() => {
                Err(format!("{name} is not a method but has arguments"))
            }
            Value::Map(map) => match (self.context.get(*map, name), self.missing_key) {
                (Some(value), _) => Ok(value),
                (None, MissingKey::Prints) => Ok(Value::Missing),
                (None, MissingKey::Fails) => Err(format!("map has no entry for key {name:?}")),
            },
            Value::Version(version) => versions::method(version, name, arguments, self.context),
            Value::Time(time) => times::method(time, name, arguments, self.context),
            Value::Certificate(certificate) => certificate.field(name, arguments),
            other => {
                let kind = type_name(other, self.context);
                Err(format!("can't evaluate field {name} in type {kind}"))
            }
        }
    }

    fn function(
        &mut self,
        dot: &Value,
        name: &str,
        arguments: &[Operand],
        last: Option<Value>,
    ) -> Outcome<Value> {
        let function = self.library.find(name).ok_or_else(|| self.library.refusal(name))?;
        let count = arguments.len() + usize::from(last.is_some());
        let fixed = function.parameters.len();
        let fits = if function.rest.is_some() { count >= fixed } else { count == fixed };
        if !fits {
            let least = if function.rest.is_some() { "at least " } else { "" };
            return Err(format!("wrong number of args for {name}: want {least}{fixed} got {count}"));
        }
        if matches!(name, "and" | "or") {
            return self.and_or(dot, name == "or", arguments, last);
        }
        let mut values = Vec::with_capacity(count);
        for argument in arguments {
            let parameter = function.parameter(values.len());
            values.push(self.argument(dot, argument, parameter)?);
        }
        if let Some(last) = last {
            values.push(self.fitting(last, function.parameter(values.len()))?);
        }
        for value in &values {
            self.context.charge_value(value)?;
        }
        let result = (function.call)(self.context, &values);
        let result = result.map_err(|error| format!("error calling {name}: {error}"))?;
        if let Value::Text(text) = &result {
            self.context.check_length(text.len())?;
        }
        Ok(result)
    }

    /// Evaluates `and` or `or`, which stop at the first operand that decides.
    fn and_or(
        &mut self,
        dot: &Value,
        is_or: bool,
        arguments: &[Operand],
        last: Option<Value>,
    ) -> Outcome<Value> {
        let mut value = Value::Missing;
        for argument in arguments {
            value = self.argument(dot, argument, Parameter::Reflect)?;
            if is_true(&value, self.context) == is_or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Evaluates an argument, and checks its type.
    fn argument(&mut self, dot: &Value, operand: &Operand, parameter: Parameter) -> Outcome<Value> {
        match (operand, parameter) {
            (Operand::Nil, Parameter::Any | Parameter::Reflect | Parameter::Map) => Ok(Value::Null),
            (Operand::Nil, _) => Err(format!("cannot assign nil to {}", parameter.name())),
            (Operand::Number(number), Parameter::Int) => number
                .integer
                .map(|value| Value::Integer(value, Width::Int))
                .ok_or_else(|| "expected integer; found a number with a fraction".to_owned()),
            // Go cuts the bits off that do not fit.
            (Operand::Number(number), Parameter::Uint32) => number
                .integer
                .filter(|value| *value >= 0)
                .map(|value| Value::Integer(value & i64::from(u32::MAX), Width::Uint32))
                .ok_or_else(|| "expected unsigned integer".to_owned()),
            (Operand::Number(number), Parameter::Float) => {
                Ok(number.float.map_or(Value::Missing, Value::Float))
            }
            _ => {
                let value = self.operand(dot, operand)?;
                self.fitting(value, parameter)
            }
        }
    }

    /// Checks the type of an argument.
    fn fitting(&self, value: Value, parameter: Parameter) -> Outcome<Value> {
        let fits = match parameter {
            Parameter::Any => return Ok(if value.is_nil() { Value::Null } else { value }),
            Parameter::Reflect => true,
            Parameter::Text => matches!(value, Value::Text(_)),
            Parameter::Int => matches!(value, Value::Integer(_, Width::Int)),
            Parameter::Uint32 => matches!(value, Value::Integer(_, Width::Uint32)),
            Parameter::Float => matches!(value, Value::Float(_)),
            Parameter::Bool => matches!(value, Value::Bool(_)),
            Parameter::Time => matches!(value, Value::Time(_)),
            Parameter::Map => match &value {
                Value::Map(map) => !self.context.is_of_texts(*map),
                other => matches!(other, Value::Missing),
            },
        };
        if fits {
            return Ok(value);
        }
        let found = type_name(&value, self.context);
        Err(format!("wrong type for value; expected {}; found {found}", parameter.name()))
    }
}

/// Returns the value of a constant.
fn constant(number: Number) -> Outcome<Value> {
    match (number.is_float, number.float, number.integer) {
        (true, Some(value), _) => Ok(Value::Float(value)),
        (_, _, Some(value)) => Ok(Value::Integer(value, Width::Int)),
        _ => Err("constant overflows int".to_owned()),
    }
}

/// Renders the main template.
pub(super) fn render(
    templates: &Templates,
    library: Library,
    data: &serde_json::Value,
    missing_key: MissingKey,
) -> Result<String, (usize, String)> {
    let context = Context::default();
    let mut output = String::new();
    let dot = match missing_key {
        MissingKey::Prints => context.decoded(data),
        // Only templates of names are rendered so, and upstream's data for them are no JSON.
        MissingKey::Fails => context.given(data),
    };
    let dot = dot.map_err(|error| (1, error))?;
    let dot = if dot.is_nil() { Value::Missing } else { dot };
    let variables = vec![("$".to_owned(), dot.clone())];
    let mut evaluator = Evaluator {
        templates,
        library,
        context: &context,
        output: &mut output,
        variables,
        depth: 0,
        line: 1,
        missing_key,
    };
    let main = templates.get("").map(Vec::as_slice).unwrap_or_default();
    match evaluator.walk(&dot, main) {
        Ok(_) => Ok(output),
        Err(error) => Err((evaluator.line, error)),
    }
}
