! MPI_Comm_spawn and MPI_Comm_spawn_multiple from Fortran (MPI-3.1 section 10.3): commands and arguments with leading and
! trailing blanks, which are stripped, MPI_ARGV_NULL, MPI_ARGVS_NULL, MPI_ERRCODES_IGNORE.
! ranks: 1
! variants: shm
! timeout: 40
! stdout: spawned
program dyn_spawn
  use mpi
  implicit none
  integer :: ierr, parent, inter, codes(2), counts(2), infos(2), n, length
  character(len=1000) :: self, argument, commands(2)
  character(len=20) :: argv(3), argvs(2, 2)
  call MPI_Init(ierr)
  call MPI_Comm_get_parent(parent, ierr)
  if (parent /= MPI_COMM_NULL) then
    n = command_argument_count()
    if (n == 2) then
      call get_command_argument(1, argument, length)
      if (argument /= 'two words' .or. length /= 9) call MPI_Abort(MPI_COMM_WORLD, 91, ierr)
    else if (n == 1) then
      call get_command_argument(1, argument, length)
      if (argument /= 'one' .and. argument /= 'two') call MPI_Abort(MPI_COMM_WORLD, 92, ierr)
    else if (n /= 0) then
      call MPI_Abort(MPI_COMM_WORLD, 93, ierr)
    end if
    call MPI_Bcast(n, 1, MPI_INTEGER, 0, parent, ierr)
    call MPI_Comm_disconnect(parent, ierr)
    call MPI_Finalize(ierr)
    stop
  end if
  call get_command_argument(0, self)
  argv = [character(len=20) :: '  two words', 'x', ' ']
  codes = -1
  call MPI_Comm_spawn('  ' // self, argv, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes, ierr)
  call finish(ierr)
  if (any(codes /= MPI_SUCCESS)) call MPI_Abort(MPI_COMM_WORLD, 94, ierr)
  call MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, MPI_ERRCODES_IGNORE, ierr)
  call finish(ierr)
  commands(1) = ' ' // self
  commands(2) = self
  counts = 1
  infos = MPI_INFO_NULL
  argvs(1, :) = 'one'
  argvs(2, 1) = '   two'
  argvs(:, 2) = ' '
  argvs(1, 1) = ' one'
  call MPI_Comm_spawn_multiple(2, commands, argvs, counts, infos, 0, MPI_COMM_WORLD, inter, codes, ierr)
  call finish(ierr)
  call MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, inter, &
                               MPI_ERRCODES_IGNORE, ierr)
  call finish(ierr)
  print '(A)', 'spawned'
  call MPI_Finalize(ierr)
contains
  subroutine finish(code)
    integer, intent(in) :: code
    integer :: word, error
    if (code /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 95, error)
    word = 0
    call MPI_Bcast(word, 1, MPI_INTEGER, MPI_ROOT, inter, error)
    call MPI_Comm_disconnect(inter, error)
  end subroutine
end program
