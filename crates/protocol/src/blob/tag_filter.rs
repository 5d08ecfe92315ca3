//! Conditions on tags: `"tag" = 'value' AND "other" >= 'text'`, with `OR`, `<>` and brackets where a header allows them.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations>
//! Neither parts nor nesting go beyond [`TAG_FILTER_PARTS_MAX`], and nothing recurses.

use tavola_model::{ErrorCode, ServiceError, TAG_FILTER_PARTS_MAX, TagComparison, TagFilter};

/// Reads the value of `x-ms-if-tags`.
pub(super) fn parse_tag_filter(text: &str) -> Result<TagFilter, ServiceError> {
    let mut tokens = Tokens { rest: text, count: 0 };
    let filter = parse(&mut tokens, Kind::Header).ok_or_else(|| invalid(text))?;
    filter.ok_or_else(|| invalid(text))
}

fn invalid(text: &str) -> ServiceError {
    super::headers::invalid_header("x-ms-if-tags", text)
}

/// The `where` of Find Blobs by Tags: a container, if it names one, and what blobs must have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Where {
    pub container: Option<String>,
    pub filter: Option<TagFilter>,
}

/// Reads the `where` of Find Blobs by Tags: comparisons joined by `AND`, of which one can name the container.
pub(super) fn parse_where(text: &str) -> Result<Where, ServiceError> {
    let invalid = || {
        ServiceError::new(ErrorCode::InvalidQueryParameterValue)
            .with_detail("QueryParameterName", "where")
            .with_detail("QueryParameterValue", text)
            .with_detail("Reason", "The expression is not valid.")
    };
    let mut tokens = Tokens { rest: text, count: 0 };
    let parts = match parse(&mut tokens, Kind::Where).ok_or_else(invalid)?.ok_or_else(invalid)? {
        TagFilter::And(parts) => parts,
        one => vec![one],
    };
    let mut found = Where { container: None, filter: None };
    let mut others = Vec::new();
    for part in parts {
        match part {
            TagFilter::Compare { name, comparison: TagComparison::Equal, value } if name == CONTAINER => {
                found.container = Some(value);
            }
            TagFilter::Compare { name, .. } if name == CONTAINER => return Err(invalid()),
            other => others.push(other),
        }
    }
    found.filter = match others.len() {
        0 => None,
        1 => others.pop(),
        _ => Some(TagFilter::And(others)),
    };
    Ok(found)
}

/// The name that stands for the container of a blob.
const CONTAINER: &str = "@container";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Header,
    Where,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Value(String),
    Compare(TagComparison),
    And,
    Or,
    Open,
    Close,
}

struct Tokens<'a> {
    rest: &'a str,
    count: usize,
}

impl Tokens<'_> {
    /// The next token; `None` for text that is none, `Some(None)` at the end.
    fn next(&mut self) -> Option<Option<Token>> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            return Some(None);
        }
        self.count += 1;
        if self.count > TAG_FILTER_PARTS_MAX * 8 {
            return None;
        }
        for (text, token) in [
            ("<>", Token::Compare(TagComparison::NotEqual)),
            ("<=", Token::Compare(TagComparison::LessOrEqual)),
            (">=", Token::Compare(TagComparison::GreaterOrEqual)),
            ("<", Token::Compare(TagComparison::Less)),
            (">", Token::Compare(TagComparison::Greater)),
            ("=", Token::Compare(TagComparison::Equal)),
            ("(", Token::Open),
            (")", Token::Close),
        ] {
            if let Some(rest) = self.rest.strip_prefix(text) {
                self.rest = rest;
                return Some(Some(token));
            }
        }
        match self.rest.chars().next()? {
            '"' => self.quoted('"').map(|name| Some(Token::Name(name))),
            '\'' => self.quoted('\'').map(|value| Some(Token::Value(value))),
            _ => self.word().map(Some),
        }
    }

    fn quoted(&mut self, quote: char) -> Option<String> {
        let (inside, rest) = self.rest.get(1..)?.split_once(quote)?;
        self.rest = rest;
        Some(inside.to_owned())
    }

    /// `AND`, `OR`, or a name without quotes.
    fn word(&mut self) -> Option<Token> {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
        let end = self.rest.find(|c| !is_of_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "" => None,
            _ if word.eq_ignore_ascii_case("and") => Some(Token::And),
            _ if word.eq_ignore_ascii_case("or") => Some(Token::Or),
            name => Some(Token::Name(name.to_owned())),
        }
    }
}

/// Alternatives of parts that must all hold: what is open between two brackets.
#[derive(Default)]
struct Group {
    alternatives: Vec<Vec<TagFilter>>,
    parts: Vec<TagFilter>,
}

