//! The services keep apart: no file of one service's folder imports from another service's folder, and what is
//! common to all imports from none of them.
//!
//! The part of a service is a folder or a file called `table`, `queue` or `blob`, in the crates below. A `lib.rs` or `mod.rs`
//! that holds nothing but `mod` and `use` is a table of contents and may name every service. A name that a root or a common
//! file exports from a service counts as that service's, wherever it is imported. The joints may name every service too:
//! the files in which one request finds its service.
//! Whatever else crosses is in `DEBT`, a list that only gets shorter: an entry that no longer applies fails the check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::step::Tally;

const CRATES: [&str; 5] = ["model", "protocol", "auth", "service", "frontend"];
const SERVICES: [&str; 3] = ["table", "queue", "blob"];

/// Files of the common part that name services because that is what they are for.
const JOINTS: &[&str] = &[
    "crates/model/src/command.rs",
    "crates/model/src/outcome.rs",
    "crates/protocol/src/encode.rs",
    "crates/service/src/service.rs",
    "crates/auth/src/needs/mod.rs",
    "crates/frontend/src/dispatch.rs",
    "crates/frontend/src/pipeline.rs",
    // What is recorded, logged and limited of a request depends on what it asks for.
    "crates/frontend/src/observe.rs",
    "crates/frontend/src/log_detail.rs",
    "crates/frontend/src/azure_limits.rs",
    "crates/frontend/src/listen/tests/records.rs",
    "crates/frontend/src/cluster/owner.rs",
    "crates/frontend/src/cluster/forward/tests.rs",
    // A SAS of a table limits keys, which no other resource has.
    "crates/auth/src/admit.rs",
    "crates/auth/src/authorize.rs",
    "crates/auth/src/key_limit.rs",
    // A SAS names the container it opens, and users have keys for blobs alone.
    "crates/auth/src/delegation.rs",
    "crates/auth/src/sas.rs",
    "crates/auth/src/sign.rs",
];

/// Crossings that are still there: the file, and the service it must not import.
const DEBT: &[(&str, &str)] = &[];

/// Checks every source file of the crates that have services.
pub fn check(root: &Path, tally: &mut Tally) -> Result<(), String> {
    let mut exports = Exports::default();
    for name in CRATES {
        let source = root.join("crates").join(name).join("src");
        exports.add_crate(name, &source)?;
        for path in files_of(&source) {
            let within = path.strip_prefix(&source).unwrap_or(&path);
            let text = read(&path)?;
            exports
                .add_common(name, within, &text)
                .map_err(|error| format!("{} ({error})", path.display()))?;
        }
    }
    let mut crossings = BTreeSet::new();
    let mut joints = BTreeSet::new();
    for name in CRATES {
        let source = root.join("crates").join(name).join("src");
        for path in files_of(&source) {
            let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{file} ({error})"))?;
            let within = path.strip_prefix(&source).unwrap_or(&path);
            let services =
                crossed(name, within, &text, &exports).map_err(|error| format!("{file} ({error})"))?;
            if JOINTS.contains(&file.as_str()) {
                joints.extend((!services.is_empty()).then_some(file));
            } else {
                crossings.extend(services.into_iter().map(|service| (file.clone(), service)));
            }
        }
    }
    for (file, service) in &crossings {
        let is_known = DEBT.contains(&(file.as_str(), *service));
        tally.check(if is_known {
            Ok(())
        } else {
            Err(format!("{file} imports from the folder `{service}`"))
        });
    }
    for (file, service) in DEBT {
        if !crossings.contains(&((*file).to_owned(), *service)) {
            tally.check(Err(format!(
                "{file} no longer imports from `{service}`: take it out of the list of debts"
            )));
        }
    }
    for file in JOINTS.iter().filter(|file| !joints.contains(**file)) {
        tally.check(Err(format!("{file} names no service: take it out of the list of joints")));
    }
    tally.note(format!("{} crossings between services that are still to go", DEBT.len()));
    Ok(())
}

