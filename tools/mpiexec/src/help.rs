//! What `mpiexec -h` says.

/// The text of `-h`.
pub const HELP: &str = "\
mpiexec: run an MPI job on this machine or on several

  mpiexec [options] [-n N] program [arguments] [: [-n N] program [arguments]]...

For the program that follows:
  -n N, -np N           start N ranks of it (default 1)
  -env NAME VALUE       set a variable for them; NAME=VALUE does as well
  -envall, -envnone, -envlist A,B
                        inherit all variables (default), none, or these
  -wdir DIR, -wd DIR    run them in this directory
  -host H[:N],...       run them on these hosts
For the whole job:
  -genv NAME VALUE, -genvall, -genvnone, -genvlist A,B, -x NAME[=VALUE]
                        like -env..., for all programs
  -l, -prepend-rank     start each line of output with its rank: [3] text
  -prepend-pattern P, -timestamp-output
                        with %r for the rank, %h the host and %t the time; with the time
  -outfile-pattern P, -errfile-pattern P
                        standard output (error) of each rank to a file of this name,
                        in which %r stands for the rank and %h for the host
  -timeout SECONDS      end the job after this time (also MPIEXEC_TIMEOUT; 0: no limit)
  -bind-to hwthread|core|l2cache|l3cache|numa|socket|board[:N], user:LIST, none, auto
                        bind each rank to one of these (or N), to CPUs (0+1,2+3), to none, or
                        (default) to an equal share of the cores if there are enough
  -map-by hwthread|core|l2cache|l3cache|numa|socket, ppr:N:socket
                        deal ranks out to these in turn; -report-bindings shows the result
  -membind local|bind|interleave[:NODES], none
                        where the memory of bound ranks is; -topolib hwloc|sys: who is asked
  -dry-run              start nothing, say where each rank would be and what bound to
  -initial-errhandler NAME
                        the error handler at the beginning: mpi_errors_are_fatal (default),
                        mpi_errors_abort or mpi_errors_return
  -memory-alloc-kinds KINDS
                        kinds of memory that buffers will be in: system,mpi:win_allocate,...
  -stats                at the end say where the time went, function by function (also WEFT_STATS=1)
  -trace FILE           write a timeline of all ranks, for ui.perfetto.dev or chrome://tracing
                        (also WEFT_TRACE=FILE)
  -top                  show live what each rank does and waits for; without a terminal a line now and then
  -check                say where the program uses MPI wrongly: types, collectives, memory in use,
                        what is left over at the end (also WEFT_CHECK=1)
  -valgrind             run each rank under valgrind, told what of Weft is no mistake; its own
                        options come by VALGRIND_OPTS
  -gdb, -gdba PID       each rank under gdb; gdb for the ranks of the mpiexec with this process number
  -report PID           have the ranks of that mpiexec say where they wait
  -completion bash|zsh|fish
                        what the shell reads to complete options
  -disable-auto-cleanup
                        the loss of a rank does not end the others, and
                        MPI_Abort ends the ranks of its communicator only
  -configfile FILE      read the sections from a file, one in each line
For several hosts (see docs/run.md):
  -hosts H[:N],...      hosts, each with its number of ranks; node[01-16] is a range
  -f FILE, -hostfile FILE, -machinefile FILE
                        hosts from a file: host:N, or host slots=N max_slots=N
  -ppn N, -perhost N    N ranks on each host
  -map-by slot|node|seq|ppr:N:node, -rr, -nooversubscribe, -skip-launch-node
                        who goes where; -rankfile FILE says it of each rank
  -rmk user|slurm|pbs|lsf|sge|cobalt|flux
                        the batch system to ask for hosts; user: none
  -bootstrap ssh|rsh|fork|slurm|pbs|lsf|sge|k8s|manual
                        how agents are started; -bootstrap-exec CMD, -bootstrap-exec-args WORDS
  -bootstrap-timeout SECONDS, -bootstrap-width N, -iface NAME, -prefix DIR
                        time for a host to answer (20), agents that one starts (32), network,
                        where Weft is there
  -s R|all|none, -stdin R|all|none
                        who gets standard input
  -print-rank-map       say who is where
  -usize N|infinite     what MPI_UNIVERSE_SIZE is: usually the hosts' slots
  -nameserver HOST[:PORT]
                        publish and look up names (MPI_Publish_name) at the name server there,
                        which 'mpiexec -name-server [PORT]' is; without it names are for this job and
                        those that it spawns
  -name-server-secret FILE
                        for server and jobs of several hosts or users: a file of mode 600 with the
                        same secret; one user on one host needs none
  -info                 say what the launcher sees of this machine, and how MPI would
                        start here: launchers, transports, what is refused and why
  -version, -h
Two dashes do as well as one. Options of Hydra, Intel MPI and Open MPI that mean nothing here are
ignored; where something is lost by that, a line says so.

Standard input goes to rank 0. Interrupt, terminate, hang-up, quit and the two user signals are
passed on to the ranks; after the first three the ranks have 5 seconds, or until the second one.

A rank that ends with 0 but without MPI_Finalize is warned about; it is a failure only if others
wait for it or run on for more than 3 seconds. Programs also run under Slurm (srun --mpi=pmi2),
Hydra (mpiexec.hydra) and PRRTE (prterun) as they are.

A rank's core file is renamed to core.rankN where the kernel leaves it in the rank's folder.

Exit code: 0 if all ranks ended with 0; otherwise that of the first rank that failed, 128 plus the
signal's number if a signal killed it, the code given to MPI_Abort (1 for 0: what was aborted has
failed); 124 after -timeout; 126 or 127 if a program could not be started or found; 1 if what the ranks
printed could not be written; 2 for a mistake on the command line.
";
