//! Quantities: whole numbers in the notation of Kubernetes.

use serde_json::Value;

/// Units with their factor: powers of ten and of two.
const UNITS: [(&str, u32, u32); 12] = [
    ("k", 10, 3),
    ("M", 10, 6),
    ("G", 10, 9),
    ("T", 10, 12),
    ("P", 10, 15),
    ("E", 10, 18),
    ("Ki", 2, 10),
    ("Mi", 2, 20),
    ("Gi", 2, 30),
    ("Ti", 2, 40),
    ("Pi", 2, 50),
    ("Ei", 2, 60),
];

/// Units below one, with their power of ten.
const FRACTIONS: [(&str, u32); 3] = [("m", 3), ("u", 6), ("n", 9)];

/// Largest number of digits: more do not fit the numbers that are computed with.
const DIGITS: usize = 18;

/// Returns a quantity as a whole number, rounded up, and bounded by the largest number; `None` if it is no quantity.
pub fn whole(quantity: &Value) -> Option<i64> {
    match quantity {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => parse(text),
        _ => None,
    }
}

/// Returns true if a quantity is a whole number.
pub fn is_whole(quantity: &Value) -> bool {
    match quantity {
        Value::String(text) => exact(text).is_some_and(|(product, divisor)| product.rem_euclid(divisor) == 0),
        other => whole(other).is_some(),
    }
}

fn parse(text: &str) -> Option<i64> {
    let (product, divisor) = exact(text)?;
    // Rounded up, as upstream does.
    let rounded = product.div_euclid(divisor) + i128::from(product.rem_euclid(divisor) != 0);
    Some(i64::try_from(rounded).unwrap_or(if product < 0 { i64::MIN } else { i64::MAX }))
}

/// Returns a quantity as numerator and denominator.
fn exact(text: &str) -> Option<(i128, i128)> {
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end =
        unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > DIGITS || fraction.contains('.') {
        return None;
    }
    let (factor, divisor) = factor(unit)?;
    let divisor = divisor.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let product = digits.parse::<i128>().ok()?.checked_mul(factor)?;
    Some((if is_negative { -product } else { product }, divisor))
}

/// Returns the factor and the divisor of a unit.
fn factor(unit: &str) -> Option<(i128, i128)> {
    if unit.is_empty() {
        return Some((1, 1));
    }
    if let Some((_, base, power)) = UNITS.iter().find(|(name, ..)| *name == unit) {
        return Some((i128::from(*base).checked_pow(*power)?, 1));
    }
    if let Some((_, power)) = FRACTIONS.iter().find(|(name, _)| *name == unit) {
        return Some((1, 10_i128.checked_pow(*power)?));
    }
    let exponent: i32 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

/// Returns a whole number in the shortest notation with a decimal unit, as upstream writes it: `1k` for 1000.
pub fn canonical(number: i64) -> String {
    let decimal = UNITS.iter().rev().filter(|(_, base, _)| *base == 10);
    for (unit, base, power) in decimal {
        let factor = i64::from(*base).pow(*power);
        if number != 0 && number % factor == 0 {
            return format!("{}{unit}", number / factor);
        }
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_as_whole_numbers() {
        let table = [
            (json!(3), Some(3)),
            (json!("3"), Some(3)),
            (json!("+3"), Some(3)),
            (json!("-3"), Some(-3)),
            (json!("1k"), Some(1000)),
            (json!("1.5k"), Some(1500)),
            (json!("2Ki"), Some(2048)),
            (json!("1e3"), Some(1000)),
            (json!("1500m"), Some(2)),
            (json!("-1500m"), Some(-1)),
            (json!(".5"), Some(1)),
            (json!("99E"), Some(i64::MAX)),
            (json!("a"), None),
            (json!(""), None),
            (json!("1.2.3"), None),
            (json!("1x"), None),
            (json!("1e999"), None),
            (json!(true), None),
        ];
        for (quantity, expected) in table {
            assert_eq!(whole(&quantity), expected, "{quantity}");
        }
    }

    #[test]
    fn numbers_are_written_with_the_largest_decimal_unit() {
        for (number, expected) in [(0, "0"), (7, "7"), (1000, "1k"), (1500, "1500"), (-2_000_000, "-2M")] {
            assert_eq!(canonical(number), expected);
        }
    }
}
