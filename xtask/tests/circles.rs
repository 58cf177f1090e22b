//! The files of a crate use one another one way, but for small circles.
//!
//! A path is followed to the file that defines its first name beyond modules, through `pub use` too. What
//! a file only hands on (`pub use`) and what its tests use does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// So many files may use one another in a circle: types that need each other, each in a file of its own.
const MOST: usize = 4;

type Module = Vec<String>;

/// A crate's files, by the modules that they hold.
#[derive(Default)]
struct Crate {
    texts: BTreeMap<Module, String>,
    /// What `pub use` hands on: the path behind a name in a module.
    handed_on: BTreeMap<(Module, String), Module>,
}

/// A path that a module uses, and the name that it gets.
struct Use {
    path: Vec<String>,
    name: String,
    is_pub: bool,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Without comments and tests.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let mut text = lines.collect::<Vec<_>>().join("\n");
    while let Some(at) = text.find("#[cfg(test)]\nmod ") {
        let rest = &text[at..];
        let (file, inline) = (rest.find(';'), rest.find('{'));
        match (file, inline) {
            (Some(end), inline) if inline.is_none_or(|inline| end < inline) => {
                text.replace_range(at..=at + end, "");
            }
            _ => text.truncate(at),
        }
    }
    text
}

/// A text without the modules within it, and these.
fn pieces(module: &Module, text: &str) -> Vec<(Module, String)> {
    let mut own = String::new();
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("mod ") {
        let (before, after) = rest.split_at(at);
        let name: String = after[4..].chars().take_while(|c| is_word(*c)).collect();
        let behind = &after[4 + name.len()..];
        let begins = before.is_empty() || before.ends_with([' ', '\n']);
        let Some(body) = behind.strip_prefix(" {").filter(|_| begins) else {
            own += before;
            own += "mod ";
            rest = &after[4..];
            continue;
        };
        let mut depth = 1;
        let end = body.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let (inner, after) = body.split_at(end.unwrap_or(body.len()));
        let path = [module.as_slice(), &[name]].concat();
        found.extend(pieces(&path, inner));
        own += before;
        rest = after;
    }
    own += rest;
    found.push((module.clone(), own));
    found
}

/// The paths of a tree of uses.
fn leaves(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let mut depth = 0;
    let parts = tree.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('{') {
            Some((head, rest)) => {
                let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
                leaves(&format!("{prefix}{head}"), inner, found);
            }
            None => found.push(format!("{prefix}{part}")),
        }
    }
}

