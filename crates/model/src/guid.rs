//! Globally unique identifiers, as the service writes them: 32 lower-case hex digits with dashes.

use std::fmt;

/// The sixteen bytes of a guid, in the order of its text, which is also the order in which they compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Reads `c9da6455-213d-42c9-9a79-3e9149a57833`, in either case, with dashes at their places or with none.
    pub fn parse(text: &str) -> Option<Self> {
        let dashed = text.len() == 36;
        if !dashed && text.len() != 32 {
            return None;
        }
        let mut nibbles = 0;
        let mut bytes = [0u8; 16];
        for (place, character) in text.chars().enumerate() {
            if dashed && matches!(place, 8 | 13 | 18 | 23) {
                if character != '-' {
                    return None;
                }
                continue;
            }
            let nibble = u8::try_from(character.to_digit(16)?).ok()?;
            bytes[nibbles / 2] |= if nibbles % 2 == 0 { nibble << 4 } else { nibble };
            nibbles += 1;
        }
        Some(Self(bytes))
    }
}

impl Guid {
    /// The 36 characters of its text.
    pub fn to_ascii(self) -> [u8; 36] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        let mut place = 0;
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                place += 1;
            }
            text[place] = DIGITS[usize::from(byte >> 4)];
            text[place + 1] = DIGITS[usize::from(byte & 0x0F)];
            place += 2;
        }
        text
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
    fn other_text_is_refused() {
        for text in
            ["", "c9da6455", "c9da6455-213d-42c9-9a79-3e9149a5783g", "c9da6455+213d-42c9-9a79-3e9149a57833"]
        {
            assert_eq!(Guid::parse(text), None, "{text}");
        }
    }
}
