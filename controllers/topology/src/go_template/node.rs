//! Syntax tree of a Go template.

use super::number::Number;

/// Part of a template.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Text that is written unchanged.
    Text(String),
    /// Action with a pipeline. Its value is written, unless it declares or assigns a variable.
    Action(Pipe),
    /// `if` or `with`.
    Branch(Branch),
    /// `range`.
    Range(Loop),
    /// `template`, or the call of a `block`.
    Call {
        name: String,
        argument: Option<Pipe>,
        line: usize,
    },
    Break,
    Continue,
}

/// `if` or `with`, with their `else` chains.
#[derive(Debug, Clone)]
pub(super) struct Branch {
    /// Conditions with their bodies, in order.
    pub(super) cases: Vec<Case>,
    pub(super) otherwise: Vec<Node>,
}

/// One case of a branch.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// Set for `with`: the value becomes the dot.
    pub(super) sets_dot: bool,
    pub(super) condition: Pipe,
    pub(super) body: Vec<Node>,
}

/// Loop over a list, a map or a number.
#[derive(Debug, Clone)]
pub(super) struct Loop {
    pub(super) over: Pipe,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

/// Pipeline of commands.
#[derive(Debug, Clone)]
pub(super) struct Pipe {
    /// Declared or assigned variables.
    pub(super) variables: Vec<String>,
    /// Set if the variables exist already.
    pub(super) is_assignment: bool,
    pub(super) commands: Vec<Command>,
    pub(super) line: usize,
}

/// Command: the first operand with its arguments.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) first: Operand,
    pub(super) arguments: Vec<Operand>,
}

/// Operand of a command.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Text(String),
    /// Chain of fields of the dot.
    Field(Vec<String>),
    /// Variable, and a chain of its fields.
    Variable(String, Vec<String>),
    /// Name of a function.
    Function(String),
    /// Pipeline in parentheses.
    Pipe(Box<Pipe>),
    /// Fields of another operand.
    Chain(Box<Self>, Vec<String>),
}
