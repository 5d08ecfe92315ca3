//! Text for a terminal: labels in a column, wrapped to its width, in colour where it has some.

use tavola_advisor::{KeyPart, KeySample, Severity};

const LABEL_WIDTH: usize = 9;
const INDENT: usize = 4;
const WIDTH_MIN: usize = 60;
const WIDTH_MAX: usize = 120;

/// What is written so far.
pub struct Paper {
    has_color: bool,
    width: usize,
    out: String,
}

impl Paper {
    pub fn new(has_color: bool, width: usize) -> Self {
        Self { has_color, width: width.clamp(WIDTH_MIN, WIDTH_MAX), out: String::new() }
    }

    pub fn finish(self) -> String {
        self.out
    }

    /// A line as it is: what clients have sent must have become plain before, and colours are in it.
    pub fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    pub fn blank(&mut self) {
        self.out.push('\n');
    }

    /// A line, cut at the width.
    pub fn clipped(&mut self, text: &str) {
        let text = &plain(text);
        let is_long = text.chars().count() > self.width;
        let text = if is_long {
            text.chars().take(self.width - 1).chain(['…']).collect()
        } else {
            text.to_owned()
        };
        self.line(&text);
    }

    /// A label and a text that goes on below itself.
    pub fn wrapped(&mut self, label: &str, text: &str) {
        let margin = if label.is_empty() { 0 } else { INDENT + LABEL_WIDTH };
        let mut line = String::new();
        let mut is_first = true;
        let text_width = self.width - margin;
        let text = plain(text);
        let words = text.split(' ').filter(|word| !word.is_empty());
        let mut lines = Vec::new();
        for word in words {
            let is_full = !line.is_empty() && line.chars().count() + 1 + word.chars().count() > text_width;
            if is_full {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
        for line in lines {
            let start = if is_first && !label.is_empty() { self.label(label) } else { " ".repeat(margin) };
            is_first = false;
            self.line(&format!("{start}{line}"));
        }
    }

    /// A label and a text that can be copied as one line.
    pub fn unwrapped(&mut self, label: &str, text: &str) {
        let line = format!("{}{}", self.label(label), plain(text));
        self.line(&line);
    }

    /// A line of keys, with the new parts marked.
    pub fn keys(&mut self, label: &str, line: &KeySample) {
        let partition = self.parts(&line.partition);
        let row = self.parts(&line.row);
        let separator = if row.is_empty() { "" } else { "  /  " };
        let text = format!("{}{:<6} {partition}{separator}{row}", self.label(label), line.label);
        self.line(&text);
    }

    pub fn bold(&self, text: &str) -> String {
        self.colored("1", text)
    }

    pub fn dim(&self, text: &str) -> String {
        self.colored("2", text)
    }

    pub fn good(&self, text: &str) -> String {
        self.colored("32", text)
    }

    pub fn bad(&self, text: &str) -> String {
        self.colored("31", text)
    }

    pub fn severity(&self, severity: Severity, word: &str) -> String {
        match severity {
            Severity::Info => self.colored("36", word),
            Severity::Warning => self.colored("33", word),
            Severity::Bad => self.colored("31", word),
        }
    }

    fn parts(&self, parts: &[KeyPart]) -> String {
        parts.iter().map(|part| if part.new { self.good(&part.text) } else { plain(&part.text) }).collect()
    }

    fn label(&self, label: &str) -> String {
        format!("{}{}", " ".repeat(INDENT), self.dim(&format!("{label:<LABEL_WIDTH$}")))
    }

    fn colored(&self, code: &str, text: &str) -> String {
        if self.has_color && !text.is_empty() {
            format!("\u{1b}[{code}m{}\u{1b}[0m", plain(text))
        } else {
            plain(text)
        }
    }
}

/// Keys and filters are whatever clients send: control characters, with which a terminal could be led astray, become
/// visible.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_below_its_label() {
        let mut paper = Paper::new(false, 60);
        paper.wrapped("fact", &"word ".repeat(12));
        let lines: Vec<String> = paper.finish().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], format!("    fact     {}", ["word"; 9].join(" ")));
        assert_eq!(lines[1], format!("             {}", ["word"; 3].join(" ")));
    }

    #[test]
    fn hostile_text_cannot_steer_a_terminal() {
        for has_color in [false, true] {
            let mut paper = Paper::new(has_color, 80);
            let hostile = "a\u{1b}[2Jb\r";
            let part = |new| KeyPart { text: hostile.to_owned(), new };
            paper.keys(
                "keys",
                &KeySample { label: "then", partition: vec![part(true)], row: vec![part(false)] },
            );
            paper.wrapped("fact", hostile);
            paper.unwrapped("try", hostile);
            paper.clipped(hostile);
            paper.line(&paper.bold(hostile));
            let out = paper.finish();
            assert!(!out.contains("\u{1b}[2J") && !out.contains('\r'), "{out:?}");
        }
    }
}
