//! Offsets of a group's members that a debugger reads.

use std::mem::offset_of;
use std::sync::Arc;

use super::{Group, List, Map, Run, Runs};
use crate::places::{Places, of_arc, within};

/// Adds the offsets of groups.
pub(crate) fn add(places: &mut Places) {
    let run = Run::single(0, 0);
    let runs = Arc::new(Runs {
        size: 0,
        runs: Box::default(),
    });
    let list = Arc::new(List {
        peers: Box::default(),
        index: Box::default(),
    });
    let in_arc = [of_arc(&runs), of_arc(&list)];
    let kinds = [Map::Regular(run), Map::Runs(runs), Map::List(list)].map(Group);
    for group in &kinds {
        // SAFETY: `Map` is `repr(u32)`, so that it begins with its discriminant.
        let tag = unsafe { std::ptr::from_ref(&group.0).cast::<u32>().read() } as usize;
        match &group.0 {
            Map::Regular(run) => {
                places.add("group.regular", tag);
                places.add("group.run", within(group, run));
            }
            Map::Runs(runs) => {
                places.add("group.runs", tag);
                places.add("group.runs.pointer", within(group, runs));
            }
            Map::List(list) => {
                places.add("group.list", tag);
                places.add("group.list.pointer", within(group, list));
            }
        }
    }
    places.add("group.runs.slice", in_arc[0] + offset_of!(Runs, runs));
    places.add("group.list.slice", in_arc[1] + offset_of!(List, peers));
    places.add("run.size", size_of::<Run>());
    places.add("run.count", offset_of!(Run, count));
    places.add("run.first", offset_of!(Run, first));
    places.add("run.stride", offset_of!(Run, stride));
}
