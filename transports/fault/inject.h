/* SPDX-License-Identifier: Apache-2.0 */
/* Poison on purpose, in this process's mapping alone. */
#ifndef TRANSPORTS_FAULT_INJECT_H
#define TRANSPORTS_FAULT_INJECT_H

#include <stdint.h>

/* The pages of [base, base+len), whole, raise SIGBUS when touched (UFFDIO_POISON), and the guard knows them as poison
   of that unit. The mapping is shared memory: a memfd, tmpfs, hugetlb. 0; -ENOTSUP: this kernel or this file system
   cannot do it; -EBUSY: the pages are touched faster than they can be marked; -errno. */
int inject_poison(void *base, uint64_t len, uint64_t unit);
/* The calling thread gets the signal that the kernel sends a thread with PR_MCE_KILL_EARLY. 0 or -errno. */
int inject_early(void *at, uint64_t unit);
/* Whatever was injected there is forgotten; the mapping goes, or is zapped by the caller. */
void inject_forget(const void *base, uint64_t len);
#endif
