//! Connections that several threads use, make and end at the same time.

use super::*;
use crate::process::{Process, Threads};
use crate::vci::tests::process_for;

/// A process that is a job of its own, so that others have numbers from 1 on.
fn process() -> Process {
    let process = process_for(Threads::Many, 1);
    process.foreign().introduce(identity(1), 1);
    process
}

fn identity(job: u64) -> Identity {
    Identity { job, rank: 0 }
}

fn connection(number: u32) -> ContextId {
    ContextId::new(LEAST_MARK, number)
}

/// Takes a process in by a connection, which is made or not yet.
fn meet(process: &Process, number: u32, identity: Identity, kept: bool) -> Pin {
    let making = process.begin_connection(connection(number), 0, 1, 1, 0);
    let member = Member {
        identity,
        node: 0,
        mark: LEAST_MARK,
    };
    let pin = making.join_by(1, member, 0).unwrap();
    match kept {
        true => making.keep(),
        false => std::mem::forget(making),
    }
    pin
}

#[test]
fn whoever_is_held_is_not_parted_from() {
    let process = process();
    let foreign = process.foreign();
    let met = meet(&process, 5, identity(7), true);
    let peer = met.peer();
    let parted = || foreign.begin_partings(false).len();
    assert_eq!(parted(), 0, "nothing has it as a member yet");
    let uses = foreign.use_peers(3, [peer].into_iter());
    drop(met);
    assert_eq!(parted(), 0);
    // A thread begins to connect with it again, and another frees what has joined them so far.
    let pin = foreign.pin(identity(7)).unwrap();
    assert_eq!(
        (pin.peer(), pin.connection()),
        (peer, connection(5).to_bits())
    );
    drop(uses);
    assert_eq!(parted(), 0);
    drop(pin);
    assert_eq!(parted(), 1);
    assert!(
        foreign.pin(identity(7)).is_none(),
        "it is being parted from"
    );
    assert_eq!(foreign.find(identity(7)), None);
    // The own job needs no connection.
    let own = foreign.pin(identity(1)).unwrap();
    assert_eq!((own.peer(), own.connection()), (0, u64::MAX));
}

#[test]
fn others_take_the_first_connection_that_is_made() {
    let process = process();
    let foreign = process.foreign();
    let _unmade = meet(&process, 4, identity(7), false);
    assert!(foreign.pin(identity(7)).is_none());
    let _later = meet(&process, 9, identity(7), true);
    let earlier = meet(&process, 6, identity(7), true);
    let pin = foreign.pin(identity(7)).unwrap();
    assert_eq!(pin.connection(), earlier.connection());
    assert_eq!(foreign.find(identity(7)), Some(earlier.peer()));
}

#[test]
fn a_loss_that_comes_late_is_not_of_who_has_the_number_next() {
    let process = process();
    drop(process.begin_connection(connection(5), 0, 1, 1, 0));
    let _next = process.begin_connection(connection(6), 0, 1, 1, 0);
    process.note_loss(1, "it has ended", Some(connection(5)));
    assert!(!process.is_lost(1));
    process.note_loss(1, "it has ended", Some(connection(6)));
    assert!(process.is_lost(1));
}
