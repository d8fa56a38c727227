//! Facts of Capstan's descriptors and schemas, in the format of the lists.

use apiserver_types::Descriptor;
use serde_json::Value;

/// Returns all facts of one kind in one version.
pub(crate) fn of(descriptor: &Descriptor) -> Vec<String> {
    let mut facts = names(descriptor);
    let schema = apiserver_types::schema(descriptor).unwrap();
    for (part, inner) in schema["properties"].as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata"].contains(&part.as_str()) {
            let mark = if inner.get("items").is_some() { "[]" } else { "" };
            fields(inner, &format!("{part}{mark}"), is_required(&schema, part), &mut facts);
        }
    }
    facts
}

fn names(descriptor: &Descriptor) -> Vec<String> {
    let list = |words: &[&str]| words.join(",");
    let mut facts = vec![
        format!(
            "names {} {} short={} categories={}",
            descriptor.plural,
            descriptor.singular,
            list(descriptor.short_names),
            list(descriptor.categories)
        ),
        format!("scope {}", if descriptor.namespaced { "Namespaced" } else { "Cluster" }),
    ];
    facts.extend(descriptor.deprecation.map(|text| format!("deprecated {text}")));
    if descriptor.status_subresource {
        facts.push("subresource status".to_owned());
    }
    facts.extend(descriptor.scale.map(|scale| {
        let selector = scale.selector.unwrap_or("-");
        format!("subresource scale {} {} {selector}", scale.spec_replicas, scale.status_replicas)
    }));
    facts.extend(descriptor.columns.iter().enumerate().map(|(index, column)| {
        format!("column {index} {} {} {} {}", column.priority, column.kind, column.json_path, column.name)
    }));
    facts
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|list| list.iter().any(|required| required == name))
}

fn fields(schema: &Value, path: &str, required: bool, facts: &mut Vec<String>) {
    let mut words = Vec::new();
    values(schema, &mut words);
    bounds(schema, &mut words);
    lists(schema, &mut words);
    rules(schema, "rule_", &mut words);
    rules(&schema["items"], "itemRule_", &mut words);
    words.sort();
    let mark = if required { "R" } else { "O" };
    let head = [path.to_owned(), kind(schema), mark.to_owned()];
    facts.push(head.into_iter().chain(words).collect::<Vec<_>>().join(" "));
    let inner = schema.get("items").or_else(|| schema.get("additionalProperties")).unwrap_or(schema);
    for (name, property) in inner.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let mark = match (property.get("items"), property.get("additionalProperties")) {
            (Some(_), _) => "[]",
            (None, Some(_)) => "{}",
            (None, None) => "",
        };
        fields(property, &format!("{path}.{name}{mark}"), is_required(inner, name), facts);
    }
}

/// Returns the type of a value in one word.
fn kind(schema: &Value) -> String {
    let format = schema.get("format").and_then(Value::as_str);
    match schema.get("type").and_then(Value::as_str) {
        _ if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) => {
            "int-or-string".to_owned()
        }
        Some("integer") => format.unwrap_or("int64").to_owned(),
        Some("string") => match format {
            Some("date-time") => "time".to_owned(),
            Some("byte") => "bytes".to_owned(),
            _ => "string".to_owned(),
        },
        Some("array") => match kind(&schema["items"]) {
            item if item == "object" => "array".to_owned(),
            item => format!("[]{item}"),
        },
        Some("object") => match schema.get("additionalProperties") {
            Some(inner) => format!("map[{}]", kind(inner)),
            None => "object".to_owned(),
        },
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

fn values(schema: &Value, words: &mut Vec<String>) {
    if let Some(default) = schema.get("default") {
        words.push(format!("default_{}", default.to_string().replace(' ', "_")));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        words.push(format!("enum_{}", allowed.join("/")));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        words.push(format!("pattern_{}", pattern.replace(' ', "_").replace("\\/", "/")));
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        words.push("nullable".to_owned());
    }
}

fn bounds(schema: &Value, words: &mut Vec<String>) {
    let bounds = [
        ("minProps", "minProperties"),
        ("maxProps", "maxProperties"),
        ("minItems", "minItems"),
        ("maxItems", "maxItems"),
        ("minLen", "minLength"),
        ("maxLen", "maxLength"),
        ("min", "minimum"),
        ("max", "maximum"),
    ];
    let number = |schema: &Value, keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    for (short, keyword) in bounds {
        words.extend(number(schema, keyword).map(|bound| format!("{short}={bound}")));
    }
    let items = [("itemMinLen", "minLength"), ("itemMaxLen", "maxLength"), ("itemMinProps", "minProperties")];
    for (short, keyword) in items {
        words.extend(number(&schema["items"], keyword).map(|bound| format!("{short}={bound}")));
    }
}

fn lists(schema: &Value, words: &mut Vec<String>) {
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    match (text("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array))
    {
        (Some("map"), Some(keys)) => {
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            words.push(format!("list-map({})", keys.join(",")));
        }
        (Some(other), _) => words.push(format!("list-{other}")),
        (None, _) => {}
    }
    words.extend(text("x-kubernetes-map-type").map(|kind| format!("map-{kind}")));
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        words.push("any-fields".to_owned());
    }
}

fn rules(schema: &Value, prefix: &str, words: &mut Vec<String>) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    words.extend(
        rules
            .filter_map(|rule| rule["rule"].as_str())
            .map(|rule| format!("{prefix}{}", rule.split_whitespace().collect::<Vec<_>>().join("_"))),
    );
}
