//! The rooms of this crate lie one above the other: a room uses only those below it.

#[path = "../../mpi-core/tests/common/rooms.rs"]
mod rooms;

/// From the ground up.
const ROOMS: &[&str] = &[
    "sync",
    "arenas",
    "collective",
    "creation",
    "dynamic",
    "failure",
    "topo",
];

#[test]
fn no_room_uses_one_above_it() {
    rooms::check(env!("CARGO_MANIFEST_DIR"), ROOMS, 20);
}
