//! Query string of a request.

use std::time::Duration;

use apiserver_machinery::metadata::manager_errors;
use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{FieldValidation, WriteOptions};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::go_text::quoted;
use serde_json::json;

/// Decoded parameters, in their order. Unknown ones are ignored.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// Returns the first value of a parameter; empty if it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if a parameter is present and not false.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.has(name) && !is_false(self.text(name))
    }

    pub(crate) fn number(&self, name: &str) -> ApiResult<Option<i64>> {
        if self.has(name) { integer(self.text(name)).map(Some) } else { Ok(None) }
    }

    /// Refuses a parameter that upstream has removed.
    ///
    /// # Errors
    /// 400 if it is set.
    pub(crate) fn check_export(&self) -> ApiResult<()> {
        if !self.flag("export") {
            return Ok(());
        }
        Err(ApiError::bad_request("the export parameter, deprecated since v1.14, is no longer supported"))
    }

    /// Returns the longest time that the client waits; `None` if it is not given or not positive.
    ///
    /// # Errors
    /// 400 for an invalid duration.
    pub(crate) fn timeout(&self) -> ApiResult<Option<Duration>> {
        match self.text("timeout") {
            "" => Ok(None),
            text => duration(text).map_err(|why| {
                ApiError::bad_request(format!("invalid timeout specified in the request URL - time: {why}"))
            }),
        }
    }

    pub(crate) fn labels(&self) -> ApiResult<LabelSelector> {
        LabelSelector::parse(self.text("labelSelector"))
    }

    /// Returns the field selector, without a check of its fields.
    pub(crate) fn fields(&self) -> ApiResult<FieldSelector> {
        FieldSelector::read(self.text("fieldSelector"))
    }

    /// Returns the one name that the field selector requires, so that a permission for that name is enough. It reads the
    /// selector as the handler does: a comma in a value begins no other term. An invalid selector requires none.
    pub(crate) fn selected_name(&self) -> Option<String> {
        if self.text("fieldSelector").is_empty() {
            return None;
        }
        self.fields().ok()?.name().map(str::to_owned)
    }

    /// Returns the options of a write. `options` names the options' kind in errors; `errors` were found before, and
    /// come first.
    pub(crate) fn write_options(
        &self,
        options: &str,
        mut errors: Vec<FieldError>,
    ) -> ApiResult<WriteOptions> {
        errors.extend(manager_errors(self.text("fieldManager"), || FieldPath::new("fieldManager")));
        let dry: Vec<&str> = self.all("dryRun").collect();
        if dry.iter().any(|value| *value != "All") {
            errors.push(FieldError::not_supported(FieldPath::new("dryRun"), &json!(dry), &["All"]));
        }
        let field_validation = match self.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let field = FieldPath::new("fieldValidation");
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(field, &json!(other), &supported));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind(&format!("{options}.meta.k8s.io"), "", &errors));
        }
        let manager = self.text("fieldManager").to_owned();
        Ok(WriteOptions {
            dry_run: !dry.is_empty(),
            field_validation,
            manager,
            permissions: None,
            admission: None,
            lock: None,
            timeout: None,
        })
    }
}

/// Parses a number; the error has Go's words.
///
/// # Errors
/// 400.
pub(crate) fn integer(text: &str) -> ApiResult<i64> {
    text.parse().map_err(|_| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let why = if is_number { "value out of range" } else { "invalid syntax" };
        ApiError::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quoted(text)))
    })
}

/// Returns true for the words that upstream takes for false; all others are true.
fn is_false(text: &str) -> bool {
    text == "0" || text.eq_ignore_ascii_case("false")
}

/// Parses a duration in Go's format, e.g. `1m1.5s`; `None` if it is not positive.
fn duration(text: &str) -> Result<Option<Duration>, String> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    /// Longest duration: Go's durations are nanoseconds in 63 bits. Unit: seconds.
    const LONGEST: f64 = 9_223_372_036.8;
    let invalid = || format!("invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(None);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("missing unit in duration {}", quoted(text)));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, factor) =
            known.ok_or_else(|| format!("unknown unit {} in duration {}", quoted(unit), quoted(text)))?;
        seconds += number * factor;
        if seconds > LONGEST {
            return Err(invalid());
        }
        rest = after;
    }
    let positive = !text.starts_with('-') && seconds > 0.0;
    Ok(positive.then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
}

/// Decodes a part of a path or of a header's name, where `+` is a plus. Invalid escapes stay.
pub(crate) fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
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
    fn a_selected_name_is_one_that_the_selector_requires() {
        for (selector, expected) in [
            ("metadata.name=a", Some("a")),
            ("metadata.name==a", Some("a")),
            ("type=x,metadata.name=a", Some("a")),
            ("type!=x,metadata.name=a", Some("a")),
            ("metadata.name!=a", None),
            ("metadata.namespace=a", None),
            ("", None),
            // The escaped comma is a part of the value, so the selector requires no name.
            ("type!=\\,metadata.name=a", None),
            ("metadata.namespace!=\\,metadata.name=a", None),
            ("metadata.name=a,type=\\x", None),
        ] {
            let query = form_urlencoded::Serializer::new(String::new())
                .append_pair("fieldSelector", selector)
                .finish();
            assert_eq!(Query::parse(&query).selected_name().as_deref(), expected, "{selector}");
        }
    }

    #[test]
    fn durations_are_parsed_in_the_format_of_go() {
        let table = [
            ("32s", Ok(Some(32_000))),
            ("1m1.5s", Ok(Some(61_500))),
            ("150ms", Ok(Some(150))),
            ("0", Ok(None)),
            ("-1s", Ok(None)),
            ("abc", Err("invalid duration \"abc\"")),
            ("10", Err("missing unit in duration \"10\"")),
            ("10x", Err("unknown unit \"x\" in duration \"10x\"")),
            ("2562047h", Ok(Some(9_223_369_200_000))),
            ("2562048h", Err("invalid duration \"2562048h\"")),
        ];
        for (text, expected) in table {
            let found = duration(text).map(|some| some.map(|duration| duration.as_millis()));
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        }
        let error = Query::parse("timeout=abc").timeout().unwrap_err();
        assert_eq!(
            error.message,
            "invalid timeout specified in the request URL - time: invalid duration \"abc\""
        );
        for export in ["export=1", "export=", "export"] {
            assert!(Query::parse(export).check_export().is_err(), "{export}");
        }
        assert!(Query::parse("export=FALSE").check_export().is_ok());
    }

    #[test]
    fn bad_write_options_name_their_field() {
        let error = Query::parse("dryRun=x").write_options("CreateOptions", Vec::new()).unwrap_err();
        assert_eq!(error.code, 422);
        assert!(error.message.contains("dryRun: Unsupported value: [\"x\"]"), "{}", error.message);
        for (manager, is_good) in [
            ("a b", true),
            ("%C3%A9e%CC%81%22'%5C", true),
            ("a%0A", false),
            ("a%E2%80%8Bb", false),
            ("a%C2%A0b", false),
            ("%E2%80%A8", false),
        ] {
            let options =
                Query::parse(&format!("fieldManager={manager}")).write_options("PatchOptions", Vec::new());
            assert_eq!(options.is_ok(), is_good, "{manager}");
        }
        let error = Query::parse("fieldValidation=x").write_options("CreateOptions", Vec::new()).unwrap_err();
        assert!(
            error.message.starts_with("CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation"),
            "{}",
            error.message
        );
    }
}
