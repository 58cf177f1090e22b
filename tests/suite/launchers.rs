//! Tests with other launchers: Hydra (PMI-1 and PMI-2, one host and two), Slurm (PMI-2, PMIx and none, two
//! hosts), PRRTE (PMIx), Flux (PMI-1), and none (`mpiexec -join`). docs/run.md has the table of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use weft_needs::{HYDRA, LIBFABRIC, MOUNTS, NAMESPACES, Need, PRRTE, SLURM};

use crate::company::Company;
use crate::flux;
use crate::hosts::{Hosts, ip};
use crate::job::clear;
use crate::joining;
use crate::lacks;
use crate::outcome::Outcome;
use crate::program::{Case, compile, programs};
use crate::room::Room;
use crate::{Result, patience, prefix, timed};

const LIMIT: f64 = 70.0;

/// Lists the tests.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, needs: &[&'static Need], test: fn() -> Result| {
        let name = format!("launchers/{name}");
        let left_out = lacks::any(&name, needs);
        timed(name, Company::Any, test).with_ignored_flag(left_out)
    };
    let hosts = [&MOUNTS, &NAMESPACES, &LIBFABRIC];
    vec![
        trial("info/2", &[&LIBFABRIC], info),
        trial("no-library/2", &[], no_library),
        trial("cable/2", &hosts, || cable("ofi", "wait")),
        trial("cable-talk/2", &hosts, || cable("ofi", "talk")),
        trial("cable-tcp/2", &hosts[..2], || cable("tcp", "wait")),
        trial("cable-tcp-talk/2", &hosts[..2], || cable("tcp", "talk")),
        trial("cables/2", &hosts[..2], cables),
        trial("apart/8", &[], apart),
        trial("interrupted/3", &[], interrupted),
        trial("hydra-pmi2/4", &[&HYDRA], hydra_pmi2),
        trial(
            "hydra-hosts/4",
            &[&hosts[..], &[&HYDRA]].concat(),
            hydra_hosts,
        ),
        trial("slurm/4", &[&hosts[..], &[&SLURM]].concat(), slurm_runs),
        trial("prrte/4", &[&PRRTE], prrte),
        trial("flux/4", &[], flux::four_ranks),
        trial("join/8", &hosts[..2], joining::in_any_order),
        trial("hydra-spawn/3", &[&HYDRA], hydra_spawns),
        trial("prrte-spawn/4", &[&PRRTE], prrte_spawns),
        trial("prrte-psets/3", &[&PRRTE], prrte_psets),
        trial(
            "slurm-spawn/3",
            &[&hosts[..], &[&SLURM]].concat(),
            slurm_spawns,
        ),
    ]
}

pub fn program() -> Result<PathBuf> {
    tool("launched")
}

/// Compiles a program of `tests/c/tools`, once.
pub fn tool(name: &str) -> Result<PathBuf> {
    static MADE: Mutex<BTreeMap<String, Result<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let one = made.entry(name.to_owned());
    one.or_insert_with(|| compile_tool(name)).clone()
}

fn compile_tool(name: &str) -> Result<PathBuf> {
    let prefix = prefix::get()?;
    let binary = programs(prefix)?.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("c/tools/{name}.c"));
    let mut command = Command::new(prefix.join("bin/mpicc"));
    command.args(["-Wall", "-Wextra", "-Werror", "-o"]);
    compile(command.arg(&binary).arg(source))?;
    Ok(binary)
}

/// More ranks than cores, each in its own session, must not occupy the cores while they wait.
fn apart() -> Result {
    let room = Room::new()?;
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-timeout", "60", "-n", "8", "setsid", "-w"]);
    run(&room, command.arg(tool("apart")?), &Case::default())
}

