//! What the macros refuse, and in which words.

use syn3::{DeriveInput, LitStr, parse_str};

fn check(expanded: syn3::Result<proc_macro2::TokenStream>, expected: Option<&str>, text: &str) {
    let message = expanded.err().map(|error| error.to_string());
    match expected {
        None => assert_eq!(message, None, "{text}"),
        Some(expected) => {
            assert!(
                message.as_deref().is_some_and(|message| message.contains(expected)),
                "{text}: {message:?}"
            );
        }
    }
}

fn entity(text: &str, expected: impl Into<Option<&'static str>>) {
    let input: DeriveInput = parse_str(text).unwrap();
    check(crate::entity::expand(&input), expected.into(), text);
}

fn set(text: &str, expected: impl Into<Option<&'static str>>) {
    let input: DeriveInput = parse_str(text).unwrap();
    check(crate::entity_set::expand(&input), expected.into(), text);
}

fn property(text: &str, expected: impl Into<Option<&'static str>>) {
    let input: DeriveInput = parse_str(text).unwrap();
    check(crate::property::expand(&input), expected.into(), text);
}

fn filter(text: &str, expected: impl Into<Option<&'static str>>) {
    let literal = LitStr::new(text, proc_macro2::Span::call_site());
    check(crate::filter::expand(&literal), expected.into(), text);
}

/// A struct with these templates and fields.
fn keyed(partition: &str, row: &str, fields: &str) -> String {
    format!("#[entity(partition = {partition:?}, row = {row:?})] struct One {{ {fields} }}")
}

#[test]
fn a_key_that_could_not_be_parsed_back_or_would_not_sort_is_refused() {
    let fields = "a: String, b: u32, c: Option<String>, at: DateTime, #[entity(json)] j: Vec<u8>, #[entity(encrypt)] s: String";
    let check = |row: &str, expected: Option<&'static str>| entity(&keyed("{a}", row, fields), expected);
    check("{b:06}", None);
    check("{at:desc}_{b:06}", None);
    check("{at:desc}{b:06}", None);
    check("{b}", Some("`b` is a number: give it a width"));
    check("{b:6}", Some("has no form of a part"));
    check("{b:099}", Some("has no form of a part"));
    check("{b:00}", Some("has no form of a part"));
    check("{a}{b:06}", Some("a separator is missing between `a` and `b`"));
    check("{a:esc}{b:06}", Some("a separator is missing"));
    check("{a:esc}x{b:06}", Some("must begin with a punctuation mark"));
    check("{a:esc}^{b:06}", Some("must begin with a punctuation mark"));
    check("{a:esc}_{b:06}", None);
    check("{c}", Some("a part of the key cannot be optional"));
    check("{at:desc}", Some("two entities of one tick would share this key"));
    check("{x}", Some("there is no field `x`"));
    check("{a", Some("is not closed"));
    check("a}", Some("closes nothing"));
    check("a/{b:06}", Some("a key cannot hold /"));
    check("{j}", Some("is not a value that a key can hold"));
    check("{s}", Some("is encrypted"));
}

#[test]
fn names_of_the_service_and_names_given_twice_are_refused() {
    let check = |fields: &str, expected: Option<&'static str>| entity(&keyed("{a}", "r", fields), expected);
    check(
        "a: String, #[entity(rename = \"Timestamp\")] t: i32",
        Some("every entity has a `Timestamp` of its own"),
    );
    check("a: String, #[entity(rename = \"x y\")] t: i32", Some("no property can have the name"));
    check("a: String, b: i32, #[entity(rename = \"b\")] c: i32", Some("two fields have the name `b`"));
    check("a: String, #[entity(sort)] b: i32", Some("expected rename, json"));
    check("a: String, #[entity(json, default)] b: i32", Some("`default` is for plain properties"));
    let many: String = (0..260).map(|number| format!(", f{number}: i32")).collect();
    check(&format!("a: String{many}"), Some("at most 252"));
    entity(
        r#"#[entity(partition = "p", row = "r", entity_type = "T")] struct One { #[entity(rename = "EntityType")] a: String }"#,
        "`EntityType` holds the `entity_type`",
    );
}

#[test]
fn an_index_in_which_entities_could_collide_is_refused() {
    let check = |index: &str, expected: Option<&'static str>| {
        let text = format!(
            r#"#[entity(partition = "{{a}}", row = "{{b}}", index({index}))] struct One {{ a: String, b: String, c: Option<String>, #[entity(encrypt)] s: String }}"#
        );
        entity(&text, expected);
    };
    check(r#"by_c, partition = "{c}", row = "{a}_{b}""#, None);
    check(r#"by_c, unique, row = "c_{c}""#, None);
    check(r#"by_c, partition = "{c}", row = "{b}""#, Some("two entities could share a key in `by_c`"));
    check(r#"by_c, row = "{b}""#, Some("keys of the entity itself"));
    check(r#"row = "{b}""#, Some("an index needs a name"));
    check("by_c", Some("an index needs a template"));
    check(r#"by_c, unique, table = "Others", row = "{c}""#, Some("needs a template: `partition"));
    check(
        r#"by_c, unique, table = "no-name", partition = "{c}", row = "x""#,
        Some("no table can have this name"),
    );
    check(r#"by_s, unique, row = "{s}""#, Some("is encrypted"));
}

#[test]
fn only_a_struct_with_named_fields_is_an_entity() {
    entity("enum One { A }", "an entity is a struct");
    entity("struct One(String);", "named fields");
    entity("struct One { a: String }", "`#[entity(partition = \"...\")]` is missing");
    entity(r#"#[entity(partition = "p", row = "r")] struct One<T> { a: T }"#, "no parameters");
    entity(
        r#"#[entity(partition = "p", row = "r", rename_all = "kebab")] struct One { a: String }"#,
        "expected \"PascalCase\"",
    );
    entity(r#"#[entity(partition = "p", row = "r", sorted)] struct One { a: String }"#, "expected partition");
}

#[test]
fn a_set_is_an_enum_of_single_entities() {
    set("enum Row { Employee(Employee), #[entity_set(other)] Other(DynamicEntity) }", None);
    set("struct Row { a: String }", "is an enum of entity types");
    set("enum Row { Employee { a: String } }", "a variant holds one entity");
    set("enum Row { #[entity_set(other)] A(A), #[entity_set(other)] B(B) }", "only one variant");
    set("enum Row { #[entity_set(x)] A(A) }", "expected other or row_prefix");
}

#[test]
fn a_property_is_an_enum_of_names() {
    property("enum Grade { Junior, #[property(other)] Other(String) }", None);
    property("struct Grade;", "derive `Property` for enums");
    property("enum Grade { Junior(i32) }", "a variant holds nothing");
    property("enum Grade { #[property(other)] Junior }", "holds a `String`");
    property(r#"enum Grade { A, #[property(rename = "A")] B }"#, "two variants are stored as `A`");
}

#[test]
fn a_filter_that_the_service_would_not_parse_is_refused() {
    filter("Age ge {age} and not (Name eq 'x')", None);
    filter("Age gee {age}", "Syntax error");
    filter("Age ge {age} and", "Expression expected");
    filter("(Age ge {age}", "')' or operator expected at position 12 in '(Age ge {0}'");
    filter("Name eq '{name}'", "without quotes");
    filter("Age ge {age", "is not closed");
    filter("Age ge {1 +}", "stands an expression");
    filter("", "the filter is empty");
    filter("true", "compares properties");
    filter("startswith(Name, 'a')", "not implemented");
    filter("Age ge null", "");
}