/// The names that the common parts of crates export from their services.
#[derive(Default)]
struct Exports {
    /// By the roots: crate, name.
    services: BTreeMap<(&'static str, String), &'static str>,
    /// By other common files, for their crate: crate, module, name.
    of_modules: BTreeMap<(&'static str, String, String), &'static str>,
}

impl Exports {
    fn add_crate(&mut self, crate_name: &'static str, source: &Path) -> Result<(), String> {
        for (service, name) in
            self.add(crate_name, &read(&source.join("lib.rs"))?).map_err(|error| error.to_string())?
        {
            // `pub use table::*;`: everything that the service exports.
            if name == "*" {
                for name in public_names(&source.join(service))? {
                    self.services.insert((crate_name, name), service);
                }
            }
        }
        Ok(())
    }

    /// Adds what the text of a root exports, and gives it.
    fn add(
        &mut self,
        crate_name: &'static str,
        text: &str,
    ) -> Result<Vec<(&'static str, String)>, syn::Error> {
        let mut added = Vec::new();
        for item in syn::parse_file(text)?.items {
            let syn::Item::Use(item) = item else { continue };
            for names in paths_of(&item.tree) {
                let service = names.iter().find_map(|name| service_of(name));
                if let (Some(service), Some(last)) = (service, names.last()) {
                    self.services.insert((crate_name, last.clone()), service);
                    added.push((service, last.clone()));
                }
            }
        }
        Ok(added)
    }

    /// Adds what a common file that is no root gives on from a service.
    fn add_common(&mut self, crate_name: &'static str, within: &Path, text: &str) -> Result<(), syn::Error> {
        let stem = within.with_extension("");
        let mut parts: Vec<&str> = stem.iter().filter_map(|part| part.to_str()).collect();
        if parts.last() == Some(&"mod") {
            parts.pop();
        }
        let Some(module) = parts.last().filter(|name| **name != "lib") else { return Ok(()) };
        if parts.iter().any(|part| service_of(part).is_some()) {
            return Ok(());
        }
        for item in syn::parse_file(text)?.items {
            let syn::Item::Use(item) = item else { continue };
            if matches!(item.vis, syn::Visibility::Inherited) {
                continue;
            }
            for names in paths_of(&item.tree) {
                let service = names
                    .iter()
                    .find_map(|name| service_of(name))
                    .or_else(|| self.service(crate_name, &names));
                if let (Some(service), Some(last)) = (service, names.last()) {
                    let key = (crate_name, (*module).to_owned(), last.clone());
                    self.of_modules.insert(key, service);
                }
            }
        }
        Ok(())
    }

    /// The service of a path that leads through a module of ours which gives something on.
    fn service_behind(&self, own_crate: &str, names: &[String]) -> Option<&'static str> {
        let own = CRATES.into_iter().find(|known| *known == own_crate)?;
        names
            .windows(2)
            .find_map(|pair| self.of_modules.get(&(own, pair[0].clone(), pair[1].clone())).copied())
    }

    /// The service of a path that begins with a crate of ours.
    fn service(&self, own_crate: &str, names: &[String]) -> Option<&'static str> {
        let [first, name, ..] = names else { return None };
        let from = if first == "crate" { own_crate } else { first.strip_prefix("tavola_")? };
        let from = CRATES.into_iter().find(|known| *known == from)?;
        self.services.get(&(from, name.clone())).copied()
    }
}

/// The names that a module gives to others: its public items, and what it exports from its files.
fn public_names(module: &Path) -> Result<Vec<String>, String> {
    let as_folder = module.join("mod.rs");
    let file = if as_folder.exists() { as_folder } else { module.with_extension("rs") };
    let mut names = Vec::new();
    for item in syn::parse_file(&read(&file)?).map_err(|error| format!("{} ({error})", file.display()))?.items
    {
        match item {
            syn::Item::Use(item) if is_public(&item.vis) => {
                for path in paths_of(&item.tree) {
                    match path.as_slice() {
                        [inner, star] if star == "*" => names.extend(public_names(&module.join(inner))?),
                        path => names.extend(path.last().cloned()),
                    }
                }
            }
            syn::Item::Const(item) if is_public(&item.vis) => names.push(item.ident.to_string()),
            syn::Item::Enum(item) if is_public(&item.vis) => names.push(item.ident.to_string()),
            syn::Item::Fn(item) if is_public(&item.vis) => names.push(item.sig.ident.to_string()),
            syn::Item::Struct(item) if is_public(&item.vis) => names.push(item.ident.to_string()),
            syn::Item::Trait(item) if is_public(&item.vis) => names.push(item.ident.to_string()),
            syn::Item::Type(item) if is_public(&item.vis) => names.push(item.ident.to_string()),
            _ => {}
        }
    }
    Ok(names)
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{} ({error})", path.display()))
}

