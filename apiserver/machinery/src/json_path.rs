//! JSONPath subset that printer columns use: `.a.b`, `.a\.b`, `['a\.b']`, `[0]`, `[?(@.k=="v")]`.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
    Every,
    Where(Vec<String>, String),
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

impl JsonPath {
    /// Parses `.status.conditions[?(@.type=="Ready")].status`; returns `None` for other forms.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim().trim_start_matches('$');
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[?(@.") {
                let (filter, after) = after.split_once(")]")?;
                let (path, value) = filter.split_once("==")?;
                let value = value.trim().trim_matches(|c| c == '"' || c == '\'');
                steps
                    .push(Step::Where(path.trim().split('.').map(str::to_owned).collect(), value.to_owned()));
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (index, after) = after.split_once(']')?;
                match index.strip_prefix('\'').and_then(|quoted| quoted.strip_suffix('\'')) {
                    // Upstream reads a quoted part as a path, so dots that are part of a key are escaped here, too.
                    Some(key) => steps.extend(Self::parse(&format!(".{key}"))?.0),
                    None if index == "*" => steps.push(Step::Every),
                    None => steps.push(Step::Index(index.parse().ok()?)),
                }
                rest = after;
            } else {
                let (name, after) = field_name(rest.strip_prefix('.')?);
                if name.is_empty() {
                    return None;
                }
                steps.push(Step::Field(name));
                rest = after;
            }
        }
        Some(Self(steps))
    }

    /// Returns the leading fields of the path, up to a step of another kind.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            Step::Index(_) | Step::Every | Step::Where(..) => None,
        })
    }

    /// Returns the values at the path, in order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        self.0
            .iter()
            .fold(vec![root], |found, step| found.into_iter().flat_map(|value| step.apply(value)).collect())
    }

    /// Returns the first value at the path.
    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.find(root).into_iter().next()
    }
}

/// Reads a name up to the next unescaped `.` or `[`.
fn field_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            other => name.push(other),
        }
    }
    (name, "")
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => value.get(index).into_iter().collect(),
            Self::Every => value.as_array().map(|items| items.iter().collect()).unwrap_or_default(),
            Self::Where(path, wanted) => {
                let is_wanted = |item: &&Value| {
                    let found = path.iter().try_fold(*item, |value, name| value.get(name));
                    found.and_then(Value::as_str) == Some(wanted)
                };
                value.as_array().map(|items| items.iter().filter(is_wanted).collect()).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_the_values_they_select() {
        let object = json!({
            "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}, "ownerReferences": [{"kind": "Machine", "name": "m"}]},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}], "list": [1, 2]}
        });
        let table = [
            (".metadata.labels.cluster\\.x-k8s\\.io/cluster-name", json!(["c"])),
            (".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", json!(["c"])),
            (".metadata['labels.cluster\\.x-k8s\\.io/cluster-name']", json!(["c"])),
            (".metadata.labels['cluster.x-k8s.io/cluster-name']", json!([])),
            (".status['list'][0]", json!([1])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".metadata.ownerReferences[?(@.kind==\"Machine\")].name", json!(["m"])),
            (".status.list[1]", json!([2])),
            (".status.list[*]", json!([1, 2])),
            (".status.nope.deep", json!([])),
        ];
        for (path, expected) in table {
            assert_eq!(json!(JsonPath::parse(path).unwrap().find(&object)), expected, "{path}");
        }
        assert_eq!(JsonPath::parse("status"), None);
        assert_eq!(JsonPath::parse(".a[x]"), None);
        assert_eq!(JsonPath::parse(".a[']"), None);
        assert_eq!(JsonPath::parse(".a['']"), None);
    }
}
