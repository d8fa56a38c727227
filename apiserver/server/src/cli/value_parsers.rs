//! Value parsers of arguments: durations, and the URL of a server.

use std::time::Duration;

/// Parses `--server`, such as `https://host:port`. The server has no other scheme.
pub(crate) fn server(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    let is_good = url.is_some_and(|url| {
        url.scheme_str() == Some("https") && url.host().is_some_and(|host| !host.is_empty())
    });
    if is_good {
        Ok(text.to_owned())
    } else {
        Err("must be a URL such as https://192.0.2.10:7443".to_owned())
    }
}

/// Parses the name of a Service of type `ExternalName`, such as `capstan.example.org` or `192.0.2.10`. A kube-apiserver
/// refuses a Service with another text, which has the form of no DNS name.
pub(crate) fn external_name(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let is_right = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        (1..=63).contains(&label.len())
            && label.bytes().all(is_right)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if text.len() <= 253 && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err("must be a lower-case DNS name or an IPv4 address, without scheme and port".to_owned())
}

/// Parses a duration that may be zero, such as `30s` or `0s`.
pub(crate) fn duration_or_none(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") { Ok(Duration::ZERO) } else { duration(text) }
}

/// Parses a duration above zero, such as `30m`, `8h` or `365d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a duration such as 30m, 8h or 365d");
    let unit = text.chars().last().ok_or_else(error)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(error()),
    };
    let number: u64 = text.trim_end_matches(unit).parse().map_err(|_| error())?;
    let total = number.checked_mul(seconds).filter(|total| *total > 0);
    total.map(Duration::from_secs).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_above_zero_and_has_a_unit() {
        assert_eq!(duration("8h"), Ok(Duration::from_secs(28_800)));
        for bad in ["", "8", "h", "-1h", "0s", "1w", "99999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_name_of_an_external_service_is_a_dns_name() {
        for good in ["capstan.example.org", "192.0.2.10", "node-a"] {
            assert_eq!(external_name(good).as_deref(), Ok(good));
        }
        for bad in ["", "https://a", "a:7443", "2001:db8::1", "A.example", "a..b", "-a", "a_b"] {
            assert!(external_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_url_of_a_server_has_the_scheme_https_and_a_host() {
        for good in ["https://192.0.2.10:7443", "https://[::1]:7443", "https://capstan.example"] {
            assert_eq!(server(good).as_deref(), Ok(good));
        }
        for bad in ["http://x", "127.0.0.1:1", "capstan.example", "https://", "https:///x", ""] {
            assert!(server(bad).is_err(), "{bad}");
        }
    }
}