fn segments(path: &str) -> Vec<String> {
    let words = path.split("::").map(|word| word.trim().to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// What a text uses, and the text without these lines.
fn uses(text: &str) -> (Vec<Use>, String) {
    let (mut found, mut left, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find("use ") {
        let (before, after) = rest.split_at(at);
        let Some(end) = after
            .find(';')
            .filter(|_| before.is_empty() || before.ends_with([' ', '\n']))
        else {
            left += before;
            left += "use ";
            rest = &after[4..];
            continue;
        };
        let line = before
            .rsplit(['\n', ';', '}'])
            .next()
            .unwrap_or_default()
            .trim();
        let is_pub = line.ends_with("pub") || line.starts_with("pub(");
        let mut paths = Vec::new();
        leaves("", &after[4..end], &mut paths);
        for path in paths {
            let (path, name) = match path.split_once(" as ") {
                Some((path, name)) => (segments(path), Some(name.trim().to_owned())),
                None => (segments(&path), None),
            };
            let mut path = path;
            path.pop_if(|last| last == "self" || last == "*");
            if let Some(name) = name.or_else(|| path.last().cloned()) {
                found.push(Use { path, name, is_pub });
            }
        }
        left += before;
        rest = &after[end + 1..];
    }
    left += rest;
    (found, left)
}

/// Paths in a text without uses.
fn inline(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("::") {
        let before = &rest[..at];
        let from = before.rfind(|c| !is_word(c)).map_or(0, |last| last + 1);
        let path: String = rest[from..]
            .chars()
            .take_while(|c| is_word(*c) || *c == ':')
            .collect();
        if from < at {
            found.push(segments(&path));
        }
        rest = &rest[(from + path.len()).max(at + 2)..];
    }
    found
}

impl Crate {
    /// The module of the file that a path leads to.
    fn file(&self, here: &Module, path: &[String]) -> Option<Module> {
        let mut full = self.absolute(here, path)?;
        // Names that are handed on, at most through so many modules.
        for _ in 0..8 {
            let next = (0..full.len()).find_map(|n| {
                let known = self.texts.contains_key(&full[..=n]);
                let target = self.handed_on.get(&(full[..n].to_vec(), full[n].clone()))?;
                (!known).then(|| [target.as_slice(), &full[n + 1..]].concat())
            });
            match next {
                Some(next) if next != full => full = next,
                _ => break,
            }
        }
        let found = (1..=full.len())
            .rev()
            .find(|n| self.texts.contains_key(&full[..*n]));
        // What the crate's root defines itself.
        Some(full[..found.unwrap_or(0)].to_vec())
    }

    fn absolute(&self, here: &Module, path: &[String]) -> Option<Module> {
        let mut base = here.clone();
        let mut path = path;
        match path.first()?.as_str() {
            "crate" => (base, path) = (Module::new(), &path[1..]),
            "self" => path = &path[1..],
            "super" => {}
            first => {
                base.push(first.to_owned());
                let is_child = self.texts.contains_key(&base);
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

    /// Which files each file uses.
    fn graph(&mut self) -> BTreeMap<Module, BTreeSet<Module>> {
        let mut all = Vec::new();
        for (file, text) in &self.texts {
            for (module, text) in pieces(file, text) {
                let (uses, left) = uses(&text);
                all.push((file.clone(), module, uses, inline(&left)));
            }
        }
        for (_, module, uses, _) in &all {
            for one in uses.iter().filter(|one| one.is_pub) {
                if let Some(target) = self.absolute(module, &one.path) {
                    self.handed_on
                        .insert((module.clone(), one.name.clone()), target);
                }
            }
        }
        let mut graph = BTreeMap::<Module, BTreeSet<Module>>::new();
        for (file, module, uses, inline) in &all {
            let uses = uses.iter().filter(|one| !one.is_pub).map(|one| &one.path);
            let used = uses
                .chain(inline)
                .filter_map(|path| self.file(module, path));
            let others = used.filter(|other| other != file);
            graph.entry(file.clone()).or_default().extend(others);
        }
        graph
    }
}

/// What can be reached from a file.
fn reach(graph: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(file) = left.pop() {
        for next in graph.get(file).into_iter().flatten() {
            if found.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    found
}

/// The circles of more than one file.
fn circles(graph: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reach: BTreeMap<&Module, BTreeSet<Module>> = graph
        .keys()
        .map(|file| (file, reach(graph, file)))
        .collect();
    let mut found: Vec<BTreeSet<Module>> = Vec::new();
    for (file, reached) in &reach {
        let back = reached.iter().filter(|other| {
            reach
                .get(other)
                .is_some_and(|theirs| theirs.contains(*file))
        });
        let circle: BTreeSet<Module> = back.cloned().collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path
            .file_stem()
            .is_some_and(|name| name.to_string_lossy().ends_with("tests"));
        if path.is_dir() && !is_test {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !is_test {
            found.push(path);
        }
    }
}

fn read(root: &Path) -> Crate {
    let mut found = Vec::new();
    files(root, &mut found);
    let mut read = Crate::default();
    let has_lib = root.join("lib.rs").exists();
    for file in found {
        let inside = file.strip_prefix(root).unwrap().with_extension("");
        let mut module: Module = inside
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        if module == ["main"] && has_lib {
            continue; // another crate
        }
        module.pop_if(|last| last == "mod");
        if module == ["lib"] || module == ["main"] {
            module.clear();
        }
        read.texts
            .insert(module, code(&fs::read_to_string(&file).unwrap()));
    }
    read
}

#[test]
fn files_use_one_another_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).unwrap();
    let members = members.split(']').next().unwrap();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for name in members
        .split(',')
        .map(|name| name.trim().trim_matches('"'))
        .filter(|name| !name.is_empty())
    {
        let source = root.join(name).join("src");
        if !source.is_dir() {
            continue;
        }
        let graph = read(&source).graph();
        checked += graph.values().map(BTreeSet::len).sum::<usize>();
        for circle in circles(&graph) {
            if circle.len() > MOST {
                let circle: Vec<String> = circle.iter().map(|file| file.join("/")).collect();
                wrong.push(format!("{name}: {}", circle.join(", ")));
            }
        }
    }
    assert!(checked > 2000, "only {checked} uses were found");
    assert!(
        wrong.is_empty(),
        "circles of more than {MOST} files: {wrong:#?}"
    );
}

#[test]
fn circles_are_found() {
    let texts = [
        ("", "mod a; mod b; mod c; pub use b::B;"),
        (
            "a",
            "use crate::{B, c::{self, C as Other}}; #[cfg(test)]\nmod tests { use crate::d::D; }",
        ),
        (
            "b",
            "// crate::d\nmod inner { use super::super::c::C; } pub struct B;",
        ),
        ("c", "fn c() { let _ = super::a::A; }"),
        ("d", "use crate::a::A;\npub use crate::c::C;"),
    ];
    let mut made = Crate::default();
    for (module, text) in texts {
        made.texts.insert(segments(module), code(text));
    }
    let circles = circles(&made.graph());
    let expected: BTreeSet<Module> = ["a", "b", "c"].map(segments).into();
    assert_eq!(circles, [expected]);
}
