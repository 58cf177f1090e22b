//! How jobs end, and that nobody is left.

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{
    Outcome, Running, alive, all_gone, mpiexec, run, shell, start, state, wait_until, words,
};

/// All ranks are to be gone this soon after a failure; the launcher's own promise is one second,
/// and the machine that tests may be busy.
const SOON: Duration = Duration::from_millis(2500);

/// A job whose ranks write their process numbers to a file, and are ready when they have.
struct Watched {
    dir: tempfile::TempDir,
    running: Running,
}

impl Watched {
    /// `script` finds the file in `$PIDS`.
    fn start(args: &[&str], script: &str) -> Watched {
        let dir = tempfile::tempdir().unwrap();
        let mut command = mpiexec();
        command.env("PIDS", dir.path().join("pids"));
        let running = start(command.args(args).args(["sh", "-c", script]));
        Watched { dir, running }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("pids")
    }

    fn pids(&self, count: usize) -> String {
        words(&self.file(), count)
    }
}

#[test]
fn exit_codes_are_passed_on() {
    shell(&["-n", "2"], "exit 0").expect(0);
    shell(&["-n", "1"], "exit 7")
        .expect(7)
        .says("rank 0 on ")
        .says("exited with code 7");
    shell(&["-n", "3"], "test $PMI_RANK != 1 || exit 200").expect(200);
    // The first counts.
    shell(&["-n", "2"], "sleep 0.$PMI_RANK; exit $((PMI_RANK+5))").expect(5);
    shell(&["-n", "1"], "kill -KILL $$")
        .expect(137)
        .says("killed by signal 9, SIGKILL");
}

#[test]
fn a_failing_rank_ends_the_others() {
    let script = format!(
        "echo $$ >> $PIDS; test $PMI_RANK != 2 || {{ {} ; }}; exec sleep 100",
        dies("exit 3")
    );
    let job = Watched::start(&["-n", "3"], &script);
    let pids = job.pids(3);
    go(&job);
    let outcome = job.running.finish();
    outcome
        .expect(3)
        .says("rank 2 on ")
        .says("the 2 other ranks were ended: 2 by SIGTERM");
    all_gone(&pids, 3);
    assert!(outcome.took < Duration::from_secs(10));
}

/// Waits for the file `$PIDS.go`, then fails in the way of `how`.
fn dies(how: &str) -> String {
    format!("while ! test -e $PIDS.go; do sleep 0.01; done; {how}")
}

fn go(job: &Watched) -> Instant {
    std::fs::write(job.dir.path().join("pids.go"), "").unwrap();
    Instant::now()
}

#[test]
fn death_by_a_signal_ends_everybody_within_a_second() {
    // The others ignore SIGTERM, and each has a child that does as well.
    let script = format!(
        "trap '' TERM; sleep 100 & echo $$ $! >> $PIDS; test $PMI_RANK != 1 || {{ {} ; }}; \
         while :; do sleep 1; done",
        dies("kill -SEGV $$")
    );
    let job = Watched::start(&["-n", "4"], &script);
    let pids = job.pids(8);
    let began = go(&job);
    let outcome = job.running.finish();
    let took = began.elapsed();
    outcome
        .expect(128 + 11)
        .says("rank 1 on ")
        .says("was killed by signal 11, SIGSEGV")
        .says("the 3 other ranks were ended: 3 by SIGKILL");
    assert_eq!(
        outcome.err.matches("was killed by").count(),
        1,
        "{}",
        outcome.err
    );
    all_gone(&pids, 8);
    assert!(took < SOON, "{took:?}");
}

#[test]
fn the_message_names_the_process() {
    let outcome = shell(
        &["-n", "2"],
        "test $PMI_RANK = 0 || { echo $$; kill -ABRT $$; }; sleep 9",
    );
    let pid = outcome.out.trim();
    outcome
        .expect(134)
        .says(&format!("(pid {pid})"))
        .says("SIGABRT");
}

#[test]
fn children_of_ranks_do_not_outlive_the_job() {
    // One in the rank's group, one that left it, and one whose parent has gone as well.
    let job = Watched::start(
        &["-n", "2"],
        "sleep 100 & echo $! >> $PIDS; setsid sh -c 'echo $$ >> $PIDS; exec sleep 100' & \
         (sh -c 'echo $$ >> $PIDS; trap \"\" TERM; while :; do sleep 1; done' &) ; \
         while test $(wc -l < $PIDS) -lt 6; do sleep 0.01; done",
    );
    let pids = job.pids(6);
    job.running.finish().expect(0);
    all_gone(&pids, 6);
}

