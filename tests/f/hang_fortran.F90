! A Fortran program that hangs says where, too, although gfortran's library handles the signal.
! ranks: 2
! variants: shm
! timeout: 4
! exit: 124
! stderr: ran into its time limit of
! stderr: is waiting in mpi_recv_, called by
! stderr: hang_fortran.F90:
! stderr: receive, not matched: rank 0, tag 42
program hang_fortran
    use mpi
    implicit none
    integer :: data(1), status(MPI_STATUS_SIZE), ierror
    call MPI_Init(ierror)
    call MPI_Recv(data, 1, MPI_INTEGER, 0, 42, MPI_COMM_WORLD, status, ierror)
    call MPI_Finalize(ierror)
end program
