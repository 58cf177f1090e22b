//! The text of `mpiexec -h`.

/// Lists the options and exit codes, for a terminal of 100 columns.
pub const HELP: &str = "\
mpiexec: run an MPI job on this machine or on several

  mpiexec [options] [-n N] program [arguments] [: [-n N] program [arguments]]...

For the program that follows (a section; ':' begins the next one):
  -n N, -np N           start N ranks of the program (default 1)
  -env NAME VALUE       set a variable for these ranks (or -env NAME=VALUE)
  -envall, -envnone, -envlist A,B
                        inherit all variables (default), none, or the listed ones
  -wdir DIR, -wd DIR    run these ranks in this directory
  -host H[:N],...       run these ranks on these hosts
For the whole job:
  -genv NAME VALUE, -genvall, -genvnone, -genvlist A,B, -x NAME[=VALUE]
                        like -env and so on, for all programs
  -l, -prepend-rank     start each line of output with its rank: [3] text
  -prepend-pattern P    start lines with P, where %r is the rank, %h the host, %t the time
  -timestamp-output     start lines with the time
  -outfile-pattern P, -errfile-pattern P
                        write standard output (error) of each rank to the file P,
                        where %r is the rank and %h the host
  -timeout SECONDS      end the job after this time (also MPIEXEC_TIMEOUT; 0: no limit)
  -bind-to hwthread|core|l2cache|l3cache|numa|socket|board[:N], user:LIST, none, auto
                        bind each rank to one (or N) of these, to listed CPUs (0+1,2+3), or to
                        nothing; auto (default) gives equal shares if there are enough cores
  -map-by hwthread|core|l2cache|l3cache|numa|socket, ppr:N:socket
                        deal ranks out to these in turn
  -report-bindings      print what each rank is bound to
  -membind local|bind|interleave[:NODES], none
                        NUMA nodes for the memory of bound ranks
  -topolib hwloc|sys    source of the topology: the library hwloc, or /sys
  -dry-run              print the host and binding of each rank; start nothing
  -initial-errhandler NAME
                        initial error handler: mpi_errors_are_fatal (default), mpi_errors_abort
                        or mpi_errors_return
  -memory-alloc-kinds KINDS
                        kinds of memory that the program's buffers use: system,mpi:win_allocate,...
  -stats                print the time spent in each MPI function at the end (also WEFT_STATS=1)
  -trace FILE           write a timeline of all ranks, for ui.perfetto.dev or chrome://tracing
                        (also WEFT_TRACE=FILE)
  -top                  show live what each rank does and waits for; as lines without a terminal
  -check                report wrong uses of MPI: mismatched types and collectives, buffers in use,
                        objects not freed at the end (also WEFT_CHECK=1)
  -valgrind             run each rank under valgrind with Weft's suppressions; set valgrind's
                        own options in VALGRIND_OPTS
  -gdb                  run each rank under gdb
  -gdba PID             attach gdb to the ranks of the mpiexec with this process number
  -report PID           have the mpiexec with this process number print where its ranks wait
  -completion bash|zsh|fish
                        print a completion script for the shell
  -disable-auto-cleanup
                        the loss of a rank does not end the others, and MPI_Abort ends
                        the ranks of its communicator only
  -configfile FILE      read the sections from a file, one per line; must come first
For several hosts (see docs/run.md):
  -hosts H[:N],...      run on these hosts, each with N ranks; node[01-16] is a range
  -f FILE, -hostfile FILE, -machinefile FILE
                        read hosts from a file: host:N, or host slots=N max_slots=N
  -ppn N, -perhost N    place N ranks on each host
  -map-by slot|node|seq|ppr:N:node, -rr
                        order in which ranks take the hosts' slots
  -nooversubscribe      place no more ranks on a host than it has slots
  -skip-launch-node     place no ranks on this machine
  -rankfile FILE        read the host and binding of each rank from a file
  -rmk user|slurm|pbs|lsf|sge|cobalt|flux
                        batch system whose hosts are used; user: none
  -bootstrap ssh|rsh|fork|slurm|pbs|lsf|sge|k8s|manual
                        how agents are started on the hosts
  -bootstrap-exec CMD, -bootstrap-exec-args ARGS
                        command that starts agents, and its arguments
  -bootstrap-timeout SECONDS
                        time for a host to answer (default 20)
  -bootstrap-width N    agents that one agent starts (default 32)
  -iface NAME           network interface that agents and ranks listen on
  -prefix DIR           folder of Weft on the hosts
  -s R|all|none, -stdin R|all|none
                        ranks that get standard input (default 0)
  -print-rank-map       print the ranks of each host
  -usize N|infinite     value of MPI_UNIVERSE_SIZE (default: the slots of all hosts)
  -nameserver HOST[:PORT]
                        publish and look up names (MPI_Publish_name) at this name server;
                        without it, names are visible to this job and the jobs that it spawns
  -name-server [PORT]   run a name server; alone, without a program
  -name-server-secret FILE
                        secret that name server and jobs share, in a file of mode 600;
                        not needed by one user on one host
  -info                 print this machine's cores and limits, and how MPI would start here:
                        launchers and transports, those refused with the reason
  -version, -h          print the version; print this help
Options may begin with two dashes as well. Options of Hydra, Intel MPI and Open MPI without a
meaning in Weft are ignored, with a warning if the job differs by that.

Standard input goes to rank 0. Interrupt, terminate, hang-up, quit and the two user signals are
passed on to the ranks; after the first three the ranks have 5 seconds, or until the second one.

A rank that exits with code 0 without calling MPI_Finalize causes a warning; it is a failure only
if other ranks wait for it or run on for more than 3 seconds. Programs also run under Slurm
(srun --mpi=pmi2), Hydra (mpiexec.hydra) and PRRTE (prterun) as they are.

A rank's core file is renamed to core.rankN if the kernel writes it to the rank's folder.

Exit code: 0 if all ranks exited with 0. Otherwise the exit code of the first rank that failed, or
128 plus the signal's number if a signal killed it, or the code given to MPI_Abort (1 for 0).
124 after -timeout; 126 if a program can't be run, 127 if it is not found; 1 if the ranks' output
could not be written; 2 for a mistake on the command line.
";