/// Every path of a use declaration; one that gets a new name comes under both.
fn paths_of(tree: &syn::UseTree) -> Vec<Vec<String>> {
    let after = |ident: &syn::Ident, rest: Vec<Vec<String>>| {
        rest.into_iter().map(|names| [vec![ident.to_string()], names].concat()).collect()
    };
    match tree {
        syn::UseTree::Path(path) => after(&path.ident, paths_of(&path.tree)),
        syn::UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        syn::UseTree::Rename(rename) => vec![vec![rename.ident.to_string()], vec![rename.rename.to_string()]],
        syn::UseTree::Glob(_) => vec![vec!["*".to_owned()]],
        syn::UseTree::Group(group) => group.items.iter().flat_map(paths_of).collect(),
    }
}

pub fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(files_of(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The services that a file imports from and must not.
fn crossed(
    own_crate: &str,
    within: &Path,
    text: &str,
    exports: &Exports,
) -> Result<BTreeSet<&'static str>, syn::Error> {
    let stem = within.with_extension("");
    let own = stem.iter().find_map(|part| service_of(part.to_str()?));
    let file = syn::parse_file(text)?;
    let is_index = within.file_name().is_some_and(|name| name == "mod.rs" || name == "lib.rs");
    if own.is_none() && is_index && is_contents(&file) {
        return Ok(BTreeSet::new());
    }
    let mut paths = Paths { own_crate, exports, services: BTreeSet::new() };
    paths.visit_file(&file);
    Ok(paths.services.into_iter().filter(|service| Some(*service) != own).collect())
}

/// Whether a file only says which modules there are and what they give.
fn is_contents(file: &syn::File) -> bool {
    file.items.iter().all(|item| match item {
        // A module with a body is code.
        syn::Item::Mod(module) => module.content.is_none(),
        syn::Item::Use(_) => true,
        _ => false,
    })
}

fn service_of(name: &str) -> Option<&'static str> {
    SERVICES.into_iter().find(|service| *service == name)
}

/// Collects the services that paths lead through.
struct Paths<'a> {
    own_crate: &'a str,
    exports: &'a Exports,
    services: BTreeSet<&'static str>,
}

