/* SPDX-License-Identifier: Apache-2.0 */
#include "mover/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/usage.h"

#if defined(__x86_64__)
#define ARCH_HERE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH_HERE AUDIT_ARCH_AARCH64
#else
#define ARCH_HERE 0 /* no filter has been written down for it */
#endif

int sandbox_process(void)
{
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return -errno;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

/* ---- seccomp ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
/* A call is 32 bits wide here; the low half of an argument is enough for PROT_EXEC. */
#define ARG_LOW(n) (offsetof(struct seccomp_data, args[n]) + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0))

#define FILTER_MAX 128
struct filter {
  struct sock_filter code[FILTER_MAX];
  unsigned short n;
};

static void filter_add(struct filter *f, struct sock_filter line)
{
  if (f->n < FILTER_MAX)
    f->code[f->n++] = line;
}

/* Another architecture's call numbers mean other calls. */
static void filter_begin(struct filter *f)
{
  filter_add(f, (struct sock_filter)LOAD(arch));
  filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_HERE, 1, 0));
  filter_add(f, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
  filter_add(f, (struct sock_filter)LOAD(nr));
}

static void filter_answer(struct filter *f, long nr, unsigned answer)
{
  filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1));
  filter_add(f, (struct sock_filter)RETURN(answer));
}

