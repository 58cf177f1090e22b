//! The texts of `mpiexec -h` and `mpiexec --help TOPIC`, for a terminal of 80 columns.

/// A part of the help.
struct Topic {
    name: &'static str,
    title: &'static str,
    /// Indented lines; the first is empty.
    text: &'static str,
}

/// The first lines of the help.
const USAGE: &str = "\
mpiexec: run an MPI job on this machine or on several

  mpiexec [options] [-n N] program [arguments] [: [-n N] program [arguments]]...

";

/// The last lines of the help.
const CLOSING: &str = "\
Options may begin with two dashes, and -option=VALUE is the same as -option
VALUE. Options of Hydra, Intel MPI and Open MPI without a meaning in Weft are
ignored, with a warning if the job differs by that, or refused with what to
write instead.

'mpiexec --help TOPIC' prints one part:
";

const TOPICS: &[Topic] = &[
    Topic {
        name: "program",
        title: "For the program that follows (a section; ':' begins the next one)",
        text: "
  -n N, -np N           start N ranks of the program (default 1, or by -ppn)
  -env NAME VALUE       set a variable for these ranks (or -env NAME=VALUE)
  -envall, -envnone, -envlist A,B
                        inherit all variables (default), none, or the listed
  -wdir DIR, -wd DIR    run these ranks in this directory
  -host H[:N],...       run these ranks on these hosts
  -genv NAME VALUE, -genvall, -genvnone, -genvlist A,B, -x NAME[=VALUE]
                        like -env and so on, for all programs
  -configfile FILE, -app FILE
                        read the sections from a file, one per line; must come
                        first
",
    },
    Topic {
        name: "output",
        title: "Output, input and time",
        text: "
  -l, -prepend-rank     start each line of output with its rank: [3] text
  -prepend-pattern P    start lines with P, where %r is the rank, %h the host,
                        %t the time
  -timestamp-output     start lines with the time
  -outfile-pattern P, -errfile-pattern P
                        write standard output (error) of each rank to the file
                        P, where %r is the rank and %h the host
  -s R|all|none, -stdin R|all|none
                        ranks that get standard input (default 0)
  -timeout SECONDS      end the job after this time (also MPIEXEC_TIMEOUT; 0: no
                        limit)
",
    },
    Topic {
        name: "tools",
        title: "Tools",
        text: "
  -stats                print the time spent in each MPI function at the end
                        (also WEFT_STATS=1)
  -trace [FILE.json], -trace=FILE
                        write a timeline of all ranks to FILE (weft-trace.json),
                        for ui.perfetto.dev or chrome://tracing (also
                        WEFT_TRACE=FILE)
  -top                  show live what each rank does and waits for; as lines
                        without a terminal
  -report PID           have the mpiexec with this process number print where
                        its ranks wait
  -check                report wrong uses of MPI: mismatched types and
                        collectives, buffers in use, objects not freed at the
                        end (also WEFT_CHECK=1)
  -valgrind             run each rank under valgrind with Weft's suppressions;
                        set valgrind's own options in VALGRIND_OPTS
  -gdb                  run each rank under gdb
  -gdba PID             attach gdb to the ranks of the mpiexec with this process
                        number
  -initial-errhandler NAME
                        initial error handler: mpi_errors_are_fatal (default),
                        mpi_errors_abort or mpi_errors_return
  -memory-alloc-kinds KINDS
                        kinds of memory that the program's buffers use:
                        system,mpi:win_allocate,...
  -disable-auto-cleanup the loss of a rank does not end the others, and
                        MPI_Abort ends the ranks of its communicator only
  -info                 print this machine's cores and limits, and how MPI would
                        start here: launchers and transports, those refused with
                        the reason
  -completion bash|zsh|fish
                        print a completion script for the shell
  -version, -h          print the version; print this help
",
    },
    Topic {
        name: "binding",
        title: "Binding of ranks to cores",
        text: "
  -bind-to hwthread|core|l2cache|l3cache|numa|socket|board[:N]
  -bind-to user:LIST|none|auto
                        bind each rank to one (or N) of these, to listed CPUs
                        (0+1,2+3), or to nothing; auto (default) gives equal
                        shares if there are enough cores
  -map-by hwthread|core|l2cache|l3cache|numa|socket, ppr:N:socket
                        deal ranks out to these in turn
  -membind local|bind|interleave[:NODES], none
                        NUMA nodes for the memory of bound ranks
  -topolib hwloc|sys    source of the topology: the library hwloc, or /sys
  -report-bindings      print what each rank is bound to
  -dry-run              print the host and binding of each rank; start nothing
",
    },
    Topic {
        name: "hosts",
        title: "Several hosts (see docs/run.md)",
        text: "
  -hosts H[:N],...      run on these hosts, each with N ranks; node[01-16] is a
                        range
  -f FILE, -hostfile FILE, -machinefile FILE
                        read hosts from a file: host:N, or host slots=N
                        max_slots=N
  -ppn N, -perhost N, -N N
                        place N ranks on each host
  -map-by slot|node|seq|ppr:N:node, -rr
                        order in which ranks take the hosts' slots
  -nooversubscribe      place no more ranks on a host than it has slots
  -skip-launch-node     place no ranks on this machine
  -rankfile FILE        read the host and binding of each rank from a file
  -print-rank-map       print the ranks of each host
  -usize N|infinite     value of MPI_UNIVERSE_SIZE (default: the slots of all
                        hosts)
  -rmk user|slurm|pbs|lsf|sge|cobalt|flux
                        batch system whose hosts are used; user: none
  -bootstrap ssh|rsh|fork|slurm|pbs|lsf|sge|k8s|manual
                        how agents are started on the hosts
  -bootstrap-exec CMD, -bootstrap-exec-args ARGS
                        command that starts agents, and its arguments
  -bootstrap-timeout SECONDS
                        time for a host to answer (default 20)
  -agent-timeout SECONDS
                        silence after which a host counts as lost (default 3)
  -bootstrap-width N    agents that one agent starts (default 32)
  -iface NAME           network interface that agents and ranks listen on
  -encrypt              encrypt the ranks' TCP connections, and use no other
                        network; agents always encrypt theirs
  -prefix DIR           folder of Weft on the hosts
",
    },
    Topic {
        name: "join",
        title: "Without ssh: the same command on each machine (see docs/run.md)",
        text: "
  -join HOST:PORT       join the job whose first machine (index 0) is HOST; it
                        listens at PORT, starts the job when all have joined,
                        and prints all output
  -size N               number of machines that join
  -index I              number of this machine; else JOB_COMPLETION_INDEX,
                        SLURM_PROCID or PALS_RANKID; without any the machine
                        whose address is HOST is the first, and the others get
                        numbers as they come
  -secret FILE          secret that all machines share, in a file that others
                        can't read (also MPIEXEC_SECRET_FILE=FILE); make it by
                        head -c 32 /dev/urandom | base64
  -bootstrap-timeout SECONDS
                        time for all to join (default 300)

  Ranks get the environment and working directory of their own machine. One
  rank runs on each, or -ppn N. Late machines are named after 10 seconds.
",
    },
    Topic {
        name: "names",
        title: "Published names (MPI_Publish_name)",
        text: "
  -nameserver HOST[:PORT]
                        publish and look up names at this name server; without
                        it, names are visible to this job and the jobs that it
                        spawns
  -name-server [PORT]   run a name server; alone, without a program
  -name-server-secret FILE
                        secret that name server and jobs share, in a file of
                        mode 600; not needed by one user on one host
",
    },
    Topic {
        name: "ending",
        title: "Signals, and how a job ends",
        text: "
  Interrupt, terminate, hang-up, quit and the two user signals are passed on to
  the ranks; after the first three the ranks have 5 seconds, or until the second
  one.

  A rank that exits with code 0 without calling MPI_Finalize causes a warning;
  it is a failure only if other ranks wait for it or run on for more than
  3 seconds. A rank's core file is renamed to core.rankN if the kernel writes it
  to the rank's folder.

  Exit code: 0 if all ranks exited with 0. Otherwise the exit code of the first
  rank that failed, or 128 plus the signal's number if a signal killed it, or
  the code given to MPI_Abort (1 for 0). 124 after -timeout; 126 if a program
  can't be run, 127 if it is not found; 1 if the ranks' output or the timeline
  could not be written; 2 for a mistake on the command line.

  Programs also run under Slurm (srun --mpi=pmi2), Hydra (mpiexec.hydra) and
  PRRTE (prterun) as they are.
",
    },
];

