/* The errors with which refuse.c refuses system calls: those that the manual of each names and that
   do not say that the caller was wrong. Where a manual names only such, what an old kernel or a
   filter of system calls answers. Rows of one call lie together. */
#ifndef ERRORS_H
#define ERRORS_H

#include <errno.h>
#include <sys/syscall.h>

struct refusal {
    int call, error;
    const char *name, *error_name;
};

#define REFUSED(call, error) {SYS_##call, error, #call, #error}

static const struct refusal errors[] = {
    REFUSED(mmap, ENOMEM), REFUSED(mmap, EAGAIN), REFUSED(mmap, EPERM),
    REFUSED(munmap, ENOMEM),
    REFUSED(mremap, ENOMEM), REFUSED(mremap, EAGAIN),
    REFUSED(mprotect, ENOMEM), REFUSED(mprotect, EACCES),
    REFUSED(madvise, ENOMEM), REFUSED(madvise, EAGAIN), REFUSED(madvise, EINVAL),
    REFUSED(mincore, EAGAIN), REFUSED(mincore, ENOMEM),
    REFUSED(msync, ENOMEM), REFUSED(mlock, EPERM),
    REFUSED(userfaultfd, EPERM), REFUSED(userfaultfd, EMFILE), REFUSED(userfaultfd, ENOMEM),
    REFUSED(userfaultfd, ENOSYS),
    REFUSED(ioctl, ENOMEM), REFUSED(ioctl, EINVAL), REFUSED(ioctl, EFAULT), REFUSED(ioctl, EAGAIN),
    REFUSED(open, EACCES), REFUSED(open, EMFILE), REFUSED(open, ENOENT), REFUSED(open, ENOMEM),
    REFUSED(openat, EACCES), REFUSED(openat, EMFILE), REFUSED(openat, ENOENT),
    REFUSED(openat, ENOMEM), REFUSED(openat, EINTR),
    REFUSED(read, EINTR), REFUSED(read, EIO),
    REFUSED(pread64, EINTR), REFUSED(pread64, EIO),
    REFUSED(readlink, EACCES), REFUSED(readlinkat, EACCES),
    REFUSED(write, EINTR), REFUSED(write, EIO), REFUSED(write, ENOSPC),
    REFUSED(lseek, EBADF),
    REFUSED(close_range, ENOMEM), REFUSED(close_range, EMFILE), REFUSED(close_range, ENOSYS),
    REFUSED(close, EINTR), REFUSED(close, EIO),
    REFUSED(fstat, ENOMEM), REFUSED(newfstatat, EACCES), REFUSED(statx, EACCES),
    REFUSED(fcntl, EMFILE), REFUSED(fcntl, EINTR), REFUSED(dup, EMFILE), REFUSED(dup2, EMFILE),
    REFUSED(dup3, EMFILE),
    REFUSED(fchmod, EPERM), REFUSED(fchmod, EIO), REFUSED(fchmod, EROFS),
    REFUSED(ftruncate, EINTR), REFUSED(ftruncate, EIO), REFUSED(fallocate, ENOSPC),
    REFUSED(memfd_create, EMFILE), REFUSED(memfd_create, ENOMEM), REFUSED(memfd_create, ENOSYS),
    REFUSED(pipe2, EMFILE), REFUSED(eventfd2, EMFILE),
    REFUSED(poll, EINTR), REFUSED(poll, ENOMEM), REFUSED(ppoll, EINTR), REFUSED(ppoll, ENOMEM),
    REFUSED(clone, EAGAIN), REFUSED(clone, ENOMEM), REFUSED(clone, EPERM),
    REFUSED(clone3, EAGAIN), REFUSED(clone3, ENOMEM), REFUSED(clone3, EPERM),
    REFUSED(fork, EAGAIN), REFUSED(fork, ENOMEM),
    REFUSED(unshare, EPERM), REFUSED(unshare, ENOMEM),
    REFUSED(wait4, EINTR), REFUSED(wait4, ECHILD), REFUSED(waitid, EINTR), REFUSED(waitid, ECHILD),
    REFUSED(kill, EPERM), REFUSED(tgkill, EAGAIN), REFUSED(tgkill, EPERM),
    REFUSED(tkill, EAGAIN), REFUSED(tkill, EPERM),
    REFUSED(rt_sigaction, EINVAL),
    REFUSED(rt_tgsigqueueinfo, EAGAIN), REFUSED(rt_tgsigqueueinfo, EPERM),
    REFUSED(rt_sigpending, EFAULT),
    REFUSED(sigaltstack, ENOMEM), REFUSED(sigaltstack, EPERM),
    REFUSED(futex, EAGAIN), REFUSED(futex, EINTR),
    REFUSED(nanosleep, EINTR), REFUSED(clock_nanosleep, EINTR), REFUSED(clock_gettime, EINVAL),
    REFUSED(restart_syscall, EINTR), REFUSED(sched_yield, ENOSYS),
    REFUSED(sched_getaffinity, EINVAL),
    REFUSED(sched_setaffinity, EPERM), REFUSED(sched_setaffinity, EINVAL),
    REFUSED(getcpu, EFAULT), REFUSED(gettid, ENOSYS), REFUSED(getpid, ENOSYS),
    REFUSED(prctl, EINVAL), REFUSED(prctl, EPERM), REFUSED(arch_prctl, EPERM),
    REFUSED(prlimit64, EPERM), REFUSED(getrlimit, EFAULT), REFUSED(getrusage, EFAULT),
    REFUSED(sysinfo, EFAULT), REFUSED(membarrier, EPERM), REFUSED(membarrier, ENOSYS),
    REFUSED(getrandom, EINTR), REFUSED(process_vm_readv, EPERM), REFUSED(getsockopt, ENOTSOCK),
    REFUSED(statfs, EACCES), REFUSED(fstatfs, EIO), REFUSED(uname, EFAULT),
    REFUSED(setpriority, EPERM), REFUSED(ioprio_set, EPERM),
    {0, 0, 0, 0},
};

#endif
