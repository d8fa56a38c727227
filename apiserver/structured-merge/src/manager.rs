//! Whose a set of fields is.

use std::cmp::Ordering;

use serde_json::Value;

/// How an owner came to own: by applying, or by any other write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update and the other patches.
    Update,
}

impl Operation {
    /// Its name on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// An owner. Whoever applies is one owner in whatever version they do it; whoever updates is
/// another in every version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manager {
    /// The name the client gave itself.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version of its last write.
    pub api_version: String,
    /// The subresource it writes through, or empty.
    pub subresource: String,
}

impl Manager {
    /// Whether the two are one.
    pub fn is(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// What is the same of two that are one, and of no others.
    pub(crate) fn key(&self) -> (&str, Operation, &str, &str) {
        let version = if self.operation == Operation::Apply { "" } else { &self.api_version };
        (&self.manager, self.operation, &self.subresource, version)
    }

    /// What makes it an owner, as the JSON that upstream sorts by.
    pub(crate) fn identity(&self) -> String {
        let (manager, operation, subresource, version) = self.key();
        let fields = [
            ("manager", manager),
            ("operation", operation.text()),
            ("apiVersion", version),
            ("subresource", subresource),
        ];
        let fields: Vec<String> = fields
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("\"{name}\":{}", Value::from(value)))
            .collect();
        format!("{{{}}}", fields.join(","))
    }

    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let parts =
            |owner: &'_ Self| [owner.manager.clone(), owner.api_version.clone(), owner.subresource.clone()];
        parts(self).cmp(&parts(other))
    }
}

impl std::fmt::Display for Manager {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(formatter, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == Operation::Update {
            write!(formatter, " using {}", self.api_version)?;
        }
        Ok(())
    }
}
