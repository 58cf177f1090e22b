//! Sets up connections by three datagrams over a queue pair of their own.
//!
//! The initiator makes a queue pair and names it (`Request`); the peer makes its own, connects it
//! and names it (`Reply`); the initiator connects its own and reports that it receives (`Ready`).
//! Until then the peer sends no message, as packets to a queue pair that does not receive are lost
//! and their sender would give up. If both begin at the same time, each answers the other's request
//! with the queue pair that it has made. Datagrams can be lost, so the last one is repeated until
//! it has had its effect. The peer takes part when it polls; until then senders get `Again`.

use crate::calls::errno_text;
use crate::datagrams::random;
use crate::engine::Engine;
use crate::ffi::*;
use crate::names as name;
use crate::objects::{Ah, ConnectPlan, Qp};
use crate::peers::{Connection, Setup, Slot, State};
use crate::wire::{Address, Datagram, Step};
use netmod::{LaneError, Peer, VciId};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Pause before a datagram is repeated for the first time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause between two repetitions.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Returns the address of this engine for peers.
    pub(crate) fn address(&self) -> Address {
        let port = &self.shared.port;
        Address {
            gid: port.gid,
            cookie: self.cookie,
            qpn: self.datagrams.number(),
            lid: port.lid,
            is_ethernet: port.is_ethernet,
            one_for_all: self.one_for_all,
        }
    }

    /// Makes the first contact with a peer's VCI.
    #[cold]
    pub(crate) fn connect(&mut self, peer: Peer, vci: VciId) -> Result<u32, LaneError> {
        let fail = |why: String| LaneError::lost(peer, why);
        if let Some(index) = self.peers.find_process(peer)
            && let process = &self.peers.processes[index as usize]
            && process.lost.is_some()
        {
            return Err(process.error());
        }
        let bytes = self
            .shared
            .resolver
            .resolve(peer, vci)
            .map_err(|error| fail(error.to_string()))?;
        let Some(address) = Address::parse(&bytes) else {
            return Err(fail(format!(
                "the address of its VCI {vci} ({} bytes) is not one of verbs; make sure that all processes \
                 use the same build and the same transport",
                bytes.len()
            )));
        };
        let index = self.add(peer, vci, address).map_err(fail)?;
        self.say(index, Step::Request);
        Ok(index)
    }

    /// Makes the local end of a connection.
    fn add(&mut self, number: Peer, vci: VciId, address: Address) -> Result<u32, String> {
        let shared = self.shared.clone();
        let port = &shared.port;
        let kind = |ethernet| if ethernet { "Ethernet" } else { "InfiniBand" };
        if address.is_ethernet != port.is_ethernet {
            return Err(format!(
                "its adapter is on {}, this process's on {}; set WEFT_VERBS_DEVICE to devices on \
                 one network",
                kind(address.is_ethernet),
                kind(port.is_ethernet)
            ));
        }
        if address.one_for_all != self.one_for_all {
            return Err(
                "one of the two processes has WEFT_VERBS_SHARING=qp and the other has not; set it \
                 the same on all ranks"
                    .to_string(),
            );
        }
        let index = self.peers.endpoints.len() as u32;
        if index >= 1 << 24 {
            return Err("a VCI has 2^24 connections at most".to_string());
        }
        let depth = self.depth();
        let window = shared.config.window;
        // Each work request and each message can have a completion at the same time.
        self.queue
            .reserve(depth + window as u32 + SPARE as u32, port.max_cqe)?;
        self.recv
            .provide(&self.home, &shared.counts, window + SPARE)
            .map_err(|error| error.0)?;
        let qp = Qp::open(&self.home, &self.plan(self.inline as u32)).map_err(|error| {
            let hint = match error {
                libc::ENOMEM => format!(
                    "; the adapter has {} queue pairs in all; raise the limit on locked memory \
                     (ulimit -l) or share more (WEFT_VERBS_SHARING=qp)",
                    port.max_qp
                ),
                _ => String::new(),
            };
            format!(
                "cannot make a queue pair for it: {}{hint}",
                errno_text(error)
            )
        })?;
        qp.initialize(port)
            .map_err(|error| format!("cannot start a queue pair for it: {}", errno_text(error)))?;
        let ah = Ah::open(&self.home, port, &address).map_err(|error| {
            format!(
                "it is not reachable from {}: {}; set WEFT_VERBS_DEVICE or WEFT_VERBS_GID_INDEX \
                 to a network that connects all hosts",
                port.describe(),
                errno_text(error)
            )
        })?;
        let process = self.peers.process(number);
        let connection = Connection {
            state: State::Wanted,
            posted: 0,
            retired: 0,
            unsignalled: 0,
            sent: 0,
            granted: 0,
            window: 0,
            taken: 0,
            reported: 0,
            owing: false,
            in_cas_loop: false,
            theirs: 0,
            process,
            vci,
            qp,
            slots: vec![Slot::Plain; depth as usize].into(),
            setup: Setup {
                ah,
                address,
                psn: (random() & 0xff_ffff) as u32,
                qpn: 0,
                next: Instant::now() + FIRST_PAUSE,
                pause: FIRST_PAUSE,
            },
        };
        self.peers.add(number, vci, connection);
        self.counted_connection();
        self.connecting.push(index);
        Ok(index)
    }

    /// Sends a datagram about a connection to its peer.
    fn say(&mut self, index: u32, step: Step) {
        let connection = &self.peers.endpoints[index as usize];
        let setup = &connection.setup;
        let datagram = Datagram {
            theirs: connection.theirs,
            qpn: connection.qp.number(),
            psn: setup.psn,
            connection: index,
            ..self.blank(step, connection.vci, setup.address.cookie)
        };
        let (to, ah) = (&setup.address, &setup.ah);
        self.datagrams.send(&datagram, to, ah);
    }

    fn blank(&self, step: Step, to: VciId, cookie: u64) -> Datagram {
        let port = &self.shared.port;
        Datagram {
            step,
            mtu: port.mtu as u8,
            reads_out: port.reads_out,
            reads_in: port.reads_in,
            peer: self.shared.config.peer,
            vci: if self.one_for_all { 0 } else { self.turn },
            to,
            cookie,
            qpn: 0,
            psn: 0,
            connection: 0,
            theirs: 0,
            window: self.shared.config.window as u16,
            address: self.address(),
            text: String::new(),
        }
    }

    /// Handles a received datagram.
    #[cold]
    pub(crate) fn heard(&mut self, datagram: &Datagram) {
        if datagram.cookie != self.cookie {
            // It is for an earlier process with this number.
            return;
        }
        let known = self.peers.find(datagram.peer, datagram.vci);
        if datagram.step == Step::Request {
            self.requested(datagram, known);
            return;
        }
        let Some(index) = known else {
            return;
        };
        let connection = &self.peers.endpoints[index as usize];
        let known = connection.setup.qpn;
        let same = connection.setup.address.cookie == datagram.address.cookie
            && (known == 0 || known == datagram.qpn || datagram.qpn == 0);
        if !same || connection.state == State::Lost {
            return;
        }
        match datagram.step {
            Step::Reply => {
                if connection.state == State::Wanted && !self.connect_pair(index, datagram) {
                    return;
                }
                self.connected(index);
                self.say(index, Step::Ready);
            }
            Step::Ready if connection.state == State::Half => self.connected(index),
            Step::Refusal => {
                let why = format!("it refused a connection: {}", datagram.text);
                self.fail_peer(index, "connecting", &why);
            }
            Step::Goodbye => {
                self.peers.process_of(index).state.left = true;
            }
            Step::Request | Step::Ready => {}
        }
    }

    fn requested(&mut self, datagram: &Datagram, known: Option<u32>) {
        let index = match known {
            Some(index) => index,
            None => match self.add(datagram.peer, datagram.vci, datagram.address) {
                Ok(index) => index,
                Err(text) => {
                    let refusal = Datagram {
                        text,
                        ..self.blank(Step::Refusal, datagram.vci, datagram.address.cookie)
                    };
                    if let Ok(ah) = Ah::open(&self.home, &self.shared.port, &datagram.address) {
                        self.datagrams.send(&refusal, &datagram.address, &ah);
                        // The address handle must stay open until the datagram has left.
                        self.quiet(Duration::from_millis(100));
                    }
                    return;
                }
            },
        };
        let connection = &self.peers.endpoints[index as usize];
        match connection.state {
            State::Wanted => {
                if !self.connect_pair(index, datagram) {
                    return;
                }
                self.peers.endpoints[index as usize].state = State::Half;
            }
            State::Half | State::Ready if connection.setup.qpn == datagram.qpn => {}
            State::Half | State::Ready | State::Lost => return,
        }
        self.say(index, Step::Reply);
    }

    /// Connects the local queue pair to the one that a datagram names. On failure the peer is lost,
    /// and the result is `false`.
    fn connect_pair(&mut self, index: u32, datagram: &Datagram) -> bool {
        let shared = self.shared.clone();
        let (port, config) = (&shared.port, &shared.config);
        let connection = &mut self.peers.endpoints[index as usize];
        let setup = &mut connection.setup;
        setup.qpn = datagram.qpn;
        connection.theirs = datagram.connection;
        connection.window = datagram.window;
        let plan = ConnectPlan {
            address: setup.address,
            qpn: datagram.qpn,
            our_psn: setup.psn,
            their_psn: datagram.psn & 0xff_ffff,
            mtu: port.mtu.min(u32::from(datagram.mtu).max(1)),
            reads_out: port.reads_out.min(datagram.reads_in),
            reads_in: port.reads_in.min(datagram.reads_out).max(1),
            timeout: config.timeout,
            retries: config.retries,
        };
        match connection.qp.connect(port, &plan) {
            Ok(()) => true,
            Err(number) => {
                let why = format!(
                    "cannot connect a queue pair to it ({}); set WEFT_VERBS_DEVICE or \
                     WEFT_VERBS_GID_INDEX to a network that connects all hosts",
                    errno_text(number)
                );
                self.fail_peer(index, "connecting", &why);
                false
            }
        }
    }

    /// Marks a connection as ready: both ends receive.
    #[cold]
    pub(crate) fn connected(&mut self, index: u32) {
        self.peers.endpoints[index as usize].state = State::Ready;
        self.connecting.retain(|&other| other != index);
    }

    /// Repeats datagrams that may have been lost. Returns whether a connection has failed.
    #[cold]
    pub(crate) fn keep_connecting(&mut self) -> bool {
        let now = Instant::now();
        let mut any = false;
        for i in (0..self.connecting.len()).rev() {
            // A failure ends all connections of its peer, so that fewer may be left.
            let Some(&index) = self.connecting.get(i) else {
                continue;
            };
            let connection = &mut self.peers.endpoints[index as usize];
            if now < connection.setup.next {
                continue;
            }
            let setup = &mut connection.setup;
            setup.pause = (2 * setup.pause).min(LONGEST_PAUSE);
            setup.next = now + setup.pause;
            let state = connection.state;
            let number = self.peers.process_of(index).number;
            if let Some(why) = self.shared.lost.reason(number) {
                self.fail_peer(index, "connecting", &why);
                any = true;
                continue;
            }
            match state {
                State::Wanted => self.say(index, Step::Request),
                State::Half => self.say(index, Step::Reply),
                State::Ready | State::Lost => {}
            }
        }
        any
    }

    /// Sends a farewell to all peers.
    pub(crate) fn say_goodbye(&mut self) {
        for index in 0..self.peers.endpoints.len() as u32 {
            if self.peers.endpoints[index as usize].state != State::Lost {
                self.say(index, Step::Goodbye);
                if self.datagrams.are_all_under_way() {
                    self.quiet(Duration::from_millis(100));
                }
            }
        }
        self.quiet(Duration::from_millis(100));
    }

    /// Lets datagrams leave, for a bounded time. Other completions are put off.
    fn quiet(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        while !self.datagrams.is_idle() && Instant::now() < until {
            let mut entries = [const { MaybeUninit::uninit() }; crate::queue::BATCH];
            let got = self.queue.poll(&mut entries, crate::queue::BATCH);
            for entry in &entries[..got] {
                // SAFETY: the first `got` entries were written.
                let wc: ibv_wc = unsafe { entry.assume_init() };
                if wc.wr_id & name::MASK == name::DATAGRAM_SENT {
                    self.datagrams.sent(wc.wr_id as u32);
                } else {
                    self.put_off.push_back(wc);
                }
            }
            if got == 0 {
                std::thread::yield_now();
            }
        }
    }
}

/// Receive buffers of a connection beyond its window: for credit messages, of which two can be in
/// flight, and one to spare.
const SPARE: usize = 3;
