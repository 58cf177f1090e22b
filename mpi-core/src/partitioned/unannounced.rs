//! Receives that were started before their sends were announced; progress posts them.

use std::sync::Arc;

use crate::Result;
use crate::process::source::{PARTITIONED, ProgressSource, Source, Work};
use crate::process::{Process, Vcis};
use netmod::VciId;
use parking_lot::Mutex;

use crate::partitioned::receive::PartitionedReceive;

/// The started receives of a process that wait for their announcements.
#[derive(Default)]
pub(crate) struct Unannounced(Mutex<Vec<Arc<PartitionedReceive>>>);

impl Unannounced {
    /// Adds a receive.
    pub fn add(process: &Process, receive: &Arc<PartitionedReceive>) {
        let mut list = process.source::<Unannounced>().0.lock();
        if !list.iter().any(|one| Arc::ptr_eq(one, receive)) {
            list.push(receive.clone());
        }
        Unannounced::announce_work(process, &list);
    }

    fn announce_work(process: &Process, list: &[Arc<PartitionedReceive>]) {
        process.set_work::<Unannounced>(Work {
            any: !list.is_empty(),
            stores: false,
        });
    }
}

impl Source for Unannounced {
    const ID: usize = PARTITIONED;

    fn new(_process: &Process) -> Self {
        Unannounced::default()
    }
}

impl ProgressSource for Unannounced {
    fn advance(&self, process: &Process) -> Result<bool> {
        // The thread that holds the lock advances them.
        let Some(mut list) = self.0.try_lock() else {
            return Ok(false);
        };
        let (before, mut result) = (list.len(), Ok(()));
        list.retain(|receive| match receive.post(process) {
            Ok(posted) => !posted,
            Err(error) => {
                result = Err(error);
                true
            }
        });
        if list.len() < before {
            Unannounced::announce_work(process, &list);
        }
        result.map(|()| list.len() < before)
    }

    fn report(&self, text: &mut String) {
        if let Some(list) = self.0.try_lock() {
            list.iter().for_each(|_| {
                text.push_str("  partitioned receive: its send is not announced yet\n")
            });
        }
    }
}

/// Waits on one or several VCIs until `done` returns a value.
pub(crate) fn wait_among(
    process: &Process,
    vcis: &[VciId],
    done: impl FnMut() -> Result<Option<()>>,
) -> Result<()> {
    match vcis {
        [one] => process.wait_ignoring_loss(*one, done),
        several => {
            let mut list = Vcis::default();
            several.iter().for_each(|vci| list.add(*vci));
            process.wait_until_among(&list, done)
        }
    }
}
