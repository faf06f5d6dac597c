/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of `dray doctor`. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

enum doctor_level { DOCTOR_OK = 1, DOCTOR_WARN = 2, DOCTOR_FAIL = 3 };

struct doctor_row {
  enum doctor_level level;
  const char *what;
  char have[160], fix[200];
};
#define DOCTOR_ROWS_MAX 32
struct doctor {
  struct doctor_row row[DOCTOR_ROWS_MAX];
  unsigned n;
};
/* The next row; fix may be "". */
__attribute__((format(printf, 4, 5))) struct doctor_row *doctor_add(struct doctor *d, enum doctor_level level,
                                                                    const char *what, const char *have, ...);
__attribute__((format(printf, 2, 3))) void doctor_fix(struct doctor_row *r, const char *fmt, ...);
/* A whole number from a file of one; -1 when there is none. */
int64_t doctor_number(const char *path);
/* What the kernel allows: memfd seals, io_uring, huge pages, versions. */
void doctor_kernel(struct doctor *d);
/* Verbs devices, their ports and limits. */
void doctor_verbs(struct doctor *d);
#endif
