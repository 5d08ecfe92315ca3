//! What a comparison of a value with a literal means.
//!
//! Values of one type compare as one expects, strings by UTF-16 code unit. An Int32 literal is as good as an
//! Int64 or Double of its value; other numbers of different types are neither equal nor in any order. Values
//! of other different types are unequal and ordered by their types: everything comes before strings, so that
//! `Name ne ''` and `Name lt ''` hold for a number, as they do on the real service.

use std::cmp::Ordering;

use tavola_model::{EdmType, EdmValue, Operator};

/// Does `value operator literal` hold?
pub fn holds(value: EdmValue<'_>, operator: Operator, literal: EdmValue<'_>) -> bool {
    match compare(value, literal) {
        Some(ordering) => operator.admits(ordering),
        None => operator == Operator::Ne,
    }
}

/// How a value stands to a literal; `None` if they are different and in no order.
pub fn compare(value: EdmValue<'_>, literal: EdmValue<'_>) -> Option<Ordering> {
    match (value, literal) {
        (EdmValue::String(left), EdmValue::String(right)) => Some(compare_utf16(left, right)),
        (EdmValue::Int32(left), EdmValue::Int32(right)) => Some(left.cmp(&right)),
        (EdmValue::Int64(left), EdmValue::Int64(right)) => Some(left.cmp(&right)),
        (EdmValue::Int64(left), EdmValue::Int32(right)) => Some(left.cmp(&i64::from(right))),
        (EdmValue::Double(left), EdmValue::Double(right)) => left.partial_cmp(&right),
        (EdmValue::Double(left), EdmValue::Int32(right)) => left.partial_cmp(&f64::from(right)),
        (EdmValue::Boolean(left), EdmValue::Boolean(right)) => Some(left.cmp(&right)),
        (EdmValue::DateTime(left), EdmValue::DateTime(right)) => Some(left.cmp(&right)),
        (EdmValue::Guid(left), EdmValue::Guid(right)) => Some(left.cmp(&right)),
        (EdmValue::Binary(left), EdmValue::Binary(right)) => Some(left.cmp(right)),
        _ => match type_rank(value.edm_type()).cmp(&type_rank(literal.edm_type())) {
            Ordering::Equal => None,
            by_type => Some(by_type),
        },
    }
}

/// Orders types; the numbers share a rank.
fn type_rank(edm_type: EdmType) -> u8 {
    match edm_type {
        EdmType::Boolean => 0,
        EdmType::Int32 | EdmType::Int64 | EdmType::Double => 1,
        EdmType::DateTime => 2,
        EdmType::Guid => 3,
        EdmType::Binary => 4,
        EdmType::String => 5,
    }
}

/// Compares UTF-8 text by UTF-16 code unit. The two orders differ only where a supplementary character, which
/// begins with a surrogate, meets one from U+E000 to U+FFFF.
fn compare_utf16(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let Some(index) = left.iter().zip(right).position(|(a, b)| a != b) else {
        return left.len().cmp(&right.len());
    };
    match (left[index], right[index]) {
        (0xF0.., 0xEE | 0xEF) => Ordering::Less,
        (0xEE | 0xEF, 0xF0..) => Ordering::Greater,
        (a, b) => a.cmp(&b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: EdmValue<'_>, literal: EdmValue<'_>, expected: &str) {
        use Operator::{Eq, Ge, Gt, Le, Lt, Ne};
        let admitted: Vec<_> = [Eq, Ne, Gt, Ge, Lt, Le]
            .into_iter()
            .filter(|operator| holds(value, *operator, literal))
            .map(Operator::as_str)
            .collect();
        assert_eq!(admitted.join(" "), expected, "{value:?} {literal:?}");
    }

    #[test]
    fn an_int32_literal_matches_wider_numbers_and_an_int64_literal_only_its_own_type() {
        check(EdmValue::Int64(5), EdmValue::Int32(5), "eq ge le");
        check(EdmValue::Double(5.5), EdmValue::Int32(5), "ne gt ge");
        check(EdmValue::Int32(5), EdmValue::Int64(5), "ne");
        check(EdmValue::Double(5.0), EdmValue::Int64(5), "ne");
        check(EdmValue::Int32(5), EdmValue::Double(5.0), "ne");
    }

    #[test]
    fn values_of_other_types_come_before_strings() {
        check(EdmValue::Double(5.0), EdmValue::String(""), "ne lt le");
        check(EdmValue::Boolean(true), EdmValue::String("True"), "ne lt le");
        check(EdmValue::String(""), EdmValue::Int32(7), "ne gt ge");
    }

    #[test]
    fn not_a_number_equals_nothing() {
        check(EdmValue::Double(f64::NAN), EdmValue::Double(f64::NAN), "ne");
    }

    proptest! {
        #[test]
        fn strings_compare_by_utf_16_code_unit(left in "[a\u{E000}\u{FFFD}\u{10000}\u{1F600}\u{D7FF}]{0,4}", right in "[a\u{E000}\u{FFFD}\u{10000}\u{1F600}\u{D7FF}]{0,4}") {
            let by_units = left.encode_utf16().collect::<Vec<_>>().cmp(&right.encode_utf16().collect());
            prop_assert_eq!(compare_utf16(&left, &right), by_units);
        }
    }
}