#[test]
fn children_of_whoever_became_the_launcher_are_left_alone() {
    let script = format!(
        "sleep 100 >/dev/null 2>&1 & echo $!; exec {} -n 2 sh -c 'kill -KILL $$'",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let outcome = start(Command::new("sh").args(["-c", &script])).finish();
    let pid = outcome.out.trim();
    assert!(alive(pid));
    support::signal(pid.parse().unwrap(), "KILL");
    outcome.expect(137);
}

#[test]
fn a_time_limit_ends_the_job() {
    let began = Instant::now();
    let job = Watched::start(
        &["-n", "2", "-timeout", "0.5"],
        "trap 'echo pending in $PMI_RANK' QUIT; trap '' TERM; echo $$ >> $PIDS; \
         while :; do sleep 0.1; done",
    );
    let pids = job.pids(2);
    let outcome = job.running.finish();
    outcome.expect(124).says("time limit of 0.5 seconds");
    assert_eq!(outcome.sorted(), ["pending in 0", "pending in 1"]);
    assert!(
        began.elapsed() >= Duration::from_millis(1000),
        "time for last words"
    );
    assert!(began.elapsed() < Duration::from_millis(500) + SOON);
    all_gone(&pids, 2);
}

#[test]
fn the_time_limit_may_come_from_the_environment() {
    let limited = |args: &[&str]| -> Outcome {
        start(mpiexec().env("MPIEXEC_TIMEOUT", "0.2").args(args)).finish()
    };
    limited(&["sleep", "100"]).expect(124);
    limited(&["-timeout", "30", "sleep", "0.5"]).expect(0);
    limited(&["true"]).expect(0);
    start(mpiexec().env("MPIEXEC_TIMEOUT", "soon").arg("true"))
        .finish()
        .expect(2)
        .says("MPIEXEC_TIMEOUT");
}

#[test]
fn user_signals_reach_every_rank() {
    let job = Watched::start(
        &["-n", "2"],
        "trap 'echo usr1; n=$((n+1))' USR1; trap 'echo usr2; n=$((n+1))' USR2; \
         trap 'echo quit; n=$((n+1))' QUIT; trap 'echo alarm; n=$((n+1))' ALRM; n=0; echo $$ >> $PIDS; \
         while test $n -lt 4; do sleep 0.02; done; exit 0",
    );
    job.pids(2);
    for name in ["USR1", "USR2", "QUIT", "ALRM"] {
        job.running.signal(name);
    }
    let outcome = job.running.finish();
    outcome.expect(0);
    assert_eq!(
        outcome.sorted(),
        [
            "alarm", "alarm", "quit", "quit", "usr1", "usr1", "usr2", "usr2"
        ]
    );
}

#[test]
fn a_signal_ends_a_job_of_which_few_ranks_have_been_started() {
    let job = Watched::start(&["-n", "3000"], "echo $$ >> $PIDS; exec sleep 1000");
    job.pids(1);
    let began = Instant::now();
    job.running.signal("TERM");
    let outcome = job.running.finish();
    outcome.expect(128 + 15).says("received SIGTERM");
    // Not all of them have run: that takes longer.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert!(!outcome.err.contains("all 3000 ranks"), "{}", outcome.err);
}

#[test]
fn a_signal_ends_a_job_of_whose_ranks_an_agent_has_started_few() {
    let options = ["-bootstrap", "fork", "-hosts", "a:3000", "-n", "3000"];
    let job = Watched::start(&options, "echo $$ >> $PIDS; exec sleep 1000");
    job.pids(1);
    let began = Instant::now();
    job.running.signal("TERM");
    let outcome = job.running.finish();
    outcome.expect(128 + 15).says("received SIGTERM");
    // The agent tells in time which ranks it has started.
    let is_told = !outcome.err.contains("no other rank was running");
    assert!(is_told, "{}", outcome.err);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(!outcome.err.contains("all 3000 ranks"), "{}", outcome.err);
}

#[test]
fn a_signal_that_ends_the_launcher_ends_the_job() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let job = Watched::start(
            &["-n", "2"],
            "trap 'echo saved; exit 0' INT TERM HUP; echo $$ >> $PIDS; \
             while :; do sleep 0.05; done",
        );
        let pids = job.pids(2);
        let began = Instant::now();
        job.running.signal(name);
        let outcome = job.running.finish();
        outcome
            .expect(128 + number)
            .says(&format!("received SIG{name}"));
        assert_eq!(outcome.out, "saved\nsaved\n");
        assert!(began.elapsed() < SOON);
        all_gone(&pids, 2);
    }
}

