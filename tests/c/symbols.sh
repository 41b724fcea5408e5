#!/bin/bash
# The library exports what neap.h and neap_inline.h declare, the functions of libc that it stands
# before, and nothing else. Usage: symbols.sh PREFIX
set -euo pipefail
export LC_ALL=C
prefix=${1:?want PREFIX}

# Preprocessed, so that comments and macros are no declarations; types end in `;` as well, so only
# names before `(`.
declared=$(echo '#include <neap.h>' | cc -DNEAP_NO_INLINE -I"$prefix/include" -E -P -xc - |
    tr -d '\n' | tr ';' '\n' | grep -v typedef | grep -o '\bneap_[a-z_0-9]* *(' | tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$prefix/lib/libneap.so" | awk '{ print $3 }' | sed 's/@.*//' | sort -u)
expected=$(printf '%s\n' "$declared" neap_inline_1 neap_inline_2 \
    pthread_create pthread_sigmask sigaction signal \
    sigaltstack sigprocmask setcontext sigblock sighold siginterrupt signalfd sigset sigsetmask \
    sigwait \
    swapcontext longjmp _longjmp siglongjmp __longjmp_chk pwrite pwrite64 \
    pthread_join pthread_tryjoin_np pthread_timedjoin_np pthread_clockjoin_np pthread_detach \
    pthread_exit thrd_create thrd_detach thrd_exit thrd_join \
    setrlimit setrlimit64 prlimit prlimit64 \
    vfork _Fork mq_notify aio_read aio_read64 aio_write aio_write64 aio_fsync aio_fsync64 \
    lio_listio lio_listio64 getaddrinfo_a gai_suspend \
    clock_nanosleep epoll_pwait epoll_pwait2 epoll_wait nanosleep pause poll __poll_chk \
    ppoll __ppoll_chk pselect select sem_clockwait sem_timedwait sem_wait \
    pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait cnd_wait cnd_timedwait \
    __sigaction bsd_signal ssignal sysv_signal __sysv_signal \
    sigpause __sigpause __xpg_sigpause \
    sigsuspend sigtimedwait sigwaitinfo sleep thrd_sleep usleep aio_suspend aio_suspend64 \
    msgrcv msgsnd semop semtimedop syscall \
    accept accept4 connect send sendto sendmsg sendmmsg write writev \
    read __read_chk pread pread64 __pread_chk __pread64_chk readv preadv preadv64 preadv2 \
    preadv64v2 \
    recv __recv_chk recvfrom __recvfrom_chk recvmsg recvmmsg fread fread_unlocked \
    __fread_chk __fread_unlocked_chk | sort -u)
if ! difference=$(diff <(echo "$expected") <(echo "$exported")); then
    echo "declared (<) and exported (>) differ:"
    echo "$difference"
    exit 1
fi
[ "$(echo "$declared" | wc -l)" -gt 50 ]
