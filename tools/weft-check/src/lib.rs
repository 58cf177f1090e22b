//! Finds wrong uses of MPI at run time through the profiling interface (MPI-5.0 section 15.2).
//!
//! `mpiexec -check` preloads this library (`LD_PRELOAD`). It defines the MPI functions that it
//! checks; the definitions are generated from the table (`build.rs`), which also describes their
//! parameters. The MPI library has no hooks for it, so jobs without the option pay nothing.
//!
//! Point-to-point: with each message the sender sends a description of it, on a communicator of
//! this library (the shadow communicator). Collectives: all members send their arguments to rank 0
//! of the communicator and wait for its answer. So a program that relies on a collective not to
//! synchronize may hang, as it may with another MPI library.
//!
//! Parameters have a register's width, which fits handles of 32 bits and pointers in all three
//! ABIs.

mod abi;
mod buffers;
mod call_site;
mod calls;
mod checker;
mod collectives;
mod comms;
mod messages;
mod objects;
mod pmpi;
mod report;
mod requests;
mod shims;
mod tables;
mod types;
mod uses;
