//! Tables for `docs/`, written from the code so that the two cannot drift apart.

use tavola_model::ErrorCode;

use crate::settings::{SWITCH, file_key, settings, variable};

/// The tables of `docs/settings.md`, one for each heading.
pub fn settings_table() -> String {
    let mut out = String::new();
    let mut heading = "";
    for setting in settings() {
        if setting.heading != heading {
            heading = setting.heading;
            let blank = if out.is_empty() { "" } else { "\n" };
            out.push_str(&format!("{blank}## {heading}\n\n"));
            out.push_str(
                "| flag | environment | `tavola.toml` | default | what it does |\n|---|---|---|---|---|\n",
            );
        }
        let flag = if setting.value == SWITCH {
            format!("--{}", setting.name)
        } else {
            format!("--{} {}", setting.name, setting.value)
        };
        let key =
            if setting.name == "config" { "–".to_owned() } else { format!("`{}`", file_key(setting.name)) };
        let default =
            if setting.default.is_empty() { "–".to_owned() } else { format!("`{}`", setting.default) };
        let cells = [
            format!("`{flag}`"),
            format!("`{}`", variable(setting.name)),
            key,
            default,
            setting.help.to_owned(),
        ];
        out.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
    }
    out
}

/// The table of `docs/errors.md`.
pub fn errors_table() -> String {
    let mut out = String::from("| code | status | message |\n|---|---|---|\n");
    for code in ErrorCode::ALL {
        let status = tavola_protocol::status(*code).as_u16();
        out.push_str(&format!("| `{}` | {status} | {} |\n", code.as_str(), code.message()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a document between its markers, which `cargo xtask docs --write` renews.
    fn check(document: &str, part: &str, printed: &str) {
        let path = format!("{}/../../docs/{document}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let (_, rest) = text.split_once(&format!("<!-- {part}:begin -->\n")).expect("its first marker");
        let (written, _) = rest.split_once(&format!("<!-- {part}:end -->")).expect("its last marker");
        let differs = written.lines().zip(printed.lines()).find(|(written, printed)| written != printed);
        assert!(differs.is_none(), "docs/{document}: run `cargo xtask docs --write`: {differs:?}");
        assert_eq!(written, printed, "docs/{document}: run `cargo xtask docs --write`");
    }

    #[test]
    fn the_documents_have_every_setting_and_every_error_code() {
        check("settings.md", "settings", &settings_table());
        check("errors.md", "errors", &errors_table());
    }
}
