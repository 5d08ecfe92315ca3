//! Where the value of a property stands among the literals that a filter compares it with.
//!
//! The distinct literals of a property, sorted, cut its values into cells: one for each literal, one for each gap
//! between two, one before the first and one behind the last. All values of a cell give the same answers to all
//! comparisons of the filter. So the answers are worked out once for each cell that is met, and a row costs one
//! binary search for each property, however many comparisons there are.

use std::cmp::Ordering;

use tavola_model::{Comparison, EdmType, EdmValue, KeyBytes};
use tavola_odata::{compare, holds};

/// The answers to the comparisons of one property, a bit each.
pub(super) type Answers = Box<[u64]>;

/// Bits of one word of [`Answers`].
pub(super) const WORD_BITS: usize = 64;

/// The comparisons of PartitionKey or RowKey.
pub(super) struct KeyCells<'a> {
    comparisons: Vec<&'a Comparison>,
    /// Sorted and distinct.
    literals: Vec<KeyBytes>,
    cells: Vec<Option<Answers>>,
}

impl<'a> KeyCells<'a> {
    pub fn new(comparisons: Vec<&'a Comparison>) -> Self {
        let mut literals: Vec<KeyBytes> = comparisons.iter().filter_map(|one| key_literal(one)).collect();
        literals.sort_unstable_by(|left, right| left.as_slice().cmp(right.as_slice()));
        literals.dedup_by(|left, right| left.as_slice() == right.as_slice());
        let cells = vec![None; 2 * literals.len() + 1];
        Self { comparisons, literals, cells }
    }

    /// The answers for a stored key.
    #[inline]
    pub fn answers(&mut self, key: &[u8]) -> &Answers {
        let found = self.literals.binary_search_by(|literal| literal.as_slice().cmp(key));
        let comparisons = &self.comparisons;
        self.cells[cell_index(found)].get_or_insert_with(|| {
            answers(comparisons, |comparison| match key_literal(comparison) {
                Some(literal) => comparison.operator.admits(key.cmp(literal.as_slice())),
                // Keys are strings: against another type any string stands like every other.
                None => holds(EdmValue::String(""), comparison.operator, comparison.literal()),
            })
        })
    }
}

/// The comparisons of any other property. Values of each type have cells of their own, because they compare with
/// literals of some types by value and with all others by type.
pub(super) struct ValueCells<'a> {
    comparisons: Vec<&'a Comparison>,
    types: [Option<TypeCells<'a>>; EdmType::ALL.len()],
}

struct TypeCells<'a> {
    /// Sorted and distinct, all of the type of the values.
    literals: Vec<EdmValue<'a>>,
    /// The last is for a value that is in no order with any literal.
    cells: Vec<Option<Answers>>,
}

impl<'a> ValueCells<'a> {
    pub fn new(comparisons: Vec<&'a Comparison>) -> Self {
        Self { comparisons, types: [const { None }; EdmType::ALL.len()] }
    }

    /// The answers for a value.
    #[inline]
    pub fn answers(&mut self, value: EdmValue<'_>) -> &Answers {
        let Self { comparisons, types } = self;
        let edm_type = value.edm_type();
        let TypeCells { literals, cells } =
            types[edm_type as usize].get_or_insert_with(|| TypeCells::new(edm_type, comparisons));
        let mut is_unordered = false;
        let found = literals.binary_search_by(|literal| {
            compare(*literal, value).unwrap_or_else(|| {
                is_unordered = true;
                Ordering::Equal
            })
        });
        let index = if is_unordered { cells.len() - 1 } else { cell_index(found) };
        cells[index].get_or_insert_with(|| {
            answers(comparisons, |comparison| holds(value, comparison.operator, comparison.literal()))
        })
    }
}

