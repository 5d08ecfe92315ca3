//! A type name means one thing: no two modules of the server's crates declare a type of one name for other modules.
//!
//! Checked are the crates of the code map that have a number, but for those of the client, whose names are the same
//! concepts on the other side of the wire. A type that a module keeps to itself may have any name, and so may one of a
//! test. What two crates may both declare is in `SAME`; an entry that no longer applies fails the check.

use std::collections::BTreeMap;
use std::path::Path;

use crate::services::{files_of, read};
use crate::step::Tally;

const CLIENT: [&str; 2] = ["client", "client-derive"];

/// Names that mean the same wherever they are declared: the name, the crates, the reason.
const SAME: &[(&str, &[&str], &str)] = &[
    ("Answer", &["console", "protocol"], "an HTTP answer: a client reads one, the console writes one"),
    ("AnswerBody", &["console", "frontend"], "each of the two listeners has its own kinds of bodies"),
    ("Download", &["console", "frontend"], "a body that is made while it is sent, by either listener"),
    ("Origin", &["console", "frontend"], "where a request comes from, at either listener"),
];

/// The files that declare a type, by its name.
type Declared = BTreeMap<String, Vec<String>>;

/// Checks the names of all types that the crates declare.
pub fn check<'a>(
    root: &Path,
    crates: impl Iterator<Item = &'a str>,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut declared = Declared::new();
    for name in crates.filter(|name| !CLIENT.contains(name)) {
        for path in files_of(&root.join("crates").join(name).join("src")) {
            let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            add(&mut declared, &file, &read(&path)?).map_err(|error| format!("{file} ({error})"))?;
        }
    }
    for result in check_names(&declared, SAME) {
        tally.check(result);
    }
    Ok(())
}

/// One result for each name that is declared twice or listed.
fn check_names(declared: &Declared, same: &[(&str, &[&str], &str)]) -> Vec<Result<(), String>> {
    let twice = declared.iter().filter(|(_, files)| files.len() > 1).map(|(name, files)| {
        let crates: Vec<&str> = files.iter().filter_map(|file| file.split('/').nth(1)).collect();
        if same.iter().any(|(known, allowed, _)| known == name && **allowed == *crates) {
            return Ok(());
        }
        Err(format!("`{name}` is declared in {}: a type name means one thing", files.join(" and ")))
    });
    let stale = same.iter().filter(|(name, ..)| declared.get(*name).is_none_or(|files| files.len() < 2)).map(
        |(name, _, reason)| {
            Err(format!("`{name}` ({reason}) is no longer declared twice: take it out of the list"))
        },
    );
    twice.chain(stale).collect()
}

/// Adds the types that a file declares for others. Alternatives of one file, by `cfg`, are one type.
fn add(declared: &mut Declared, file: &str, text: &str) -> Result<(), syn::Error> {
    let stem = file.trim_end_matches(".rs");
    if stem.ends_with("test") || stem.ends_with("tests") || file.contains("/tests/") {
        return Ok(());
    }
    let mut items = syn::parse_file(text)?.items;
    while let Some(item) = items.pop() {
        let (visibility, name) = match item {
            syn::Item::Enum(item) => (item.vis, item.ident),
            syn::Item::Struct(item) => (item.vis, item.ident),
            syn::Item::Trait(item) => (item.vis, item.ident),
            syn::Item::Type(item) => (item.vis, item.ident),
            syn::Item::Union(item) => (item.vis, item.ident),
            syn::Item::Mod(module) if module.ident != "tests" => {
                items.extend(module.content.into_iter().flat_map(|(_, items)| items));
                continue;
            }
            _ => continue,
        };
        let files = declared.entry(name.to_string()).or_default();
        if !matches!(visibility, syn::Visibility::Inherited) && files.last().is_none_or(|last| last != file) {
            files.push(file.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: &[(&str, &[&str], &str)] = &[("Body", &["auth", "model"], "the same bytes")];

    fn failures(files: &[(&str, &str)]) -> Vec<String> {
        let mut declared = Declared::new();
        for (file, text) in files {
            add(&mut declared, file, text).unwrap();
        }
        check_names(&declared, SAME).into_iter().filter_map(Result::err).collect()
    }

    const BODIES: [(&str, &str); 2] =
        [("crates/auth/src/body.rs", "pub struct Body;"), ("crates/model/src/body.rs", "pub enum Body {}")];

    #[test]
    fn a_name_that_two_modules_declare_is_refused() {
        for (one, two) in [
            ("pub struct Record;", "pub enum Record {}"),
            ("pub(crate) struct Record(u8);", "pub(super) type Record = u8;"),
            ("pub mod inner { pub trait Record {} }", "pub struct Record;"),
        ] {
            let [first, second] = BODIES;
            let found =
                failures(&[first, second, ("crates/auth/src/a.rs", one), ("crates/auth/src/b.rs", two)]);
            let told = "`Record` is declared in crates/auth/src/a.rs and crates/auth/src/b.rs: a type name means \
                        one thing";
            assert_eq!(found, [told], "{one} {two}");
        }
    }

    #[test]
    fn names_of_a_module_alone_of_tests_and_of_alternatives_are_free() {
        for (file, text) in [
            ("crates/auth/src/b.rs", "struct Record;"),
            ("crates/auth/src/b.rs", "mod tests { pub struct Record; }"),
            ("crates/auth/src/tests.rs", "pub struct Record;"),
            ("crates/auth/src/list/tests/kinds.rs", "pub struct Record;"),
            ("crates/auth/src/power_test.rs", "pub struct Record;"),
        ] {
            let [first, second] = BODIES;
            let alternatives = "#[cfg(a)] pub type Record = u8; #[cfg(not(a))] pub type Record = u16;";
            let found = failures(&[first, second, ("crates/auth/src/a.rs", alternatives), (file, text)]);
            assert_eq!(found, Vec::<String>::new(), "{file}: {text}");
        }
    }

    #[test]
    fn a_listed_name_is_for_its_crates_only_and_leaves_the_list_when_it_is_declared_once() {
        assert_eq!(failures(&BODIES), Vec::<String>::new());
        let third = ("crates/service/src/body.rs", "pub struct Body;");
        assert_eq!(failures(&[BODIES[0], BODIES[1], third]).len(), 1);
        assert_eq!(failures(&[BODIES[0], third]).len(), 1);
        let stale = "`Body` (the same bytes) is no longer declared twice: take it out of the list";
        assert_eq!(failures(&BODIES[..1]), [stale]);
    }
}