/// Ctrl-C of a job that hangs says where its ranks wait, once, though each is behind a shell and one
/// computes.
fn interrupted() -> Result {
    let room = Room::new()?;
    let mut command = room.command("sh".as_ref());
    clear(&mut command);
    let mpiexec = prefix::get()?.join("bin/mpiexec");
    let script = "timeout --foreground --preserve-status -s INT 6 \"$@\" 2> err; code=$?; \
                  grep -c 'Pending operations' err; cat err >&2; rm -f err sign; exit $code";
    command.args(["-c", script, "sh"]).arg(mpiexec);
    command.args(["-n", "3", "sh", "-c", "\"$0\" wait sign; exit $?"]);
    let case = Case {
        exit: 130,
        stdout: vec!["0".to_owned()],
        stderr: ["received SIGINT", "rank 0 waits in MPI_Recv"]
            .map(String::from)
            .to_vec(),
        ..Case::default()
    };
    run(&room, command.arg(program()?), &case)
}

/// Returns the expected output of four ranks.
fn four(here: usize) -> Case {
    let line = |rank| format!("rank {rank} of 4, {here} here");
    Case {
        stdout: (0..4).map(line).collect(),
        ..Case::default()
    }
}

fn run(room: &Room, command: &mut Command, case: &Case) -> Result {
    let outcome = Outcome::of(command, patience(LIMIT))?;
    outcome.judge(case, &room.leftovers())
}

fn own(arguments: &[&str], program: bool, case: &Case) -> Result {
    let room = Room::new()?;
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.args(["-timeout", "30"]).args(arguments);
    if program {
        command.arg(self::program()?);
    }
    run(&room, &mut command, case)
}

/// Checks the messages on chosen and refused transports.
fn info() -> Result {
    let shown = [
        "Weft: Weft ",
        "launcher: PMI-1 over the inherited socket",
        "2 processes, 2 on this node",
        "using tcp: sockets on lo",
        "not chosen: ",
        "shared memory is not used: WEFT_SHM=0",
        "pairs of ranks: all by tcp",
    ];
    let case = Case {
        stdout: vec!["rank 0 of 2".into()],
        stderr: shown.map(String::from).to_vec(),
        ..Case::default()
    };
    let variables = ["-env", "WEFT_INFO", "1", "-env", "WEFT_SHM", "0", "-n", "2"];
    own(&variables, true, &case)?;
    let case = Case {
        stdout: vec!["rank 2 of 3".into()],
        stderr: vec!["pairs of ranks: all by shm".into()],
        ..Case::default()
    };
    own(&["-env", "WEFT_INFO", "1", "-n", "3"], true, &case)?;
    let shown = ["cores:", "launcher: none (rank 0 of 1)", "libfabric "];
    let case = Case {
        stdout: shown.map(String::from).to_vec(),
        ..Case::default()
    };
    own(&["-info"], false, &case)
}

/// The message on a missing library must name it and the package to install.
fn no_library() -> Result {
    let shown = ["cannot open /nowhere.so", "libfabric1", "WEFT_OFI_LIBRARY"];
    let case = Case {
        exit: 15,
        stderr: shown.map(String::from).to_vec(),
        ..Case::default()
    };
    let mut arguments = vec!["-genv", "WEFT_NETMOD", "ofi", "-genv", "WEFT_SHM", "0"];
    arguments.extend(["-genv", "WEFT_OFI_LIBRARY", "/nowhere.so", "-n", "2"]);
    own(&arguments, true, &case)
}

/// A cut network must end the job soon, with a message that names the peer, both if a rank waits for
/// an idle one and if the two communicate all the time.
fn cable(netmod: &str, what: &str) -> Result {
    let hosts = Hosts::new(3)?;
    let room = Room::new()?;
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command.env("WEFT_NETMOD", netmod).args(["-timeout", "60"]);
    let program = program()?;
    let dir = prefix::target()?.join("test-rooms");
    let sign = dir.join(format!("{}-{netmod}-{what}", hosts.name(0)));
    hosts.arguments(&mut command, 2, |command| {
        command.arg(&program).arg(what).arg(&sign);
    });
    let case = Case {
        // The exit code is the error's class, after 10 seconds of silence.
        exit: 101,
        stderr: vec!["of the job is lost".to_owned()],
        ..Case::default()
    };
    thread::scope(|scope| {
        let pull = scope.spawn(|| {
            let until = Instant::now() + patience(30.0);
            while !sign.exists() && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
            // The bridge's end is cut, so both hosts keep their interfaces.
            let pulled = hosts.unplug_from_switch(1);
            let _ = fs::remove_file(&sign);
            pulled.map(|()| Instant::now())
        });
        let ran = run(&room, &mut command, &case);
        let pulled = pull.join().map_err(|_| "the cable's thread".to_owned())??;
        ran?;
        let took = pulled.elapsed();
        if took > patience(12.0) {
            return Err(format!("it was noticed after {:.1} s", took.as_secs_f64()));
        }
        Ok(())
    })
}

