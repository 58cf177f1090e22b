//! Offsets of a group's members that a debugger reads.

use std::mem::offset_of;
use std::sync::Arc;

use super::{Group, List, Map, Run, Runs};
use crate::layout::{Layout, of_arc, offset_in};

/// Adds the offsets of groups.
pub(crate) fn add(layout: &mut Layout) {
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
                layout.add("group.regular", tag);
                layout.add("group.run", offset_in(group, run));
            }
            Map::Runs(runs) => {
                layout.add("group.runs", tag);
                layout.add("group.runs.pointer", offset_in(group, runs));
            }
            Map::List(list) => {
                layout.add("group.list", tag);
                layout.add("group.list.pointer", offset_in(group, list));
            }
        }
    }
    layout.add("group.runs.slice", in_arc[0] + offset_of!(Runs, runs));
    layout.add("group.list.slice", in_arc[1] + offset_of!(List, peers));
    layout.add("run.size", size_of::<Run>());
    layout.add("run.count", offset_of!(Run, count));
    layout.add("run.first", offset_of!(Run, first));
    layout.add("run.stride", offset_of!(Run, stride));
}
