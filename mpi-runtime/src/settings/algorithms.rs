//! Parsing of `WEFT_COLL` and `WEFT_COLL_TABLE`.

use mpi_sched::Choices;

/// Parses the algorithms that `WEFT_COLL` selects.
pub fn choices(text: Option<&str>) -> Result<Choices, String> {
    add_choices(Choices::default(), text)
}

/// Applies a list in `WEFT_COLL`'s format on top of `choices`.
pub fn add_choices(mut choices: Choices, text: Option<&str>) -> Result<Choices, String> {
    let items = text.filter(|text| *text != "auto").unwrap_or("");
    for item in items.split(',').filter(|item| !item.is_empty()) {
        let Some((collective, algorithm)) = item.split_once('=') else {
            return Err(format!(
                "WEFT_COLL has {item:?}; each item must be COLLECTIVE=ALGORITHM"
            ));
        };
        choices
            .set(collective, algorithm)
            .map_err(|error| format!("WEFT_COLL has {item:?}: {}", error.detail()))?;
    }
    Ok(choices)
}

/// Reads the table in a file, then applies `WEFT_COLL` on top of it.
pub fn choices_with_table(text: Option<&str>, table: Option<&str>) -> Result<Choices, String> {
    let mut choices = Choices::default();
    if let Some(file) = table {
        let advice = "write it with osu-bench tune, or leave WEFT_COLL_TABLE away";
        let text = std::fs::read_to_string(file).map_err(|error| {
            format!("the table of WEFT_COLL_TABLE, {file}, can't be read ({error}); {advice}")
        })?;
        choices.read_table(&text).map_err(|error| {
            format!(
                "the table of WEFT_COLL_TABLE, {file}, {}; {advice}",
                error.detail()
            )
        })?;
    }
    add_choices(choices, text)
}
