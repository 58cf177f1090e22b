//! Counters and the report of pending operations, for debugging hangs.

#![deny(unsafe_code)]

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use netmod::VciId;

use super::notes::AwaitedEvent;
use super::{Process, caller};
use crate::error::Result;
use crate::pt2pt::context::{ContextId, Purpose};
use crate::pt2pt::engine::{Counters, describe_key};
use crate::pt2pt::request::Role;
use crate::vci::VciGuard;

impl Process {
    /// Makes the next waiting thread print [`Process::report`]. Safe in a signal handler.
    pub fn want_report(&self) {
        self.report_wanted.store(true, Ordering::Relaxed);
    }

    /// Prints the report, if it was requested.
    pub fn report_if_wanted(&self) {
        if self.report_wanted.load(Ordering::Relaxed)
            && self.report_wanted.swap(false, Ordering::Relaxed)
        {
            eprint!("{}", self.report());
        }
    }

    /// Formats the pending operations and unexpected messages, for debugging hangs.
    pub fn report(&self) -> String {
        let mut text = format!(
            "Weft: process {} is waiting{}. Pending operations:\n",
            self.me,
            caller::describe()
        );
        for vci in 0..self.open.load(Ordering::Acquire) {
            let Some(state) = self.vcis[vci].get().and_then(|vci| vci.visit()) else {
                continue;
            };
            let names = self.context_names.lock();
            let name = |context: u64| names.get(&ContextId::of_message(context).to_bits());
            report_vci(&mut text, vci, state, name);
        }
        self.sources
            .iter()
            .for_each(|source| source.report(&mut text));
        let names = self.context_names.lock();
        for what in self.awaited() {
            let name = match what {
                AwaitedEvent::Collective(round) => {
                    names.get(&ContextId::of_message(round.context).to_bits())
                }
                _ => None,
            };
            let on = name.map_or(String::new(), |name| format!(", on '{name}'"));
            let _ = writeln!(text, "  {what}{on}");
        }
        text
    }

    /// Returns the unexpected messages of a context on a VCI: tags, and the data that has arrived.
    #[cold]
    pub fn unexpected_in(
        &self,
        vci: VciId,
        context: ContextId,
        purpose: Purpose,
    ) -> Result<Vec<(i32, Vec<u8>)>> {
        let context = context.of(purpose);
        let state = self.lock_vci(vci)?;
        let all = state.engine.unexpected.iter();
        let here = all.filter(|(key, _)| key.context == context);
        Ok(here
            .map(|(key, message)| (key.tag, message.eager_data().to_vec()))
            .collect())
    }

    /// Records the name that the program gave to a communicator. An empty name removes it.
    pub fn name_context(&self, context: ContextId, name: &str) {
        let mut names = self.context_names.lock();
        if name.is_empty() {
            names.remove(&context.to_bits());
        } else {
            names.insert(context.to_bits(), name.to_owned());
        }
    }

    /// Returns the counters of an open VCI, unless a thread uses it exclusively.
    pub fn counters(&self, vci: VciId) -> Option<Counters> {
        self.vci(vci).ok()?.counters()
    }

    /// Number of messages sent eagerly from all VCIs over a transport, by its index in
    /// [`Process::transports`].
    pub fn eager_sent(&self, transport: usize) -> u64 {
        self.open_vcis()
            .filter_map(|vci| Some(self.vci(vci).ok()?.visit_blocking()?.eager_sent(transport)))
            .sum()
    }

    /// Returns the maximum of unexpected bytes on any one VCI since the last call, or the start.
    pub fn take_peak(&self) -> u64 {
        self.open_vcis()
            .filter_map(|vci| Some(self.vci(vci).ok()?.visit_blocking()?.take_peak()))
            .max()
            .unwrap_or(0)
    }
}

fn report_vci<'n>(
    text: &mut String,
    vci: usize,
    mut state: VciGuard<'_>,
    name: impl Fn(u64) -> Option<&'n String>,
) {
    let on = |context: u64| name(context).map_or(String::new(), |name| format!(", on '{name}'"));
    let me = state.engine.vci;
    debug_assert_eq!(usize::from(me), vci);
    for id in state.engine.records.active() {
        let Some(record) = state.engine.records.get(id) else {
            continue;
        };
        let what = match record.role {
            Role::Posted(_) => "receive, not matched",
            Role::Receiving => "receive, data on its way",
            Role::Queued => "send, waiting for room in the transport",
            _ if record.is_recallable() => "send, waiting for its receive",
            Role::AwaitingAck | Role::AwaitingReceiver => "send, waiting for its receive",
            Role::Streaming | Role::Leaving | Role::Ending => "send, data on its way",
            Role::External => "collective or generalized request",
            Role::Idle => continue,
        };
        // The key of a send names its sender, that of a receive the rank that it is from.
        let is_receive = matches!(record.role, Role::Receiving | Role::Posted(_));
        let from = match what.starts_with("send") {
            true => "from ",
            false => "",
        };
        let key = describe_key(&record.key);
        let _ = write!(text, "  VCI {vci}: {what}: {from}{key}");
        let (moved, total) = (record.moved, record.total);
        let _ = match record.role {
            Role::External => Ok(()),
            Role::Posted(_) => write!(text, ", room for {} bytes", record.buffer.len()),
            _ => write!(
                text,
                ", {moved} of {total} bytes, {} process {}",
                if is_receive { "from" } else { "to" },
                record.peer
            ),
        };
        let _ = writeln!(text, "{}", on(record.key.context));
    }
    let _ = writeln!(
        text,
        "  VCI {vci}: {} receives posted, {} messages unexpected",
        state.engine.posted.len(),
        state.engine.unexpected.len()
    );
    for (key, message) in state.engine.unexpected.iter().take(20) {
        let _ = writeln!(
            text,
            "  VCI {vci}: unexpected message: {}, {} bytes, from process {}{}",
            describe_key(key),
            message.len(),
            message.from.peer,
            on(key.context)
        );
    }
    let more = state.engine.unexpected.len().saturating_sub(20);
    if more > 0 {
        let _ = writeln!(text, "  VCI {vci}: and {more} more unexpected messages");
    }
}