impl Paths<'_> {
    /// In a path, a service is a module that something is taken from; the last name may be any item.
    fn add_path(&mut self, names: &[String]) {
        let modules = names.split_last().map_or(&[][..], |(_, modules)| modules);
        self.services.extend(modules.iter().filter_map(|name| service_of(name)));
        self.add_exports(names);
    }

    fn add_exports(&mut self, names: &[String]) {
        self.services.extend(self.exports.service(self.own_crate, names));
        self.services.extend(self.exports.service_behind(self.own_crate, names));
    }

    /// A macro's arguments are tokens: names joined by `::` are taken for paths.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut names: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_path(&std::mem::take(&mut names));
                    }
                    names.push(ident.to_string());
                }
                TokenTree::Group(group) => {
                    self.add_path(&std::mem::take(&mut names));
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.add_path(&std::mem::take(&mut names)),
            }
            colons = 0;
        }
        self.add_path(&names);
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add_path(&names);
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for names in paths_of(&item.tree) {
            self.services.extend(names.iter().filter_map(|name| service_of(name)));
            self.add_exports(&names);
        }
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.add_tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(file: &str, text: &str) -> Vec<&'static str> {
        let mut exports = Exports::default();
        exports.add("model", "pub use queue::{QueueName as Name, other::Text}; pub use key::Key;").unwrap();
        crossed("model", Path::new(file), text, &exports).unwrap().into_iter().collect()
    }

    #[test]
    fn a_root_that_exports_a_whole_service_is_followed_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("lib.rs", "pub use queue::*; pub use common::*;");
        write(
            "queue/mod.rs",
            "mod name; mod limits; pub use name::QueueName; pub use limits::*; use name::Other;",
        );
        write("queue/limits.rs", "pub const TEXT_BYTES_MAX: usize = 1; const HIDDEN: usize = 2;");
        let mut exports = Exports::default();
        exports.add_crate("model", folder.path()).unwrap();
        let check = |name: &str| {
            crossed("model", Path::new("table/a.rs"), &format!("use crate::{name};"), &exports).unwrap().len()
        };
        assert_eq!((check("QueueName"), check("TEXT_BYTES_MAX")), (1, 1));
        assert_eq!((check("HIDDEN"), check("Other"), check("common")), (0, 0, 0));
    }

    #[test]
    fn a_name_that_the_root_exports_belongs_to_its_service() {
        assert_eq!(services("table/keys.rs", "use crate::{Key, QueueName};"), ["queue"]);
        assert_eq!(
            services("table/keys.rs", "fn f(text: tavola_model::Text, name: crate::Name) {}"),
            ["queue"]
        );
        assert_eq!(services("queue/names.rs", "use crate::QueueName;"), Vec::<&str>::new());
        assert_eq!(services("table/keys.rs", "use other::QueueName; use crate::Key;"), Vec::<&str>::new());
    }

    #[test]
    fn a_service_may_import_what_is_common_and_itself_only() {
        assert_eq!(
            services("table/encode.rs", "use crate::{status::code, table::json};"),
            Vec::<&str>::new()
        );
        assert_eq!(services("table/encode.rs", "use crate::queue::write;"), ["queue"]);
        assert_eq!(services("needs/queue.rs", "use super::{table, shared};"), ["table"]);
        assert_eq!(services("queue.rs", "fn f() { tavola_model::table::check() }"), ["table"]);
        assert_eq!(services("blob/route.rs", "type A = Vec<crate::queue::Name>;"), ["queue"]);
    }

    #[test]
    fn what_is_common_imports_from_no_service() {
        assert_eq!(services("status.rs", "use crate::table::Code as Other;"), ["table"]);
        assert_eq!(
            services("status.rs", "fn f() { assert!(x, crate::queue::y(&[blob::z()])) }"),
            ["blob", "queue"]
        );
        assert_eq!(services("status.rs", "fn f() { log::table(queue, self.blob); }"), Vec::<&str>::new());
    }

    #[test]
    fn tables_of_contents_may_name_every_service_and_those_of_a_service_only_their_own() {
        let contents = "pub mod table; pub use queue::Name; pub use table::Key;";
        assert_eq!(services("lib.rs", contents), Vec::<&str>::new());
        assert_eq!(services("common/mod.rs", contents), Vec::<&str>::new());
        assert_eq!(services("table/mod.rs", contents), ["queue"]);
    }

    #[test]
    fn a_file_with_logic_is_no_table_of_contents() {
        for logic in ["fn f() {}", "mod inner { fn f() {} }", "impl Key {}", "const A: usize = 1;"] {
            let text = format!("pub use queue::Name; {logic}");
            assert_eq!(services("common/mod.rs", &text), ["queue"], "{logic}");
            assert_eq!(services("lib.rs", &text), ["queue"], "{logic}");
        }
    }

    #[test]
    fn what_a_common_file_gives_on_belongs_to_its_service() {
        let mut exports = Exports::default();
        let common = "pub(crate) use crate::blob::Sent; pub use super::queue::*; use crate::table::Hidden;";
        exports.add_common("service", Path::new("service.rs"), common).unwrap();
        exports.add_common("service", Path::new("common/mod.rs"), "pub use crate::table::Key;").unwrap();
        exports.add_common("service", Path::new("blob/mod.rs"), "pub use crate::blob::Own;").unwrap();
        let check = |text: &str| -> Vec<&'static str> {
            let services = crossed("service", Path::new("execute.rs"), text, &exports).unwrap();
            services.into_iter().collect()
        };
        assert_eq!(check("use crate::service::{Other, Sent};"), ["blob"]);
        assert_eq!(check("fn f(sent: super::service::Sent) {}"), ["blob"]);
        assert_eq!(check("use crate::service::*;"), ["queue"]);
        assert_eq!(check("use crate::common::Key;"), ["table"]);
        assert_eq!(check("use crate::service::{Hidden, Service}; use other::Sent;"), Vec::<&str>::new());
    }
}
