//! The contract's transport and lane over a simulation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netmod::{
    Action, Header, Issued, Lane, LaneError, Limits, OpenError, Payload, Peer, RemoteAccess,
    RemoteAddr, RemoteKey, Signal, Signals, Sink, Token, Transport, VciId, WakeUp,
};

use crate::config::Get;
use crate::event::{Item, What};
use crate::log::Place;
use crate::world::World;

/// The state shared by all processes of a simulation.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub fn new(world: World) -> Self {
        Shared(Arc::new(Mutex::new(world)))
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transport of a process.
pub(crate) struct SimTransport {
    pub world: Shared,
    pub me: Peer,
}

impl Transport for SimTransport {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn limits(&self) -> Limits {
        let config = self.world.lock().config;
        Limits {
            max_payload: config.max_payload,
            eager: netmod::EAGER,
            get: config.get != Get::Unsupported,
            native_rma: config.get != Get::Unsupported,
            passive_target: config.burst == 0,
            zcopy_min: usize::MAX,
            ordered_put: config.ordered_put,
            signals: config.ordered_put.then_some(Signals {
                max_data: config.max_payload,
                faster_up_to: Some(config.max_payload),
                passive_target: true,
            }),
            atomics: (config.get != Get::Unsupported).then_some(netmod::Atomics {
                passive_target: true,
                coherent: false,
                ordered: config.ordered_put,
                ordered_access: match config.ordered_put {
                    true => config.ordered_access,
                    false => 0,
                },
            }),
            coalesces: config.burst > 0,
            max_vcis: usize::from(VciId::MAX),
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(SimLane {
            world: self.world.clone(),
            place: (self.me, vci),
            batch: Vec::new(),
            gathering: false,
            sent: 0,
        }))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        let mut bytes = self.me.to_le_bytes().to_vec();
        bytes.extend(vci.to_le_bytes());
        bytes
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        Ok(self.world.lock().expose(self.me, ptr, len))
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.world.lock().withdraw(self.me, key);
    }
}

struct SimLane {
    world: Shared,
    place: Place,
    /// Buffer for the items of a poll, reused.
    batch: Vec<Item>,
    gathering: bool,
    /// Messages since the last poll outside of batches.
    sent: u32,
}

impl Lane for SimLane {
    fn send(
        &mut self,
        to: Peer,
        vci: VciId,
        header: &Header,
        payload: Payload<'_>,
    ) -> Result<Issued, LaneError> {
        let len = match &payload {
            Payload::Bytes(bytes) => bytes.len(),
            Payload::Fill(len, _) => *len,
            Payload::Vectored(_) => return Err(LaneError::Unsupported),
        };
        let mut world = self.world.lock();
        if len > world.config.max_payload {
            return Err(LaneError::Unsupported);
        }
        let burst = world.config.burst;
        if burst > 0 && !self.gathering {
            if self.sent >= burst {
                return Err(LaneError::Again);
            }
            self.sent += 1;
        }
        world.admit(self.place, (to, vci))?;
        let mut bytes = vec![0; len].into_boxed_slice();
        match payload {
            Payload::Bytes(from) => bytes.copy_from_slice(from),
            Payload::Fill(_, fill) => fill(&mut bytes),
            Payload::Vectored(_) => {}
        }
        world.send(self.place, (to, vci), *header, bytes);
        Ok(Issued::Complete)
    }

    fn check_peers(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        let mut world = self.world.lock();
        let lost = |peer: &Peer| Some((*peer, world.look_after(self.place, *peer)?));
        let lost: Vec<_> = awaited.iter().filter_map(lost).collect();
        drop(world);
        for (peer, why) in lost {
            sink.peer_lost(peer, why);
        }
    }

    fn coalesce(&mut self, on: bool) {
        self.gathering = on;
    }

    fn poll(&mut self, sink: &mut dyn Sink, budget: usize) -> bool {
        self.sent = 0;
        let mut world = self.world.lock();
        world.take(self.place, budget, &mut self.batch);
        if self.batch.is_empty() && world.config.poll_steps {
            world.step(u64::MAX);
            world.take(self.place, budget, &mut self.batch);
        }
        drop(world);
        let any = !self.batch.is_empty();
        for item in self.batch.drain(..) {
            match item {
                Item::Message {
                    from,
                    header,
                    payload,
                } => sink.message(from, &header, &payload),
                Item::Complete(token, result) => sink.complete(token, result),
                Item::Lost(peer, why) => sink.peer_lost(peer, why),
            }
        }
        any
    }

    unsafe fn access(
        &mut self,
        peer: Peer,
        vci: VciId,
        access: RemoteAccess,
        token: Token,
    ) -> Result<Issued, LaneError> {
        let RemoteAccess {
            action,
            local,
            len,
            remote,
        } = access;
        let (mut world, from, to) = (self.world.lock(), self.place, (peer, vci));
        let is_complete = match action {
            Action::Get => {
                let immediate = match world.config.get {
                    Get::Unsupported => return Err(LaneError::Unsupported),
                    _ if world.keeps_order(len) => false,
                    Get::Immediate => true,
                    Get::Delayed => false,
                    Get::Mixed => world.coin(),
                };
                world.get(from, to, local, len, remote, token, immediate)?
            }
            Action::Put => world.put(from, to, local, len, remote, token)?,
            Action::Atomic {
                op,
                operand,
                compare,
            } => {
                world.admit_atomic(from.0, peer)?;
                let what = What::Atomic {
                    issuer: from,
                    token,
                    op,
                    operand,
                    compare,
                    result: local as usize,
                    remote,
                };
                world.issue_atomic(from, to, what);
                false
            }
        };
        Ok(match is_complete {
            true => Issued::Complete,
            false => Issued::Pending,
        })
    }

    fn signal(&mut self, peer: Peer, vci: VciId, signal: Signal<'_>) -> Result<(), LaneError> {
        let Signal {
            data,
            remote,
            words,
            at,
        } = signal;
        let mut world = self.world.lock();
        world.alive([self.place.0, peer])?;
        if !world.config.ordered_put {
            return Err(LaneError::Unsupported);
        }
        world.admit(self.place, (peer, vci))?;
        if !data.is_empty() {
            world.put_in_order(self.place, (peer, vci), remote, data.into());
        }
        // One by one, in random order.
        let first = world.pick(words.len());
        for place in (first..words.len()).chain(0..first) {
            let at = RemoteAddr {
                offset: at.offset + 8 * place as u64,
                ..at
            };
            let word = words[place].to_ne_bytes();
            world.put_in_order(self.place, (peer, vci), at, word.into());
        }
        Ok(())
    }

    fn flush(&mut self, peer: Peer, token: Token) -> Result<Issued, LaneError> {
        let mut world = self.world.lock();
        world.alive([self.place.0, peer])?;
        let pending = world.flush(self.place, peer, token);
        Ok(if pending {
            Issued::Pending
        } else {
            Issued::Complete
        })
    }

    fn drained(&mut self) -> bool {
        self.world.lock().drained(self.place)
    }

    fn wake_up(&self) -> WakeUp {
        WakeUp::None
    }

    fn arm(&mut self) -> bool {
        !self.world.lock().has_arrived(self.place)
    }

    fn disarm(&mut self) {}
}