/// Long messages go over both of two cables, and the second one may be lost.
fn cables() -> Result {
    let hosts = Hosts::new(2)?;
    hosts.add_cable()?;
    let room = Room::new()?;
    let mut command = room.command(&prefix::get()?.join("bin/mpiexec"));
    clear(&mut command);
    command
        .env("WEFT_NETMOD", "tcp")
        .env("WEFT_TCP_STREAMS", "2");
    command.args(["-timeout", "60"]);
    let program = tool("striped")?;
    let dir = prefix::target()?.join("test-rooms");
    let sign = dir.join(format!("{}-cables", hosts.name(0)));
    hosts.arguments(&mut command, 2, |command| {
        command.arg(&program).arg(&sign);
    });
    let case = spawned(&["passed"]);
    thread::scope(|scope| {
        let pull = scope.spawn(|| -> Result<_> {
            let until = Instant::now() + patience(30.0);
            while !sign.exists() && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
            let sent = [hosts.sent(0, "weft0")?, hosts.sent(0, "weft1")?];
            let _ = fs::remove_file(&sign);
            thread::sleep(Duration::from_millis(200));
            ip(&format!("-n {} link set weft1 down", hosts.name(0)))?;
            Ok((sent, Instant::now()))
        });
        let ran = run(&room, &mut command, &case);
        let pulled = pull.join().map_err(|_| "the cable's thread".to_owned())?;
        let ([first, second], when) = pulled?;
        ran?;
        // The first of three messages goes over the first cable, until the second connection is made.
        if second * 3 < first {
            return Err(format!(
                "{first} bytes went over weft0, and {second} over weft1"
            ));
        }
        let took = when.elapsed();
        match took < patience(40.0) {
            true => Ok(()),
            false => Err(format!("it took {:.1} s", took.as_secs_f64())),
        }
    })
}

fn hydra_pmi2() -> Result {
    let room = Room::new()?;
    let mut command = room.command(Path::new("/usr/bin/mpiexec.hydra"));
    clear(&mut command);
    command.env("WEFT_PMI", "pmi2");
    command.args(["-n", "4"]).arg(program()?);
    run(&room, &mut command, &four(4))
}

fn hydra_hosts() -> Result {
    let hosts = Hosts::new(2)?;
    let room = Room::new()?;
    // A replacement for ssh, which runs the command in the host's namespace.
    let dir = prefix::target()?.join("test-rooms");
    let script = dir.join(format!("{}-remote", hosts.name(0)));
    let text = format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\n\
         case $1 in\n{} ) name={} ;;\n*) name={} ;;\nesac\nshift\n\
         exec ip netns exec $name unshare --uts sh -c \"hostname $name; $*\"\n",
        Hosts::address(0),
        hosts.name(0),
        hosts.name(1),
    );
    write_script(&script, &text)?;
    let mut command = room.command(Path::new("ip"));
    clear(&mut command);
    command.env("WEFT_NETMOD", "ofi");
    command.args(&hosts.prefix(0)[1..]);
    let list = format!("{},{}", Hosts::address(0), Hosts::address(1));
    command.args([
        "/usr/bin/mpiexec.hydra",
        "-launcher",
        "ssh",
        "-launcher-exec",
    ]);
    command.arg(&script);
    command.args(["-iface", "weft0", "-hosts", &list, "-ppn", "2", "-n", "4"]);
    command.arg(program()?);
    let result = run(&room, &mut command, &four(2));
    let _ = fs::remove_file(&script);
    result
}

