//! Exchange of remote keys between the members of a window.

use std::sync::Arc;

use netmod::{RemoteKey, Transport};

use crate::messages::message::{Kind, Layout};
use crate::messages::service::Service;
use crate::window::keys::{Exposed, Far, PeerKey, WireKey, key_of, transports, word};
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_types::error::Result;

/// Members up to which all exchange their keys at creation.
const SMALL_WINDOW: u32 = 64;

impl Service {
    /// Exchanges keys with the other members of a small window. Collective.
    pub fn exchange_keys(&self, process: &Process) -> Result<()> {
        // Invariant: all members decide this alike. Whether a member has a transport may differ.
        if self.memory().is_none() || self.comm.size() > SMALL_WINDOW {
            return Ok(());
        }
        let wire = match transports(process).next() {
            Some((_, transport)) => self.expose(process, word(transport.name())),
            None => WireKey::default(),
        };
        let wire = mpi_coll::gather_all_u64(process, &self.comm, wire)?;
        if !self.keys.on {
            return Ok(());
        }
        let mut known = self.keys.known.write();
        for (rank, wire) in (0..).zip(wire) {
            known.insert(rank, PeerKey::Received(wire));
        }
        Ok(())
    }

    /// The keys that members sent at creation for the transport `name`.
    pub fn received_keys(&self, name: u64) -> impl Iterator<Item = (u32, RemoteKey)> {
        let known = self.keys.known.read();
        let wire: Vec<(u32, RemoteKey)> = known
            .iter()
            .filter_map(|(rank, known)| match known {
                PeerKey::Received(wire) if wire[0] == name => Some((*rank, key_of(wire))),
                _ => None,
            })
            .collect();
        wire.into_iter()
    }

    /// Exposes this process's memory on the transport `name`, if it is not yet. Returns its key.
    pub fn expose(&self, process: &Process, name: u64) -> WireKey {
        let none = WireKey::default();
        let Some((base, len)) = self.memory().filter(|memory| memory.1 > 0) else {
            return none;
        };
        if !self.keys.on {
            return none;
        }
        let tell = |key: &RemoteKey| [name, key.address, key.words[0], key.words[1]];
        let mut exposed = self.keys.exposed.lock();
        let is = |transport: &Arc<dyn Transport>| word(transport.name()) == name;
        if let Some(found) = exposed.iter().find(|one| is(&one.transport)) {
            return found.key.as_ref().map_or(none, tell);
        }
        let Some((_, transport)) = transports(process).find(|(_, transport)| is(transport)) else {
            return none;
        };
        // SAFETY: the window's memory is valid until it is freed or dropped, both of which end the
        // exposure first. Memory that can't be exposed (there may be a limit) is accessed by
        // messages.
        let key = unsafe { transport.expose(base, len) }.ok();
        let wire = key.as_ref().map_or(none, tell);
        exposed.push(Exposed {
            transport: transport.clone(),
            key,
        });
        wire
    }

    /// Returns how the network reaches a member's memory from a VCI of this process, if it does and
    /// the key is known yet.
    pub fn key(&self, process: &Process, rank: u32, lane: usize) -> Result<Option<Far>> {
        if !self.keys.on || self.memory().is_none() {
            return Ok(None);
        }
        if let Some(PeerKey::Reachable(far)) = self.keys.known.read().get(&rank) {
            return Ok(Some(*far));
        }
        self.find_key(process, rank, lane)
    }

    #[cold]
    fn find_key(&self, process: &Process, rank: u32, lane: usize) -> Result<Option<Far>> {
        if self.passive().is_some() {
            // A key that was refused stays refused.
            if self.keys.known.read().contains_key(&rank) && !self.keys.has_unused_key(rank) {
                return Ok(None);
            }
            let far = Far {
                key: self.record(process, rank)?.memory,
                few_small: false,
                words: None,
            };
            self.keys
                .known
                .write()
                .insert(rank, PeerKey::Reachable(far));
            return Ok(Some(far));
        }
        let to = self.address(rank, lane);
        let wire = {
            let mut known = self.keys.known.write();
            match known.get_mut(&rank) {
                Some(PeerKey::Reachable(far)) => return Ok(Some(*far)),
                Some(PeerKey::Unreachable) => return Ok(None),
                Some(PeerKey::Received(wire)) => Some(*wire),
                Some(PeerKey::Requested(asked)) if !asked.is_done(process) => return Ok(None),
                // The answer is examined below.
                Some(asked) => match std::mem::replace(asked, PeerKey::Unreachable) {
                    PeerKey::Requested(answer) => {
                        let (wire, error) = answer.take(process)?;
                        if let Some(error) = error {
                            return Err(error);
                        }
                        known.insert(rank, PeerKey::Received(*wire));
                        Some(*wire)
                    }
                    _ => None,
                },
                None => None,
            }
        };
        let way = process.remote_memory(to.vci_here, to.there)?;
        let (found, far) = match (way, wire) {
            (Some((name, few_small)), Some(wire)) if wire[0] == word(name) => {
                let key = key_of(&wire);
                let far = Far {
                    key,
                    few_small,
                    words: crate::network::word::transport_with_processor_atomics(process, name),
                };
                (PeerKey::Reachable(far), Some(far))
            }
            (Some((name, _)), None) => {
                return self.ask_key(process, rank, word(name)).map(|()| None);
            }
            _ => (PeerKey::Unreachable, None),
        };
        self.keys.known.write().insert(rank, found);
        Ok(far)
    }

    fn ask_key(&self, process: &Process, rank: u32, name: u64) -> Result<()> {
        let mut known = self.keys.known.write();
        if known.contains_key(&rank) {
            // Another thread has asked meanwhile.
            return Ok(());
        }
        let tag = self.lanes.get(0).tag();
        let post = |buffer| self.expect(process, (rank, 0), tag, buffer);
        let wire = Loan::new(Box::new(WireKey::default()), post)?;
        known.insert(rank, PeerKey::Requested(wire));
        drop(known);
        let message = self.message(Kind::Key, tag, [name, 0], Layout::NONE);
        self.ask(process, (rank, 0), message)
    }
}
