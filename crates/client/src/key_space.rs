//! Keys as numbers, so that a range of keys that nobody knows can be split where its middle probably is.
//!
//! At each position of a key only the characters of the kinds that were seen there count: digits where only digits were
//! seen, hexadecimal digits, letters. A number is a guess about where a key lies, never a statement: whoever splits by it
//! compares the texts themselves.

use tavola_model::KeyBytes;

/// Positions of a key that are looked at.
const POSITIONS_MAX: usize = 64;
/// Numbers stay below this, so that sums and small multiples of them fit.
const NUMBER_MAX: u128 = 1 << 120;

const DIGIT: u8 = 1;
const HEX_LOWER: u8 = 2;
const HEX_UPPER: u8 = 4;
const LOWER: u8 = 8;
const UPPER: u8 = 16;
const OTHER: u8 = 32;

/// What was seen of the keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySpace {
    /// The kinds of characters at each position.
    kinds: Vec<u8>,
}

impl KeySpace {
    /// Takes notice of a key.
    pub(crate) fn see(&mut self, key: &str) {
        for (position, byte) in key.bytes().take(POSITIONS_MAX).enumerate() {
            if position == self.kinds.len() {
                self.kinds.push(0);
            }
            self.kinds[position] |= kind(byte);
        }
    }

    /// Where a key lies, about; a key behind another has no smaller number.
    pub(crate) fn number(&self, key: &str) -> u128 {
        let bytes = key.as_bytes();
        let mut number = 0;
        // Behind the first character that is not of its kind nothing counts.
        let mut beyond = None;
        for (position, base) in self.bases().enumerate() {
            let digit = match (beyond, bytes.get(position)) {
                (Some(true), _) => base - 1,
                (Some(false), _) | (None, None) => 0,
                (None, Some(byte)) => {
                    let (rank, is_exact) = self.rank(position, *byte);
                    if !is_exact {
                        beyond = Some(rank == base);
                    }
                    rank.min(base - 1)
                }
            };
            number = number * base + digit;
        }
        number
    }

    /// The key at a number; `None` beyond the last.
    pub(crate) fn key(&self, mut number: u128) -> Option<String> {
        let bases: Vec<u128> = self.bases().collect();
        let mut text = Vec::with_capacity(bases.len());
        for (position, base) in bases.iter().enumerate().rev() {
            let rank = usize::try_from(number % base).ok()?;
            text.push(self.alphabet(position).nth(rank)?);
            number /= base;
        }
        text.reverse();
        if number > 0 { None } else { String::from_utf8(text).ok() }
    }

    /// A key about halfway between two keys; `None` if there is none.
    pub(crate) fn middle(&self, low: &str, high: Option<&str>) -> Option<String> {
        let low_number = self.number(low);
        let high_number = high.map_or_else(|| self.end(), |high| self.number(high));
        self.between(low, low_number + high_number.checked_sub(low_number)? / 2, high)
    }

    /// The key at a number, if it lies strictly between two keys.
    pub(crate) fn between(&self, low: &str, number: u128, high: Option<&str>) -> Option<String> {
        let key = self.key(number)?;
        let bytes = KeyBytes::from_text(&key);
        let is_inside =
            bytes > KeyBytes::from_text(low) && high.is_none_or(|high| bytes < KeyBytes::from_text(high));
        is_inside.then_some(key)
    }

    /// The number behind the last.
    fn end(&self) -> u128 {
        self.bases().product()
    }

    /// How many characters count at each position, as far as numbers reach.
    fn bases(&self) -> impl Iterator<Item = u128> {
        let mut product: u128 = 1;
        (0..self.kinds.len()).map_while(move |position| {
            let base = self.alphabet(position).count() as u128;
            product = product.checked_mul(base).filter(|product| *product < NUMBER_MAX)?;
            Some(base)
        })
    }

    /// The characters that count at a position, in order.
    fn alphabet(&self, position: usize) -> impl Iterator<Item = u8> + use<> {
        let kinds = self.kinds.get(position).copied().unwrap_or(OTHER);
        // A letter beyond the hexadecimal ones makes all letters count.
        let wanted = match kinds {
            OTHER.. => u8::MAX,
            _ => {
                kinds
                    | (if kinds & LOWER != 0 { HEX_LOWER } else { 0 })
                    | (if kinds & UPPER != 0 { HEX_UPPER } else { 0 })
            }
        };
        (b' '..=b'~')
            .filter(move |byte| !matches!(byte, b'/' | b'\\' | b'#' | b'?') && kind(*byte) & wanted != 0)
    }

    /// How many characters of the alphabet come before this one, and whether it is one of them.
    fn rank(&self, position: usize, byte: u8) -> (u128, bool) {
        let before = self.alphabet(position).take_while(|known| *known < byte).count();
        (before as u128, self.alphabet(position).nth(before) == Some(byte))
    }
}

fn kind(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => DIGIT,
        b'a'..=b'f' => HEX_LOWER,
        b'A'..=b'F' => HEX_UPPER,
        b'g'..=b'z' => LOWER,
        b'G'..=b'Z' => UPPER,
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space(keys: &[&str]) -> KeySpace {
        let mut space = KeySpace::default();
        keys.iter().for_each(|key| space.see(key));
        space
    }

    #[test]
    fn the_middle_keeps_to_what_was_seen() {
        let cases = [
            (&["p0000100"][..], "p0000100", Some("p0000200"), Some("p0000150")),
            (&["0a", "9f"], "00", None, Some("5a")),
            (&["Sales"], "Sales", Some("Salet"), None),
            (&["a"], "a", Some("a"), None),
            (&["a"], "b", Some("a"), None),
            (&["\u{e9}"], "\u{e9}", None, None),
        ];
        for (seen, low, high, expected) in cases {
            assert_eq!(space(seen).middle(low, high).as_deref(), expected, "{low} {high:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_keep_the_order_of_keys(keys in proptest::collection::vec("[ -~]{0,9}", 2), seen in "[0-9a-zA-Z-]{0,9}") {
            let space = space(&[&seen]);
            let (left, right) = (KeyBytes::from_text(&keys[0]), KeyBytes::from_text(&keys[1]));
            let numbers = (space.number(&keys[0]), space.number(&keys[1]));
            prop_assert!(numbers.0 == numbers.1 || (left <= right) == (numbers.0 < numbers.1));
        }

        #[test]
        fn the_middle_lies_between(low in "\\PC{0,9}", high in "\\PC{0,9}", seen in "[ -~]{0,9}") {
            if let Some(middle) = space(&[&seen, &low]).middle(&low, Some(&high)) {
                let bytes = KeyBytes::from_text(&middle);
                prop_assert!(KeyBytes::from_text(&low) < bytes && bytes < KeyBytes::from_text(&high));
                prop_assert!(tavola_model::Key::parse(&middle).is_ok());
            }
        }

        #[test]
        fn a_key_of_the_kind_seen_is_its_number(key in "[a-f0-9]{8}-[A-Z]{4}") {
            let space = space(&[&key]);
            prop_assert_eq!(space.key(space.number(&key)), Some(key));
        }
    }
}
