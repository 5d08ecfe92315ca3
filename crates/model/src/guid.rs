//! Globally unique identifiers, as the service writes them: 32 lower-case hex digits with dashes.
//!
//! Written by hand because `uuid` also reads forms that the service refuses, with braces or `urn:uuid:`.

use std::fmt;

/// The two digits of each byte. Every answer has a guid, so they are not worked out one by one.
const DIGITS: [[u8; 2]; 256] = {
    let (mut digits, mut byte) = ([[0; 2]; 256], 0);
    while byte < 256 {
        digits[byte] = [b"0123456789abcdef"[byte >> 4], b"0123456789abcdef"[byte & 15]];
        byte += 1;
    }
    digits
};
/// Bytes before which a dash stands.
const DASHED: [usize; 4] = [4, 6, 8, 10];
/// Where in the text the digits of each byte stand.
const OFFSETS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// The sixteen bytes of a guid, in the order of its text, which is also the order in which they compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Reads `c9da6455-213d-42c9-9a79-3e9149a57833`, in either case, with all its dashes or with none.
    pub fn parse(text: &str) -> Option<Self> {
        let dashes = match text.len() {
            36 => true,
            32 => false,
            _ => return None,
        };
        let (mut bytes, mut rest) = ([0; 16], text.as_bytes());
        for (index, byte) in bytes.iter_mut().enumerate() {
            if dashes && DASHED.contains(&index) {
                rest = rest.strip_prefix(b"-")?;
            }
            let (&[high, low], after) = rest.split_first_chunk()?;
            *byte = digit(high)? << 4 | digit(low)?;
            rest = after;
        }
        Some(Self(bytes))
    }

    /// The 36 characters of its text.
    pub fn to_ascii(self) -> [u8; 36] {
        let mut text = [b'-'; 36];
        for (byte, offset) in self.0.into_iter().zip(OFFSETS) {
            [text[offset], text[offset + 1]] = DIGITS[usize::from(byte)];
        }
        text
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_ascii()).expect("hex digits and dashes are ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_any_case_comes_back_in_lower_case() {
        let guid = Guid::parse("C9DA6455-213d-42C9-9a79-3e9149a57833").unwrap();
        assert_eq!(guid.to_string(), "c9da6455-213d-42c9-9a79-3e9149a57833");
        assert_eq!(Guid::parse("c9da6455213d42c99a793e9149a57833"), Some(guid));
    }

    #[test]
    fn texts_are_those_of_the_uuid_crate() {
        let mut chance = 1u64;
        let mut next = || {
            chance = chance.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            u8::try_from(chance >> 56).unwrap()
        };
        for _ in 0..50_000 {
            let bytes: [u8; 16] = std::array::from_fn(|_| next());
            let text = uuid::Uuid::from_bytes(bytes).as_hyphenated().to_string();
            assert_eq!(Guid(bytes).to_string(), text);
            // A character in its place may spoil it.
            let mut spoiled = text.into_bytes();
            spoiled[usize::from(next()) % 36] = b"0aF-g:{/@G`"[usize::from(next()) % 11];
            let spoiled = String::from_utf8(spoiled).unwrap();
            let expected = uuid::Uuid::try_parse(&spoiled).ok().map(|uuid| Guid(uuid.into_bytes()));
            assert_eq!(Guid::parse(&spoiled), expected, "{spoiled}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "c9da6455", "c9da6455-213d-42c9-9a79-3e9149a5783g", "c9da6455+213d-42c9-9a79-3e9149a57833"]
        {
            assert_eq!(Guid::parse(text), None, "{text}");
        }
    }
}
