//! What is asked: cases in areas, a file each.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};

/// Cases about one thing: one file in `cases/`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Area {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// Whether a host answers these requests by itself, so that they make sense on the direct face alone.
    #[serde(default)]
    pub direct: bool,
    /// The cases.
    pub cases: Vec<Case>,
}

/// Requests one after the other, in a namespace that no other case uses.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Name: unique, and the name of the namespace, so a DNS label.
    #[serde(rename = "case")]
    pub name: String,
    /// As for the area, for this case alone.
    #[serde(default)]
    pub direct: bool,
    /// Whether managedFields are compared, too. Elsewhere they are left out.
    #[serde(default)]
    pub managed: bool,
    /// Widgets that are there before the first request, without apiVersion and kind.
    #[serde(default)]
    pub given: Vec<Value>,
    /// The requests.
    pub steps: Vec<Step>,
}

/// One request, and what of its answer is looked at. `{name}` in any text is replaced: `{ns}` by the
/// case's namespace, `{w}` and `{wb}` by the path of its Widgets in v1 and v1beta1, what earlier steps
/// saved by its name, and `{repeat:x:9}` by nine x.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Method and path with query, as in an HTTP request line.
    #[serde(rename = "do")]
    pub request: String,
    /// Request headers. Content-Type is application/json where there is a body and nothing is said; an empty
    /// value sends none.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// The body, sent as JSON: a Widget of v1, without apiVersion and kind.
    pub widget: Option<Value>,
    /// The body as it stands.
    pub text: Option<String>,
    /// The body in base64.
    pub bytes: Option<String>,
    /// What later steps need of the answer: name, and JSON pointer or `header:` and a header's name.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// JSON pointers: nothing else of the answer's body is compared. A part `?a.b=c` is the element of a list
    /// whose field a.b is c.
    pub only: Option<Vec<String>>,
    /// Only whether it succeeded matters: it prepares for what is compared.
    #[serde(default)]
    pub setup: bool,
    /// The answer is a stream: it is read up to so many lines, or its end.
    pub events: Option<usize>,
    /// Leave the body out: it is too much, or it is never the same.
    #[serde(default)]
    pub no_body: bool,
}

/// A Widget of v1 with its apiVersion and kind.
pub(crate) fn widget(partial: &Value) -> Value {
    let mut whole = partial.clone();
    if let Some(root) = whole.as_object_mut() {
        root.insert("apiVersion".to_owned(), json!("lab.example.io/v1"));
        root.insert("kind".to_owned(), json!("Widget"));
    }
    whole
}

impl Area {
    /// Reads every area of a directory, in the order of their names.
    ///
    /// # Errors
    /// When a file cannot be read, or two cases have one name.
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
        if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            bail!("two cases are named {:?}: each has a namespace of its name", twice.first());
        }
        Ok(areas)
    }
}
