/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error that a person reads: what, where, need, have, how to fix. Functions return 0 or -errno and
 * fill this for the caller who decides what to do with the text; libraries never print.
 */
#ifndef PRIV_ERR_H
#define PRIV_ERR_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct err {
  char text[512];
};

/* Writes the text (if anybody wants it) and returns code, so that callers say `return err_set(...)`. */
__attribute__((format(printf, 3, 4))) static inline int err_set(struct err *e, int code, const char *fmt, ...)
{
  if (e) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
  }
  return code;
}
#endif
