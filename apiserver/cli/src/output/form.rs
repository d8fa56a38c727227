//! Form of the output of a command that has a table and a view for programs.

use clap::ValueEnum;
use serde_json::Value;

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ViewForm {
    /// Tables for people.
    #[default]
    #[value(alias = "text")]
    Table,
    /// JSON. Its field `schema` names the form, in which fields are added and never renamed.
    Json,
    /// YAML of the same form.
    Yaml,
}

impl ViewForm {
    /// Returns the output.
    ///
    /// # Errors
    /// The view cannot be encoded.
    pub fn text(self, table: impl FnOnce() -> String, view: &Value) -> Result<String, String> {
        match self {
            Self::Table => Ok(table()),
            Self::Json => {
                serde_json::to_string_pretty(view).map(|text| text + "\n").map_err(|error| error.to_string())
            }
            Self::Yaml => serde_saphyr::to_string(view).map_err(|error| error.to_string()),
        }
    }
}
