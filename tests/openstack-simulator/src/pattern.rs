//! Regular expressions that Nova accepts as the `name` filter of servers.
//!
//! Nova passes the expression to the database, which searches anywhere in the name and ignores case.
//! Supported is the part of that language that clients use: literals, `.`, classes, groups, alternatives,
//! anchors, `*`, `+` and `?`.

/// One piece of an expression.
#[derive(Debug, Clone)]
enum PatternPiece {
    Start,
    End,
    Any,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
    Group(Vec<Vec<Self>>),
    Repeat { piece: Box<Self>, least: usize, most: usize },
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Vec<Vec<PatternPiece>>);

impl Pattern {
    /// Compiles the expression; `None` if it is invalid.
    pub(crate) fn compile(text: &str) -> Option<Self> {
        let characters: Vec<char> = text.to_lowercase().chars().collect();
        let mut position = 0;
        let alternatives = parse_alternatives(&characters, &mut position)?;
        (position == characters.len()).then_some(Self(alternatives))
    }

    /// Returns true if the expression matches anywhere in `text`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        let characters: Vec<char> = text.to_lowercase().chars().collect();
        (0..=characters.len())
            .any(|start| self.0.iter().any(|pieces| matches(pieces, &characters, start, &mut |_| true)))
    }
}

fn parse_alternatives(text: &[char], position: &mut usize) -> Option<Vec<Vec<PatternPiece>>> {
    let mut alternatives = vec![Vec::new()];
    while let Some(&character) = text.get(*position) {
        match character {
            ')' => break,
            '|' => {
                *position += 1;
                alternatives.push(Vec::new());
            }
            _ => {
                let piece = parse_piece(text, position)?;
                let piece = parse_repeat(piece, text, position);
                alternatives.last_mut()?.push(piece);
            }
        }
    }
    Some(alternatives)
}

fn parse_piece(text: &[char], position: &mut usize) -> Option<PatternPiece> {
    let character = *text.get(*position)?;
    *position += 1;
    let piece = match character {
        '^' => PatternPiece::Start,
        '$' => PatternPiece::End,
        '.' => PatternPiece::Any,
        '*' | '+' | '?' => return None,
        '\\' => {
            let escaped = *text.get(*position)?;
            *position += 1;
            match escaped {
                'd' => PatternPiece::Class { negated: false, ranges: vec![('0', '9')] },
                'w' => {
                    PatternPiece::Class { negated: false, ranges: vec![('a', 'z'), ('0', '9'), ('_', '_')] }
                }
                other => PatternPiece::Literal(other),
            }
        }
        '[' => parse_class(text, position)?,
        '(' => {
            let alternatives = parse_alternatives(text, position)?;
            text.get(*position).filter(|closing| **closing == ')')?;
            *position += 1;
            PatternPiece::Group(alternatives)
        }
        other => PatternPiece::Literal(other),
    };
    Some(piece)
}

fn parse_class(text: &[char], position: &mut usize) -> Option<PatternPiece> {
    let negated = text.get(*position) == Some(&'^');
    *position += usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let first = *text.get(*position)?;
        *position += 1;
        if first == ']' && !ranges.is_empty() {
            return Some(PatternPiece::Class { negated, ranges });
        }
        let is_range =
            text.get(*position) == Some(&'-') && text.get(*position + 1).is_some_and(|next| *next != ']');
        let last = if is_range { *text.get(*position + 1)? } else { first };
        *position += if is_range { 2 } else { 0 };
        ranges.push((first, last));
    }
}

fn parse_repeat(piece: PatternPiece, text: &[char], position: &mut usize) -> PatternPiece {
    let (least, most) = match text.get(*position) {
        Some('*') => (0, usize::MAX),
        Some('+') => (1, usize::MAX),
        Some('?') => (0, 1),
        Some(_) | None => return piece,
    };
    *position += 1;
    PatternPiece::Repeat { piece: Box::new(piece), least, most }
}

/// Returns true if `pieces` match at `at` so that `rest` matches after them.
fn matches(pieces: &[PatternPiece], text: &[char], at: usize, rest: &mut dyn FnMut(usize) -> bool) -> bool {
    let Some((first, others)) = pieces.split_first() else { return rest(at) };
    match_piece(first, text, at, &mut |end| matches(others, text, end, rest))
}

fn match_piece(piece: &PatternPiece, text: &[char], at: usize, rest: &mut dyn FnMut(usize) -> bool) -> bool {
    let one = |fits: &dyn Fn(char) -> bool| text.get(at).is_some_and(|character| fits(*character));
    match piece {
        PatternPiece::Start => at == 0 && rest(at),
        PatternPiece::End => at == text.len() && rest(at),
        PatternPiece::Any => one(&|_| true) && rest(at + 1),
        PatternPiece::Literal(requested) => one(&|character| character == *requested) && rest(at + 1),
        PatternPiece::Class { negated, ranges } => {
            let inside = |character| ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
            one(&|character| inside(character) != *negated) && rest(at + 1)
        }
        PatternPiece::Group(alternatives) => {
            alternatives.iter().any(|pieces| matches(pieces, text, at, rest))
        }
        PatternPiece::Repeat { piece, least, most } => {
            let again = *most > 0
                && match_piece(piece, text, at, &mut |end| {
                    // A repetition that consumes nothing would never end.
                    let next = PatternPiece::Repeat {
                        piece: piece.clone(),
                        least: least.saturating_sub(1),
                        most: most - 1,
                    };
                    end > at && match_piece(&next, text, end, rest)
                });
            again || (*least == 0 && rest(at))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_like_in_the_database() {
        let table = [
            ("web", "my-web-1", true),
            ("^web", "my-web-1", false),
            (r"^my\-web\-1$", "my-web-1", true),
            ("^MY", "my-web-1", true),
            ("^my.*1$", "my-web-1", true),
            ("^my.*2$", "my-web-1", false),
            ("^(a|b)+$", "abba", true),
            ("^[a-c]?x[^0-9]$", "bxz", true),
            ("^[a-c]?x[^0-9]$", "bx1", false),
            (r"v1\.29", "v1x29", false),
        ];
        for (pattern, text, expected) in table {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(compiled.is_match(text), expected, "{pattern} on {text}");
        }
        assert!(Pattern::compile("(").is_none());
        assert!(Pattern::compile("*a").is_none());
    }
}
