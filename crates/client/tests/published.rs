//! What a user of the published crates gets: few crates to build, and packages that are whole.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::collections::BTreeSet;
use std::process::{Command, Output};

/// Crates of the first build with default features, our own six among them.
const CRATES_MAX: usize = 60;
/// Everything that a user of the client builds is published.
const PUBLISHED: [&str; 6] = [
    "tavola-model",
    "tavola-odata",
    "tavola-auth",
    "tavola-protocol",
    "tavola-client-derive",
    "tavola-client",
];

fn cargo(arguments: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().unwrap()
}

/// The crates that are built with these features.
fn crates(features: &str) -> BTreeSet<String> {
    let tree = ["tree", "-p", "tavola-client", "--edges", "normal,build", "--prefix", "none", "--offline"];
    let output = cargo(&[&tree[..], &["--features", features, "--format", "{p}"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let crates = text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "));
    crates.filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_first_build_is_of_few_crates() {
    let lean = crates("");
    assert!(lean.len() <= CRATES_MAX, "{} crates: {lean:?}", lean.len());
    let own: BTreeSet<_> = lean.iter().filter(|name| name.starts_with("tavola-")).collect();
    assert_eq!(own.len(), PUBLISHED.len(), "{own:?}");
    for (features, most) in [("tls", 75), ("encryption", 75), ("tls,encryption", 90)] {
        let all = crates(features);
        assert!(all.len() <= most, "{features}: {} crates", all.len());
    }
}

/// Without the build of each package, which takes minutes: `cargo package -p …` does that too.
#[test]
fn every_published_crate_can_be_packaged() {
    let target = std::env::temp_dir().join(format!("tavola-packages-{}", std::process::id()));
    let names: Vec<_> = PUBLISHED.iter().flat_map(|name| ["-p", name]).collect();
    let options = ["package", "--no-verify", "--offline", "--allow-dirty", "--target-dir"];
    let output = cargo(&[&options[..], &[target.to_str().unwrap()], &names].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in PUBLISHED {
        let packages = std::fs::read_dir(target.join("package")).unwrap();
        let found = packages.filter(|entry| {
            let file = entry.as_ref().unwrap().file_name();
            file.to_str()
                .is_some_and(|file| file.starts_with(&format!("{name}-0")) && file.ends_with(".crate"))
        });
        assert_eq!(found.count(), 1, "{name}");
    }
    std::fs::remove_dir_all(&target).unwrap();
}

/// The public items of a source file that have no example, by their first lines. What is hidden from the documentation
/// needs none, nor does what is public only inside a private module of tests.
fn without_example(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let kinds = ["fn ", "async fn ", "const fn ", "struct ", "enum ", "trait ", "type ", "const "];
    let (mut missing, mut has_example, mut is_hidden, mut in_attribute) = (Vec::new(), false, false, false);
    for line in source.lines().map(str::trim) {
        if line.starts_with("///") {
            has_example |= line.contains("```");
        } else if line.starts_with("#[") || in_attribute {
            is_hidden |= line.contains("doc(hidden)");
            in_attribute = !line.ends_with(']');
        } else {
            let item =
                line.strip_prefix("pub ").filter(|item| kinds.iter().any(|kind| item.starts_with(kind)));
            missing.extend(item.filter(|_| !has_example && !is_hidden).map(str::to_owned));
            (has_example, is_hidden) = (false, false);
        }
    }
    missing
}

#[test]
fn every_public_item_has_an_example() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let (mut missing, mut files) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let found = without_example(&std::fs::read_to_string(&path).unwrap());
            missing.extend(found.into_iter().map(|item| format!("{}: {item}", path.display())));
        }
    }
    // Comparisons that exist for the compiler's message, in an impl that is hidden as a whole.
    missing.retain(|item| !item.contains("where Self: Comparable"));
    // The details of a sealed entity are not exported.
    missing.retain(|item| !item.contains("encrypt/seal.rs: fn rewritten"));
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(files > 40);
    assert_eq!(without_example("/// A.\n#[must_use]\npub fn a() {}\n/// ```\npub fn b() {}"), ["fn a() {}"]);
}
