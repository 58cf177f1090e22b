//! The first machine's part: it waits until all others have joined.

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use netmod_kit::admission::{Admitted, Pending, Role, Served, descriptors};

use super::{ENDING, LATE, Meeting};
use crate::program::{Unfit, unfit};
use crate::report::host;
use crate::system::{self, Signals};
use crate::wire::greeting::VERSION;
use crate::wire::join::{PROTOCOL, Reply, Request};
use crate::wire::link::Link;

/// Time for a connection to prove the secret.
const PROVING: Duration = Duration::from_secs(10);
/// Most unproved connections at the same time.
const UNPROVED: usize = 256;
/// Most late machines that are named in a line each.
const NAMED: usize = 16;

/// A machine that has proved the secret.
struct Guest {
    link: Link,
    /// What it has said about itself, once it has joined.
    joined: Option<Joined>,
}

struct Joined {
    index: Option<usize>,
    name: String,
}

struct Gathering<'a> {
    meeting: &'a Meeting,
    began: Instant,
    guests: Vec<Guest>,
    /// Whether the late machines have been named.
    is_late: bool,
}

/// Waits for all machines. Returns the names of all, and the connections to all but this one, in order
/// of their indices.
///
/// # Errors
/// Some have not joined in time.
pub fn gather(
    meeting: &Meeting,
    listeners: Vec<TcpListener>,
) -> Result<(Vec<String>, Vec<Link>), Unfit> {
    let waiting = |error| unfit("can't wait for the other machines", error);
    let signals = Signals::take(ENDING).map_err(waiting)?;
    system::allow_files(meeting.size as u64 + 64).map_err(waiting)?;
    for listener in &listeners {
        listener.set_nonblocking(true).map_err(waiting)?;
    }
    let mut pending = Pending::new(PROTOCOL, descriptors::spare_slots().min(UNPROVED), PROVING);
    let mut all = Gathering {
        meeting,
        began: Instant::now(),
        guests: Vec::new(),
        is_late: false,
    };
    let until = all.began + meeting.patience();
    while all.missing() > 0 {
        let now = Instant::now();
        if now >= until {
            signals.give_back();
            return Err(all.give_up());
        }
        all.name_late(now);
        let mut due = vec![until];
        due.extend((!all.is_late).then(|| all.began + LATE));
        due.extend(pending.deadline());
        let wait = due
            .into_iter()
            .min()
            .map(|at| at.saturating_duration_since(now));
        wait_for(
            &signals,
            &listeners,
            &pending,
            &all.guests,
            wait.unwrap_or_default(),
        );
        signals.obey();
        pending.expire(Instant::now());
        for listener in &listeners {
            let accept = || {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(stream)
            };
            // The next poll shows the remaining ones.
            let _ = pending.accept(accept, |_, _| Ok(()));
        }
        let slots: Vec<usize> = pending.descriptors().map(|(_, slot)| slot).collect();
        for slot in slots {
            let served = pending.serve(slot, |_| Some(meeting.secret));
            if let Served::Admitted(Admitted {
                connection, keys, ..
            }) = served
                && let Ok(link) = Link::new(connection, &keys, Role::Responder)
            {
                let joined = None;
                all.guests.push(Guest { link, joined });
            }
        }
        all.hear();
    }
    signals.give_back();
    Ok(all.finish())
}