fn write_script(path: &Path, text: &str) -> Result {
    use std::os::unix::fs::PermissionsExt;
    let written = fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn prrte() -> Result {
    let room = Room::new()?;
    let mut command = room.command(Path::new(&weft_needs::prterun()));
    clear(&mut command);
    command
        .env("PRTE_ALLOW_RUN_AS_ROOT", "1")
        .env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["--map-by", ":OVERSUBSCRIBE", "-n", "4"]);
    command.arg(program()?);
    run(&room, &mut command, &four(4))
}

/// Runs a job and compares its lines of output.
fn spawned(lines: &[&str]) -> Case {
    Case {
        stdout: lines.iter().map(|line| (*line).to_owned()).collect(),
        ..Case::default()
    }
}

fn hydra_spawns() -> Result {
    for version in ["pmi1", "pmi2"] {
        let room = Room::new()?;
        let mut command = room.command(Path::new("/usr/bin/mpiexec.hydra"));
        clear(&mut command);
        command.env("WEFT_PMI", version);
        command.args(["-n", "1"]).arg(tool("spawner")?);
        command.args(["plain", "2"]);
        run(&room, &mut command, &spawned(&["children: "]))
            .map_err(|error| format!("{version}: {error}"))?;
    }
    // A PMI-1 message is a line, so arguments can't contain newlines.
    let room = Room::new()?;
    let mut command = room.command(Path::new("/usr/bin/mpiexec.hydra"));
    clear(&mut command);
    command.env("WEFT_PMI", "pmi1").args(["-n", "1"]);
    command.arg(tool("spawner")?).args(["lines", "2"]);
    let why = &["refused: MPI_ERR_SPAWN", "MPI_Comm_spawn", "argument 3 of"];
    run(&room, &mut command, &spawned(why))
}

fn prrte_spawns() -> Result {
    let room = Room::new()?;
    let mut command = room.command(Path::new(&weft_needs::prterun()));
    clear(&mut command);
    command
        .env("PRTE_ALLOW_RUN_AS_ROOT", "1")
        .env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["--map-by", ":OVERSUBSCRIBE", "-n", "1"]);
    command.arg(tool("spawner")?).args(["again", "2"]);
    run(&room, &mut command, &spawned(&["children: ", "children: "]))
}

/// Named process sets of PMIx must be process sets of a session (MPI-4.1 section 11.3.2).
fn prrte_psets() -> Result {
    let room = Room::new()?;
    let mut command = room.command(Path::new(&weft_needs::prterun()));
    clear(&mut command);
    command
        .env("PRTE_ALLOW_RUN_AS_ROOT", "1")
        .env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let program = tool("psets")?;
    command.args(["--map-by", ":OVERSUBSCRIBE", "--pset", "left", "-n", "2"]);
    command.arg(&program);
    command
        .args([":", "--pset", "right", "-n", "1"])
        .arg(&program);
    let lines = [
        "rank 0 of 2 in left",
        "rank 1 of 2 in left",
        "rank 0 of 1 in right",
        "2 sets",
    ];
    run(&room, &mut command, &spawned(&lines))
}

/// Slurm spawns over PMI-2. Its PMIx does not, which must be reported.
fn slurm_spawns() -> Result {
    let hosts = Hosts::new(2)?;
    let cluster = Cluster::start(&hosts)?;
    let program = tool("spawner")?;
    for (kind, lines) in [
        ("pmi2", &["children: "][..]),
        ("pmix", &["refused: MPI_ERR_SPAWN", "PMIx_Spawn"]),
    ] {
        let room = Room::new()?;
        let mut command = room.command(Path::new("ip"));
        clear(&mut command);
        command.args(&hosts.prefix(0)[1..]);
        command.env("SLURM_CONF", cluster.dir.join("slurm.conf"));
        // Steps must share the allocation; otherwise the spawned step waits for the end of the first.
        command.env("SLURM_OVERLAP", "1");
        let words = "/usr/bin/salloc --quiet -N 2 -n 4 --ntasks-per-node=2 -t 1 --chdir=/";
        command.args(words.split(' '));
        let words = format!("/usr/bin/srun --mpi={kind} -N 1 -n 1 --chdir=/");
        command.args(words.split(' '));
        command.arg(&program).args(["plain", "2"]);
        run(&room, &mut command, &spawned(lines))
            .map_err(|error| format!("srun --mpi={kind}: {error}\n{}", cluster.logs()))?;
    }
    Ok(())
}

