//! Compares the exported symbols of `libmpi.so.12` with the table.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use mpi_table::{Item, Table};

#[test]
fn exported_symbols_are_those_of_the_table() {
    let text = common::stdout(
        Command::new("nm")
            .args(["--dynamic", "--defined-only"])
            .arg(common::library()),
    );
    let mut found: BTreeMap<&str, char> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next().and_then(|word| word.chars().next());
        if let (Some(kind), Some(name)) = (kind, words.next()) {
            found.insert(name, kind);
        }
    }

    let table = common::table();
    let mut problems = Vec::new();
    let mut expect = |name: &str, kinds: &str, what: &str| match found.remove(name) {
        Some(kind) if kinds.contains(kind) => {}
        Some(kind) => problems.push(format!("{name} is `{kind}`, not {what}")),
        None => problems.push(format!("{name} is missing")),
    };
    for function in table.functions.present() {
        expect(&function.strong_name(), "T", "a strong function");
        if function.is_standard() {
            expect(&function.name, "W", "a weak function");
        }
    }
    for item in table.constants.items() {
        if let Item::Data { name, .. } = item {
            expect(name, "BDR", "a variable");
        }
    }
    for name in ["weft_places", "MPIR_dll_name"] {
        expect(name, "BDR", "a variable, for debuggers");
    }
    for (name, kind) in found {
        problems.push(format!("{name} ({kind}) is exported, but not in the table"));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn soname_is_that_of_the_abi() {
    let text = common::stdout(Command::new("readelf").arg("-d").arg(common::library()));
    assert!(text.contains("[libmpi.so.12]"), "{text}");
    // Symbol versions would tie programs to this library.
    assert!(!text.contains("VERDEF"), "{text}");
}

/// A link against glibc 2.28 (Rocky Linux 8, Debian 10) finds every function of the C library: it is
/// there under the version that this machine's link has chosen, or under an older one.
#[test]
fn functions_of_the_c_library_are_in_glibc_2_28() {
    const NEWEST: &[u32] = &[2, 28];
    // Functions of the shared library since 2.33; before, in `libc_nonshared.a`.
    const STATIC: &[&str] = &["fstat64", "fstatat64", "lstat64", "stat64"];
    let mut old = BTreeSet::new();
    for name in ["libc.so.6", "libm.so.6"] {
        let path = common::stdout(Command::new("cc").arg(format!("-print-file-name={name}")));
        let symbols = glibc_symbols(Path::new(path.trim()));
        let symbols = symbols.into_iter().filter(|one| !one.is_needed);
        old.extend(symbols.filter_map(|one| (one.version[..] <= *NEWEST).then_some(one.name)));
    }
    let needed = glibc_symbols(&common::library());
    let needed: Vec<_> = needed.iter().filter(|one| one.is_needed).collect();
    assert!(needed.iter().any(|one| one.name == "memcpy"));
    let is_there = |one: &GlibcSymbol| {
        one.version[..] <= *NEWEST || old.contains(&one.name) || STATIC.contains(&&one.name[..])
    };
    let new: Vec<_> = needed.iter().filter(|one| !is_there(one)).collect();
    assert!(new.is_empty(), "{new:?}");
}

/// A symbol of glibc that a library has or needs.
#[derive(Debug)]
struct GlibcSymbol {
    name: String,
    version: Vec<u32>,
    is_needed: bool,
}

/// Lists the symbols with a version of glibc, without those that a library may lack.
fn glibc_symbols(library: &Path) -> Vec<GlibcSymbol> {
    let text = common::stdout(Command::new("objdump").arg("-T").arg(library));
    let symbol = |line: &str| {
        let (about, rest) = line.split_once('\t')?;
        let mut words = rest.split_whitespace().skip(1);
        let version = words.next()?.trim_matches(['(', ')']);
        let version = version.strip_prefix("GLIBC_")?.split('.');
        let is_needed = about.contains("*UND*");
        let is_weak = about.contains(" w ");
        let symbol = GlibcSymbol {
            name: words.next()?.to_owned(),
            version: version.map_while(|part| part.parse().ok()).collect(),
            is_needed,
        };
        (!is_needed || !is_weak).then_some(symbol)
    };
    text.lines().filter_map(symbol).collect()
}

#[test]
fn every_api_function_is_in_the_table() {
    let table = Table::load().expect("a good table");
    let named: Vec<&str> = table
        .functions
        .present()
        .filter_map(|function| function.implementation.as_deref())
        .collect();
    let mut problems = Vec::new();
    let mut count = 0;
    for (module, text) in sources(&common::crate_root().join("src/api")) {
        for line in text.lines() {
            let Some(rest) = ["pub fn ", "pub unsafe fn "]
                .iter()
                .find_map(|start| line.strip_prefix(start))
            else {
                continue;
            };
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let path = format!("{module}::{name}");
            count += 1;
            if !named.contains(&path.as_str()) {
                problems.push(format!(
                    "api::{path} is not in functions.mpi: name it there, or make it pub(crate)"
                ));
            }
        }
    }
    assert!(count > 0, "no function found in src/api");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the modules of a folder with their texts.
fn sources(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("src/api") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        if path.is_file() && name != "mod" {
            let text = fs::read_to_string(&path).expect("a source");
            found.push((name.into_owned(), text));
        }
    }
    found
}