fn wait_for(
    signals: &Signals,
    listeners: &[TcpListener],
    pending: &Pending<TcpStream>,
    guests: &[Guest],
    time: Duration,
) {
    let accepting = listeners.iter().filter(|_| pending.has_room());
    let all = accepting
        .map(TcpListener::as_raw_fd)
        .chain([signals.descriptor()])
        .chain(pending.descriptors().map(|(descriptor, _)| descriptor))
        .chain(guests.iter().map(|guest| guest.link.descriptor()));
    let mut entries: Vec<libc::pollfd> = all.map(readable).collect();
    system::poll(&mut entries, time.as_millis() as i32 + 1);
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

impl Gathering<'_> {
    fn joined(&self) -> impl Iterator<Item = &Joined> {
        self.guests.iter().filter_map(|guest| guest.joined.as_ref())
    }

    /// Returns how many machines have not joined.
    fn missing(&self) -> usize {
        self.meeting.size - 1 - self.joined().count()
    }

    /// Returns the indices that no machine has named.
    fn absent(&self) -> Vec<usize> {
        let mut is_there = vec![false; self.meeting.size];
        is_there[0] = true;
        for index in self.joined().filter_map(|one| one.index) {
            is_there[index] = true;
        }
        let absent = is_there.iter().enumerate().filter(|(_, there)| !**there);
        absent.map(|(index, _)| index).collect()
    }

    /// Handles what the machines say.
    fn hear(&mut self) {
        let mut at = 0;
        while at < self.guests.len() {
            let link = &mut self.guests[at].link;
            link.flush();
            link.read();
            let stays = match link.next::<Request>() {
                Ok(Some(Request::Join {
                    version,
                    size,
                    index,
                    name,
                })) => {
                    let index = index.map(|index| index as usize);
                    match self.check(&version, size as usize, index) {
                        Ok(()) if self.guests[at].joined.is_none() => {
                            self.welcome(at, Joined { index, name });
                            true
                        }
                        Ok(()) => false,
                        Err(text) => {
                            let link = &mut self.guests[at].link;
                            link.send(&Reply::Refused { text });
                            false
                        }
                    }
                }
                Ok(None) => link.is_open(),
                Err(_) => false,
            };
            match stays {
                true => at += 1,
                false => self.remove(at),
            }
        }
    }

    /// Checks what a machine says about itself.
    fn check(&self, version: &str, size: usize, index: Option<usize>) -> Result<(), String> {
        let ours = self.meeting.size;
        if version != VERSION {
            return Err(format!(
                "mpiexec of the first machine is of version {VERSION}, and of version {version} here; all \
                 machines need the same"
            ));
        }
        if size != ours {
            return Err(format!(
                "-size is {ours} at the first machine, and {size} here; start the same command everywhere"
            ));
        }
        match index {
            Some(index) if index == 0 || index >= ours => {
                Err(format!("index {index} is not one of 1 to {}", ours - 1))
            }
            Some(index) if self.joined().any(|one| one.index == Some(index)) => Err(format!(
                "index {index} has joined already; each machine needs an index of its own"
            )),
            _ if self.missing() == 0 => Err(format!("all {ours} machines have joined already")),
            _ => Ok(()),
        }
    }

    fn welcome(&mut self, at: usize, joined: Joined) {
        if self.is_late {
            let which = match joined.index {
                Some(index) => format!("index {index}"),
                None => "a machine".to_owned(),
            };
            eprintln!(
                "mpiexec: {which} ({}) has joined after {} s",
                joined.name,
                self.began.elapsed().as_secs()
            );
        }
        let guest = &mut self.guests[at];
        guest.joined = Some(joined);
        guest.link.send(&Reply::Welcome {});
    }

    fn remove(&mut self, at: usize) {
        let guest = self.guests.remove(at);
        if let Some(Joined {
            index: Some(index),
            name,
        }) = guest.joined
        {
            let size = self.meeting.size;
            eprintln!("mpiexec: index {index} of {size} has left ({name}); waiting for it again");
        }
    }

    /// Names the machines that are late, once.
    fn name_late(&mut self, now: Instant) {
        if self.is_late || now < self.began + LATE {
            return;
        }
        self.is_late = true;
        let size = self.meeting.size;
        if self.joined().any(|one| one.index.is_none()) {
            let missing = self.missing();
            eprintln!(
                "mpiexec: waiting for {missing} of {size} machines, which have not joined yet"
            );
            return;
        }
        let absent = self.absent();
        for index in absent.iter().take(NAMED) {
            eprintln!("mpiexec: waiting for index {index} of {size}, which has not joined yet");
        }
        if absent.len() > NAMED {
            let more = absent.len() - NAMED;
            eprintln!("mpiexec: waiting for {more} more");
        }
    }

    fn give_up(&self) -> Unfit {
        let absent = self.absent();
        let which = match absent.len() == self.missing() {
            true => {
                let named = absent.iter().take(NAMED).map(usize::to_string);
                let more = if absent.len() > NAMED { ", ..." } else { "" };
                let named: Vec<String> = named.collect();
                format!(": index {}{more}", named.join(", "))
            }
            false => String::new(),
        };
        Unfit {
            code: 1,
            message: format!(
                "{} of {} machines have not joined within {} seconds{which}; start the same command on \
                 each, or wait longer by -bootstrap-timeout SECONDS",
                self.missing(),
                self.meeting.size,
                self.meeting.patience
            ),
        }
    }

    /// Gives indices to the machines without one, in order of their arrival.
    fn finish(mut self) -> (Vec<String>, Vec<Link>) {
        let mut free = self.absent().into_iter();
        let mut machines: Vec<(usize, String, Link)> = Vec::new();
        for Guest { link, joined } in self.guests.drain(..) {
            let Some(Joined { index, name }) = joined else {
                continue;
            };
            if let Some(index) = index.or_else(|| free.next()) {
                machines.push((index, name, link));
            }
        }
        machines.sort_by_key(|machine| machine.0);
        let mut names = vec![host()];
        let mut links = Vec::new();
        for (_, name, link) in machines {
            names.push(name);
            links.push(link);
        }
        (distinct(names), links)
    }
}

/// Adds the index to names that several machines have.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in &names {
        *counts.entry(name.clone()).or_default() += 1;
    }
    let numbered = names.into_iter().enumerate();
    let one = |(index, name): (usize, String)| match counts.get(&name) {
        Some(1) => name,
        _ => format!("{name}#{index}"),
    };
    numbered.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_one_name_are_told_apart() {
        let names = ["a", "b", "a"].map(str::to_owned).to_vec();
        assert_eq!(distinct(names), ["a#0", "b", "a#2"]);
    }
}
