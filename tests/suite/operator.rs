//! Tests jobs started as mpi-operator does on Kubernetes: hosts and the remote shell come from
//! variables of other launchers.

use std::fs;

use crate::Result;
use crate::hosts::Hosts;
use crate::launchers::program;
use crate::many::{judge, ranks, write_script};
use crate::sshd::Cluster;

/// Uses its settings for MPICH: a host file by a variable, and a kubectl wrapper in place of ssh.
pub fn wrapper() -> Result {
    let cluster = Cluster::start(2)?;
    let program = program()?.display().to_string();
    let file = cluster.dir().join("hostfile");
    let text = format!("{}:1\n{}:1\n", Hosts::address(1), Hosts::address(0));
    fs::write(&file, text).map_err(|error| error.to_string())?;
    let script = format!(
        "#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\nexec ssh -F {} $POD_NAME /bin/sh -c \"'$*'\"\n",
        cluster.dir().join("ssh_config").display()
    );
    let exec = write_script(&cluster, "kubexec.sh", &script)?;
    let mut command = cluster.within(0);
    command.arg(crate::prefix::get()?.join("bin/mpiexec"));
    crate::job::clear(&mut command);
    command
        .env("HYDRA_HOST_FILE", &file)
        .current_dir(cluster.dir());
    command.args(["-bootstrap-exec", &exec, "-n", "2", &program]);
    judge(&cluster, &mut command, &ranks(2, 1))?;
    // The same with its settings for Open MPI.
    let text = format!(
        "{} slots=1\n{} slots=1\n",
        Hosts::address(1),
        Hosts::address(0)
    );
    fs::write(&file, text).map_err(|error| error.to_string())?;
    let mut command = cluster.within(0);
    command.arg(crate::prefix::get()?.join("bin/mpirun"));
    crate::job::clear(&mut command);
    command
        .env("OMPI_MCA_orte_default_hostfile", &file)
        .env("OMPI_MCA_plm_rsh_agent", &exec)
        .current_dir(cluster.dir());
    let words = "--allow-run-as-root -np 2 -bind-to none -map-by slot -x PATH";
    command.args(words.split(' ')).arg(&program);
    judge(&cluster, &mut command, &ranks(2, 1))?;
    // With sshd in the workers.
    let mut command = cluster.within(0);
    command.arg(crate::prefix::get()?.join("bin/mpirun"));
    crate::job::clear(&mut command);
    let config = cluster.dir().join("ssh_config").display().to_string();
    command
        .env("OMPI_MCA_orte_default_hostfile", &file)
        .env("OMPI_MCA_orte_keep_fqdn_hostnames", "true")
        .env(
            "OMPI_MCA_plm_rsh_args",
            format!("-o ConnectionAttempts=10 -F {config}"),
        )
        .current_dir(cluster.dir());
    command.args(["-n", "2", &program]);
    judge(&cluster, &mut command, &ranks(2, 1))
}
