//! Scan and exscan (MPI-3.1 section 5.11), by recursive doubling in the order of ranks.

use super::schedule::Schedule;
use super::team::{Reduction, Team};

/// Builds an inclusive scan to the receive buffer, from the send buffer or in place.
pub fn scan(schedule: &mut Schedule, team: Team<'_>, of: Reduction<'_>) {
    let Some((send, recv)) = of.begin(schedule) else {
        return;
    };
    let part = of.part;
    schedule.copy(send, recv);
    if team.size() == 1 {
        return;
    }
    let coming = schedule.scratch_for(part.count, part.datatype, recv.datatype);
    for distance in (0..).map(|level| 1 << level) {
        if distance >= team.size() {
            break;
        }
        let first = schedule.here();
        if team.rank + distance < team.size() {
            schedule.send(team.peer(team.rank + distance), recv);
        }
        if team.rank >= distance {
            schedule.recv(team.peer(team.rank - distance), coming);
        }
        schedule.wait(first..schedule.here());
        if team.rank >= distance {
            schedule.reduce(coming, recv);
        }
    }
}

/// Builds an exclusive scan; the receive buffer of rank 0 is not written.
pub fn exscan(schedule: &mut Schedule, team: Team<'_>, of: Reduction<'_>) {
    let Some((send, recv)) = of.begin(schedule).filter(|_| team.size() > 1) else {
        return;
    };
    let part = of.part;
    let sum = schedule.scratch_for(part.count, part.datatype, recv.datatype);
    let coming = schedule.scratch_for(part.count, part.datatype, recv.datatype);
    schedule.copy(send, sum);
    for distance in (0..).map(|level| 1 << level) {
        if distance >= team.size() {
            break;
        }
        // The first operand is the sum of the ranks just below; later ones precede it.
        let place = if distance == 1 { recv } else { coming };
        let first = schedule.here();
        if team.rank + distance < team.size() {
            schedule.send(team.peer(team.rank + distance), sum);
        }
        if team.rank >= distance {
            schedule.recv(team.peer(team.rank - distance), place);
        }
        schedule.wait(first..schedule.here());
        if team.rank >= distance {
            if distance > 1 {
                schedule.reduce(coming, recv);
            }
            if team.rank + 2 * distance < team.size() {
                schedule.reduce(place, sum);
            }
        }
    }
}
