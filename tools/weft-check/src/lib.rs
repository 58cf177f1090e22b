//! Finds wrong uses of MPI while a program runs, seen through the profiling interface (MPI-5.0 section 15.2).
//!
//! `mpiexec -check` puts this library before MPI's (`LD_PRELOAD`). It has a function of the name of each of MPI's
//! that it looks at; they are generated from the table and know what each parameter is. MPI's own library knows
//! nothing of it, so that it costs nothing where it isn't used.
//!
//! Of each message the sender tells the receiver by another message, on a communicator of this library's own, what is in
//! it. Of each collective all members tell the first one what they mean to do, and wait for its answer. So a
//! program that counts on a collective not to wait may hang here, as it may with another library.
//!
//! Parameters have a register's width, which serves all three ABIs: handles of 32 bits and pointers.

mod abi;
mod buffers;
mod calls;
mod checker;
mod collectives;
mod comms;
mod messages;
mod objects;
mod place;
mod pmpi;
mod requests;
mod say;
mod shims;
mod tables;
mod types;
mod uses;
