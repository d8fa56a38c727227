//! Jinja templates, as far as user data use them: variables and comments.

use super::Metadata;

/// Renders a template. An unknown variable becomes `CI_MISSING_JINJA_VAR/<name>`, as in cloud-init.
pub(super) fn render(template: &str, metadata: Metadata<'_>) -> Result<String, String> {
    let mut rendered = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let (before, found) = rest.split_at(start);
        rendered.push_str(before);
        let end = match found.get(..2) {
            Some("{{") => "}}",
            Some("{#") => "#}",
            Some("{%") => return Err(unsupported(found)),
            _ => {
                rendered.push('{');
                rest = found.get(1..).unwrap_or_default();
                continue;
            }
        };
        let inner = found.get(2..).unwrap_or_default();
        let (expression, after) = inner.split_once(end).ok_or_else(|| unsupported(found))?;
        if end == "}}" {
            rendered.push_str(&value(expression.trim(), metadata).ok_or_else(|| unsupported(found))?);
        }
        rest = after;
    }
    rendered.push_str(rest);
    Ok(rendered)
}

fn unsupported(found: &str) -> String {
    let line = found.lines().next().unwrap_or_default();
    format!("Failed to render Jinja template: a hollow node knows only variables and comments, not {line:?}")
}

/// Returns the value of an expression. Returns `None` if it is no variable.
fn value(expression: &str, metadata: Metadata<'_>) -> Option<String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
    if expression.is_empty() || !expression.chars().all(is_name) {
        return None;
    }
    let known = match expression {
        "local_hostname"
        | "v1.local_hostname"
        | "ds.meta_data.local_hostname"
        | "ds.meta_data.hostname"
        | "ds.meta_data.name"
        | "local-hostname"
        | "ds.meta_data.local-hostname" => metadata.hostname,
        "instance_id"
        | "v1.instance_id"
        | "ds.meta_data.instance_id"
        | "ds.meta_data.uuid"
        | "instance-id" => metadata.id,
        "cloud_name" | "v1.cloud_name" | "platform" | "v1.platform" => "openstack",
        "region" | "v1.region" => "RegionOne",
        unknown => return Some(format!("CI_MISSING_JINJA_VAR/{unknown}")),
    };
    Some(known.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: Metadata<'static> = Metadata { id: "1-2", hostname: "node-0" };

    #[test]
    fn variables_are_replaced_and_unknown_ones_are_marked() {
        let rendered =
            render("a: {{ local_hostname }}{#x#} {b} openstack:///'{{instance_id}}' {{ ds.x }}", METADATA);
        assert_eq!(rendered.unwrap(), "a: node-0 {b} openstack:///'1-2' CI_MISSING_JINJA_VAR/ds.x");
    }

    #[test]
    fn statements_and_expressions_are_errors() {
        for template in ["{% if x %}", "{{ a | b }}", "{{ x", "{# x"] {
            assert!(render(template, METADATA).is_err(), "{template}");
        }
    }
}