impl Group {
    fn finish(mut self) -> Option<TagFilter> {
        if self.parts.is_empty() {
            return None;
        }
        self.alternatives.push(self.parts);
        let mut alternatives: Vec<TagFilter> = Vec::new();
        for mut parts in self.alternatives {
            alternatives.push(if parts.len() == 1 { parts.pop()? } else { TagFilter::And(parts) });
        }
        if alternatives.len() == 1 { alternatives.pop() } else { Some(TagFilter::Or(alternatives)) }
    }
}

/// The tree; `None` for text that is none, `Some(None)` for no text.
fn parse(tokens: &mut Tokens<'_>, kind: Kind) -> Option<Option<TagFilter>> {
    let mut groups = vec![Group::default()];
    let (mut expects_part, mut parts) = (true, 0);
    while let Some(token) = tokens.next()? {
        match token {
            Token::Open if expects_part && kind == Kind::Header && groups.len() < TAG_FILTER_PARTS_MAX => {
                groups.push(Group::default());
            }
            Token::Close if !expects_part && groups.len() > 1 => {
                let inner = groups.pop()?.finish()?;
                groups.last_mut()?.parts.push(inner);
            }
            Token::And if !expects_part => expects_part = true,
            Token::Or if !expects_part && kind == Kind::Header => {
                let group = groups.last_mut()?;
                let parts = std::mem::take(&mut group.parts);
                group.alternatives.push(parts);
                expects_part = true;
            }
            Token::Name(name) if expects_part && parts < TAG_FILTER_PARTS_MAX => {
                let Some(Token::Compare(comparison)) = tokens.next()? else { return None };
                let Some(Token::Value(value)) = tokens.next()? else { return None };
                if comparison == TagComparison::NotEqual && kind == Kind::Where {
                    return None;
                }
                groups.last_mut()?.parts.push(TagFilter::Compare { name, comparison, value });
                (expects_part, parts) = (false, parts + 1);
            }
            _ => return None,
        }
    }
    if expects_part || groups.len() != 1 {
        return None;
    }
    Some(groups.pop()?.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(filter: &TagFilter) -> String {
        let join = |parts: &[TagFilter], word: &str| {
            format!("({})", parts.iter().map(show).collect::<Vec<_>>().join(word))
        };
        match filter {
            TagFilter::Compare { name, comparison, value } => format!("{name} {comparison:?} {value}"),
            TagFilter::And(parts) => join(parts, " & "),
            TagFilter::Or(parts) => join(parts, " | "),
        }
    }

    fn check(text: &str, expected: &str) {
        let shown = parse_tag_filter(text).map(|filter| show(&filter));
        assert_eq!(shown.unwrap_or_else(|error| error.code.as_str().to_owned()), expected, "{text}");
    }

    #[test]
    fn and_binds_closer_than_or_and_brackets_closest() {
        check("tag1='val1'", "tag1 Equal val1");
        check("\"a b\" <> 'x' and c >= 'y'", "(a b NotEqual x & c GreaterOrEqual y)");
        check("a='1' OR b='2' AND c='3'", "(a Equal 1 | (b Equal 2 & c Equal 3))");
        check("(a='1' OR b='2') AND c<'3'", "((a Equal 1 | b Equal 2) & c Less 3)");
        for text in
            ["a", "a=", "a='1' b='2'", "a='1' and", "(a='1'", "a='1')", "()", "a=b", "'a'='b'", "a='1"]
        {
            check(text, "InvalidHeaderValue");
        }
    }

    #[test]
    fn deep_and_long_conditions_are_refused() {
        let deep = format!("{}a='1'{}", "(".repeat(5000), ")".repeat(5000));
        check(&deep, "InvalidHeaderValue");
        let long = vec!["a='1'"; TAG_FILTER_PARTS_MAX + 1].join(" AND ");
        check(&long, "InvalidHeaderValue");
        assert!(parse_tag_filter(&vec!["a='1'"; TAG_FILTER_PARTS_MAX].join(" AND ")).is_ok());
    }

    #[test]
    fn a_search_names_a_container_and_joins_its_parts() {
        let check = |text: &str, expected: Option<(Option<&str>, Option<&str>)>| {
            let found = parse_where(text).ok();
            let shown = found.map(|found| (found.container, found.filter.as_ref().map(show)));
            let expected =
                expected.map(|(container, filter)| (container.map(str::to_owned), filter.map(str::to_owned)));
            assert_eq!(shown, expected, "{text}");
        };
        check("\"a\"='1'", Some((None, Some("a Equal 1"))));
        check(
            "@container='c' AND \"a\">'1' AND \"a\"<'9'",
            Some((Some("c"), Some("(a Greater 1 & a Less 9)"))),
        );
        check("@container = 'c'", Some((Some("c"), None)));
        for text in ["", "a='1' OR b='2'", "(a='1')", "a<>'1'", "@container > 'c'"] {
            check(text, None);
        }
    }
}
