! Sessions and other things of MPI-4 in Fortran, with module mpi_f08 (MPI-4.1 chapters 9 to 11).
! ranks: 1 2
! variants: shm
! build: f08 -DF08
! build: mpi -DMODULE_MPI
! build: mpif
program sessions
#if defined(F08)
  use mpi_f08
#elif defined(MODULE_MPI)
  use mpi
#endif
  implicit none
#if !defined(F08) && !defined(MODULE_MPI)
  include 'mpif.h'
#endif
#if defined(F08)
  type(MPI_Session) :: session
  type(MPI_Group) :: group
  type(MPI_Comm) :: comm
  type(MPI_Info) :: info
#else
  integer :: session, group, comm, info
#endif
  integer :: code, count, length, rank, ranks, total
  character(len=MPI_MAX_PSET_NAME_LEN) :: name
  character(len=8) :: short
  logical :: found

  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session, code)
  call expect(code == MPI_SUCCESS, 'init')
  call MPI_Session_get_num_psets(session, MPI_INFO_NULL, count, code)
  call expect(count >= 3, 'number of sets')
  length = 0
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name, code)
  call expect(length == 11, 'length')
  length = len(name)
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name, code)
  call expect(name == 'mpi://WORLD' .and. length == 11, 'name')
  length = 5
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, short, code)
  call expect(short == 'mpi:/', 'cut name')
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, length, name, code)
  call expect(code /= MPI_SUCCESS, 'no such set')
  call MPI_Session_get_pset_info(session, 'mpi://SELF', info, code)
  length = len(short)
  call MPI_Info_get_string(info, 'mpi_size', length, short, found, code)
  call expect(found .and. short == '1' .and. length == 1, 'size of a set')
  call MPI_Info_get_string(info, 'colour', length, short, found, code)
  call expect(.not. found, 'no such key')
  call MPI_Info_free(info, code)

  call MPI_Group_from_session_pset(session, 'mpi://WORLD', group, code)
  call MPI_Comm_create_from_group(group, 'fortran', MPI_INFO_NULL, MPI_ERRORS_RETURN, comm, code)
  call expect(code == MPI_SUCCESS, 'communicator')
  call MPI_Comm_rank(comm, rank, code)
  call MPI_Comm_size(comm, ranks, code)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, comm, code)
  call expect(total == ranks * (ranks - 1) / 2, 'sum')
  call MPI_Comm_free(comm, code)
  call MPI_Group_free(group, code)
  call MPI_Info_create_env(info, code)
  call expect(code == MPI_SUCCESS, 'environment')
  call MPI_Info_free(info, code)
  call MPI_Session_finalize(session, code)
#if defined(F08)
  call expect(session == MPI_SESSION_NULL, 'null')
#else
  call expect(session == MPI_SESSION_NULL, 'null')
#endif

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      print *, 'does not hold: ', what
      stop 3
    end if
  end subroutine expect

end program sessions
