//! Lexer of label selectors.

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Comma,
    Not,
    Equal,
    DoubleEqual,
    NotEqual,
    Greater,
    Less,
    Open,
    Close,
    End,
}

impl Token {
    /// Returns the token as written, for messages.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Word(text) => text,
            Self::Comma => ",",
            Self::Not => "!",
            Self::Equal => "=",
            Self::DoubleEqual => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::Open => "(",
            Self::Close => ")",
            Self::End => "",
        }
    }

    fn sign(character: char) -> Option<Self> {
        Some(match character {
            ',' => Self::Comma,
            '!' => Self::Not,
            '=' => Self::Equal,
            '>' => Self::Greater,
            '<' => Self::Less,
            '(' => Self::Open,
            ')' => Self::Close,
            _ => return None,
        })
    }
}

/// Splits a text into tokens. The last one is always [`Token::End`].
pub(super) fn scan(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    // A NUL at the start of a token ends the text.
    while let Some(first) = rest.next().filter(|first| *first != '\0') {
        if is_space(first) {
            continue;
        }
        let token = match Token::sign(first) {
            Some(Token::Equal) if rest.next_if_eq(&'=').is_some() => Token::DoubleEqual,
            Some(Token::Not) if rest.next_if_eq(&'=').is_some() => Token::NotEqual,
            Some(sign) => sign,
            None => {
                let mut word = String::from(first);
                while let Some(next) = rest.next_if(|next| is_part_of_word(*next)) {
                    word.push(next);
                }
                // One that ends a word is skipped.
                let _ = rest.next_if_eq(&'\0');
                Token::Word(word)
            }
        };
        tokens.push(token);
    }
    tokens.push(Token::End);
    tokens
}

fn is_part_of_word(character: char) -> bool {
    character != '\0' && !is_space(character) && Token::sign(character).is_none()
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}
