//! Test cases of the suite, grouped in areas: one file of `cases/` per area.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};

/// Area: the cases of one file in `cases/`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Area {
    /// File name without its extension.
    #[serde(skip)]
    pub name: String,
    /// True if a host cluster answers these requests itself, so that the cases apply to the direct endpoint
    /// only.
    #[serde(default)]
    pub direct: bool,
    /// The cases.
    pub cases: Vec<SuiteCase>,
}

/// Sequence of requests in a namespace that no other case uses.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuiteCase {
    /// Unique name of the case and of its namespace, so a DNS label.
    #[serde(rename = "case")]
    pub name: String,
    /// As `Area::direct`, for this case only.
    #[serde(default)]
    pub direct: bool,
    /// True if managedFields are compared, too. By default they are removed.
    #[serde(default)]
    pub managed: bool,
    /// Widgets that are created before the first request, without apiVersion and kind.
    #[serde(default)]
    pub given: Vec<Value>,
    /// The requests.
    pub steps: Vec<RequestStep>,
}

/// One request, and the selection of its response that is compared.
///
/// In any text, `{name}` is replaced: `{ns}` by the case's namespace, `{w}` and `{wb}` by the path of its
/// Widgets in v1 and v1beta1, `{q}` by the path of its ResourceQuotas, the name of a value that an earlier step saved by
/// that value, and `{repeat:x:9}` by nine x.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestStep {
    /// Method and path with query, as in an HTTP request line.
    #[serde(rename = "do")]
    pub request: String,
    /// Name of the user that sends the request. Default: the administrator.
    pub user: Option<String>,
    /// Values that the response must have, by JSON pointer. The request is repeated until it has them, for half a minute
    /// at most: some values are written by controllers.
    #[serde(default)]
    pub until: BTreeMap<String, Value>,
    /// Request headers. If there is a body and no Content-Type, application/json is sent; an empty value
    /// sends no header.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// The body, sent as JSON: a Widget of v1, without apiVersion and kind.
    pub widget: Option<Value>,
    /// The body, sent unchanged.
    pub text: Option<String>,
    /// The body in base64.
    pub bytes: Option<String>,
    /// Values of the response that later steps need: the key is a name, the value a JSON pointer, or
    /// `header:` and a header's name.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// JSON pointers to the compared parts of the response body; the rest is ignored. A part `?a.b=c` is the
    /// element of a list whose field a.b is c.
    pub only: Option<Vec<String>>,
    /// True if only the success of the request matters: it prepares for later steps.
    #[serde(default)]
    pub setup: bool,
    /// Number of lines to read of a streamed response; reading also stops at its end.
    pub events: Option<usize>,
    /// Leaves the body out of the comparison, because it is too large or differs each time.
    #[serde(default)]
    pub no_body: bool,
}

/// Returns a Widget of v1 with its apiVersion and kind.
pub(crate) fn widget(partial: &Value) -> Value {
    let mut whole = partial.clone();
    if let Some(root) = whole.as_object_mut() {
        root.insert("apiVersion".to_owned(), json!("lab.example.io/v1"));
        root.insert("kind".to_owned(), json!("Widget"));
    }
    whole
}

impl Area {
    /// Reads all areas of a directory, in the order of their names.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or two cases have one name.
    pub fn load(directory: &Path) -> anyhow::Result<Vec<Self>> {
        let mut areas = Vec::new();
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("{} cannot be read", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("{} cannot be read", path.display()))?;
            let mut area: Self = serde_saphyr::from_str(&text)
                .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
            area.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            areas.push(area);
        }
        areas.sort_by(|a, b| a.name.cmp(&b.name));
        let mut names: Vec<&str> =
            areas.iter().flat_map(|area| &area.cases).map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        if let Some(duplicate) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            bail!("two cases are named {:?}: each has a namespace of its name", duplicate.first());
        }
        Ok(areas)
    }
}
