//! Parses the modules of a crate and the paths in their code by `syn`, without tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta, UseTree, Visibility};

/// A module's path from the crate's root.
pub type Module = Vec<String>;

/// A module's code: the module whose file holds it, its uses, and the paths in it.
struct Code {
    file: Module,
    module: Module,
    uses: Vec<Use>,
    paths: Vec<Module>,
}

/// A leaf of a `use` tree.
struct Use {
    path: Module,
    name: String,
    is_handed_on: bool,
}

/// A crate's code.
#[derive(Default)]
pub struct Crate {
    code: Vec<Code>,
    /// The modules, each with the module whose file holds it.
    files: BTreeMap<Module, Module>,
    /// Re-exports (`pub use`): the path behind a name in a module.
    handed_on: BTreeMap<(Module, String), Module>,
}

impl Crate {
    /// Reads a crate from its root file.
    pub fn read(root: &Path) -> Crate {
        let mut read = Crate::default();
        read.file(root, root.parent().unwrap(), Module::new());
        read.hand_on();
        read
    }

    /// Makes a crate of files with these texts, each a child of the root.
    pub fn of(texts: &[(&str, &str)]) -> Crate {
        let mut made = Crate::default();
        for (name, text) in texts {
            let module: Module = Some(*name)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .into_iter()
                .collect();
            let items = syn::parse_file(text).unwrap().items;
            made.module(items, &module, &module, None);
        }
        made.hand_on();
        made
    }

    /// Reads a file; the files of its modules are in `folder`.
    fn file(&mut self, path: &Path, folder: &Path, module: Module) {
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.module(parsed.items, &module, &module, Some((path, folder)));
    }

    /// Parses the items of a module. Without a folder the files of its child modules are not read.
    fn module(
        &mut self,
        items: Vec<Item>,
        file: &Module,
        module: &Module,
        place: Option<(&Path, &Path)>,
    ) {
        let mut code = Code {
            file: file.clone(),
            module: module.clone(),
            uses: Vec::new(),
            paths: Vec::new(),
        };
        for item in items {
            match item {
                Item::Mod(inner) if !is_test(&inner.attrs) => {
                    let child = [module.as_slice(), &[inner.ident.to_string()]].concat();
                    self.child(inner, file, child, place);
                }
                Item::Use(used) if !is_test(&used.attrs) => {
                    let is_handed_on = !matches!(used.vis, Visibility::Inherited);
                    leaves(&used.tree, &mut Module::new(), is_handed_on, &mut code.uses);
                }
                Item::Mod(_) | Item::Use(_) => {}
                other => paths(other.into_token_stream(), &mut code.paths),
            }
        }
        self.files.insert(module.clone(), file.clone());
        self.code.push(code);
    }

    fn child(
        &mut self,
        inner: ItemMod,
        file: &Module,
        child: Module,
        place: Option<(&Path, &Path)>,
    ) {
        let name = inner.ident.to_string();
        let below = place.map(|(path, folder)| (path, folder.join(&name)));
        if let Some((_, items)) = inner.content {
            let below = below
                .as_ref()
                .map(|(path, folder)| (*path, folder.as_path()));
            return self.module(items, file, &child, below);
        }
        let Some((path, folder)) = place else { return };
        if let Some(named) = path_attribute(&inner.attrs) {
            let path = path.parent().unwrap().join(named);
            return self.file(&path, path.parent().unwrap(), child);
        }
        let beside: PathBuf = folder.join(format!("{name}.rs"));
        let within = folder.join(&name);
        match beside.exists() {
            true => self.file(&beside, &within, child),
            false => self.file(&within.join("mod.rs"), &within, child),
        }
    }

    fn hand_on(&mut self) {
        let mut handed_on = BTreeMap::new();
        for code in &self.code {
            for one in code.uses.iter().filter(|one| one.is_handed_on) {
                if let Some(target) = self.absolute(&code.module, &one.path) {
                    handed_on.insert((code.module.clone(), one.name.clone()), target);
                }
            }
        }
        self.handed_on = handed_on;
    }

    /// Returns a path from the crate's root, or `None` if it leads into another crate.
    fn absolute(&self, here: &Module, path: &[String]) -> Option<Module> {
        let mut base = here.clone();
        let mut path = path;
        match path.first()?.as_str() {
            "crate" => (base, path) = (Module::new(), &path[1..]),
            "self" => path = &path[1..],
            "super" => {}
            first => {
                base.push(first.to_owned());
                let is_child = self.files.contains_key(&base);
                base.pop();
                if !is_child {
                    return None;
                }
            }
        }
        while path.first().is_some_and(|word| word == "super") {
            base.pop()?;
            path = &path[1..];
        }
        Some([base.as_slice(), path].concat())
    }

