//! Texts of errors about certificates, without the present time.

use jiff::Timestamp;

/// Replaces the present time in an error about the validity of a certificate by the time at which it ends or begins. All
/// other texts stay. A condition with the present time would be another one at each attempt.
pub fn without_present_time(text: String) -> String {
    bounded(&text).unwrap_or(text)
}

/// Returns the text with the bound of the validity in place of the present time, or `None` if it is not about that. The TLS
/// library writes `verification time 5 (UNIX), but certificate is not valid after 3 (2 seconds ago)`.
fn bounded(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(": verification time ")?;
    let (_, rest) = rest.split_once("certificate is ")?;
    let (bound, rest) = rest.split_once(" (")?;
    let (_, after) = rest.split_once(')')?;
    let (words, seconds) = bound.rsplit_once(' ')?;
    let time = Timestamp::from_second(seconds.parse().ok()?).ok()?;
    Some(format!("{before}: {words} {time}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_a_certificate_takes_the_place_of_the_present_time_and_other_texts_stay() {
        let text = |now: u64| {
            without_present_time(format!(
                "tls: certificate expired: verification time {now} (UNIX), but certificate is not valid after 86400 \
                 ({} seconds ago); and more",
                now - 86_400
            ))
        };
        let expected = "tls: certificate expired: not valid after 1970-01-02T00:00:00Z; and more";
        assert_eq!((text(90_000), text(100_000)), (expected.to_owned(), expected.to_owned()));
        for other in ["", "verification time", "a: verification time 5 (UNIX), but certificate is x (y)"] {
            assert_eq!(without_present_time(other.to_owned()), other);
        }
    }
}