/// An agent beside thousands of busy ranks gets a core once in seconds. One that is stopped gets none.
#[test]
fn a_signal_reaches_ranks_whose_agent_gets_no_core() {
    let job = Watched::start(&["-n", "2"], "echo $$ >> $PIDS; exec sleep 100");
    let pids = job.pids(2);
    let first = pids.split_whitespace().next().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{first}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let agent = fields.split_whitespace().nth(1).unwrap();
    // Until then the launcher does not know that all ranks run.
    wait_until("the agent waits", support::LIMIT, || {
        state(agent) == Some('S')
    });
    std::thread::sleep(Duration::from_millis(100));
    let kill = |signal: &str| Command::new("kill").args([signal, agent]).status();
    assert!(kill("-STOP").unwrap().success());
    let began = Instant::now();
    job.running.signal("TERM");
    wait_until("the ranks are gone", support::LIMIT, || {
        !pids.split_whitespace().any(alive)
    });
    let took = began.elapsed();
    assert!(kill("-CONT").unwrap().success());
    job.running
        .finish()
        .expect(143)
        .says("all 2 ranks were ended: 2 by SIGTERM");
    assert!(took < SOON, "{took:?}");
}

#[test]
fn the_second_signal_does_not_wait() {
    let job = Watched::start(
        &["-n", "2"],
        "trap '' INT TERM; echo $$ >> $PIDS; while :; do sleep 1; done",
    );
    let pids = job.pids(2);
    job.running.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert!(pids.split_whitespace().all(alive));
    let began = Instant::now();
    job.running.signal("TERM");
    job.running.finish().expect(143).says("2 by SIGKILL");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    all_gone(&pids, 2);
}

/// timeout(1) sends its signal to its child, and at once to the group in which the child is.
#[test]
fn a_signal_that_comes_twice_at_once_gives_time_to_save() {
    let script = "trap 'sleep 0.5; echo saved; exit 0' TERM; echo $$ >> $PIDS; \
                  while :; do sleep 0.05; done";
    for _ in 0..10 {
        let job = Watched::start(&["-n", "2"], script);
        job.pids(2);
        let began = Instant::now();
        job.running.terminate();
        // So that the launcher sees two.
        std::thread::sleep(Duration::from_millis(10));
        job.running.terminate();
        let took = began.elapsed();
        let outcome = job.running.finish();
        if took < Duration::from_millis(80) {
            outcome
                .expect(143)
                .says("all 2 ranks were ended: 2 by exiting");
            assert_eq!(outcome.out, "saved\nsaved\n");
            return;
        }
    }
    panic!("the machine is too busy to send two signals within 80 ms");
}

#[test]
fn ignored_signals_stay_ignored() {
    let script = format!(
        "trap '' HUP; exec {} -n 2 sh -c 'echo $$ >> $PIDS; sleep 0.5; echo end'",
        env!("CARGO_BIN_EXE_mpiexec")
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let job = start(Command::new("sh").args(["-c", &script]).env("PIDS", &file));
    words(&file, 2);
    job.signal("HUP");
    assert_eq!(job.finish().expect(0).out, "end\nend\n");
}

#[test]
fn the_job_stops_and_goes_on_with_the_launcher() {
    let job = Watched::start(&["-n", "2"], "echo $$ >> $PIDS; exec sleep 0.5");
    let pids = job.pids(2);
    let pids: Vec<&str> = pids.split_whitespace().collect();
    let launcher = job.running.child.id().to_string();
    // Only once the shells have become what they are.
    job.running.signal("TSTP");
    wait_until("everybody stops", support::LIMIT, || {
        state(&launcher) == Some('T') && pids.iter().all(|pid| state(pid) == Some('T'))
    });
    job.running.signal("CONT");
    job.running.finish().expect(0);
}

#[test]
fn a_lone_rank_is_not_another() {
    let job = Watched::start(&["-n", "1"], "echo $$ >> $PIDS; exec sleep 100");
    job.pids(1);
    job.running.signal("TERM");
    let outcome = job.running.finish();
    outcome.expect(143).says("the rank was ended: 1 by SIGTERM");
}

#[test]
fn a_stopped_rank_can_be_ended() {
    let job = Watched::start(
        &["-n", "2"],
        "test $PMI_RANK = 0 || kill -STOP $$; echo $$ >> $PIDS; sleep 0.3; exit 4",
    );
    job.pids(1);
    let outcome = job.running.finish();
    outcome.expect(4).says("the other rank was ended");
    assert!(outcome.took < Duration::from_secs(10));
}

#[test]
fn nobody_survives_the_launcher() {
    let job = Watched::start(
        &["-n", "3"],
        "trap '' TERM HUP INT; sleep 100 & echo $$ $! >> $PIDS; while :; do sleep 1; done",
    );
    let pids = job.pids(6);
    let first = pids.split_whitespace().next().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{first}/stat")).unwrap();
    // Behind the name in parentheses: state, parent, process group.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let guardian = fields.split_whitespace().nth(2).unwrap().to_owned();
    assert!(alive(&guardian));
    job.running.signal("KILL");
    assert_eq!(job.running.finish().status.code(), None);
    wait_until("everybody is gone", SOON, || {
        !alive(&guardian) && !pids.split_whitespace().any(alive)
    });
}

#[test]
fn output_from_before_the_end_is_not_lost() {
    for _ in 0..20 {
        let outcome = shell(&["-n", "2"], "echo out; echo err >&2; kill -KILL $$");
        // The first one's end may overtake the start of the other.
        assert!(outcome.out.starts_with("out\n"), "{}", outcome.out);
        assert!(outcome.err.starts_with("err\n"), "{}", outcome.err);
        outcome.expect(137);
    }
    let outcome = run(&["-n", "1", "printf", "partial"]);
    assert_eq!(outcome.out, "partial");
}

/// Runs a script, with the launcher as `$MPIEXEC`.
fn scripted(script: &str) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    start(command.env("MPIEXEC", env!("CARGO_BIN_EXE_mpiexec"))).finish()
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for lines in [1, 100_000] {
        let outcome = scripted(&format!("$MPIEXEC -n 2 seq {lines} > /dev/full"));
        outcome
            .expect(1)
            .says("standard output can't be written to: No space left");
        assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    }
    // A failure of a rank says more.
    scripted("$MPIEXEC -n 1 sh -c 'echo x; exit 9' > /dev/full").expect(9);
    scripted("$MPIEXEC -n 1 sh -c 'echo x >&2' 2> /dev/full").expect(1);
    // A reader that has enough is none.
    let outcome = scripted("{ $MPIEXEC -n 1 sh -c 'echo x; sleep 0.1'; echo $? >&2; } | head -n 1");
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("x\n", "0\n"));
}

