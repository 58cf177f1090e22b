//! Connections that several threads use, create and end concurrently.

use super::*;
use crate::process::{Process, Threads};
use crate::vci::tests::process_for;

/// Creates a process that is a job of its own, so that peers have numbers from 1 on.
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

/// Connects a process, and keeps the connection.
fn meet(process: &Process, number: u32, identity: Identity) -> Pin {
    let making = process.begin_connection(connection(number), 0, 1, 1, 0);
    let member = Member {
        identity,
        node: 0,
        mark: LEAST_MARK,
    };
    let pin = making.join_by(1, member, 0).unwrap();
    making.keep();
    pin
}

#[test]
fn a_pinned_process_is_not_parted_from() {
    let process = process();
    let foreign = process.foreign();
    let met = meet(&process, 5, identity(7));
    assert!(foreign.pin(identity(7)).is_none(), "not chosen yet");
    drop(foreign.choose(&met));
    let peer = met.peer();
    let parted = || foreign.begin_partings(false).len();
    assert_eq!(parted(), 0, "nothing has it as a member yet");
    let uses = foreign.use_peers(3, [peer].into_iter());
    drop(met);
    assert_eq!(parted(), 0);
    // A thread connects again while another one frees the last communicator.
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
fn both_sides_choose_the_same_of_concurrent_connections() {
    let (one, other) = (process(), process());
    // Each side sees two threads in another order.
    let mine = [9, 6].map(|number| meet(&one, number, identity(7)));
    let theirs = [6, 9].map(|number| meet(&other, number, identity(7)));
    let chosen = mine
        .each_ref()
        .map(|new| one.foreign().choose(new).unwrap());
    let peers = chosen.each_ref().map(Pin::peer);
    assert_eq!(peers, [mine[0].peer(); 2]);
    let follow = |new| other.foreign().follow(new, chosen[0].connection());
    let followed = theirs.each_ref().map(|new| follow(new).unwrap().peer());
    assert_eq!(followed, [theirs[1].peer(); 2]);
    assert_eq!(one.foreign().find(identity(7)), Some(peers[0]));
    assert_eq!(other.foreign().find(identity(7)), Some(followed[0]));
    // They part by the connection that was not chosen.
    let spare = mine[1].peer();
    let _uses = one.foreign().use_peers(3, peers.into_iter());
    drop((mine, chosen));
    let parted = one.foreign().begin_partings(false);
    assert_eq!((parted.len(), parted[0].peer), (1, spare));
}

#[test]
fn a_parting_connection_is_not_followed() {
    let (one, other) = (process(), process());
    let (foreign, theirs) = (one.foreign(), other.foreign());
    let [old, old_there] = [&one, &other].map(|process| meet(process, 4, identity(7)));
    let _chosen = foreign.choose(&old).unwrap();
    drop(theirs.follow(&old_there, old.connection()).unwrap());
    drop(old_there);
    assert_eq!(theirs.begin_partings(false).len(), 1);
    let [new, there] = [&one, &other].map(|process| meet(process, 5, identity(7)));
    let offered = foreign.choose(&new).unwrap();
    assert_eq!(offered.connection(), old.connection());
    assert!(theirs.follow(&there, offered.connection()).is_none());
    foreign.reject(&offered);
    let offered = foreign.choose(&new).unwrap();
    let followed = theirs.follow(&there, offered.connection()).unwrap();
    assert_eq!(
        (offered.peer(), followed.peer()),
        (new.peer(), there.peer())
    );
}

#[test]
fn a_late_loss_does_not_affect_the_next_user_of_the_number() {
    let process = process();
    drop(process.begin_connection(connection(5), 0, 1, 1, 0));
    let _next = process.begin_connection(connection(6), 0, 1, 1, 0);
    process.note_loss(1, "it has ended", Some(connection(5)));
    assert!(!process.is_lost(1));
    process.note_loss(1, "it has ended", Some(connection(6)));
    assert!(process.is_lost(1));
}
