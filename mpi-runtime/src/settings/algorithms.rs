//! Parsing of `WEFT_COLL` and `WEFT_COLL_TABLE`.

use mpi_sched::Choices;

/// Parses the algorithms that `WEFT_COLL` selects.
pub fn choices(text: Option<&str>) -> Result<Choices, String> {
    add_choices(Choices::default(), text)
}

/// Returns the collectives that `WEFT_COLL` names by the spelling of earlier versions, with `-` for
/// the standard's `_`.
pub fn old_spellings(text: Option<&str>) -> impl Iterator<Item = &str> {
    let items = text.unwrap_or_default().split(',');
    let names = items.filter_map(|item| Some(item.split_once('=')?.0));
    names.filter(|name| name.contains('-'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_spellings_of_collectives_are_found() {
        let found = |text| old_spellings(text).collect::<Vec<_>>();
        let text = "bcast=scatter-ring,reduce-scatter=pairwise,reduce_scatter=halving";
        assert_eq!(found(Some(text)), ["reduce-scatter"]);
        assert!(found(None).is_empty());
        assert!(choices(Some(text)).is_ok());
    }
}
