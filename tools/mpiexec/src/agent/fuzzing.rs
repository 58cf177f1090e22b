//! The fuzz target for messages of a parent to an agent.

use std::cell::RefCell;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use netmod_kit::admission::{Keys, Role, Secret};
use rustix::net::sockopt;

use super::Agent;
use crate::guardian::Guardian;
use crate::wire::check::check_plan;
use crate::wire::frames::Frames;
use crate::wire::link::Link;
use crate::wire::messages::Down;

thread_local! {
    /// The guardian that all inputs share, since each is a process.
    static GUARDIAN: RefCell<Option<Guardian>> = const { RefCell::new(None) };
}

/// Gives an agent a plan and the messages behind it. Starts no ranks and no other agents.
pub fn parent(bytes: &[u8]) {
    let mut frames = Frames::default();
    frames.push(bytes);
    let Ok(Some(Down::Plan { mut plan })) = frames.next::<Down>() else {
        return;
    };
    if check_plan(&plan).is_err() {
        return;
    }
    plan.hosts.truncate(1);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("a port"));
    let near = near.expect("somebody listens");
    // A reset leaves no connection in TIME_WAIT, so ports don't run out.
    sockopt::set_socket_linger(&near, Some(Duration::ZERO)).expect("a socket");
    let _far = listener.accept().expect("a connection");
    let guardian = GUARDIAN.take();
    let guardian = || guardian.map_or_else(Guardian::alone, Ok);
    let keys = Keys {
        to_responder: Secret::from_bytes([1; 32]),
        to_initiator: Secret::from_bytes([2; 32]),
    };
    let link = Link::new(near, &keys, Role::Initiator).expect("a connection");
    let Ok((mut agent, _)) = Agent::of(link, *plan, false, guardian) else {
        return;
    };
    let mut events = Vec::new();
    while let Ok(Some(message)) = frames.next::<Down>() {
        agent.obey(message);
        agent.take(&mut events);
        agent.look_for_reports();
        agent.look_whether_stuck();
        let _ = agent.wait_time();
    }
    let Agent {
        guardian, signals, ..
    } = agent;
    signals.give_back();
    GUARDIAN.set(Some(guardian));
}