fn slurm_runs() -> Result {
    let hosts = Hosts::new(2)?;
    let cluster = Cluster::start(&hosts)?;
    for kind in ["pmi2", "pmix"] {
        let run = cluster.srun(&hosts, kind, &[], &four(2));
        run.map_err(|error| format!("srun --mpi={kind}: {error}\n{}", cluster.logs()))?;
        let aborted = Case {
            // PMI-2 carries no exit code, so the code is that of the ranks that Slurm killed.
            exit: if kind == "pmix" { 7 } else { 137 },
            stderr: vec!["MPI_Abort".to_owned()],
            ..Case::default()
        };
        let run = cluster.srun(&hosts, kind, &["abort"], &aborted);
        run.map_err(|error| format!("srun --mpi={kind}, aborting: {error}"))?;
    }
    let run = cluster.own(&hosts, &[], &four(2));
    run.map_err(|error| format!("mpiexec in an allocation: {error}\n{}", cluster.logs()))?;
    let run = cluster.script(&hosts, &four(2));
    run.map_err(|error| format!("mpiexec and srun in a script: {error}\n{}", cluster.logs()))?;
    let aborted = Case {
        exit: 7,
        stderr: vec!["aborted with code 7".to_owned()],
        ..Case::default()
    };
    let run = cluster.own(&hosts, &["abort"], &aborted);
    run.map_err(|error| format!("mpiexec in an allocation, aborting: {error}"))?;
    let run = cluster.join(&hosts, &four(2));
    run.map_err(|error| format!("mpiexec -join by srun: {error}\n{}", cluster.logs()))?;
    let refused = Case {
        exit: 15,
        stderr: vec!["SLURM_STEP_NUM_TASKS=4".into(), "srun --mpi=pmi2".into()],
        ..Case::default()
    };
    let run = cluster.srun(&hosts, "none", &[], &refused);
    run.map_err(|error| format!("srun --mpi=none: {error}"))
}

/// A Slurm cluster of two hosts, ended when dropped.
struct Cluster {
    dir: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start(hosts: &Hosts) -> Result<Cluster> {
        let dir = prefix::target()?.join("test-rooms");
        let dir = dir.join(format!("{}-slurm", hosts.name(0)));
        let failed = |error| format!("{}: {error}", dir.display());
        fs::create_dir_all(dir.join("state")).map_err(failed)?;
        let mut cluster = Cluster {
            dir: dir.clone(),
            daemons: Vec::new(),
        };
        for index in [0, 1] {
            let tmp = dir.join(format!("tmp-{}", hosts.name(index)));
            fs::create_dir_all(tmp).map_err(failed)?;
        }
        let file = |name: &str| dir.join(name).display().to_string();
        let node = |index| {
            let (name, address) = (hosts.name(index), Hosts::address(index));
            format!("NodeName={name} NodeAddr={address} CPUs=8 State=UNKNOWN\n")
        };
        let text = format!(
            "ClusterName=weft\nSlurmctldHost={a}({address})\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={munge}\nMpiDefault=none\n\
             ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nReturnToService=2\n\
             SlurmctldPidFile={dir}/ctld.pid\nSlurmdPidFile={dir}/%n.pid\nSlurmctldPort=6817\n\
             SlurmdPort=6818\nSlurmdSpoolDir={dir}/spool-%n\nStateSaveLocation={dir}/state\nTmpFS={dir}/tmp-%n\n\
             SlurmctldLogFile={dir}/ctld.log\nSlurmdLogFile={dir}/%n.log\n\
             SwitchType=switch/none\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\nKillWait=2\n\
             SlurmdParameters=config_overrides\nMailProg=/bin/true\n{}{}\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            node(0),
            node(1),
            a = hosts.name(0),
            address = Hosts::address(0),
            munge = file("munge.sock"),
            dir = dir.display(),
        );
        fs::write(dir.join("slurm.conf"), text).map_err(failed)?;
        fs::write(dir.join("cgroup.conf"), "").map_err(failed)?;
        // Only the daemons of this test share the key.
        let key = dir.join("munge.key");
        let mut random = [0u8; 128];
        File::open("/dev/urandom")
            .and_then(|mut source| std::io::Read::read_exact(&mut source, &mut random))
            .and_then(|()| fs::write(&key, random))
            .map_err(failed)?;
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).map_err(failed)?;