    /// Returns the module whose file defines a path: its longest prefix that is a module, with re-exports resolved.
    pub fn file_of(&self, here: &Module, path: &[String]) -> Option<Module> {
        let mut full = self.absolute(here, path)?;
        // Follows re-exports through a bounded number of modules.
        for _ in 0..8 {
            let next = (0..full.len()).find_map(|n| {
                let target = self.handed_on.get(&(full[..n].to_vec(), full[n].clone()))?;
                (!self.files.contains_key(&full[..=n]))
                    .then(|| [target.as_slice(), &full[n + 1..]].concat())
            });
            match next {
                Some(next) if next != full => full = next,
                _ => break,
            }
        }
        // A name that no module has is defined in the crate's root.
        let found = (1..=full.len())
            .rev()
            .find_map(|n| self.files.get(&full[..n]));
        Some(found.cloned().unwrap_or_default())
    }

    /// Returns the uses of each module by file, without re-exports.
    pub fn uses_by_file(&self) -> impl Iterator<Item = (&Module, Module)> {
        self.code.iter().flat_map(move |code| {
            let uses = code.uses.iter().filter(|one| !one.is_handed_on);
            let named = uses.map(|one| &one.path).chain(&code.paths);
            named.filter_map(move |path| Some((&code.file, self.file_of(&code.module, path)?)))
        })
    }

    /// Returns all paths within the crate that modules name, with re-exports, from the root.
    pub fn named(&self) -> impl Iterator<Item = (&Module, Module)> {
        self.code.iter().flat_map(move |code| {
            let named = code.uses.iter().map(|one| &one.path).chain(&code.paths);
            named.filter_map(move |path| Some((&code.module, self.absolute(&code.module, path)?)))
        })
    }
}

/// Returns whether an item is compiled only for tests, including loom's.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => has_test(list.tokens.clone()),
        _ => false,
    })
}

/// Returns whether a condition is `test`, or an `all` that contains it.
fn has_test(condition: TokenStream) -> bool {
    let mut tokens = condition.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(word)), Some(TokenTree::Group(all))) if word == "all" => all
            .stream()
            .into_iter()
            .any(|one| matches!(one, TokenTree::Ident(word) if word == "test")),
        (Some(TokenTree::Ident(word)), None) => word == "test",
        _ => false,
    }
}

/// Returns the file of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(value) => match &value.lit {
                    Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
}

/// Collects the paths of a `use` tree.
fn leaves(tree: &UseTree, prefix: &mut Module, is_handed_on: bool, found: &mut Vec<Use>) {
    let mut leaf = |path: Module, name: String| {
        found.push(Use {
            path,
            name,
            is_handed_on,
        });
    };
    let mut full = prefix.clone();
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            leaves(&path.tree, prefix, is_handed_on, found);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, prefix, is_handed_on, found);
            }
        }
        UseTree::Name(name) => {
            full.extend((name.ident != "self").then(|| name.ident.to_string()));
            let last = full.last().cloned().unwrap_or_default();
            leaf(full, last);
        }
        UseTree::Rename(renamed) => {
            full.extend((renamed.ident != "self").then(|| renamed.ident.to_string()));
            leaf(full, renamed.rename.to_string());
        }
        UseTree::Glob(_) => {
            let last = full.last().cloned().unwrap_or_default();
            leaf(full, last);
        }
    }
}

/// Collects paths of more than one name in types, expressions and macros.
fn paths(tokens: TokenStream, found: &mut Vec<Module>) {
    let mut path = Module::new();
    let mut colons = 0;
    let mut end = |path: &mut Module| {
        if path.len() > 1 {
            found.push(std::mem::take(path));
        }
        path.clear();
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(word.to_string());
                colons = 0;
            }
            TokenTree::Punct(one) if one.as_char() == ':' && !path.is_empty() => colons += 1,
            TokenTree::Group(group) => {
                end(&mut path);
                colons = 0;
                groups.push(group.stream());
            }
            _ => {
                end(&mut path);
                colons = 0;
            }
        }
    }
    end(&mut path);
    for group in groups {
        paths(group, found);
    }
}
