//! From the encoder's OpenMetrics to the older text format 0.0.4, which every scraper reads.

/// The same samples in format 0.0.4. They differ in three points: there the name of a counter ends in
/// `_total` in its description as well, there are no units, and there is no end mark.
pub(super) fn prometheus(encoded: &str) -> String {
    let mut text = String::with_capacity(encoded.len() + 4096);
    let mut help = None;
    for line in encoded.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = Some(described);
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.rsplit_once(' ').unwrap_or((typed, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, words)) = help.take().and_then(|described| described.split_once(' ')) {
                text.push_str(&format!("# HELP {name}{suffix} {words}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') && !line.is_empty() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_their_whole_name() {
        let encoded = "# HELP requests Requests answered.\n# TYPE requests counter\n\
            requests_total{code=\"200\"} 3\n# HELP open Watches open.\n# TYPE open gauge\nopen 1\n# EOF\n";
        let expected = "# HELP requests_total Requests answered.\n# TYPE requests_total counter\n\
            requests_total{code=\"200\"} 3\n# HELP open Watches open.\n# TYPE open gauge\nopen 1\n";
        assert_eq!(prometheus(encoded), expected);
    }
}
