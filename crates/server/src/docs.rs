//! Tables for `docs/`, written from the code so that the two cannot drift apart.

use tavola_model::ErrorCode;

use crate::metrics;
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

/// The table of `docs/metrics.md`.
pub fn metrics_table() -> String {
    let mut out = String::from("| metric | kind | labels | what it is |\n|---|---|---|---|\n");
    for family in metrics::catalogue() {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        let (name, kind, help) = (family.full_name, family.kind.as_str(), family.help);
        out.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use yaml_rust2::{Yaml, YamlLoader};

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
        check("metrics.md", "metrics", &metrics_table());
    }

    /// Every name in a text that looks like a metric of ours, without the endings of the parts of a histogram.
    fn metric_names(text: &str) -> BTreeSet<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let ours = words.filter(|word| word.starts_with("tavola_") || word.starts_with("process_"));
        let families = metrics::catalogue();
        let is_histogram = |name: &str| {
            families.iter().any(|family| family.name == name && family.kind == metrics::Kind::Histogram)
        };
        let of_family = |word: &str| {
            let parts = ["_bucket", "_count", "_sum"].into_iter();
            let whole = parts.filter_map(|part| word.strip_suffix(part)).find(|whole| is_histogram(whole));
            whole.unwrap_or(word).to_owned()
        };
        ours.map(of_family).collect()
    }

    fn read(path: &str) -> String {
        std::fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn the_dashboard_and_the_alerts_use_only_metrics_that_there_are() {
        let known: BTreeSet<String> =
            metrics::catalogue().iter().map(|family| family.full_name.to_owned()).collect();
        for path in ["deploy/grafana/tavola.json", "deploy/prometheus/alerts.yml"] {
            let used = metric_names(&read(path));
            assert!(used.len() > 5, "{path} uses {used:?}");
            let unknown: Vec<_> = used.difference(&known).collect();
            assert!(unknown.is_empty(), "{path} uses what /metrics does not have: {unknown:?}");
        }
    }

    #[test]
    fn every_alert_has_a_condition_a_severity_and_a_summary() {
        let rules = YamlLoader::load_from_str(&read("deploy/prometheus/alerts.yml")).unwrap();
        let groups = rules[0]["groups"].as_vec().unwrap();
        let alerts: Vec<&Yaml> = groups.iter().flat_map(|group| group["rules"].as_vec().unwrap()).collect();
        for alert in &alerts {
            assert!(!metric_names(alert["expr"].as_str().unwrap()).is_empty(), "{alert:?}");
            let severity = alert["labels"]["severity"].as_str().unwrap();
            assert!(["info", "warning", "critical"].contains(&severity), "{alert:?}");
            assert!(alert["annotations"]["summary"].as_str().is_some(), "{alert:?}");
        }
        assert!(alerts.len() >= 10, "{}", alerts.len());
    }

    /// Runs `promtool` on a text, where it is installed (Debian: the package `prometheus`).
    fn promtool(arguments: &[&str], text: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, text).unwrap();
        let mut command = std::process::Command::new("promtool");
        command.args(arguments).stdin(std::fs::File::open(&path).unwrap());
        // The metrics come from the standard input, rules from a file.
        if arguments.contains(&"rules") {
            command.arg(&path);
        }
        match command.output() {
            Ok(output) => {
                let said = [output.stdout, output.stderr].concat();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
            }
            Err(error) => eprintln!("promtool was not run, nothing is checked: {error}"),
        }
    }

    /// What `/metrics` can have, in the older format of Prometheus, which is all that `promtool check metrics` reads:
    /// there the help and the type of a counter are under the name of its series.
    fn older_format() -> String {
        let families = metrics::catalogue();
        let counters = families.iter().filter(|family| family.kind == metrics::Kind::Counter);
        let names: Vec<_> = counters.map(|family| (family.name, family.full_name)).collect();
        let mut text = metrics::text(families);
        for (name, full_name) in names {
            for word in ["HELP", "TYPE"] {
                text = text.replace(&format!("# {word} {name} "), &format!("# {word} {full_name} "));
            }
        }
        text
    }

    #[test]
    fn promtool_finds_nothing_wrong_with_the_metrics_and_the_alerts() {
        promtool(&["check", "metrics"], &older_format());
        promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &read("deploy/prometheus/alerts.yml"));
    }

    #[test]
    fn the_dashboard_is_json_with_panels_that_ask_for_something() {
        let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/tavola.json")).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let mut ids = BTreeSet::new();
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
            let targets = panel["targets"].as_array().unwrap();
            assert!(targets.iter().all(|target| !metric_names(target["expr"].as_str().unwrap()).is_empty()));
            assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()));
        }
        assert!(ids.len() >= 12, "{}", ids.len());
    }
}
