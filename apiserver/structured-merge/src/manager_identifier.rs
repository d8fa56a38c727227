//! Field managers, to which sets of fields belong.

use std::cmp::Ordering;

use serde_json::Value;

/// Operation by which a field manager owns fields: an apply, or any other write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update and the other patches.
    Update,
}

impl Operation {
    /// Returns its name on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Field manager. A client that applies is one field manager in all versions; a client that updates is another in
/// every version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerIdentifier {
    /// Name that the client has given.
    pub manager: String,
    /// Operation of its writes.
    pub operation: Operation,
    /// Version of its last write.
    pub api_version: String,
    /// Subresource that it writes through, or empty.
    pub subresource: String,
}

impl ManagerIdentifier {
    /// Returns true if the two are the same field manager.
    pub fn is(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// Returns the key that only equal field managers share.
    pub(crate) fn key(&self) -> (&str, Operation, &str, &str) {
        let version = if self.operation == Operation::Apply { "" } else { &self.api_version };
        (&self.manager, self.operation, &self.subresource, version)
    }

    /// Returns its key as the JSON that upstream sorts by.
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
        let parts = |manager: &'_ Self| {
            [manager.manager.clone(), manager.api_version.clone(), manager.subresource.clone()]
        };
        parts(self).cmp(&parts(other))
    }
}

impl std::fmt::Display for ManagerIdentifier {
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
