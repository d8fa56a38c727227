//! URL parser with the results and the error texts of Go's `url.ParseRequestURI`.

/// Characters of a host name, besides letters and digits.
const OF_HOST: &str = "-_.~!$&'()*+,;=:[]<>\"";

/// Characters of a user name, besides letters and digits.
const OF_USER: &str = "-._:~!$&'()*+,;=%@";

/// Returns the scheme of a request URI: a whole URL, or a path, whose scheme is empty.
pub(crate) fn scheme(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    if text.chars().any(|c| c.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text == "*" {
        return Ok("");
    }
    let (scheme, rest) = split_scheme(text)?;
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        // Any text can follow a scheme, as in `mailto:x`.
        return if scheme.is_empty() { Err("invalid URI for request".to_owned()) } else { Ok(scheme) };
    }
    let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => {
            let (authority, path) =
                rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
            check_authority(authority)?;
            path
        }
        None => rest,
    };
    check_escapes(path, |_| true)?;
    Ok(scheme)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest)) if is_scheme(scheme) => Ok((scheme, rest)),
        _ => Ok(("", text)),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Validates a host with an optional user and port.
fn check_authority(authority: &str) -> Result<(), String> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if !user.chars().all(|c| c.is_ascii_alphanumeric() || OF_USER.contains(c)) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_escapes(user, |_| true)?;
    let (name, port) = if host.starts_with('[') {
        host.rsplit_once(']').ok_or("missing ']' in host")?
    } else if host.contains('[') {
        return Err("invalid IP-literal".to_owned());
    } else {
        let port = host.rfind(':').unwrap_or(host.len());
        host.split_at_checked(port).unwrap_or((host, ""))
    };
    let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err(format!("invalid port {port:?} after host"));
    }
    // Only non-ASCII characters can be escaped in a host, and the `%` before a zone.
    let is_literal = host.starts_with('[');
    check_escapes(name, |escaped| !escaped.is_ascii() || is_literal && escaped == b'%')?;
    let is_odd = |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && !OF_HOST.contains(*c) && *c != '%';
    match name.chars().find(is_odd) {
        Some(odd) => Err(format!("invalid character {:?} in host name", odd.to_string())),
        None => Ok(()),
    }
}

/// Checks that every escape is valid, and that its byte is allowed.
fn check_escapes(text: &str, may_be: impl Fn(u8) -> bool) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let escape: String = text.get(at..).unwrap_or_default().chars().take(3).collect();
        let digits = escape.strip_prefix("%").unwrap_or_default();
        let is_hexadecimal = digits.len() == 2 && digits.chars().all(|c| c.is_ascii_hexdigit());
        if !is_hexadecimal || !u8::from_str_radix(digits, 16).is_ok_and(&may_be) {
            return Err(format!("invalid URL escape {escape:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_uri_has_a_scheme_or_is_a_path() {
        for (text, expected) in [
            ("https://x.example:1/p?q=%20", "https"),
            ("https://a:80:90", "https"),
            ("https://a:", "https"),
            ("https://[fe80::1%25eth0]:8443/x", "https"),
            ("https://u:p@h/", "https"),
            ("https://é/b c", "https"),
            ("https://a?x=%zz", "https"),
            ("https:x", "https"),
            ("mailto:x", "mailto"),
            ("/p q", ""),
            ("*", ""),
        ] {
            assert_eq!(scheme(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_uris_get_the_error_messages_of_go() {
        for (text, expected) in [
            ("", "empty url"),
            ("https://a\n", "net/url: invalid control character in URL"),
            ("://x", "missing protocol scheme"),
            ("x.example", "invalid URI for request"),
            ("1x://y", "invalid URI for request"),
            ("a/b:c", "invalid URI for request"),
            ("https://[::1", "missing ']' in host"),
            ("https://a[b", "invalid IP-literal"),
            ("https://a:port", "invalid port \":port\" after host"),
            ("https://[::1]x", "invalid port \"x\" after host"),
            ("https://a/%zz", "invalid URL escape \"%zz\""),
            ("/a%4", "invalid URL escape \"%4\""),
            ("/a%%41", "invalid URL escape \"%%4\""),
            ("https://a%41", "invalid URL escape \"%41\""),
            ("https://a b/", "invalid character \" \" in host name"),
            ("https://a\\b", "invalid character \"\\\\\" in host name"),
            ("https://u p@h/", "net/url: invalid userinfo"),
        ] {
            assert_eq!(scheme(text), Err(expected.to_owned()), "{text}");
        }
    }
}
