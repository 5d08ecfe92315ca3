//! Which crate may depend on which, and which folder of a crate may import which.
//!
//! A dependency points down the code map of ARCHITECTURE.md. Inside a crate, the services keep apart (`services.rs`).
//! Across the crates of the server, a type name means one thing (`names.rs`).

use std::collections::BTreeMap;

use crate::names;
use crate::programs::root;
use crate::services;
use crate::step::{NO_NAMES, Outcome, Server, Step, Tally};

pub const CHECK: Step = Step { name: "layers", server: Server::Unused, run: |_| check(), has: NO_NAMES };

fn check() -> Outcome {
    let mut tally = Tally::default();
    let document =
        std::fs::read_to_string(root().join("ARCHITECTURE.md")).map_err(|error| error.to_string())?;
    let layers = layers_of(&document);
    if layers.is_empty() {
        return Err("ARCHITECTURE.md has no code map: rows of `| layer | crate | …`".to_owned());
    }
    for (name, layer) in &layers {
        let path = root().join("crates").join(name).join("Cargo.toml");
        let manifest =
            std::fs::read_to_string(&path).map_err(|error| format!("{} ({error})", path.display()))?;
        tally.check(check_crate(name, *layer, &manifest, &layers));
    }
    services::check(&root(), &mut tally)?;
    let product = layers.iter().filter(|(_, layer)| matches!(layer, Layer::Number(_)));
    names::check(&root(), product.map(|(name, _)| name.as_str()), &mut tally)?;
    Ok(tally)
}

/// Where a crate stands in the code map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Part of the product; depends on lower numbers only.
    Number(u8),
    /// For development; nothing of the product depends on it.
    Development,
}

/// The rows of the code map: a number or `dev`, then the crate in backquotes.
fn layers_of(document: &str) -> BTreeMap<String, Layer> {
    let rows = document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (layer, name) = (cells.next()?, cells.next()?);
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        let layer = match layer {
            "dev" => Layer::Development,
            number => Layer::Number(number.parse().ok()?),
        };
        Some((name.to_owned(), layer))
    });
    rows.collect()
}

/// Every dependency on a crate of ours is lower. Dependencies of tests are not checked.
fn check_crate(
    name: &str,
    layer: Layer,
    manifest: &str,
    layers: &BTreeMap<String, Layer>,
) -> Result<(), String> {
    let manifest: toml::Table =
        manifest.parse().map_err(|error| format!("crates/{name}/Cargo.toml ({error})"))?;
    for dependency in dependencies(&manifest) {
        let Some(other) = dependency.strip_prefix("tavola-") else { continue };
        let is_lower = match (layer, layers.get(other)) {
            (_, None) => return Err(format!("{name} depends on {other}, which is not in the code map")),
            (Layer::Development, Some(_)) => true,
            (Layer::Number(_), Some(Layer::Development)) => false,
            (Layer::Number(number), Some(Layer::Number(other))) => other < &number,
        };
        if !is_lower {
            return Err(format!("{name} depends on {other}, which is not in a lower layer"));
        }
    }
    Ok(())
}

/// The packages that a crate or its build script depends on, on any system and under any name.
fn dependencies(manifest: &toml::Table) -> Vec<&str> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(toml::Table::values).filter_map(toml::Value::as_table);
    let tables = std::iter::once(manifest).chain(of_targets).flat_map(|table| {
        ["dependencies", "build-dependencies"].map(|kind| table.get(kind).and_then(toml::Value::as_table))
    });
    let package =
        |(name, how)| toml::Value::get(how, "package").and_then(toml::Value::as_str).unwrap_or(name);
    tables.flatten().flatten().map(|(name, how)| package((name.as_str(), how))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "| layer | crate | owns |\n|---|---|---|\n| 0 | `model` | nouns |\n| 1 | `auth` | x |\n\
                       | 1 | `odata` | y |\n| dev | `testkit` | z |\n";

    #[test]
    fn a_dependency_points_down_the_code_map() {
        let layers = layers_of(MAP);
        assert_eq!(layers.len(), 4);
        let check = |name: &str, manifest: &str| check_crate(name, layers[name], manifest, &layers).is_ok();
        assert!(check("auth", "[dependencies]\ntavola-model = {}\nhttp = {}"));
        assert!(check("testkit", "[dependencies]\ntavola-auth = {}"));
        assert!(check("model", "[dev-dependencies]\ntavola-testkit = {}"));
        assert!(!check("model", "[dependencies]\ntavola-auth = {}"));
        assert!(!check("auth", "[dependencies]\ntavola-odata = {}"));
        assert!(!check("auth", "[dependencies]\ntavola-testkit = {}"));
        assert!(!check("auth", "[dependencies]\ntavola-unknown = {}"));
        assert!(!check("model", "[build-dependencies]\ntavola-auth = {}"));
        assert!(!check("model", "[target.'cfg(unix)'.dependencies]\ntavola-auth = {}"));
        assert!(!check("model", "[dependencies]\nsigner = { package = \"tavola-auth\" }"));
    }
}
