//! Every function is described, and no two of them by the same words.

use std::collections::HashMap;

use mpi_table::{Function, Item, Table, man};

fn table() -> Table {
    Table::load().expect("good tables")
}

/// Returns the functions with pages of their own; forms with large counts share those of others.
fn described(table: &Table) -> Vec<&Function> {
    let all: Vec<&Function> = table.functions.all().collect();
    let is_twin = |function: &Function| all.iter().any(|other| function.shares_text(other));
    let has_own = |function: &&Function| function.has_page() && !is_twin(function);
    all.iter().copied().filter(has_own).collect()
}

#[test]
fn no_two_functions_have_the_same_text() {
    let table = table();
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for function in described(&table) {
        let text = &function.description;
        for part in [&text.summary, &text.details] {
            assert!(!part.is_empty(), "{} says nothing", function.name);
            if let Some(other) = seen.insert(part, &function.name) {
                panic!("{other} and {} have the same text: {part}", function.name);
            }
        }
    }
}

/// A summary is no title of a chapter or section, and begins with a verb: "sends a message".
#[test]
fn summaries_say_what_functions_do() {
    let table = table();
    let title = |section: &str| section.split_once(' ').map_or("", |it| it.1).to_lowercase();
    for function in described(&table) {
        let (name, summary) = (&function.name, &function.description.summary);
        let verb = summary.split(' ').next().unwrap_or_default();
        assert!(
            verb.ends_with('s') && verb == verb.to_lowercase(),
            "{name}: {summary}"
        );
        assert_ne!(summary.to_lowercase(), title(&function.section), "{name}");
        let chapters = table.functions.chapters.iter();
        for chapter in chapters {
            assert_ne!(
                summary.to_lowercase(),
                chapter.title.to_lowercase(),
                "{name}"
            );
        }
    }
}

#[test]
fn every_parameter_has_a_phrase() {
    let table = table();
    for function in described(&table) {
        for param in &function.params {
            let has = |(name, phrase): &(String, String)| *name == param.name && !phrase.is_empty();
            assert!(
                function.description.params.iter().any(has),
                "{}: {} has no phrase",
                function.name,
                param.name
            );
        }
        assert!(
            !function.description.see_also.is_empty(),
            "{}",
            function.name
        );
    }
}

#[test]
fn error_classes_are_constants() {
    let table = table();
    let constants: Vec<&str> = table
        .constants
        .groups
        .iter()
        .flat_map(|group| &group.items)
        .filter_map(|item| match item {
            Item::Constant { name, .. } | Item::Alias { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    for function in table.functions.all() {
        for (class, reason) in &function.description.errors {
            assert!(
                constants.contains(&class.as_str()),
                "{}: {class}",
                function.name
            );
            assert!(!reason.is_empty(), "{}: {class}", function.name);
        }
    }
}

/// groff finds nothing to complain about in the pages of functions and programs, where it is installed.
#[test]
fn pages_are_good_roff() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    let mut all = String::new();
    for (name, text) in man::pages(&table()) {
        assert!(!text.to_lowercase().contains("bind(c"), "{name}:\n{text}");
        assert!(
            !text.contains("!GCC$") && !text.contains("import ::"),
            "{name}:\n{text}"
        );
        if !text.starts_with(".so ") {
            all.push_str(&text);
        }
    }
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    for entry in std::fs::read_dir(docs).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "1") {
            all.push_str(&std::fs::read_to_string(path).expect("a page"));
        }
    }
    let child = Command::new("groff")
        .args(["-man", "-Tutf8", "-ww", "-z"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    // Not every machine formats manual pages.
    let Ok(mut child) = child else { return };
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(all.as_bytes()));
    let output = child.wait_with_output().expect("groff runs");
    writer
        .join()
        .expect("no panic")
        .expect("groff reads its input");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(complaints.is_empty(), "{complaints}");
}
