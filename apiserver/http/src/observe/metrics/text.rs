//! Prometheus text format 0.0.4, which every scraper reads, converted from the encoder's OpenMetrics.

/// Counters that are older than the convention of `_total`.
const OLD_COUNTERS: [&str; 2] = ["authentication_attempts", "authenticated_user_requests"];

/// Converts the samples to format 0.0.4. It differs in three points: the description of a counter has its name with
/// `_total`, there are no units, and there is no end mark.
pub(super) fn prometheus(encoded: &str) -> String {
    let mut text = String::with_capacity(encoded.len() + 4096);
    let mut help = None;
    for line in encoded.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = Some(described);
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.rsplit_once(' ').unwrap_or((typed, "untyped"));
            let is_total = kind == "counter" && !OLD_COUNTERS.contains(&name);
            let suffix = if is_total { "_total" } else { "" };
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

/// Appends a sample as upstream writes it.
fn push_sample(text: &mut String, line: &str) {
    let line = match OLD_COUNTERS.iter().find_map(|name| Some((name, line.strip_prefix(name)?))) {
        Some((name, rest)) => format!("{name}{}", rest.strip_prefix("_total").unwrap_or(rest)),
        None => line.to_owned(),
    };
    let bound = line.split_once("le=\"").and_then(|(before, rest)| Some((before, rest.split_once('"')?)));
    match bound {
        Some((before, (bound, after))) => {
            text.push_str(&format!("{before}le=\"{}\"{after}", written_bound(bound)));
        }
        None => text.push_str(&line),
    }
}

/// Smallest histogram bound that is written without an exponent.
const SMALLEST_WRITTEN_OUT: f64 = 1e-4;

/// Formats a bound as Prometheus' own libraries do, because queries name it in that form.
fn written_bound(bound: &str) -> String {
    if let Some(small) =
        bound.parse().ok().filter(|value: &f64| *value > 0.0 && *value < SMALLEST_WRITTEN_OUT)
    {
        let written = format!("{small:e}");
        let (digits, exponent) = written.split_once("e-").unwrap_or((&written, "0"));
        return format!("{digits}e-{exponent:0>2}");
    }
    match bound.strip_suffix(".0").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(digits) => whole_bound(digits),
        None => bound.to_owned(),
    }
}

/// Formats a whole bound: `1` and `1e+06`, not `1.0`.
fn whole_bound(digits: &str) -> String {
    if digits.len() < 7 {
        return digits.to_owned();
    }
    let (first, rest) = digits.split_at(1);
    let fraction = rest.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{first}{point}{fraction}e+{:02}", rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integral_bucket_bound_is_written_without_a_decimal_point() {
        let encoded = "a_bucket{le=\"1.0\",code=\"2\"} 3\na_bucket{le=\"1.25\"} 3\nb{version=\"1.0\"} 1.5\n";
        let expected = "a_bucket{le=\"1\",code=\"2\"} 3\na_bucket{le=\"1.25\"} 3\nb{version=\"1.0\"} 1.5\n";
        assert_eq!(prometheus(encoded), expected);
        assert_eq!(
            ["100000", "1000000", "2592000", "31104000"].map(whole_bound),
            ["100000", "1e+06", "2.592e+06", "3.1104e+07"]
        );
        assert_eq!(
            ["1e-8", "0.000009999999999999999", "0.0001", "+Inf"].map(written_bound),
            ["1e-08", "9.999999999999999e-06", "0.0001", "+Inf"]
        );
    }

    #[test]
    fn counter_descriptions_use_the_full_name() {
        let encoded = "# HELP requests Requests answered.\n# TYPE requests counter\n\
            requests_total{code=\"200\"} 3\n# HELP open Watches open.\n# TYPE open gauge\nopen 1\n# EOF\n";
        let expected = "# HELP requests_total Requests answered.\n# TYPE requests_total counter\n\
            requests_total{code=\"200\"} 3\n# HELP open Watches open.\n# TYPE open gauge\nopen 1\n";
        assert_eq!(prometheus(encoded), expected);
    }
    #[test]
    fn counters_without_the_total_suffix_keep_their_names() {
        let encoded = "# HELP authentication_attempts Tries.\n# TYPE authentication_attempts counter\n\
            authentication_attempts_total{result=\"success\"} 3\n";
        let expected = "# HELP authentication_attempts Tries.\n# TYPE authentication_attempts counter\n\
            authentication_attempts{result=\"success\"} 3\n";
        assert_eq!(prometheus(encoded), expected);
    }
}
