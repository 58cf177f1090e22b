//! VCIs without hints: if a program's threads call concurrently, communicators get VCIs in turn.
//!
//! The leader of a creation chooses the VCI that it uses least, and sends its number with the
//! context, so that no exchange is added. The first time that a VCI is chosen among some members,
//! they open it and exchange its addresses; these hold for all communicators made of theirs. If a
//! member can't open it (it has fewer cores, or no threads), VCI 0 is used.

#![deny(unsafe_code)]

use netmod::VciId;

use super::vcis::{addresses, exchange_addresses};
use mpi_core::comm::automatic::MOST;
use mpi_core::comm::{Comm, ContextId};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::Process;

/// Set in the leader's word if the members don't know each other's addresses of the VCI yet.
const TO_BE_OPENED: u64 = 1 << 32;

/// A leader's choice for a new communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaderChoice {
    pub context: ContextId,
    pub vci: VciId,
}

impl LeaderChoice {
    /// Makes a communicator, made of `parent` or a part of it, use the VCI.
    ///
    /// # Errors
    /// A thread uses the VCI without a lock, in breach of the agreement.
    pub fn apply(self, process: &Process, parent: &Comm, made: Comm) -> Result<Comm> {
        made.automatic().inherit(parent.automatic());
        use_vci(process, &made, self.vci)?;
        Ok(made)
    }
}

fn use_vci(process: &Process, comm: &Comm, vci: VciId) -> Result<()> {
    if vci != 0 && !comm.use_own_vci(vci, process.users()) {
        let why = format!(
            "internal error: VCI {vci}, on which the members agreed, is used without a lock"
        );
        return Err(Error::new(Class::Intern, why));
    }
    Ok(())
}

/// Returns the word that this process would send as the leader for a communicator made of `comm`; 0
/// for VCI 0.
pub(crate) fn proposed_vci(process: &Process, comm: &Comm) -> u64 {
    let most = process.automatic_vcis().min(MOST - 1);
    if most == 0 {
        return 0;
    }
    let foreign = process.foreign();
    let connected = || foreign.any() && comm.local().peers().any(|peer| foreign.is_foreign(peer));
    if comm.remote().is_some() || comm.endpoint_table().is_some() || connected() {
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

/// Returns that word for a creation by some of `comm`'s members, which may know different
/// addresses.
pub(crate) fn proposed_vci_of_part(process: &Process, comm: &Comm) -> u64 {
    match proposed_vci(process, comm) {
        0 => 0,
        word => TO_BE_OPENED | word,
    }
}

/// Applies the leader's word. Called by all members of `comm`. Returns the VCI.
///
/// # Errors
/// A member has failed, or the leader chose a VCI that the members don't know.
pub(crate) fn settle_vci(process: &Process, comm: &Comm, word: u64) -> Result<VciId> {
    let vci = word as VciId;
    if vci == 0 {
        return Ok(0);
    }
    if word & TO_BE_OPENED != 0 {
        let had = open_on_all(process, comm, vci)?;
        comm.automatic().note(vci, had);
        return Ok(if had { vci } else { 0 });
    }
    if !comm.automatic().knows(vci) {
        let why = format!(
            "internal error: rank 0 chose VCI {vci}, whose addresses the members have not exchanged"
        );
        return Err(Error::new(Class::Intern, why));
    }
    Ok(vci)
}

/// Applies the leader's word to a new communicator, among its own members only, and makes it use
/// the VCI.
pub(crate) fn settle_new_comm(process: &Process, comm: Comm, word: u64) -> Result<Comm> {
    let vci = settle_vci(process, &comm, word)?;
    use_vci(process, &comm, vci)?;
    Ok(comm)
}

/// Opens a VCI on all members and exchanges its addresses. Returns whether all could.
fn open_on_all(process: &Process, comm: &Comm, vci: VciId) -> Result<bool> {
    let own = process
        .reserve_vci(vci)
        .then(|| addresses(process, comm, &[vci]));
    exchange_addresses(process, comm, own.as_deref())
}
