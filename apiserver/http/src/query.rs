//! The query string.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{FieldValidation, WriteOptions};
use serde_json::json;

/// Decoded parameters in the order they came. Unknown ones are ignored by whoever reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter; empty when absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Present and not said to be false.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.has(name) && !matches!(self.text(name), "false" | "0")
    }

    pub(crate) fn number(&self, name: &str) -> ApiResult<Option<i64>> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax (query parameter {name})"
                ))
            }),
        }
    }

    pub(crate) fn labels(&self) -> ApiResult<LabelSelector> {
        LabelSelector::parse(self.text("labelSelector"))
    }

    pub(crate) fn fields(&self, resource: &Resource) -> ApiResult<FieldSelector> {
        FieldSelector::parse(self.text("fieldSelector"), &resource.selectable)
    }

    /// How a write is to be done. `options` names the options' kind in errors.
    pub(crate) fn write_options(&self, options: &str) -> ApiResult<WriteOptions> {
        let kind = format!("{options}.meta.k8s.io");
        let fault = |error| ApiError::invalid_kind(&kind, "", &[error]);
        let dry: Vec<&str> = self.all("dryRun").filter(|value| !value.is_empty()).collect();
        if dry.iter().any(|value| *value != "All") {
            return Err(fault(FieldError::not_supported(FieldPath::new("dryRun"), &json!(dry), &["All"])));
        }
        let field_validation = match self.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let field = FieldPath::new("fieldValidation");
                let supported = ["", "Ignore", "Strict", "Warn"];
                return Err(fault(FieldError::not_supported(field, &json!(other), &supported)));
            }
        };
        self.check_field_manager().map_err(fault)?;
        Ok(WriteOptions { dry_run: !dry.is_empty(), field_validation })
    }

    /// Upstream's bound on a manager's name, so that manifests refused there are refused here.
    fn check_field_manager(&self) -> Result<(), FieldError> {
        const LONGEST: usize = 128;
        let manager = self.text("fieldManager");
        let field = FieldPath::new("fieldManager");
        if manager.len() > LONGEST {
            return Err(FieldError::too_long(field, 128));
        }
        match manager.char_indices().find(|(_, character)| character.is_control()) {
            Some((at, character)) => {
                let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
                Err(FieldError::invalid(field, &json!(manager), &detail))
            }
            None => Ok(()),
        }
    }
}

/// Percent-decoding with `+` for space; what is not valid stays as it is.
fn decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

/// Percent-decoding as of paths, where `+` is a plus.
pub(crate) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_wins() {
        let query = Query::parse("a=1&a=2&labelSelector=x%3Dy%2Cz+in&watch&off=false&bad=%zz");
        assert_eq!(query.text("a"), "1");
        assert_eq!(query.text("labelSelector"), "x=y,z in");
        assert!(query.flag("watch"));
        assert!(!query.flag("off"));
        assert_eq!(query.text("bad"), "%zz");
    }

    #[test]
    fn bad_write_options_name_their_field() {
        let error = Query::parse("dryRun=x").write_options("CreateOptions").unwrap_err();
        assert_eq!(error.code, 422);
        assert!(error.message.contains("dryRun: Unsupported value: [\"x\"]"), "{}", error.message);
        let error = Query::parse("fieldValidation=x").write_options("CreateOptions").unwrap_err();
        assert!(
            error.message.starts_with("CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation"),
            "{}",
            error.message
        );
    }
}