#[test]
fn background_jobs_of_scripts_pass_the_quit_signal_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out");
    // The file is there before it is read: otherwise the loop ends at once, and the signal comes while the job
    // still ignores it. Ranks ignore it, too, until they handle it, which a shell refuses to do.
    let script = format!(
        ": > {0}; $MPIEXEC -n 2 env --default-signal=QUIT sh -c 'trap \"echo asked; exit 0\" QUIT; echo ready; \
         while :; do sleep 0.02; done' > {0} & \
         while test $(wc -l < {0}) -lt 2; do sleep 0.01; done; \
         kill -QUIT $!; wait $!",
        file.display()
    );
    scripted(&script).expect(0);
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(text.matches("asked").count(), 2, "{text}");
}

/// Runs one rank that says what a rank within MPI has said, then `script`.
fn within_mpi(args: &[&str], script: &str) -> Outcome {
    let script = format!(
        "ask() {{ echo \"$1\" >&$PMI_FD; read -r answer <&$PMI_FD; }}; \
         ask 'cmd=init pmi_version=1 pmi_subversion=1'; {script}"
    );
    start(mpiexec().args(args).args(["bash", "-c", &script])).finish()
}

#[test]
fn a_lone_rank_that_fails_within_mpi_is_named() {
    let outcome = within_mpi(&["-n", "1"], "echo 'symbol lookup error' >&2; exit 127");
    outcome
        .expect(127)
        .says("rank 0 on ")
        .says("exited with code 127 without calling MPI_Finalize");
}

#[test]
fn an_aborted_job_has_failed_whatever_the_code() {
    for (code, expected) in [(0, 1), (256, 1), (7, 7)] {
        let script = format!("ask 'cmd=abort exitcode={code}'; sleep 100");
        let outcome = within_mpi(&["-n", "1"], &script);
        outcome
            .expect(expected)
            .says(&format!("aborted with code {code}"));
    }
}

#[test]
fn ranks_that_are_slow_to_say_where_they_are_get_time() {
    let script = "nap() { read -r -t $1 -u $PMI_FD answer; }; \
                  trap 'echo asked >&2; nap 3.5; echo waiting >&2' QUIT; trap '' TERM; \
                  while :; do nap 0.02; done";
    within_mpi(&["-n", "1", "-timeout", "0.3"], script)
        .expect(124)
        .says("waiting");
}

#[test]
fn who_does_not_read_answers_is_not_asked_for_more_questions() {
    let script = "yes 'cmd=get_my_kvsname' | timeout 2 head -c 33554432 >&$PMI_FD; \
                  echo ${PIPESTATUS[1]}; exit 0";
    let outcome = within_mpi(&["-n", "1"], script);
    assert_eq!(
        outcome.out, "124\n",
        "it took all of 32 MiB: {}",
        outcome.err
    );
}
