//! Notation for large inputs in few bytes: `<<10000*[>>` stands for ten thousand brackets. It keeps the
//! corpus small, and lets the engine find deep, long and large inputs.

/// Largest expanded input, in bytes. Quadratic behaviour shows at smaller sizes, and many inputs must be run.
const LARGEST: usize = 512 * 1024;

/// Expands all repetitions of an input.
pub(crate) fn expand(input: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some((first, after)) = rest.split_first() {
        match repetition(rest) {
            Some((times, text, after)) => {
                let room = LARGEST.saturating_sub(whole.len()) / text.len().max(1);
                whole.extend(std::iter::repeat_n(text, times.min(room)).flatten());
                rest = after;
            }
            None => {
                whole.push(*first);
                rest = after;
            }
        }
    }
    whole
}

/// Returns the count and the text of a repetition, and the input after it.
fn repetition(text: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let inside = text.strip_prefix(b"<<")?;
    let star = inside.iter().position(|byte| *byte == b'*')?;
    let (times, inside) = inside.split_at_checked(star)?;
    let times = std::str::from_utf8(times).ok()?.parse().ok()?;
    let inside = inside.get(1..)?;
    let end = inside.windows(2).position(|pair| pair == b">>")?;
    Some((times, inside.get(..end)?, inside.get(end + 2..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_expanded_up_to_a_limit() {
        assert_eq!(expand(b"a<<3*xy>>b"), b"axyxyxyb");
        assert_eq!(expand(b"<<2*>><<0*a>>"), b"");
        for plain in ["<<: *a", "<<x*y>>", "<<3*y", "a << 1*b >>", "<"] {
            assert_eq!(expand(plain.as_bytes()), plain.as_bytes());
        }
        assert_eq!(expand(b"<<99999999999*[>><<9*[>>x").len(), LARGEST + 1);
    }
}
