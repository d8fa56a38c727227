//! Evaluation of Go templates.

mod function;
mod pipeline;

use super::format;
use super::functions::Library;
use super::node::{Branch, Loop, Node, Pipe};
use super::parse::Templates;
use super::value::{Context, LONGEST, Outcome, Value, is_true};

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
