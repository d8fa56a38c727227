//! Comparison of the template engine with the recorded results of Go's own.

use std::path::Path;

use controllers_topology::go_template::Template;
use serde_json::Value;

/// Calls the engine as Go's was called: with the error's stage, or the output.
fn render(text: &str, data: &Value) -> Result<String, (&'static str, String)> {
    let template = Template::parse("tpl", text).map_err(|error| ("parse", error.to_string()))?;
    template.render(data).map_err(|error| ("render", error.to_string()))
}

#[test]
fn templates_render_as_they_do_in_go() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go_templates");
    let data: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("data.json")).unwrap()).unwrap();
    let recorded = std::fs::read_to_string(folder.join("results.jsonl")).unwrap();
    let mut differences = Vec::new();
    for line in recorded.lines() {
        let expected: Value = serde_json::from_str(line).unwrap();
        let text = expected["template"].as_str().unwrap();
        let found = render(text, &data);
        let is_same = match (&found, expected["error"].as_str()) {
            (Ok(found), None) => Some(found.as_str()) == expected["output"].as_str(),
            (Err((stage, _)), Some(expected)) => *stage == expected,
            _ => false,
        };
        if !is_same {
            differences.push(format!("{text}\n  Go:   {}\n  here: {found:?}", expected["output"]));
        }
    }
    assert!(recorded.lines().count() > 600);
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