/* Allowed as long as argument 2, the protection, has no PROT_EXEC. */
static void filter_no_exec(struct filter *f, long nr)
{
  filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 4));
  filter_add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG_LOW(2)));
  filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
  filter_add(f, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
  filter_add(f, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
}

/* ioctl with the one request that verbs' own descriptors know (RDMA_VERBS_IOCTL), and no other: they were opened before
   the files were closed to us, so nothing else that the process holds answers to it. */
#define VERBS_REQUEST 0xc0181b01u
static void filter_verbs(struct filter *f)
{
  filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4));
  filter_add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG_LOW(1)));
  filter_add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VERBS_REQUEST, 1, 0));
  filter_add(f, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
  filter_add(f, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
}

/* Sanitizers and coverage make calls and open files of their own. */
#ifdef DRAY_INSTRUMENTED
#define INSTRUMENTED true
#else
#define INSTRUMENTED false
#endif

static int filter_install(const struct filter *f)
{
  if (INSTRUMENTED || !ARCH_HERE)
    return -ENOTSUP;
  if (f->n >= FILTER_MAX)
    return -E2BIG;
  struct sock_fprog prog = {.len = f->n, .filter = (struct sock_filter *)(uintptr_t)f->code};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

int sandbox_lane(bool faulty, bool verbs)
{
  static const long calls[] = {
      SYS_futex,        SYS_epoll_pwait,     SYS_epoll_ctl,   SYS_io_uring_enter,  SYS_read,
      SYS_write,        SYS_pread64,         SYS_pwrite64,    SYS_sendmsg,         SYS_sendto,
      SYS_close,        SYS_memfd_create,    SYS_ftruncate,   SYS_fallocate,       SYS_fchmod,
      SYS_fcntl,        SYS_munmap,          SYS_mremap,      SYS_madvise,         SYS_brk,
      SYS_openat,       SYS_unlinkat,        SYS_mbind,       SYS_get_mempolicy,   SYS_set_mempolicy,
      SYS_getrandom,    SYS_clock_gettime,   SYS_sched_yield, SYS_clock_nanosleep, SYS_rt_sigprocmask,
      SYS_rt_sigreturn, SYS_rt_sigaction,    SYS_tgkill,      SYS_gettid,          SYS_getpid,
      SYS_exit,         SYS_exit_group,      SYS_fdatasync,   SYS_fsync,           SYS_restart_syscall,
      SYS_writev,       SYS_set_robust_list, SYS_lseek,       SYS_fstat,           SYS_statx,
#ifdef SYS_newfstatat
      SYS_newfstatat,
#endif
#ifdef SYS_epoll_wait
      SYS_epoll_wait,
#endif
#ifdef SYS_rseq
      SYS_rseq,
#endif
  };
  struct filter f = {.n = 0};
  filter_begin(&f);
  for (size_t i = 0; i < ARRAY_LEN(calls); i++)
    filter_answer(&f, calls[i], SECCOMP_RET_ALLOW);
  static const long faulty_calls[] = {SYS_userfaultfd, SYS_ioctl, SYS_timerfd_settime, SYS_rt_tgsigqueueinfo,
                                      SYS_rt_sigqueueinfo};
  for (size_t i = 0; faulty && i < ARRAY_LEN(faulty_calls); i++)
    filter_answer(&f, faulty_calls[i], SECCOMP_RET_ALLOW);
  if (verbs && !faulty)
    filter_verbs(&f);
  filter_no_exec(&f, SYS_mmap);
  filter_no_exec(&f, SYS_mprotect);
  filter_add(&f, (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS));
  return filter_install(&f);
}

/* What no thread of the worker ever needs. Refused, not killed: a library may ask in passing. */
static int worker_filter(void)
{
  static const long calls[] = {
      SYS_execve,
      SYS_execveat,
      SYS_ptrace,
      SYS_process_vm_readv,
      SYS_process_vm_writev,
      SYS_mount,
      SYS_umount2,
      SYS_pivot_root,
      SYS_chroot,
      SYS_setns,
      SYS_unshare,
      SYS_init_module,
      SYS_finit_module,
      SYS_delete_module,
      SYS_kexec_load,
      SYS_bpf,
      SYS_perf_event_open,
      SYS_open_by_handle_at,
      SYS_add_key,
      SYS_keyctl,
      SYS_request_key,
      SYS_reboot,
      SYS_swapon,
      SYS_swapoff,
      SYS_personality,
      SYS_acct,
      SYS_settimeofday,
      SYS_clock_settime,
      SYS_pidfd_getfd,
  };
  struct filter f = {.n = 0};
  filter_begin(&f);
  for (size_t i = 0; i < ARRAY_LEN(calls); i++)
    filter_answer(&f, calls[i], SECCOMP_RET_ERRNO | EPERM);
  filter_add(&f, (struct sock_filter)RETURN(SECCOMP_RET_ALLOW));
  return filter_install(&f);
}

/* ---- Landlock ---- */

/* Not in every header yet; the kernel is asked which of them it knows. */
#define FS_REFER (1ull << 13)
#define FS_TRUNCATE (1ull << 14)
#define FS_FILE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)
#define FS_TREE (FS_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_ALL ((1ull << 13) - 1)

/* A path that is not there needs no rule. */
static int files_allow(int rules, const char *path, uint64_t access)
{
  struct stat st;
  CLEAN_FD fd = path ? open(path, O_PATH | O_CLOEXEC) : -1;
  if (fd < 0 || fstat(fd, &st) < 0)
    return 0;
  if (!S_ISDIR(st.st_mode))
    access &= FS_FILE;
  struct landlock_path_beneath_attr a = {.allowed_access = access, .parent_fd = fd};
  return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0) < 0 ? -errno : 0;
}

static int files_restrict(const struct config *cfg)
{
  static const char *const read_only[] = {"/proc/self", "/proc/sys/vm", "/proc/meminfo",  "/proc/cpuinfo",
                                          "/proc/stat", "/sys/devices", "/sys/bus/dax",   "/sys/kernel/mm",
                                          "/dev/null",  "/dev/urandom", "/etc/localtime", "/usr/share/zoneinfo"};
  if (INSTRUMENTED)
    return -ENOTSUP;
  long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 0)
    return -errno;
  uint64_t known = FS_ALL | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
  struct landlock_ruleset_attr attr = {.handled_access_fs = known};
  CLEAN_FD rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
  if (rules < 0)
    return -errno;
  int r = files_allow(rules, cfg->calibration, FS_READ);
  for (size_t i = 0; r == 0 && i < ARRAY_LEN(read_only); i++)
    r = files_allow(rules, read_only[i], FS_READ);
  for (uint32_t i = 0; r == 0 && i < cfg->tiers_n; i++)
    r = files_allow(rules, cfg->tier[i].path, FS_TREE & known);
  bool verbs = cfg->listen.address != NULL;
  for (uint32_t i = 0; i < cfg->tiers_n; i++)
    verbs |= cfg->tier[i].peer != NULL;
  /* opened afterwards: to descriptors of before, verbs say that the credentials are others now */
  if (r == 0 && verbs)
    r = files_allow(rules, "/dev/infiniband", (FS_FILE | LANDLOCK_ACCESS_FS_READ_DIR) & known);
  if (r == 0 && verbs)
    r = files_allow(rules, "/sys/class", FS_READ);
  char dir[2][PATH_MAX] = {"", ""};
  usage_dirs(&cfg->usage, dir);
  for (int i = 0; r == 0 && i < 2; i++)
    r = *dir[i] ? files_allow(rules, dir[i], FS_TREE & known) : 0;
  if (r == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
    r = -errno;
  return r;
}

int sandbox_worker(const struct config *cfg, char *missing, size_t size)
{
  *missing = 0;
  int r = files_restrict(cfg);
  if (r == -ENOSYS || r == -EOPNOTSUPP ||
      r == -EPERM) /* before 5.13, not among the boot's modules, a container that forbids it */
    snprintf(missing, size, "no Landlock in this kernel: every file that the mover's user may open stays open to it");
  else if (r < 0 && r != -ENOTSUP)
    return r;
  r = worker_filter();
  if (r == -ENOTSUP)
    snprintf(missing, size, "instrumented build, or no filter for this architecture: system calls and files are open");
  return r == -ENOTSUP ? 0 : r;
}
