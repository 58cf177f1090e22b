//! The ring under loom.

use super::*;
use loom::sync::Arc;
use loom::thread;

struct Queue {
    ends: Ends,
    cells: Vec<Cell>,
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
    })
}

fn send(queue: &Queue, view: &mut SenderView, value: u64) -> bool {
    let Some(position) = claim(&queue.ends, queue.cells.len(), view) else {
        return false;
    };
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
                    let mut view = SenderView::default();
                    (0..2).filter(|i| send(&queue, &mut view, base + i)).count()
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
                let mut view = SenderView::default();
                (0..5).filter(|i| send(&queue, &mut view, *i)).count() as u64
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
