//! What is found wrong, told to a person: each mistake of a place once.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Mutex;

use crate::place::Place;

/// The rank in `MPI_COMM_WORLD`.
static RANK: AtomicI32 = AtomicI32::new(-1);

/// How often each was found.
static SAID: LazyLock<Mutex<HashMap<(&'static str, Place), u64>>> = LazyLock::new(Mutex::default);

/// What can be wrong.
pub type Mistake = &'static str;

/// Messages are this rank's from now on.
pub fn is_rank(rank: i32) {
    RANK.store(rank, Ordering::Relaxed);
}

fn rank() -> String {
    match RANK.load(Ordering::Relaxed) {
        -1 => String::new(),
        rank => format!(" rank {rank},"),
    }
}

/// Tells of a mistake in a call. `what`: what is wrong, and what to do.
pub fn say(mistake: Mistake, place: Place, what: impl FnOnce() -> String) {
    let mut said = SAID.lock();
    let times = said.entry((mistake, place)).or_insert(0);
    *times += 1;
    if *times == 1 {
        drop(said);
        let text = format!("Weft check:{} {}: {}", rank(), place.text(), what());
        // In one piece, so that ranks' lines stay apart.
        eprintln!("{text}");
    }
}

/// At the end: how often mistakes were found again.
pub fn again() {
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
