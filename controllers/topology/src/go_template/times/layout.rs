//! Elements of the layouts with which Go reads and writes times.

/// Element of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// `2006`.
    Year,
    /// `06`.
    ShortYear,
    /// `January` and `Jan`.
    MonthName { is_long: bool },
    /// `1` and `01`.
    Month(Padding),
    /// `Monday` and `Mon`.
    Weekday { is_long: bool },
    /// `2`, `_2` and `02`.
    Day(Padding),
    /// `__2` and `002`.
    DayOfYear(Padding),
    /// `15`.
    Hour,
    /// `3` and `03`, of half a day.
    HalfHour(Padding),
    /// `4` and `04`.
    Minute(Padding),
    /// `5` and `05`.
    Second(Padding),
    /// `PM` and `pm`.
    Half { is_upper: bool },
    /// `MST`.
    ZoneName,
    /// `-0700` and its other forms.
    Offset(Offset),
    /// `.000` and `.999`.
    Fraction(Fraction),
}

/// First characters of a number that is shorter than its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    None,
    Space,
    Zero,
}

/// Form of the difference from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// Set if no difference is written as `Z`.
    pub(super) has_z: bool,
    pub(super) has_colons: bool,
    pub(super) smallest: Smallest,
}

/// Smallest unit of a difference from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Smallest {
    Hour,
    Minute,
    Second,
}

/// Form of the fraction of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    pub(super) digits: usize,
    /// Set if zeros at the end are written.
    pub(super) is_exact: bool,
    pub(super) separator: char,
}

/// Layout up to the end of its first element, and the rest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) before: &'a str,
    pub(super) text: &'a str,
    pub(super) element: Element,
    pub(super) after: &'a str,
}

/// Elements with a fixed text. An earlier one takes precedence, so a longer text comes before its own start.
const FIXED: [(&str, Element); 33] = [
    ("January", Element::MonthName { is_long: true }),
    ("Jan", Element::MonthName { is_long: false }),
    ("Monday", Element::Weekday { is_long: true }),
    ("Mon", Element::Weekday { is_long: false }),
    ("MST", Element::ZoneName),
    ("01", Element::Month(Padding::Zero)),
    ("02", Element::Day(Padding::Zero)),
    ("03", Element::HalfHour(Padding::Zero)),
    ("04", Element::Minute(Padding::Zero)),
    ("05", Element::Second(Padding::Zero)),
    ("06", Element::ShortYear),
    ("002", Element::DayOfYear(Padding::Zero)),
    ("15", Element::Hour),
    ("1", Element::Month(Padding::None)),
    ("2006", Element::Year),
    ("2", Element::Day(Padding::None)),
    ("_2", Element::Day(Padding::Space)),
    ("__2", Element::DayOfYear(Padding::Space)),
    ("3", Element::HalfHour(Padding::None)),
    ("4", Element::Minute(Padding::None)),
    ("5", Element::Second(Padding::None)),
    ("PM", Element::Half { is_upper: true }),
    ("pm", Element::Half { is_upper: false }),
    ("-070000", offset(false, false, Smallest::Second)),
    ("-07:00:00", offset(false, true, Smallest::Second)),
    ("-0700", offset(false, false, Smallest::Minute)),
    ("-07:00", offset(false, true, Smallest::Minute)),
    ("-07", offset(false, false, Smallest::Hour)),
    ("Z070000", offset(true, false, Smallest::Second)),
    ("Z07:00:00", offset(true, true, Smallest::Second)),
    ("Z0700", offset(true, false, Smallest::Minute)),
    ("Z07:00", offset(true, true, Smallest::Minute)),
    ("Z07", offset(true, false, Smallest::Hour)),
];

const fn offset(has_z: bool, has_colons: bool, smallest: Smallest) -> Element {
    Element::Offset(Offset { has_z, has_colons, smallest })
}

/// Finds the first element of a layout.
pub(super) fn next(layout: &str) -> Option<Part<'_>> {
    layout.char_indices().find_map(|(start, _)| {
        let (before, rest) = layout.split_at_checked(start)?;
        let (element, length) = element(rest)?;
        let (text, after) = rest.split_at_checked(length)?;
        Some(Part { before, text, element, after })
    })
}

/// Returns the element at the start of a text, and its length.
fn element(rest: &str) -> Option<(Element, usize)> {
    let fixed = FIXED.iter().find(|(text, _)| rest.starts_with(*text) && !is_other_word(rest, text));
    fixed.map(|(text, element)| (*element, text.len())).or_else(|| fraction(rest))
}

/// Returns true if an element's text is only the start of another word, as in `Month`. `_2006` is a year after a character.
fn is_other_word(rest: &str, text: &str) -> bool {
    match text {
        "Jan" | "Mon" => {
            rest.strip_prefix(text).is_some_and(|after| after.starts_with(|it: char| it.is_ascii_lowercase()))
        }
        "_2" => rest.starts_with("_2006"),
        _ => false,
    }
}

fn fraction(rest: &str) -> Option<(Element, usize)> {
    let separator = rest.chars().next().filter(|letter| matches!(letter, '.' | ','))?;
    let digits = rest.get(1..)?;
    let digit = digits.chars().next().filter(|letter| matches!(letter, '0' | '9'))?;
    let after = digits.trim_start_matches(digit);
    if after.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    let fraction = Fraction { digits: digits.len() - after.len(), is_exact: digit == '0', separator };
    Some((Element::Fraction(fraction), 1 + fraction.digits))
}
