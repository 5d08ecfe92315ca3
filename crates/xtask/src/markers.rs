//! Parts of a document that belong to a program: between `<!-- name:begin -->` and `<!-- name:end -->`.

/// The part of this name, without the lines of its markers.
pub fn part<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&begin(name))?;
    let (part, _) = rest.split_once(&end(name))?;
    Some(part.trim_matches('\n'))
}

/// The document with another text in the part of this name.
pub fn with_part(document: &str, name: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(&begin(name))?;
    let (_, after) = rest.split_once(&end(name))?;
    Some(format!("{before}{}\n{}\n{}{after}", begin(name), text.trim_matches('\n'), end(name)))
}

/// A new part of this name.
pub fn new_part(name: &str, text: &str) -> String {
    format!("{}\n{}\n{}\n", begin(name), text.trim_matches('\n'), end(name))
}

fn begin(name: &str) -> String {
    format!("<!-- {name}:begin -->")
}

fn end(name: &str) -> String {
    format!("<!-- {name}:end -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_and_replaced_between_its_markers() {
        let document = format!("head\n{}tail\n", new_part("x", "old\n"));
        assert_eq!(part(&document, "x"), Some("old"));
        let renewed = with_part(&document, "x", "new\nlines").unwrap();
        assert_eq!(part(&renewed, "x"), Some("new\nlines"));
        assert!(renewed.starts_with("head\n") && renewed.ends_with("tail\n"));
        assert_eq!(part("nothing", "x"), None);
        assert_eq!(with_part("nothing", "x", ""), None);
    }
}