impl<'a> TypeCells<'a> {
    fn new(edm_type: EdmType, comparisons: &[&'a Comparison]) -> Self {
        let mut literals: Vec<EdmValue<'a>> =
            comparisons.iter().filter_map(|one| widened(one.literal(), edm_type)).collect();
        literals.sort_unstable_by(|left, right| compare(*left, *right).unwrap_or(Ordering::Equal));
        literals.dedup_by(|left, right| compare(*left, *right) == Some(Ordering::Equal));
        let cells = vec![None; 2 * literals.len() + 2];
        Self { literals, cells }
    }
}

/// A literal as a value of the type that it compares with by value; `None` if it does not.
fn widened(literal: EdmValue<'_>, edm_type: EdmType) -> Option<EdmValue<'_>> {
    match (literal, edm_type) {
        (EdmValue::Int32(number), EdmType::Int64) => Some(EdmValue::Int64(number.into())),
        (EdmValue::Int32(number), EdmType::Double) => Some(EdmValue::Double(number.into())),
        // It equals nothing and is in no order, so it cuts nothing.
        (EdmValue::Double(number), _) if number.is_nan() => None,
        (literal, edm_type) => (literal.edm_type() == edm_type).then_some(literal),
    }
}

/// The index of a cell: odd ones are literals, even ones the gaps around them.
fn cell_index(found: Result<usize, usize>) -> usize {
    match found {
        Ok(literal) => 2 * literal + 1,
        Err(gap) => 2 * gap,
    }
}

fn answers(comparisons: &[&Comparison], test: impl Fn(&Comparison) -> bool) -> Answers {
    let mut answers = vec![0; comparisons.len().div_ceil(WORD_BITS)].into_boxed_slice();
    for (index, comparison) in comparisons.iter().enumerate() {
        answers[index / WORD_BITS] |= u64::from(test(comparison)) << (index % WORD_BITS);
    }
    answers
}

fn key_literal(comparison: &Comparison) -> Option<KeyBytes> {
    match comparison.literal() {
        EdmValue::String(text) => Some(KeyBytes::from_text(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tavola_model::{DateTime, Guid, Operator, PropertyRef};

    fn value() -> impl Strategy<Value = EdmValue<'static>> {
        prop_oneof![
            prop::sample::select(vec!["", "a", "b", "ab", "\u{E000}", "\u{1F600}"])
                .prop_map(EdmValue::String),
            (-2i32..3).prop_map(EdmValue::Int32),
            (-2i64..3).prop_map(EdmValue::Int64),
            prop::sample::select(vec![-0.0, 0.0, 0.5, 1.0, -1.5, f64::NAN, f64::INFINITY])
                .prop_map(EdmValue::Double),
            any::<bool>().prop_map(EdmValue::Boolean),
            prop::sample::select(vec![&[][..], &[1][..], &[1, 2][..]]).prop_map(EdmValue::Binary),
            (0u8..3).prop_map(|byte| EdmValue::Guid(Guid([byte; 16]))),
            (0u64..3).prop_map(|ticks| {
                EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap_or(DateTime::MIN))
            }),
        ]
    }

    fn operator() -> impl Strategy<Value = Operator> {
        use Operator::{Eq, Ge, Gt, Le, Lt, Ne};
        prop::sample::select(vec![Eq, Ne, Gt, Ge, Lt, Le])
    }

    proptest! {
        #[test]
        fn every_value_has_the_answers_that_each_comparison_gives_by_itself(
            literals in prop::collection::vec((operator(), value()), 1..70),
            values in prop::collection::vec(value(), 1..20),
        ) {
            let comparisons: Vec<Comparison> = literals
                .iter()
                .map(|(operator, literal)| {
                    Comparison::new(PropertyRef::from_name("n"), *operator, *literal)
                })
                .collect();
            let mut cells = ValueCells::new(comparisons.iter().collect());
            let mut keys = KeyCells::new(comparisons.iter().collect());
            for value in values {
                let answers = cells.answers(value).clone();
                for (index, (operator, literal)) in literals.iter().enumerate() {
                    let bit = answers[index / WORD_BITS] >> (index % WORD_BITS) & 1 == 1;
                    prop_assert_eq!(bit, holds(value, *operator, *literal), "{:?} {:?} {:?}", value, operator, literal);
                }
                if let EdmValue::String(text) = value {
                    prop_assert_eq!(keys.answers(KeyBytes::from_text(text).as_slice()), &answers);
                }
            }
        }
    }
}
