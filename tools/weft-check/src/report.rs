//! Reports of mistakes to the user: each mistake once per call site, with a count at the end.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Mutex;

use crate::call_site::CallSite;

/// The rank in `MPI_COMM_WORLD`.
static RANK: AtomicI32 = AtomicI32::new(-1);

/// How often each mistake was found.
static SAID: LazyLock<Mutex<HashMap<(&'static str, CallSite), u64>>> =
    LazyLock::new(Mutex::default);

/// A kind of mistake, which also names it in the count at the end.
pub type Mistake = &'static str;

/// Sets the rank in reports.
pub fn set_rank(rank: i32) {
    RANK.store(rank, Ordering::Relaxed);
}

fn rank() -> String {
    match RANK.load(Ordering::Relaxed) {
        -1 => String::new(),
        rank => format!(" rank {rank},"),
    }
}

/// Reports a mistake in a call. `what` returns what is wrong and what to do.
pub fn report(mistake: Mistake, place: CallSite, what: impl FnOnce() -> String) {
    let mut said = SAID.lock();
    let times = said.entry((mistake, place)).or_insert(0);
    *times += 1;
    if *times == 1 {
        drop(said);
        let text = format!("Weft check:{} {}: {}", rank(), place.text(), what());
        // In one write, so that lines of several ranks don't mix.
        eprintln!("{text}");
    }
}

/// Prints how often mistakes were found again.
pub fn report_repeats() {
    let mut said: Vec<_> = SAID
        .lock()
        .iter()
        .map(|(key, times)| (*key, *times))
        .collect();
    said.sort_by_key(|((mistake, _), _)| *mistake);
    for ((mistake, place), times) in said {
        if times > 1 {
            let more = times - 1;
            eprintln!(
                "Weft check:{} {}: {mistake}, {more} more time{} than shown",
                rank(),
                place.text(),
                if more == 1 { "" } else { "s" }
            );
        }
    }
}
