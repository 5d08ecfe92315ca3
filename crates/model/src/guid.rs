//! Globally unique identifiers, as the service writes them: 32 lower-case hex digits with dashes.

use std::fmt;

use uuid::Uuid;

/// The sixteen bytes of a guid, in the order of its text, which is also the order in which they compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Reads `c9da6455-213d-42c9-9a79-3e9149a57833`, in either case, with dashes at their places or with none.
    pub fn parse(text: &str) -> Option<Self> {
        // The crate reads other forms too, in braces or as a URN, which are longer.
        if text.len() != 36 && text.len() != 32 {
            return None;
        }
        Uuid::try_parse(text).ok().map(|uuid| Self(uuid.into_bytes()))
    }

    /// The 36 characters of its text.
    pub fn to_ascii(self) -> [u8; 36] {
        let mut text = [0; 36];
        Uuid::from_bytes(self.0).as_hyphenated().encode_lower(&mut text);
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
