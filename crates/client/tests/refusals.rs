//! Programs that must not compile, each for its own reason and with a message that says what to do.
//!
//! What the macros themselves refuse is tested in `client-derive/src/refusals.rs`; here it is the compiler that refuses
//! what types do not allow. Each program is compiled against the library that this test was built with.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const HEAD: &str = r#"
#![allow(dead_code, unused)]
use tavola_client::{Changes, DateTime, DynamicEntity, Entity, EntitySet, In, Prop, Property, filter};
#[derive(Clone, Entity)]
#[entity(partition = "{a}", row = "{b}_{n:06}", entity_type = "One")]
struct One { a: String, b: String, n: u32, age: i32, #[entity(encrypt)] salary: String, email: Option<String>,
    #[entity(json)] tags: Vec<u8> }
#[derive(Clone, Entity)]
#[entity(partition = "{a}", row = "r")]
struct Two { a: String, size: i64 }
"#;

const SOUND: &str = r#"
fn main() {
    let e = One::PROPERTIES;
    let _ = e.age.ge(30) & e.email.eq("a") & filter!("x eq 1");
    let _ = Changes::<One>::new().set(|e| e.age, 1).set(|e| e.email, "a").set(|e| e.tags, vec![1]);
}
"#;

/// What stands in `main`, or before it, and what the compiler says about it.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "",
        "One::PROPERTIES.age.ge(\"thirty\");",
        "a property of `i32` is not compared with, or set to, `&str`",
    ),
    ("", "One::PROPERTIES.age.ge(30i64);", "a property of `i32` is not compared with, or set to, `i64`"),
    ("", "One::PROPERTIES.email.eq(None);", "String` is not compared with, or set to, `Option<_>`"),
    ("", "One::PROPERTIES.age.ge(1) & Two::PROPERTIES.size.ge(1);", "mismatched types"),
    ("", "One::PROPERTIES.a.eq(\"x\");", "no field `a` on type `OneProperties`"),
    ("", "One::PROPERTIES.salary.eq(\"1\");", "an encrypted or JSON property cannot be compared in a filter"),
    ("", "One::PROPERTIES.tags.ge(\"1\");", "an encrypted or JSON property cannot be compared in a filter"),
    (
        "",
        "Changes::<One>::new().set(|e| e.salary, String::new());",
        "an encrypted property is written with its whole entity",
    ),
    ("", "Changes::<One>::new().set(|e| e.email, None::<String>);", "`None` is no literal"),
    (
        "",
        "Changes::<One>::new().set(|e| e.age, 1i64);",
        "a property of `i32` is not compared with, or set to, `i64`",
    ),
    (
        "#[derive(Entity)] #[entity(partition = \"{a}\", row = \"r\")] struct Bad { a: i32 }",
        "",
        "`i32` cannot be a part of a key",
    ),
    (
        "type Id = u32; #[derive(Entity)] #[entity(partition = \"{a}\", row = \"r\")] struct Bad { a: Id }",
        "",
        "a key cannot hold `a` in this form",
    ),
    (
        "#[derive(Entity)] #[entity(partition = \"{a}\", row = \"r\")] struct Bad { a: String, b: u64 }",
        "",
        "`u64` cannot be stored as a property",
    ),
    (
        "#[derive(Entity)] #[entity(partition = \"{a}\", row = \"r\")] struct Bad { a: String, b: Vec<String> }",
        "",
        "String>` cannot be stored as a property",
    ),
    ("#[derive(EntitySet)] enum Rows { One(One), Two(Two) }", "", "`Two` cannot be told from others"),
    ("", "let _: tavola_client::Filter<One> = filter!(\"Age gee 5\");", "Syntax error"),
    ("fn f<E: Entity>() {}", "f::<DynamicEntity>();", "`DynamicEntity` is not an entity type"),
];

#[test]
fn what_types_do_not_allow_does_not_compile_and_says_why() {
    let folder = std::env::temp_dir().join(format!("tavola-refusals-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let library = find_library(&folder);
    let mut wrong = Vec::new();
    for (before, inside, expected) in REFUSED {
        let program = format!("{HEAD}\n{before}\nfn main() {{ {inside} }}");
        match compile(&program, &library, &folder) {
            Ok(()) => wrong.push(format!("compiles: {before}{inside}")),
            Err(message) if !message.contains(expected) => {
                wrong.push(format!("{before}{inside}\nexpected: {expected}\nmessage: {message}"));
            }
            Err(_) => {}
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The newest build of the client with which the sound program compiles.
fn find_library(folder: &Path) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = std::fs::read_dir(test.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut libraries: Vec<(SystemTime, PathBuf)> = built
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("libtavola_client-") && name.ends_with(".rlib")
        })
        .map(|path| (path.metadata().and_then(|data| data.modified()).unwrap(), path))
        .collect();
    libraries.sort();
    let sound = format!("{HEAD}{SOUND}");
    let mut message = "there is no build of the client".to_owned();
    for (_, library) in libraries.into_iter().rev() {
        match compile(&sound, &library, folder) {
            Ok(()) => return library,
            Err(error) => message = error,
        }
    }
    panic!("the sound program does not compile: {message}");
}

fn compile(program: &str, library: &Path, folder: &Path) -> Result<(), String> {
    let source = folder.join("program.rs");
    std::fs::write(&source, program).unwrap();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", "-o"])
        .arg(folder.join("program.rmeta"))
        .arg("--extern")
        .arg(format!("tavola_client={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", library.parent().unwrap().display()))
        .arg(&source)
        .output()
        .unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
