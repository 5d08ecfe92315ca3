//! The list of known differences: what each matches, who is right, and how we know.
//!
//! An entry is narrow: it names an operation, a case and a field, and the two values. In a pattern `*` stands for
//! any text. An entry about the outcome of a request names both outcomes in full, so that no new kind of answer
//! can hide behind it.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;

use crate::call::{Call, Service};

/// A field in which two answers differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    pub field: String,
    pub ours: String,
    pub azurite: String,
}

/// Who answers as the real service does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// We do.
    Ours,
    /// The emulator does; we say why we do not follow.
    Azurite,
    /// No recording and no document tells; both answers are defensible.
    Open,
}

/// How we know: at least one of them is given.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Evidence {
    /// A recorded session of the real service.
    #[serde(default)]
    pub session: Option<String>,
    /// A section of the wire notes, or the address of a public document.
    #[serde(default)]
    pub document: Option<String>,
}

/// An entry of the list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// `table`, `queue` or `blob`.
    pub service: String,
    /// Pattern of the operation.
    pub operation: String,
    /// Pattern of the case.
    #[serde(default)]
    pub case: String,
    /// Pattern of the field.
    pub field: String,
    /// Pattern of our value.
    pub ours: String,
    /// Pattern of the emulator's value.
    pub azurite: String,
    /// Not met with every seed.
    #[serde(default)]
    pub rare: bool,
    /// Who is right.
    pub right: Right,
    /// Why it is so, in a sentence.
    pub why: String,
    /// How we know.
    pub evidence: Evidence,
}

impl Known {
    fn matches(&self, service: Service, call: &Call, difference: &Difference) -> bool {
        self.service == service.word()
            && fits(&self.operation, call.operation)
            && fits(&self.case, &call.case)
            && fits(&self.field, &difference.field)
            && fits(&self.ours, &difference.ours)
            && fits(&self.azurite, &difference.azurite)
    }

    /// What is wrong with an entry as such.
    fn check(&self) -> Result<(), String> {
        let Evidence { session, document } = &self.evidence;
        if session.is_none() && document.is_none() {
            return Err("has no evidence".to_owned());
        }
        if self.field.starts_with('*') {
            return Err("does not name a field".to_owned());
        }
        if self.field.ends_with("outcome") && (self.ours.contains('*') || self.azurite.contains('*')) {
            return Err("does not name both outcomes".to_owned());
        }
        if self.why.trim().is_empty() {
            return Err("does not say why".to_owned());
        }
        Ok(())
    }

    /// An entry in one line.
    pub fn shown(&self) -> String {
        let Self { service, operation, case, field, ours, azurite, .. } = self;
        format!("{service}: {operation} [{case}] {field}: ours {ours:?}, azurite {azurite:?}")
    }
}

/// The whole list, and how often each entry was met.
#[derive(Debug)]
pub struct KnownDifferences {
    entries: Vec<Known>,
    met: Vec<AtomicUsize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    difference: Vec<Known>,
}

impl KnownDifferences {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        for known in &document.difference {
            known.check().map_err(|problem| format!("an entry {problem}: {}", known.shown()))?;
        }
        let met = document.difference.iter().map(|_| AtomicUsize::new(0)).collect();
        Ok(Self { entries: document.difference, met })
    }

    /// Whether this difference is known; the first entry that matches counts it.
    pub fn covers(&self, service: Service, call: &Call, difference: &Difference) -> bool {
        let found = self.entries.iter().position(|known| known.matches(service, call, difference));
        if let Some(index) = found {
            self.met[index].fetch_add(1, Ordering::Relaxed);
        }
        found.is_some()
    }

    /// Entries that matched nothing.
    pub fn unmet(&self) -> Vec<&Known> {
        let unmet = self.entries.iter().zip(&self.met).filter(|(_, met)| met.load(Ordering::Relaxed) == 0);
        unmet.map(|(known, _)| known).collect()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Whether a text fits a pattern in which `*` is any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("value[*].Timestamp", "value[12].Timestamp", true),
            ("*a*b", "xaxab", true),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    fn entry(field: &str, ours: &str, evidence: &str) -> String {
        format!(
            "[[difference]]\nservice = \"table\"\noperation = \"Get Entity\"\nfield = \"{field}\"\nours = \"{ours}\"\n\
             azurite = \"2\"\nright = \"ours\"\nwhy = \"so\"\n[difference.evidence]\n{evidence}"
        )
    }

    #[test]
    fn an_entry_must_be_narrow_and_have_evidence() {
        let problem = |text: String| KnownDifferences::parse(&text).err().unwrap_or_default();
        assert_eq!(problem(entry("body:A", "*", "session = \"s\"")), "");
        assert!(problem(entry("body:A", "*", "")).contains("no evidence"));
        assert!(problem(entry("outcome", "4*", "session = \"s\"")).contains("both outcomes"));
        assert!(problem(entry("*", "1", "session = \"s\"")).contains("name a field"));
        assert!(problem("[[difference]]\nname = 1".to_owned()).contains("name"));
    }

    #[test]
    fn an_entry_that_was_not_met_is_told() {
        let known = KnownDifferences::parse(&entry("body:A", "1", "session = \"s\"")).unwrap();
        let call = Call::new("Get Entity", "", Method::GET, "/t");
        let mut difference = Difference { field: "body:A".into(), ours: "0".into(), azurite: "2".into() };
        assert!(!known.covers(Service::Table, &call, &difference));
        assert_eq!(known.unmet().len(), 1);
        difference.ours = "1".to_owned();
        assert!(!known.covers(Service::Queue, &call, &difference));
        assert!(known.covers(Service::Table, &call, &difference));
        assert!(known.unmet().is_empty());
    }
}
