//! Filter of system calls, as data.

use serde_json::{Value, json};

/// Number of the error "operation not permitted", as for all architectures of Linux that Capstan runs on.
const EPERM: u8 = 1;

/// Number of the error "function not implemented": the C library then uses an older call.
const ENOSYS: u8 = 38;

/// Result of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Allow,
    /// The call fails, because it is not permitted.
    Refuse,
    /// The call fails as in a kernel that does not have it.
    Hide,
}

impl Action {
    /// Returns the number of the error, or 0.
    const fn error(self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Refuse => EPERM,
            Self::Hide => ENOSYS,
        }
    }
}

/// Condition: some bits of an argument have this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bits {
    /// Number of the argument, from 0.
    pub(super) index: usize,
    pub(super) mask: u64,
    pub(super) value: u64,
}

/// Action for a system call, or for those of its uses that fulfil a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    call: String,
    action: Action,
    bits: Option<Bits>,
}

/// Filter: rules, and the action for all other calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    otherwise: Action,
    rules: Vec<Rule>,
}

impl Filter {
    pub(super) const fn new(otherwise: Action) -> Self {
        Self { otherwise, rules: Vec::new() }
    }

    pub(super) fn add(&mut self, call: &str, action: Action, bits: Option<Bits>) {
        self.rules.push(Rule { call: call.to_owned(), action, bits });
    }

    /// Returns the form that `filter.py` reads.
    pub(super) fn json(&self) -> Value {
        let rules = self.rules.iter().map(|rule| {
            let bits = rule.bits.map(|it| json!({"index": it.index, "mask": it.mask, "value": it.value}));
            json!({"call": rule.call, "error": rule.action.error(), "argument": bits})
        });
        json!({"otherwise": self.otherwise.error(), "rules": rules.collect::<Vec<_>>()})
    }

    /// Returns the result of a call with these arguments.
    #[cfg(test)]
    pub(super) fn decide(&self, call: &str, arguments: &[u64]) -> Action {
        let applies = |rule: &&Rule| {
            let fulfils =
                |bits: &Bits| arguments.get(bits.index).is_some_and(|it| it & bits.mask == bits.value);
            rule.call == call && rule.bits.as_ref().is_none_or(fulfils)
        };
        self.rules.iter().find(applies).map_or(self.otherwise, |rule| rule.action)
    }
}
