//! Jinja in the contents of a cloud-config. cloud-init renders the whole document, so it replaces or removes what looks
//! like an expression, wherever it is.

/// Names that cloud-init defines on a machine.
const KNOWN: [&str; 19] = [
    "availability_zone",
    "base64_encoded_keys",
    "cloud_id",
    "cloud_name",
    "distro",
    "distro_release",
    "distro_version",
    "ds",
    "instance_id",
    "instance_type",
    "kernel_release",
    "local_hostname",
    "machine",
    "merged_cfg",
    "platform",
    "public_ssh_keys",
    "region",
    "sys_info",
    "v1",
];

/// Returns the offset of the first text that cloud-init would take for Jinja although it is none of cloud-init's names:
/// probably a shell expansion or a template of another program.
pub fn suspicious(content: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let start = from + content.get(from..)?.find('{')?;
        let rest = content.get(start..)?;
        let is_suspicious = match rest.get(..2) {
            Some("{#") => true,
            Some("{%") => !is_closed(rest, "%}"),
            Some("{{") => !is_closed(rest, "}}") || !KNOWN.contains(&first_name(rest)),
            _ => false,
        };
        if is_suspicious {
            return Some(start);
        }
        let is_open = rest.starts_with("{{") || rest.starts_with("{%");
        from = start + if is_open { 2 } else { 1 };
    }
}

fn is_closed(rest: &str, end: &str) -> bool {
    rest.contains(end)
}

/// Returns the first name of an expression.
fn first_name(expression: &str) -> &str {
    let name = expression.trim_start_matches(['{', '-', ' ', '\t', '\n']);
    let end =
        name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(name.len());
    name.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_meant_for_cloud_init_is_suspicious() {
        let table = [
            ("name: {{ local_hostname }}", None),
            ("{{ ds.meta_data.uuid }} and {{v1.region}}", None),
            ("{% if v1.region == 'a' %}x{% endif %}", None),
            ("awk '{print $1}' {a,b}", None),
            ("echo ${#array[@]}", Some(6)),
            ("{{ .Values.name }}", Some(0)),
            ("a {{ local_hostname }} {{ range }}", Some(23)),
            ("ü {{", Some(3)),
            ("{% raw", Some(0)),
            ("", None),
        ];
        for (content, expected) in table {
            assert_eq!(suspicious(content), expected, "{content:?}");
        }
    }
}