/// Returns the help, or the part of it about a topic.
///
/// # Errors
/// There is no such topic.
pub fn text(topic: Option<&str>) -> Result<String, String> {
    let part = |topic: &Topic| format!("{}:{}", topic.title, topic.text);
    let Some(name) = topic else {
        let parts: Vec<String> = TOPICS.iter().map(part).collect();
        let topics = TOPICS
            .iter()
            .map(|topic| format!("  {:<8} {}\n", topic.name, topic.title));
        return Ok(format!(
            "{USAGE}{}\n{CLOSING}{}",
            parts.join("\n"),
            topics.collect::<String>()
        ));
    };
    let found = TOPICS.iter().find(|topic| topic.name == name);
    found.map(part).ok_or_else(|| {
        format!(
            "option -help takes nothing or one of {}, not '{name}'",
            topics().join(", ")
        )
    })
}

/// Returns the names of the topics.
pub fn topics() -> Vec<&'static str> {
    TOPICS.iter().map(|topic| topic.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal_and_has_all_topics() {
        let all = text(None).unwrap();
        for line in all.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for topic in TOPICS {
            let part = text(Some(topic.name)).unwrap();
            assert!(all.contains(&part) && part.starts_with(topic.title));
            let mut lines = topic.text.lines().filter(|line| !line.is_empty());
            assert!(lines.all(|line| line.starts_with("  ")), "{}", topic.name);
        }
        let error = text(Some("moon")).unwrap_err();
        assert!(error.contains("program, output, tools"), "{error}");
    }
}
