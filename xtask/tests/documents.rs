//! Checks that the documentation matches the code: links, environment variables, hints and xtask's
//! commands. `tests/suite/documented.rs` runs the pages' commands; mpiexec's tests check its options.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Collects the files below a folder with one of these endings, without built and hidden ones.
fn files(dir: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            files(&path, endings, found);
        } else if endings
            .iter()
            .any(|ending| path.to_string_lossy().ends_with(ending))
        {
            found.push(path);
        }
    }
}

/// Returns the texts of files by their paths from the root.
fn texts(endings: &[&str]) -> BTreeMap<String, String> {
    let mut found = Vec::new();
    files(&root(), endings, &mut found);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a text");
        let name = path.strip_prefix(root()).expect("a path below the root");
        (name.display().to_string(), text)
    };
    found.into_iter().map(read).collect()
}

fn pages() -> BTreeMap<String, String> {
    let mut pages = texts(&[".md"]);
    pages.retain(|name, _| !name.contains('/') || name.starts_with("docs/"));
    pages
}

/// Returns the words of letters, digits and underscores that begin with `start`.
fn words(text: &str, start: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_word(c));
    let words = words.filter(|word| word.starts_with(start) && !word.ends_with('_'));
    words.map(str::to_owned).collect()
}

/// Returns a source without its tests.
fn code<'a>(name: &str, text: &'a str) -> &'a str {
    let parts: Vec<&str> = name.split('/').collect();
    if parts
        .iter()
        .any(|part| matches!(*part, "tests" | "tests.rs" | "examples"))
    {
        return "";
    }
    text.split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default()
}

/// Returns a heading's anchor: lower-case letters, digits and dashes.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

