//! Loss checks in virtual time: when a process checks its peers, and what it finds.

use std::time::Duration;

use mpi_core::Class;
use netmod_sim::SimConfig;

use crate::job::{Job, Setup};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// Period of checks of a waiting process, and the longest delay of a check by a nap.
const PERIOD: u64 = 200 * MILLISECOND;
const NAP: u64 = 10 * MILLISECOND;

/// Creates a job whose hosts may leave a question unanswered for a second.
fn watched(ranks: u32) -> Job {
    let job = Job::new(1, SimConfig::default(), Setup::new(ranks));
    job.sim.watch_hosts(SECOND);
    job
}

/// Lets rank 0 wait for a message of rank 1, whose host is silent from `from` on. Returns the time
/// of detection and the log.
fn noticed(from: u64) -> (u64, String) {
    let job = watched(2);
    job.sim.silence(1, from);
    let mut room = [0u8; 8];
    let receive = job.receive(0, 1, 0, &mut room);
    let (_, error) = job.ranks[0].wait(receive).unwrap();
    let error = error.expect("the sender is lost");
    assert_eq!(error.class(), Class::ProcFailed);
    assert!(error.to_string().contains("silent"), "{error}");
    (job.sim.now(), job.sim.log())
}

/// The host is asked at a check, and lost at the first check after the timeout.
#[test]
fn a_silent_host_is_noticed_after_its_time() {
    let (at, _) = noticed(0);
    let least = PERIOD + SECOND;
    assert!((least..least + PERIOD + 2 * NAP).contains(&at), "{at} ns");
    // A host that answered for a while.
    let (at, _) = noticed(5 * SECOND);
    let least = 5 * SECOND + SECOND;
    let most = least + 2 * PERIOD + 2 * NAP;
    assert!((least - PERIOD..most).contains(&at), "{at} ns");
}

/// Virtual time is deterministic: two runs are equal, event by event.
#[test]
fn silence_is_noticed_at_the_same_time_in_each_run() {
    assert_eq!(noticed(3 * SECOND), noticed(3 * SECOND));
}

/// Rank 1 keeps rank 0 waiting for long while its host answers; one check follows per period.
#[test]
fn a_peer_that_answers_is_not_lost() {
    const LONG: u64 = 20 * SECOND;
    let job = watched(2);
    let mut room = [0u8; 8];
    let receive = job.receive(0, 1, 0, &mut room);
    let (mut data, mut sent) = ([7u8; 8], None);
    job.ranks[0]
        .wait_ignoring_loss(0, || {
            if let Some(loss) = job.ranks[0].first_loss() {
                return Err(loss);
            }
            if job.sim.now() > LONG && sent.is_none() {
                sent = Some(job.send(1, 0, 0, &mut data));
            }
            let request = job.ranks[0].request(receive).unwrap();
            Ok(request.is_done().then_some(()))
        })
        .unwrap();
    assert!(Duration::from_nanos(job.sim.now()) < Duration::from_secs(21));
    job.finish(0, Some(receive));
    job.finish(1, sent.unwrap());
    assert_eq!(room, data);
    assert!(job.ranks[0].first_loss().is_none());
    let checks = job.sim.questions();
    let (least, most) = (LONG / (PERIOD + NAP) - 1, LONG / PERIOD + 1);
    assert!((least..=most).contains(&checks), "{checks} checks");
}

/// Processes that no operation waits for are not checked.
#[test]
fn processes_without_waiters_are_not_checked() {
    let job = watched(3);
    let mut room = [0u8; 8];
    let receive = job.receive(0, 1, 0, &mut room);
    job.sim.silence(2, 0);
    let mut rounds = 0;
    let waited = job.ranks[0].wait_ignoring_loss(0, || {
        rounds += 1;
        let loss = job.ranks[0].first_loss();
        loss.map_or(Ok((job.sim.now() > 5 * SECOND).then_some(())), Err)
    });
    waited.unwrap();
    assert!(rounds > 1);
    assert!(job.sim.questions() > 0, "rank 1 is asked");
    job.ranks[0].cancel(receive).unwrap();
    let (status, error) = job.ranks[0].finish(receive).unwrap();
    assert!(status.is_cancelled() && error.is_none());
}
