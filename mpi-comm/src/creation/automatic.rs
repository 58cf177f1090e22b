//! VCIs without hints: where the threads of a program call at once, communicators get VCIs in turn.
//!
//! Who leads the making of a communicator chooses the VCI that it uses least itself, and tells its number with
//! the context, so that nothing is asked for it. The first time that one is chosen among some members they open
//! it and tell each other its addresses; what they know then holds for all communicators made of theirs. A
//! member that can't have it (it has fewer cores, or no threads) says so, and VCI 0 is used.

#![deny(unsafe_code)]

use netmod::VciId;

use super::vcis::{addresses, gather_all_bytes, next_address};
use mpi_core::comm::automatic::MOST;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;

/// In what a leader tells: the members don't know each other's addresses yet.
const TO_BE_OPENED: u64 = 1 << 32;

/// What a leader tells of a communicator to be made, and what comes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Led {
    pub context: ContextId,
    pub vci: VciId,
}

impl Led {
    /// Has a communicator made of `parent`, or of a part of it, use the VCI.
    ///
    /// # Errors
    /// A thread has the VCI for itself, in breach of what was agreed on.
    pub fn apply(self, process: &Process, parent: &Comm, made: Comm) -> Result<Comm> {
        made.automatic().inherit(parent.automatic());
        use_vci(process, &made, self.vci)?;
        Ok(made)
    }
}

fn use_vci(process: &Process, comm: &Comm, vci: VciId) -> Result<()> {
    if vci != 0 && !comm.use_own_vci(vci, process.users()) {
        let why = format!("VCI {vci}, on which the members agreed, is used without a lock");
        return Err(Error::new(Class::Intern, why));
    }
    Ok(())
}

/// What this process would tell as the leader of a communicator made of `comm`: 0 if it is to use VCI 0.
pub(crate) fn wish(process: &Process, comm: &Comm) -> u64 {
    let most = process.automatic_vcis().min(MOST - 1);
    if most == 0 {
        return 0;
    }
    let foreign = process.foreign();
    let connected = || foreign.any() && comm.local().peers().any(|peer| foreign.is_foreign(peer));
    if comm.remote().is_some() || comm.points().is_some() || connected() {
        return 0;
    }
    let can = |vci: &VciId| !comm.automatic().refuses(*vci) && !process.is_lockless(*vci);
    let fewest = (1..=most as VciId)
        .filter(can)
        .min_by_key(|vci| process.users().count_beyond_reserve(*vci));
    fewest.map_or(0, |vci| match comm.automatic().knows(vci) {
        true => u64::from(vci),
        false => TO_BE_OPENED | u64::from(vci),
    })
}

/// The same where not all members of `comm` take part, who may not have come equally far.
pub(crate) fn wish_of_part(process: &Process, comm: &Comm) -> u64 {
    match wish(process, comm) {
        0 => 0,
        word => TO_BE_OPENED | word,
    }
}

/// Carries out what the leader has told. All members of `comm` call this. Returns the VCI.
///
/// # Errors
/// A member is lost, or another has told what it can't know.
pub(crate) fn settle(process: &Process, comm: &Comm, word: u64) -> Result<VciId> {
    let vci = word as VciId;
    if vci == 0 {
        return Ok(0);
    }
    if word & TO_BE_OPENED != 0 {
        let had = introduce(process, comm, vci)?;
        comm.automatic().note(vci, had);
        return Ok(if had { vci } else { 0 });
    }
    if !comm.automatic().knows(vci) {
        let why = format!("rank 0 chose VCI {vci}, whose addresses were not told");
        return Err(Error::new(Class::Intern, why));
    }
    Ok(vci)
}

/// As [`settle`], for a new communicator by its own members only; it uses the VCI then.
pub(crate) fn settle_new(process: &Process, comm: Comm, word: u64) -> Result<Comm> {
    let vci = settle(process, &comm, word)?;
    use_vci(process, &comm, vci)?;
    Ok(comm)
}

/// Opens a VCI on all members, who tell each other its addresses. Returns whether all could.
fn introduce(process: &Process, comm: &Comm, vci: VciId) -> Result<bool> {
    let own = process
        .reserve_vci(vci)
        .then(|| addresses(process, comm, &[vci]));
    let Some(all) = gather_all_bytes(process, comm, own.as_deref())? else {
        return Ok(false);
    };
    for (rank, mut told) in all.iter().map(Vec::as_slice).enumerate() {
        let peer = comm.local().peer(rank as u32);
        while let Some((vci, transport, address)) = next_address(&mut told) {
            process.learn(peer, vci, transport, address);
        }
    }
    Ok(true)
}
