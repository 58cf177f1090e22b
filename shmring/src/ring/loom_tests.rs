//! The ring under loom.

use super::*;
use loom::sync::Arc;
use loom::thread;

struct Queue {
    ends: Ends,
    cells: Vec<Cell>,
    records: Vec<SenderRecord>,
}

// SAFETY: cells are accessed by the protocol of the ring, which loom checks.
unsafe impl Sync for Queue {}
// SAFETY: no field is bound to a thread.
unsafe impl Send for Queue {}

fn queue(cells: usize) -> Arc<Queue> {
    Arc::new(Queue {
        ends: Ends {
            tail: Padded(AtomicU64::new(0)),
            head: Padded(AtomicU64::new(0)),
        },
        cells: (0..cells).map(|_| Cell::empty()).collect(),
        records: (0..3).map(|_| record()).collect(),
    })
}

fn record() -> SenderRecord {
    SenderRecord {
        pid: AtomicU32::new(0),
        claim: AtomicU64::new(0),
    }
}

/// A sender's view and its record.
struct Sender<'a> {
    queue: &'a Queue,
    view: SenderView,
    record: &'a SenderRecord,
}

impl Sender<'_> {
    fn new(queue: &Queue, pid: u32) -> Sender<'_> {
        Sender {
            queue,
            view: SenderView::default(),
            record: SenderRecord::take(&queue.records, pid),
        }
    }

    fn claim(&mut self) -> Option<u64> {
        let Queue { ends, cells, .. } = self.queue;
        claim(ends, cells.len(), &mut self.view, self.record)
    }
}

fn send(sender: &mut Sender<'_>, value: u64) -> bool {
    let Some(position) = sender.claim() else {
        return false;
    };
    let queue = sender.queue;
    let cell = &queue.cells[position as usize & (queue.cells.len() - 1)];
    // SAFETY: the cell was claimed by `claim` and is not yet published.
    cell.envelope
        .with_mut(|envelope| unsafe { (*envelope)[0] = value });
    publish(cell, position);
    true
}

fn receive(queue: &Queue, view: &mut ReceiverView) -> Option<u64> {
    let position = view.peek(&queue.cells)?;
    let cell = &queue.cells[position as usize & (queue.cells.len() - 1)];
    // SAFETY: `peek` found the cell published, and it is not yet released.
    let value = cell.envelope.with(|envelope| unsafe { (*envelope)[0] });
    view.advance(&queue.ends, &queue.cells);
    Some(value)
}

/// Two senders and a ring that wraps: no message lost or duplicated, order per sender, no data
/// race.
#[test]
fn messages_arrive_once_and_in_order_per_sender() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let queue = queue(4);
        let senders: Vec<_> = [10, 20]
            .into_iter()
            .map(|base| {
                let queue = queue.clone();
                thread::spawn(move || {
                    let mut sender = Sender::new(&queue, base as u32);
                    (0..2).filter(|i| send(&mut sender, base + i)).count()
                })
            })
            .collect();
        let mut view = ReceiverView::default();
        let mut got = Vec::new();
        got.extend(receive(&queue, &mut view));
        let sent: usize = senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .sum();
        while let Some(value) = receive(&queue, &mut view) {
            got.push(value);
        }
        assert_eq!(got.len(), sent);
        for base in [10, 20] {
            let of_one: Vec<_> = got.iter().filter(|v| **v / 10 == base / 10).collect();
            assert!(of_one.is_sorted());
        }
    });
}

/// A sender that fills the ring reuses a cell only when the receiver is done with it.
#[test]
fn full_queues_refuse_and_recover() {
    loom::model(|| {
        let queue = queue(4);
        let sender = {
            let queue = queue.clone();
            thread::spawn(move || {
                let mut sender = Sender::new(&queue, 1);
                (0..5).filter(|i| send(&mut sender, *i)).count() as u64
            })
        };
        let mut view = ReceiverView::default();
        let mut got = Vec::new();
        got.extend(receive(&queue, &mut view));
        got.extend(receive(&queue, &mut view));
        let sent = sender.join().unwrap();
        while let Some(value) = receive(&queue, &mut view) {
            got.push(value);
        }
        assert!(sent >= 4);
        assert_eq!(got.len() as u64, sent);
        assert!(got.is_sorted());
    });
}

/// A sender dies before, after or without publishing a cell; another sends beside it. The receiver
/// gets all that was published, and nothing stays behind the dead sender's cell.
#[test]
fn the_cell_of_a_dead_sender_is_skipped() {
    const DEAD: u32 = 1;
    for publishes in [false, true] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let queue = queue(4);
            let has_died = Arc::new(AtomicU32::new(0));
            let dying = {
                let (queue, has_died) = (queue.clone(), has_died.clone());
                thread::spawn(move || {
                    let mut sender = Sender::new(&queue, DEAD);
                    match publishes {
                        true => assert!(send(&mut sender, 10)),
                        false => assert!(sender.claim().is_some()),
                    }
                    has_died.store(1, Ordering::Release);
                })
            };
            let living = {
                let queue = queue.clone();
                thread::spawn(move || {
                    let mut sender = Sender::new(&queue, DEAD + 1);
                    assert!(send(&mut sender, 20));
                    sender.record.free();
                })
            };
            let mut view = ReceiverView::default();
            let mut got = Vec::new();
            let mut skipped = 0;
            let exists = |pid| pid != DEAD || has_died.load(Ordering::Acquire) == 0;
            let mut look = || {
                let Queue { ends, records, .. } = &*queue;
                if is_claimed_by_dead(ends, records, view.next, exists)
                    && view.peek(&queue.cells).is_none()
                {
                    view.advance(ends, &queue.cells);
                    skipped += 1;
                }
                got.extend(receive(&queue, &mut view));
            };
            look();
            look();
            dying.join().unwrap();
            living.join().unwrap();
            look();
            look();
            got.sort_unstable();
            match publishes {
                true => assert_eq!((got, skipped), (vec![10, 20], 0)),
                false => assert_eq!((got, skipped), (vec![20], 1)),
            }
        });
    }
}
