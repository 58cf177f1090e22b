//! Lists tests whose needs this machine does not meet, before and after a run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Conclusion};
use weft_needs::{Need, VARIABLE};

use crate::Result;

/// Names of tests with their unmet needs.
static LACKING: Mutex<Vec<(String, &'static Need)>> = Mutex::new(Vec::new());

/// Returns whether a need of a test is not met, and notes it.
pub fn any(test: &str, needs: &[&'static Need]) -> bool {
    let lacking = needs.iter().filter(|need| need.lacking().is_some());
    let lacking: Vec<_> = lacking.map(|need| (test.to_owned(), *need)).collect();
    let any = !lacking.is_empty();
    let mut all = LACKING.lock().unwrap_or_else(PoisonError::into_inner);
    all.extend(lacking);
    any
}

/// Returns the unmet needs of the selected tests, each with its tests.
fn asked(arguments: &Arguments) -> Vec<(&'static Need, Vec<String>)> {
    let fits = |name: &str, pattern: &String| match arguments.exact {
        true => name == pattern,
        false => name.contains(pattern.as_str()),
    };
    let all = LACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found: BTreeMap<&str, (&'static Need, Vec<String>)> = BTreeMap::new();
    for (test, need) in all.iter() {
        let wanted = arguments.filter.iter().all(|filter| fits(test, filter));
        if wanted && !arguments.skip.iter().any(|skip| fits(test, skip)) {
            let (_, tests) = found.entry(need.name).or_insert((need, Vec::new()));
            tests.push(test.clone());
        }
    }
    found.into_values().collect()
}

/// Prints the tests that will be skipped. Fails if one of them may not be.
pub fn announce(arguments: &Arguments) -> Result {
    let asked = asked(arguments);
    for (need, tests) in &asked {
        let what = if need.is_optional() {
            "LEFT OUT"
        } else {
            "LACKING"
        };
        println!(
            "{what}: {} tests for lack of {}",
            tests.len(),
            need.explain()
        );
    }
    let lacking = asked.iter().filter(|(need, _)| !need.is_optional());
    let lacking: Vec<&str> = lacking.map(|(need, _)| need.name).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no test was run, since this machine lacks something for some. To run without them: \
         {VARIABLE}={}",
        lacking.join(",")
    ))
}

/// Prints the tests that were skipped.
pub fn report(arguments: &Arguments, conclusion: &Conclusion) {
    for (need, tests) in asked(arguments) {
        println!("LEFT OUT: {} tests for lack of {}", tests.len(), need.name);
        for test in &tests {
            weft_needs::record(need.name, test);
        }
    }
    if conclusion.num_ignored > 0 {
        println!(
            "{} did not run, for lack of something or since `cargo xtask rdma-test` or a later stage runs them",
            conclusion.num_ignored
        );
    }
}
