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
            push_sample(&mut text, line);
            text.push('\n');
        }
    }
    text
}

/// Whoever asks for a bucket writes its bound as Prometheus' own libraries do: `le="1"`, not `1.0`.
fn push_sample(text: &mut String, line: &str) {
    let bound = line.split_once("le=\"").and_then(|(before, rest)| Some((before, rest.split_once(".0\"")?)));
    match bound.filter(|(_, (bound, _))| bound.bytes().all(|byte| byte.is_ascii_digit())) {
        Some((before, (bound, after))) => text.push_str(&format!("{before}le=\"{bound}\"{after}")),
        None => text.push_str(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_bound_is_written_without_a_point() {
        let encoded = "a_bucket{le=\"1.0\",code=\"2\"} 3\na_bucket{le=\"1.25\"} 3\nb{version=\"1.0\"} 1.5\n";
        let expected = "a_bucket{le=\"1\",code=\"2\"} 3\na_bucket{le=\"1.25\"} 3\nb{version=\"1.0\"} 1.5\n";
        assert_eq!(prometheus(encoded), expected);
    }

    #[test]
    fn counters_are_described_by_their_whole_name() {
        let encoded = "# HELP requests Requests answered.\n# TYPE requests counter\n\
            requests_total{code=\"200\"} 3\n# HELP open Watches open.\n# TYPE open gauge\nopen 1\n# EOF\n";
        let expected = "# HELP requests_total Requests answered.\n# TYPE requests_total counter\n\
            requests_total{code=\"200\"} 3\n# HELP open Watches open.\n# TYPE open gauge\nopen 1\n";
        assert_eq!(prometheus(encoded), expected);
    }
}