        let munge = format!("--socket={}", file("munge.sock"));
        let arguments = [
            "/usr/sbin/munged".to_owned(),
            "--foreground".to_owned(),
            "--force".to_owned(),
            munge,
            format!("--key-file={}", file("munge.key")),
            format!("--log-file={}", file("munged.log")),
            format!("--pid-file={}", file("munged.pid")),
            format!("--seed-file={}", file("munged.seed")),
        ];
        cluster.daemon(&arguments)?;
        cluster.wait("munged", || Path::new(&file("munge.sock")).exists())?;
        for (index, program) in [(0, "slurmctld"), (0, "slurmd"), (1, "slurmd")] {
            // `ip netns exec` would hide the control groups, which slurmd needs.
            let space = format!("--net=/var/run/netns/{}", hosts.name(index));
            let mut words = vec!["nsenter".to_owned(), space];
            words.extend(hosts.prefix(index).into_iter().skip(4));
            words.push(format!("/usr/sbin/{program}"));
            words.extend(["-D".to_owned(), "-f".to_owned(), file("slurm.conf")]);
            cluster.daemon(&words)?;
        }
        let idle = || {
            let mut sinfo = cluster.client(hosts, "/usr/bin/sinfo");
            sinfo.args(["-h", "-t", "idle", "-o", "%D"]);
            let output = sinfo.stderr(Stdio::null()).output();
            output.is_ok_and(|output| output.stdout == b"2\n")
        };
        cluster.wait("slurmctld and two slurmd", idle)?;
        Ok(cluster)
    }

    fn daemon(&mut self, words: &[String]) -> Result {
        let name = format!("daemon-{}.out", self.daemons.len());
        let failed = |error| format!("{words:?} can't be run: {error}");
        let out = File::create(self.dir.join(name)).map_err(failed)?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env("SLURM_CONF", self.dir.join("slurm.conf"))
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(failed)?)
            .stderr(out)
            .process_group(0);
        // SAFETY: between fork and exec the closure makes one system call, which passes no memory.
        unsafe {
            command.pre_exec(|| {
                // The kernel kills the daemon if the tests are killed.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        self.daemons.push(command.spawn().map_err(failed)?);
        Ok(())
    }

    fn wait(&self, what: &str, ready: impl Fn() -> bool) -> Result {
        let until = Instant::now() + patience(20.0);
        while !ready() {
            if Instant::now() >= until {
                return Err(format!("{what} can't be started\n{}", self.logs()));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Returns a Slurm command on the first host.
    fn client(&self, hosts: &Hosts, program: &str) -> Command {
        let words = hosts.prefix(0);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        command
    }

    fn srun(&self, hosts: &Hosts, kind: &str, arguments: &[&str], case: &Case) -> Result {
        let room = Room::new()?;
        let mut command = room.command(Path::new("ip"));
        clear(&mut command);
        command.args(&hosts.prefix(0)[1..]).arg("/usr/bin/srun");
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        command.env("WEFT_NETMOD", "ofi");
        command.arg(format!("--mpi={kind}"));
        command.args([
            "-N",
            "2",
            "-n",
            "4",
            "--ntasks-per-node=2",
            "--chdir=/",
            "-t",
            "1",
        ]);
        command.arg(program()?).args(arguments);
        run(&room, &mut command, case)
    }

    /// Runs Weft's mpiexec within an allocation, from which it takes hosts and slots.
    /// Starts `mpiexec -join` on both hosts by srun.
    fn join(&self, hosts: &Hosts, case: &Case) -> Result {
        let secret = joining::Secret::new(hosts.name(0))?;
        let room = Room::new()?;
        let mut command = room.command(Path::new("ip"));
        clear(&mut command);
        command.args(&hosts.prefix(0)[1..]);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        let words = "/usr/bin/srun --mpi=none -N 2 -n 2 --ntasks-per-node=1 --chdir=/ -t 1";
        command.args(words.split(' '));
        command.arg(prefix::get()?.join("bin/mpiexec"));
        command.args([
            "-join",
            &format!("{}:7712", Hosts::address(0)),
            "-size",
            "2",
        ]);
        command.arg("-secret").arg(secret.path());
        command.args(["-ppn", "2"]).arg(program()?);
        run(&room, &mut command, case)
    }

    fn own(&self, hosts: &Hosts, arguments: &[&str], case: &Case) -> Result {
        let room = Room::new()?;
        let mut command = room.command(Path::new("ip"));
        clear(&mut command);
        command.args(&hosts.prefix(0)[1..]);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        let words = "/usr/bin/salloc --quiet -N 2 -n 4 --ntasks-per-node=2 -t 1 --chdir=/";
        command.args(words.split(' '));
        command.arg(prefix::get()?.join("bin/mpiexec"));
        command.args(["-timeout", "60", "-wdir", "/"]);
        command.arg(program()?).args(arguments);
        run(&room, &mut command, case)
    }

    /// Runs a script with sbatch that uses Weft's mpiexec and srun.
    fn script(&self, hosts: &Hosts, case: &Case) -> Result {
        let failed = |error| format!("the script: {error}");
        let (script, output) = (self.dir.join("script"), self.dir.join("script.out"));
        let (mpiexec, program) = (prefix::get()?.join("bin/mpiexec"), program()?);
        let text = format!(
            "#!/bin/sh\n{mpiexec} -timeout 60 -wdir / {program} || exit\necho and by srun\nexport WEFT_NETMOD=ofi\n\
             exec srun --mpi=pmi2 {program}\n",
            mpiexec = mpiexec.display(),
            program = program.display(),
        );
        fs::write(&script, text).map_err(failed)?;
        let mut command = self.client(hosts, "/usr/bin/sbatch");
        clear(&mut command);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        let words = "--quiet --wait -N 2 -n 4 --ntasks-per-node=2 -t 1 --chdir=/ --output";
        command.args(words.split(' ')).arg(&output).arg(&script);
        let outcome = Outcome::of(&mut command, patience(90.0))?;
        let text = fs::read_to_string(&output).unwrap_or_default();
        outcome
            .judge(&Case::default(), &[])
            .map_err(|error| format!("{error}\n{text}"))?;
        let (ours, theirs) = text
            .split_once("and by srun\n")
            .ok_or_else(|| text.clone())?;
        for part in [ours, theirs] {
            let mut lines: Vec<&str> = part.lines().collect();
            lines.sort_unstable();
            if lines != case.stdout {
                return Err(format!("the script printed: {text}"));
            }
        }
        Ok(())
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "log") {
                text += &format!("--- {}:\n", path.display());
                text += &fs::read_to_string(&path).unwrap_or_default();
            }
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let end = |daemon: &Child, signal| {
            let pid = i32::try_from(daemon.id()).unwrap_or(0);
            // SAFETY: `kill` gets values only; the child has not been waited for, so no other process
            // has its id.
            unsafe { libc::kill(pid, signal) };
        };
        // In reverse order of starting, since the other daemons need munged to end.
        for daemon in self.daemons.iter_mut().rev() {
            end(daemon, libc::SIGTERM);
            let until = Instant::now() + Duration::from_secs(5);
            while let Ok(None) = daemon.try_wait() {
                if Instant::now() >= until {
                    end(daemon, libc::SIGKILL);
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
