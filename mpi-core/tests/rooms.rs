//! The rooms of this crate lie one above the other: a room uses only those below it.

#[path = "common/rooms.rs"]
mod rooms;

/// From the ground up.
const ROOMS: &[&str] = &[
    "places", "sync", "lock", "wait", "info", "attr", "group", "pt2pt", "vci", "process", "comm",
];

#[test]
fn no_room_uses_one_above_it() {
    rooms::check(env!("CARGO_MANIFEST_DIR"), ROOMS, 100);
}
