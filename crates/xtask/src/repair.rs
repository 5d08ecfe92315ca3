//! Recordings that cannot be replayed as they stand, made so that they can.
//!
//! 1. The replayer gives every table a name of its own, in paths and bodies. In an Atom body it looks for the name
//!    right behind `TableName>`; recorded clients wrote a type attribute in between, so the table would be made under
//!    its old name while the new one is expected in the answer. The attribute says what is true without it: a string.
//! 2. Some recorders blanked the boundary of a batch in the header but not in the body.
//!
//! Nothing else is touched, and answers are never touched. The lines are worked on as text, because recorded bodies
//! hold what strict JSON readers refuse.

const TYPED_NAME: &str = r#"TableName m:type=\"Edm.String\">"#;
const BARE_NAME: &str = "TableName>";
const BLANK_BOUNDARY: &str = "boundary=batch_00000000-0000-0000-0000-000000000000";
const BODY_START: &str = r#""body":"--"#;

/// The corpus with its repairs.
pub fn repaired(corpus: &str) -> String {
    corpus.lines().map(|line| with_boundaries(&line.replace(TYPED_NAME, BARE_NAME)) + "\n").collect()
}

/// Puts the boundary that the body has into the header before it.
fn with_boundaries(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(BLANK_BOUNDARY) {
        out.push_str(before);
        rest = after;
        let body = after.split_once(BODY_START).map_or("", |(_, body)| body);
        let boundary = body.split(['\\', '"']).next().filter(|boundary| boundary.starts_with("batch_"));
        match boundary {
            Some(boundary) => out.push_str(&format!("boundary={boundary}")),
            None => out.push_str(BLANK_BOUNDARY),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_name_loses_its_type_and_a_blank_boundary_is_read_from_the_body() {
        let name = r#"{"body": "<d:TableName m:type=\"Edm.String\">abc</d:TableName>"}"#;
        assert_eq!(repaired(name), "{\"body\": \"<d:TableName>abc</d:TableName>\"}\n");
        let batch = r#"{"Content-Type": "multipart/mixed; boundary=batch_00000000-0000-0000-0000-000000000000"},"body":"--batch_7\r\nx"}"#;
        assert!(repaired(batch).contains("boundary=batch_7\"}"));
        let other = r#"{"headers":{},"body":"--batch_7\r\n"}"#;
        assert_eq!(repaired(other), format!("{other}\n"));
    }
}