#[test]
fn no_link_is_dead() {
    let pages = pages();
    let anchors = |text: &str| -> Vec<String> {
        let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
        headings
            .map(|line| anchor(line.trim_start_matches('#')))
            .collect()
    };
    let mut dead = Vec::new();
    let mut count = 0;
    for (name, text) in &pages {
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if target.contains("://") || target.is_empty() {
                continue;
            }
            count += 1;
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let folder = Path::new(name).parent().unwrap_or(Path::new(""));
            let path = match file {
                "" => PathBuf::from(name),
                file => folder.join(file),
            };
            let there = fs::canonicalize(root().join(&path));
            let text = there.ok().and_then(|path| match path.is_dir() {
                true => Some(String::new()),
                false => fs::read_to_string(path).ok(),
            });
            let alive = text.is_some_and(|text| {
                part.is_empty() || anchors(&text).iter().any(|one| one == part)
            });
            if !alive {
                dead.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
    assert!(count > 40, "only {count} links were found");
}

/// Internal environment variables, or prefixes of such, with their users.
const INNER: &[(&str, &str)] = &[
    (
        "WEFT_CONFORMANCE_",
        "the suite of transports, for its children",
    ),
    (
        "WEFT_EAGER",
        "a category of the tool interface, by the beginning of names",
    ),
    ("WEFT_FEATURES", "libmpi's build script, for its tests"),
    ("WEFT_LOCAL_RANK", "mpiexec, for its ranks"),
    ("WEFT_NODE_MEMORY", "mpiexec, for its ranks"),
    ("WEFT_PINGPONG_CHILD", "osu-bench, for its children"),
    ("WEFT_TEST_BUILT", "xtask, for tests that it runs"),
    ("WEFT_TEST_FEATURES", "xtask, for the test of symbols"),
    ("WEFT_TEST_LEFT_OUT", "xtask, for tests that it runs"),
    ("WEFT_TEST_NAMES", "xtask, for the suite of programs"),
    ("WEFT_TEST_SHORT", "xtask, for the suite of programs"),
    ("WEFT_TEST_TIMES", "xtask, for the suite of programs"),
    ("WEFT_TOP", "weft-top, for mpiexec and its ranks"),
    ("WEFT_PROGRESS", "a category of the tool interface"),
];

#[test]
fn environment_variables_are_documented_and_documented_ones_exist() {
    let sources = texts(&[".rs", ".c", "/mpicc", "/mpifort"]);
    let mut documented = BTreeSet::new();
    let mut manuals = texts(&[".1"]);
    manuals.extend(pages());
    for text in manuals.values() {
        documented.extend(words(
            &text.replace("\\-", "-").replace("\\_", "_"),
            "WEFT_",
        ));
    }
    let mut read = BTreeMap::new();
    let mut known = BTreeSet::new();
    for (name, text) in &sources {
        known.extend(words(text, "WEFT_"));
        for quoted in code(name, text).split('"') {
            let is_name = quoted.starts_with("WEFT_") && words(quoted, "WEFT_").contains(quoted);
            if is_name {
                read.insert(quoted.to_owned(), name.clone());
            }
        }
    }
    let is_inner = |name: &str| {
        let mut inner = INNER.iter().map(|(inner, _)| *inner);
        inner.any(|inner| inner == name || inner.ends_with('_') && name.starts_with(inner))
    };
    read.retain(|name, _| !documented.contains(name) && !is_inner(name));
    assert!(read.is_empty(), "undocumented variables: {read:#?}");
    let ghosts: Vec<&String> = documented.difference(&known).collect();
    assert!(
        ghosts.is_empty(),
        "documented variables that no code reads: {ghosts:?}"
    );
    assert!(documented.len() > 50, "only {} variables", documented.len());
}

#[test]
fn hints_are_documented_and_documented_ones_exist() {
    let hints =
        fs::read_to_string(root().join("mpi-runtime/src/settings/hints.rs")).expect("hints");
    let names = words(code("", &hints), "weft_");
    assert!(names.len() >= 6, "{names:?}");
    let all: String = pages().into_values().collect::<Vec<_>>().join("\n");
    let told = words(&all, "weft_");
    let missing: Vec<&String> = names.difference(&told).collect();
    assert!(missing.is_empty(), "undocumented hints: {missing:?}");
    // Other words with this prefix are names of libraries and crates.
    let others = ["weft_check", "weft_profile", "weft_VERSION_ARCHITECTURE"];
    let ghosts: Vec<&String> = told
        .difference(&names)
        .filter(|name| !others.contains(&name.as_str()))
        .collect();
    assert!(
        ghosts.is_empty(),
        "documented hints that do not exist: {ghosts:?}"
    );
}

#[test]
fn commands_of_xtask_exist() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("help")
        .output()
        .expect("xtask");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let known: BTreeSet<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    assert!(known.contains("install"), "{help}");
    let recipes = texts(&["/recipe.yaml", "/Containerfile", "packaging/README.md"]);
    assert_eq!(recipes.len(), 3);
    let recipe =
        fs::read_to_string(root().join("packaging/spack/weft/package.py")).expect("a recipe");
    let recipe = recipe
        .replace(r#""cargo")(""#, "cargo ")
        .replace(r#"", ""#, " ");
    assert!(recipe.contains("cargo xtask install --prefix"), "{recipe}");
    let recipes = recipes
        .into_iter()
        .chain([("package.py".to_owned(), recipe)]);
    let mut options = BTreeMap::new();
    for (name, text) in pages().into_iter().chain(recipes) {
        for rest in text.split("cargo xtask").skip(1) {
            let Some(rest) = rest.strip_prefix(' ') else {
                continue;
            };
            let command = rest
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                .next();
            let command = command.unwrap_or_default();
            assert!(
                command.is_empty() || known.contains(command),
                "{name}: cargo xtask {command}"
            );
            // Options end at the end of the line or quotation, or where another program's begin.
            let line = rest
                .split(['`', '\n', '\'', '"'])
                .next()
                .unwrap_or_default();
            let words = line.split(' ').take_while(|word| *word != "--");
            for option in words.filter_map(|word| word.strip_prefix("--")) {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
                let option = option.split(|c| !is_part(c)).next().unwrap_or_default();
                let used = options
                    .entry(command.to_owned())
                    .or_insert_with(BTreeSet::new);
                used.extend((!option.is_empty()).then(|| option.to_owned()));
            }
        }
    }
    assert!(options["test"].contains("full"), "{options:?}");
    for (command, options) in options {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args([&command, "--help"])
            .output()
            .expect("xtask");
        let help = String::from_utf8_lossy(&output.stdout).into_owned();
        let known: BTreeSet<&str> = help
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .filter_map(|word| word.strip_prefix("--"))
            .collect();
        for option in options {
            assert!(
                known.contains(&*option),
                "cargo xtask {command} --{option}: {help}"
            );
        }
    }
}

#[test]
fn recipes_are_of_this_version_and_can_be_read() {
    let conda = fs::read_to_string(root().join("packaging/conda/recipe.yaml")).expect("a recipe");
    let version = format!("version: \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(conda.contains(&version), "not {version}");
    if weft_needs::PYTHON.met() {
        // `-m py_compile` would write a file beside the script.
        let script = "import ast, sys; ast.parse(open(sys.argv[1]).read())";
        let mut python = Command::new("python3");
        let recipe = root().join("packaging/spack/weft/package.py");
        let status = python.args(["-c", script]).arg(recipe).status();
        assert!(status.expect("python3").success());
    }
}

#[test]
fn every_page_is_in_the_book_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("a summary");
    let listed: Vec<&str> = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    let pages = pages();
    let pages = pages.keys().filter_map(|name| name.strip_prefix("docs/"));
    let is_page = |name: &&str| !["SUMMARY.md", "README.md"].contains(name);
    let pages: BTreeSet<&str> = pages.filter(is_page).collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), pages);
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
}

#[test]
fn the_workflow_runs_the_commands_of_the_readme() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a text");
    let (readme, workflow) = (read("README.md"), read(".github/workflows/tests.yml"));
    let commands: Vec<_> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with("cargo xtask"))
        .collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands.into_iter().chain([".ci/run"]) {
        assert!(workflow.contains(&format!("run: {command}\n")), "{command}");
    }
}
