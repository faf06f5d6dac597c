/* SPDX-License-Identifier: Apache-2.0 */
/* Poison in this process's own mappings: what a machine check would do to an engine. */
#ifndef TESTS_KIT_POISON_H
#define TESTS_KIT_POISON_H

#include <cstdint>

namespace kit {
/* The pages of [base, base+len) raise SIGBUS when touched, in this process only. 0 or -errno: -ENOTSUP says that this
   kernel cannot (before 6.6). */
int poison_mapping(void *base, uint64_t len);
/* The same for a read-only map of somebody's memory: a private page comes in its place first. */
int poison_over(const void *base, uint64_t len);
} // namespace kit
#endif
