/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel and its settings allow. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "include/priv/cleanup.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static void check_version(struct doctor *d)
{
  struct utsname u;
  unsigned major = 0, minor = 0;
  if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
    doctor_add(d, DOCTOR_WARN, "kernel", "version unknown");
    return;
  }
  bool old = major < 5 || (major == 5 && minor < 15), pidfd = major > 6 || (major == 6 && minor >= 5);
  struct doctor_row *r =
      doctor_add(d,
                 old     ? DOCTOR_FAIL
                 : pidfd ? DOCTOR_OK
                         : DOCTOR_WARN,
                 "kernel", "%s%s", u.release,
                 pidfd ? "" : ": no SO_PEERPIDFD, engines send their own pidfd and it is checked against SO_PEERCRED");
  if (old)
    doctor_fix(r, "need 5.15 or later");
  else if (!pidfd)
    doctor_fix(r, "6.5 or later lets the kernel name the peer itself");
}

static void check_memfd(struct doctor *d)
{
  CLEAN_FD fd = memfd_create("dray-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, 65536) < 0) {
    doctor_fix(doctor_add(d, DOCTOR_FAIL, "memfd", "memfd_create: %s", strerror(errno)),
               "the sandbox's filter must allow memfd_create");
    return;
  }
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) < 0) {
    doctor_fix(doctor_add(d, DOCTOR_FAIL, "memfd", "seals SHRINK GROW FUTURE_WRITE: %s", strerror(errno)),
               "need Linux 5.1 or later");
    return;
  }
  doctor_add(d, DOCTOR_OK, "memfd", "seals SHRINK GROW FUTURE_WRITE work");
}

static void check_uring(struct doctor *d)
{
  struct io_uring_params p;
  int64_t off = doctor_number("/proc/sys/kernel/io_uring_disabled");
  memset(&p, 0, sizeof p);
  CLEAN_FD fd = (int)syscall(SYS_io_uring_setup, 8, &p);
  if (fd >= 0 && off <= 0) {
    doctor_add(d, DOCTOR_OK, "io_uring", "io_uring_setup works, features 0x%x", p.features);
    return;
  }
  struct doctor_row *r =
      fd >= 0
          ? doctor_add(d, DOCTOR_WARN, "io_uring", "works here, but kernel.io_uring_disabled = %lld", (long long)off)
          : doctor_add(d, DOCTOR_WARN, "io_uring",
                       "io_uring_setup: %s (kernel.io_uring_disabled = %lld); disk tiers use pread and pwrite",
                       strerror(errno), (long long)off);
  doctor_fix(r, off > 0 ? "sysctl -w kernel.io_uring_disabled=0"
                        : "the container's seccomp filter must allow io_uring_setup, _enter, _register");
}

static void check_huge(struct doctor *d)
{
  int64_t n = doctor_number("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  int64_t left = doctor_number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  if (n <= 0)
    doctor_fix(doctor_add(d, DOCTOR_OK, "huge pages", "none reserved; only tiers with huge_pages need them"),
               "sysctl -w vm.nr_hugepages=N (2 MiB each)");
  else if (left <= 0)
    doctor_fix(doctor_add(d, DOCTOR_WARN, "huge pages", "%lld of 2 MiB, none free", (long long)n),
               "sysctl -w vm.nr_hugepages=N");
  else
    doctor_add(d, DOCTOR_OK, "huge pages", "%lld of 2 MiB, %lld free", (long long)n, (long long)left);

  char line[128] = "";
  CLEAN_FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
  if (!f || !fgets(line, sizeof line, f)) {
    doctor_add(d, DOCTOR_OK, "shmem THP", "not in this kernel");
    return;
  }
  line[strcspn(line, "\n")] = 0;
  bool never = strstr(line, "[never]") || strstr(line, "[deny]");
  struct doctor_row *r = doctor_add(d, DOCTOR_OK, "shmem THP", "%s%s", line, never ? ": slabs are of 4 KiB pages" : "");
  if (never)
    doctor_fix(r, "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled (fewer TLB misses in copies)");
}

void doctor_kernel(struct doctor *d)
{
  check_version(d);
  check_memfd(d);
  check_uring(d);
  check_huge(d);
}
